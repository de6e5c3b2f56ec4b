"""The shortest job: hello.py LIBRARY. With `none` it only loads NumPy."""

import sys

import numpy  # noqa: F401  (part of what is timed)


def main():
    if sys.argv[1] == "none":
        print("hello, world")
        return
    import common

    comm = common.library(sys.argv[1]).COMM_WORLD
    comm.Barrier()
    print(f"hello, world, from {comm.Get_rank()} of {comm.Get_size()}")


if __name__ == "__main__":
    main()
