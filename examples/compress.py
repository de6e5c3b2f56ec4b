"""Compress a directory tree on several processes while the results travel.

    pyrdv run -n 2 examples/compress.py [TREE]

The tree becomes one tar stream, cut into blocks that the ranks take in turns. Each rank reads and
compresses its own blocks; ranks other than 0 send each finished block with a non-blocking send and
go on with the next one. Rank 0 compresses too, receives between its own blocks, and writes all
blocks in order into one valid .tar.gz or .tar.zst. This is the parallel compression kernel of
T. Hoefler and A. Lumsdaine, "Optimizing non-blocking collective operations for InfiniBand" (2008),
with point-to-point messages, on real input.

What must hold:
1. All ranks see one `TreeTar`, made and sent by rank 0; the stream depends on the tree alone.
2. A rank has at most `--window` blocks under way; rank 0 has at most as many receives posted per
   rank, each into a buffer of its own, and as many own blocks that wait to be written: memory is
   bounded whatever the size of the tree.
3. Blocks of one rank are received in the order of their sends (MPI's non-overtaking rule), so the
   k-th receive from a rank is its k-th block.
"""

import argparse
import collections
import os
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
import zlib

import numpy as np
import treetar

from pyrdv import MPI

BLOCK, PING = 1, 2
RETAIN = 256 << 20  # bytes of compressed blocks each rank keeps for the blocking second pass
NOT_STDLIB = ("site-packages", "dist-packages", "__pycache__")  # found inside its directory
SUFFIX = {"gzip": ".tar.gz", "zstd": ".tar.zst"}
DEFINITION = (
    "hidden share = 1 - exposed / blocking\n"
    "  exposed:  time inside message calls of all ranks while compressing, waits included, except\n"
    "            waiting for a block that its rank had not finished compressing, and, at the end,\n"
    "            waiting for rank 0 while it still compresses (printed as imbalance)\n"
    "  blocking: time inside message calls of both sides when the same compressed blocks travel\n"
    "            again by blocking Send and Recv, one rank after the other, nothing computed;\n"
    "            the fastest of three such passes"
)


# --- compression ---------------------------------------------------------------------------------


def compressor(codec, level):
    """Return a function bytes -> bytes; results may be strung together to one valid file."""
    if codec == "gzip":
        level = 6 if level is None else level
        return lambda data: zlib.compress(data, level, wbits=31)
    level = 3 if level is None else level
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        import zstandard

        # One compressor for all blocks, each a frame with its length and a checksum.
        one = zstandard.ZstdCompressor(level=level, write_checksum=True)
        return one.compress
    options = {zstd.CompressionParameter.compression_level: level,
               zstd.CompressionParameter.checksum_flag: 1}
    return lambda data: zstd.compress(data, options=options)


def bound(block):
    """Return the most bytes that one compressed block may take: either codec adds little."""
    return block + (block >> 8) + 1024


# --- the parallel part ---------------------------------------------------------------------------


class Meter:
    """Time of this rank: inside message calls, inside the compressor, and the moments needed later.

    Moments are on rank 0's clock (see `clock_offset`), so that ranks may compare theirs.
    """

    def __init__(self, offset):
        self.offset = offset
        self.calls = 0.0
        self.compress = 0.0
        self.sent = 0
        self.imbalance = 0.0
        self.posted = []  # moment at which each own block was handed to Isend
        self.last_wait = None  # (start, end) of the wait after the last own block
        self.waits = []  # rank 0: (block, start, end) of waits for a block
        self.finished = 0.0  # moment at which this rank had compressed its last block

    def now(self):
        return time.monotonic() + self.offset

    def call(self, function, *args):
        """Run a message call on this rank's account of communication."""
        start = time.perf_counter()
        value = function(*args)
        self.calls += time.perf_counter() - start
        return value


def clock_offset(comm):
    """Return what to add to time.monotonic() to get rank 0's; 0 where ranks share a host.

    Elsewhere the best of 16 exchanges with rank 0 counts (Cristian's method).
    """
    rank, offset = comm.Get_rank(), 0.0
    host = comm.bcast(socket.gethostname(), root=0)
    answer = np.zeros(1)
    for source in range(1, comm.Get_size()):
        best = float("inf")
        for _ in range(16):
            if rank == 0:
                comm.Recv(answer, source, PING)
                answer[0] = time.monotonic()
                comm.Send(answer, source, PING)
            elif rank == source:
                start = time.monotonic()
                comm.Send(answer, 0, PING)
                comm.Recv(answer, 0, PING)
                end = time.monotonic()
                if end - start < best:
                    best, offset = end - start, answer[0] - (start + end) / 2
    return 0.0 if host == socket.gethostname() else offset


