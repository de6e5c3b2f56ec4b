"""Every method, property and special method of our classes with a `self` that is of another kind.

What an extension type says to a foreign `self` must be a TypeError, before it reads a byte of it;
what raises something else is written to stdout, a line each.  A `self` that was made without its
constructor may be answered by anything.  The process must live: the name of each call is written
before it is made, so the last line tells which one ended the process.
"""

import importlib
import inspect
import itertools
import pkgutil
import signal
import sys
from functools import partial

from foreign import LEFT_OUT, STRANGE, alive, call, give_up

import pyrdv
from pyrdv import MPI
from pyrdv.api.naming import Missing

#: Sets of arguments that follow `self`.
ARGUMENTS = [(), *itertools.chain.from_iterable(
    itertools.product((None, 5), repeat=count) for count in (1, 2, 3)), (None,) * 4, (5,) * 5]


def is_extension(kind):
    """Whether `kind` is a type in C of this package."""
    return kind.__module__.startswith("pyrdv") and not kind.__flags__ & 1 << 9   # HEAPTYPE


def package_types():
    """Every extension type of the package that can be imported here, with its bases."""
    found = {}
    for module in pkgutil.walk_packages(pyrdv.__path__, "pyrdv."):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:
            continue                    # it needs a package that is not installed
        for kind in vars(loaded).values():
            if inspect.isclass(kind):
                found.update(dict.fromkeys(base for base in kind.__mro__ if is_extension(base)))
    return list(found)


def public_classes():
    """The classes of the module and of the objects that it returns."""
    found = [kind for kind in vars(MPI).values() if inspect.isclass(kind)]
    found += [base for thing in alive().values() for base in type(thing).__mro__]
    return [kind for kind in dict.fromkeys(found) if kind.__module__.startswith("pyrdv")
            and not issubclass(kind, (BaseException, Missing))]


def uses(kind, owner):
    """(name, function of a `self` and more arguments) of what stands in the dict of `kind`.

    Parameters
    ----------
    kind : type
    owner : type
        The class that descriptors are asked for.
    """
    for name, value in sorted(vars(kind).items()):
        if name in (*LEFT_OUT, "__new__") or isinstance(value, (Missing, staticmethod)):
            continue                    # not without harm, or there is no `self`
        if name == "__dir__" and is_extension(kind):
            continue                    # a function of Python, which `naming` put there
        if isinstance(value, property) and is_extension(kind):
            continue                    # one of Python, of methods that stand here too
        if callable(value):
            yield name, value
        elif hasattr(value, "__set__"):
            yield f"{name} (get)", lambda self, *_, of=value: of.__get__(self, owner)
            yield f"{name} (set)", lambda self, new=None, *_, of=value: of.__set__(self, new)
            yield f"{name} (del)", lambda self, *_, of=value: of.__delete__(self)


def outcome(name, function, values):
    """Make one call; what it raised, or None."""
    print(name, [type(value).__name__ for value in values], file=sys.stderr)
    try:
        function(*values)
    except Exception as error:
        return error
    return None


def try_foreign(kinds, selves):
    """How many calls there were with a `self` that is no instance of its class."""
    made = 0
    for kind in kinds:
        for name, function in uses(kind, kind):
            for self in selves:
                if isinstance(self, kind) or self is None and name.endswith("(get)"):
                    continue            # it is not foreign; asked of no object, it gives itself
                for arguments in ARGUMENTS:
                    raised = outcome(f"{kind.__qualname__}.{name}", function, (self, *arguments))
                    made += 1
                    if is_extension(kind) and not isinstance(raised, TypeError):
                        print(f"{kind.__module__}.{kind.__qualname__}.{name} of "
                              f"{type(self).__name__}: {raised!r}")
    return made


def try_bare(kinds):
    """The same with instances whose constructor did not run."""
    made = 0
    for kind, arguments in itertools.product(kinds, ARGUMENTS):
        for base in kind.__mro__:
            if not base.__module__.startswith("pyrdv"):
                continue
            for name, function in uses(base, kind):
                try:
                    self = kind.__new__(kind)
                except TypeError:       # some cannot be made so
                    continue
                call(f"bare {kind.__qualname__}.{name}", partial(function, self), arguments)
                made += 1
    return made


def main():
    signal.signal(signal.SIGALRM, give_up)
    things = alive()
    selves = [*STRANGE, *(things[name] for name in (
        "Comm", "isend", "Irecv", "Send_init", "Message", "Status", "Datatype", "Group", "Op",
        "pickle", "buffer"))]
    kinds = dict.fromkeys([*package_types(), *public_classes()])
    print(try_foreign(kinds, selves), try_bare(public_classes()))


main()