class Job:
    """What every rank knows: the tree, the options, and how many blocks there are."""

    def __init__(self, options, tree):
        self.options, self.tree = options, tree
        self.blocks = -(-tree.size // options.block)
        self.compress = compressor(options.codec, options.level)
        self.damaged = []

    def squeeze(self, index, meter):
        """Read and compress block `index`."""
        start = time.perf_counter()
        at = index * self.options.block
        data = self.compress(self.tree.read(at, self.options.block, self.damaged))
        meter.compress += time.perf_counter() - start
        return data


def work(comm, job, meter):
    """Compress this rank's blocks and send each while the next is compressed.

    Returns the compressed blocks kept for the second pass.
    """
    kept, room, under_way = [], RETAIN, collections.deque()
    for index in range(comm.Get_rank(), job.blocks, comm.Get_size()):
        data = job.squeeze(index, meter)
        if len(under_way) == job.options.window:
            meter.call(under_way.popleft().Wait)
        meter.posted.append(meter.now())
        meter.sent += len(data)
        under_way.append(meter.call(comm.Isend, data, 0, BLOCK))
        while under_way and meter.call(under_way[0].Test):
            under_way.popleft()
        if len(data) <= room:
            kept.append(data)
            room -= len(data)
    meter.finished = start = meter.now()
    while under_way:
        meter.call(under_way.popleft().Wait)
    meter.last_wait = (start, meter.now())
    return kept


class Gatherer:
    """Rank 0's side: receives into buffers of its own, writes blocks in order."""

    def __init__(self, comm, job, meter, write):
        self.comm, self.options, self.meter, self.write = comm, job.options, meter, write
        self.ranks, self.total = comm.Get_size(), job.blocks
        self.ready = {}  # own blocks, compressed and not yet written
        self.written = 0
        self.receives = {}  # block -> (request, buffer)
        self.free = []
        for source in range(1, self.ranks):
            last = source + self.options.window * self.ranks
            for index in range(source, min(last, self.total), self.ranks):
                self._post(index)

    def _post(self, index):
        buf = self.free.pop() if self.free else np.empty(bound(self.options.block), np.uint8)
        request = self.meter.call(self.comm.Irecv, buf, index % self.ranks, BLOCK)
        self.receives[index] = (request, buf)

    def advance(self, own=None, wait=False):
        """Take in the own blocks `own`, then write what has come; with `wait`, until all is out."""
        if own:
            self.ready.update(own)
        while self.written < self.total:
            index = self.written
            if index % self.ranks == 0:
                if index not in self.ready:
                    return
                self.write(self.ready.pop(index))
            elif not self._receive(index, wait):
                return
            self.written += 1

    def _receive(self, index, wait):
        """Write block `index` if it has come, or after waiting for it; post the next receive."""
        request, buf = self.receives[index]
        status = MPI.Status()
        if wait:
            start = self.meter.now()
            self.meter.call(request.Wait, status)
            self.meter.waits.append((index, start, self.meter.now()))
        elif not self.meter.call(request.Test, status):
            return False
        del self.receives[index]
        self.write(memoryview(buf)[: status.Get_count(MPI.BYTE)])
        self.free.append(buf)
        following = index + self.options.window * self.ranks
        if following < self.total:
            self._post(following)
        return True


def gather(comm, job, meter, output):
    """Do rank 0's part of the first pass: compress, receive, write to the file `output`."""
    bar = Bar(job.blocks, shown=not job.options.quiet)

    def write(data):
        output.write(data)
        bar.step()

    gatherer = Gatherer(comm, job, meter, write)
    for index in range(0, job.blocks, comm.Get_size()):
        own = {index: job.squeeze(index, meter)}
        gatherer.advance(own, wait=len(gatherer.ready) >= job.options.window)
    meter.finished = meter.now()
    gatherer.advance(wait=True)
    output.flush()


def blocking_pass(comm, options, kept):
    """Send the kept blocks again, blocking; return (seconds inside calls, bytes) of this rank.

    Rank 0 receives into as many buffers as before, in rotation.
    """
    rank, seconds, count = comm.Get_rank(), 0.0, 0
    for source in range(1, comm.Get_size()):
        slots = rank == 0 and [
            np.empty(bound(options.block), np.uint8) for _ in range(options.window)]
        blocks = comm.bcast(len(kept) if rank == source else None, root=source)
        comm.Barrier()
        for index in range(blocks if rank in (0, source) else 0):
            start = time.perf_counter()
            if rank == 0:
                comm.Recv(slots[index % options.window], source, BLOCK)
            else:
                comm.Send(kept[index], 0, BLOCK)
                count += len(kept[index])
            seconds += time.perf_counter() - start
    return seconds, count


def settle(meters):
    """Take from the communication of each rank what was waiting for someone's compression."""
    ranks = len(meters)
    first = meters[0]
    for index, start, end in first.waits:
        posted = meters[index % ranks].posted[index // ranks]
        first.imbalance += min(max(posted - start, 0.0), end - start)
    for meter in meters[1:]:
        start, end = meter.last_wait
        meter.imbalance += min(max(first.finished - start, 0.0), end - start)


# --- the surroundings ----------------------------------------------------------------------------


class Bar:
    """A progress bar on stderr: redrawn in place on a terminal, else a line every tenth."""

    def __init__(self, total, shown=True):
        self.total, self.done, self.tenths = total, 0, 0
        self.shown, self.live = shown, sys.stderr.isatty()

    def step(self):
        self.done += 1
        tenths = 10 * self.done // self.total
        if self.shown and (self.live or tenths > self.tenths):
            text = f"[{'#' * (3 * tenths):<30}] {self.done} of {self.total} blocks"
            end = "\n" if not self.live or self.done == self.total else ""
            print(("\r" if self.live else "") + text, end=end, file=sys.stderr, flush=True)
        self.tenths = tenths


def parse(argv):
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="compress.py", description="Compress a directory tree on several processes.",
        epilog="At the end the program prints: " + DEFINITION,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", metavar="TREE",
                        help="directory to compress (default: Python's standard library without "
                        "what was installed into it and without caches)")
    parser.add_argument("--exclude", action="append", metavar="NAME",
                        help="leave out every file or directory of this name (may be repeated)")
    parser.add_argument("--output", metavar="FILE", help="write here (default: a temporary file)")
    parser.add_argument("--keep", action="store_true", help="keep the temporary file")
    parser.add_argument("--codec", choices=sorted(SUFFIX), default="gzip", help="default gzip")
    parser.add_argument("--level", type=int, help="default 6 for gzip, 3 for zstd")
    parser.add_argument("--block", type=size, default=1 << 20, help="bytes, K, M (default 1M)")
    parser.add_argument("--window", type=int, default=4, help="blocks under way (default 4)")
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True,
                        help="unpack with the system's own tools and compare (default yes)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(argv)
    options.exclude = options.exclude or ([] if options.tree else list(NOT_STDLIB))
    options.tree = options.tree or sysconfig.get_path("stdlib")
    low, high = (0, 9) if options.codec == "gzip" else (1, 22)
    if options.level is not None and not low <= options.level <= high:
        parser.error(f"--level {options.level}: {options.codec} takes {low} to {high}")
    if not 4096 <= options.block <= 64 << 20:
        parser.error(f"--block {options.block}: from 4K to 64M")
    if not 1 <= options.window <= 1024:
        parser.error(f"--window {options.window}: from 1 to 1024")
    return options


def size(text):
    """Return bytes: a number, with K or M for powers of 1024."""
    shift = {"K": 10, "M": 20}.get(text[-1:].upper(), 0)
    digits = text[:-1] if shift else text
    if not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write for example 256K or 1M")
    return int(digits) << shift


def prepare(argv):
    """Do on rank 0 what can fail before the work: return (options, plan, open output, path)."""
    options = parse(argv)
    if not os.path.isdir(options.tree):
        raise SystemExit(f"compress.py: {options.tree!r} is not a directory; name one")
    if options.codec == "zstd":
        try:
            compressor("zstd", options.level)
        except ImportError:
            raise SystemExit("compress.py: zstd needs Python 3.14 or the package zstandard; "
                             "install it or use --codec gzip") from None
    if options.verify:
        for tool in (treetar.UNPACK[options.codec][0], "tar"):
            if shutil.which(tool) is None:
                raise SystemExit(f"compress.py: cannot verify without the program {tool!r}; "
                                 "install it or use --no-verify")
    tree = treetar.TreeTar(options.tree, options.exclude)
    path = options.output or os.path.join(
        tempfile.gettempdir(), f"pyrdv-{os.getpid()}{SUFFIX[options.codec]}")
    if os.path.isdir(path):
        raise SystemExit(f"compress.py: {path!r} is a directory; name a file with --output")
    try:
        output = open(path + ".part", "wb")
    except OSError as error:
        raise SystemExit(f"compress.py: cannot write {path!r}: {error.strerror}; "
                         "choose another --output") from None
    return options, tree, output, path


def agree(comm, argv):
    """Return (options, tree, output, path), the last two only on rank 0; or exit together."""
    message, output, path = None, None, None
    if comm.Get_rank() == 0:
        try:
            options, tree, output, path = prepare(argv)
            message = (options, tree, None)
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            message = (None, None, 2 if isinstance(end.code, str) else end.code or 0)
    options, tree, status = comm.bcast(message, root=0)
    if status is not None:
        sys.exit(status)
    return options, tree, output, path


def run(comm, options, tree, output):
    """Do both passes; return on rank 0 the figures of all ranks, None elsewhere."""
    job, meter = Job(options, tree), Meter(clock_offset(comm))
    comm.Barrier()
    start = time.perf_counter()
    if comm.Get_rank() == 0:
        gather(comm, job, meter, output)
        kept = []
    else:
        kept = work(comm, job, meter)
    wall = time.perf_counter() - start
    passes = [blocking_pass(comm, options, kept) for _ in range(3)]
    own = (meter, [seconds for seconds, _ in passes], passes[0][1], job.damaged)
    if comm.Get_rank() != 0:
        comm.send(own, 0, PING)
        return None
    rows = [own] + [comm.recv(source=rank, tag=PING) for rank in range(1, comm.Get_size())]
    meters, times, counts, damages = zip(*rows, strict=True)
    settle(meters)
    fastest = min(map(sum, zip(*times, strict=True)))
    return wall, meters, fastest, sum(counts), [name for names in damages for name in names]


def report(tree, size, wall, meters, blocking, resent):
    """Print the figures."""
    print(f"input   {tree.size:>13,} bytes, {len(tree.entries)} entries of the tree")
    print(f"output  {size:>13,} bytes, ratio {tree.size / size:.2f}")
    print(f"time    {wall:13.3f} s on {len(meters)} ranks, {tree.size / wall / 1e6:.1f} MB/s")
    for rank, meter in enumerate(meters):
        print(f"  rank {rank}: compressing {meter.compress:.3f} s, in message calls "
              f"{meter.calls:.4f} s, of which imbalance {meter.imbalance:.4f} s")
    sent = sum(meter.sent for meter in meters)
    if not sent:
        print("hidden share of communication: none, nothing was sent (start it on more ranks)")
        return
    exposed = sum(meter.calls - meter.imbalance for meter in meters)
    blocking *= sent / resent
    print(f"communication: {sent:,} bytes sent; exposed {exposed * 1e3:.2f} ms, "
          f"blocking {blocking * 1e3:.2f} ms")
    print(f"hidden share of communication: {1 - exposed / blocking:.1%}")
    if resent < sent:
        print(f"  (the blocking pass sent {resent:,} bytes; its time is scaled to all)")
    print("  " + DEFINITION.replace("\n", "\n  "))


def finish(options, tree, output, path, figures):
    """Check and keep or drop the file, print the figures; return the exit status."""
    wall, meters, blocking, resent, damaged = figures
    report(tree, output.tell(), wall, meters, blocking, resent)
    for what, names in (("skipped", tree.skipped), ("damaged", damaged)):
        if names:
            print(f"{what}: {len(names)} files, first: {names[0]}", file=sys.stderr)
    problem = "some files could not be read in full" if damaged else None
    if options.verify and not problem:
        problem = treetar.verify(tree, options.codec, output.name)
        if not problem:
            print(f"verified: {' '.join(treetar.UNPACK[options.codec])} and tar give back the tree")
    if problem:
        print(f"compress.py: the result is wrong: {problem}; nothing is kept", file=sys.stderr)
        return 1
    if options.output or options.keep:
        os.replace(output.name, path)
        print(f"written: {path}")
    return 0


def main():
    comm = MPI.COMM_WORLD
    options, tree, output, path = agree(comm, sys.argv[1:])
    if comm.Get_rank() != 0:
        run(comm, options, tree, None)
        return 0
    try:
        with output:
            return finish(options, tree, output, path, run(comm, options, tree, output))
    except OSError as error:
        print(f"compress.py: cannot write {path!r}: {error.strerror or error}; "
              "choose another --output", file=sys.stderr, flush=True)
        _remove(output.name)
        comm.Abort(1)
    finally:
        _remove(output.name)


def _remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


if __name__ == "__main__":
    sys.exit(main())
