"""Which of Debian's packages together make one kernel whose modules can be compiled.

An archive holds several versions of each package, and not always the same ones: an upload of
``linux`` replaces ``linux-kbuild`` at once, while the signed ``linux-image`` follows days later.
So nothing here asks for one version of everything.  A set fits together if

1. the headers are of the image's very version, for the driver is compiled for that image;
2. the packages that the headers depend on satisfy these dependencies;
3. the source has the image's upstream version (Debian's revisions do not touch the driver).

The newest image with such a set is taken, an older one where the newest has none.
"""

import functools
import re
import subprocess
from typing import NamedTuple

LATEST = "linux-image-amd64"
#: A kernel for any x86-64 machine: no real-time, cloud or debugging variant, and signed.
_IMAGE = re.compile(r"linux-image-(\d+\.\d+[\w.+~]*(?:-\d+)?-amd64)$")
_DEPENDENCY = re.compile(r"(?P<name>[\w.+-]+)(?::\w+)?\s*(?:\((?P<relation><<|<=|=|>=|>>)"
                         r"\s*(?P<version>[^)\s]+)\s*\))?")
_RELATIONS = {"<<": "lt", "<=": "le", "=": "eq", ">=": "ge", ">>": "gt"}


class Package(NamedTuple):
    """One version of a package."""

    name: str
    version: str
    depends: str = ""


class Kernel(NamedTuple):
    """Packages of one kernel that fit together."""

    image: Package
    headers: Package
    common: Package
    kbuild: Package
    source: Package

    @property
    def abi(self):
        """The kernel's own name of its version, such as 6.1.0-56-amd64."""
        return _abi(self.image)

    @property
    def name(self):
        """Names this kernel in the cache."""
        return f"{self.image.name}_{self.image.version.replace(':', '.')}"

    @property
    def for_modules(self):
        """Packages that it takes to compile a module from the kernel's own source."""
        return self.headers, self.common, self.kbuild, self.source


def parse(text):
    """Packages of what ``apt-cache show`` prints, or of control files with empty lines between."""
    packages = {}
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"(?m)^(Package|Version|Depends): *(.*)$", stanza))
        if "Package" in fields and "Version" in fields:
            # An installed version is listed twice.
            package = Package(fields["Package"], fields["Version"], fields.get("Depends", ""))
            packages[package] = None
    return list(packages)


def wanted(names, latest):
    """Those of all package `names` that may belong to a kernel of the series of `latest`.

    `latest` is the dependency of `LATEST`, empty where nothing is known of it.
    """
    series = _series(latest)
    return [name for name in names
            if re.match(rf"linux-(image|headers|kbuild|source)-{series}(?!\d)", name)
            and (not name.startswith("linux-image-") or _IMAGE.match(name))]


def _series(latest):
    found = re.search(r"linux-image-(\d+\.\d+)", latest)
    return re.escape(found[1]) if found else r"\d+\.\d+"


def kernels(packages):
    """Sets that fit together, the newest image first.

    Parameters
    ----------
    packages : list of Package

    Returns
    -------
    list of Kernel
    """
    images = [package for package in packages if _IMAGE.match(package.name)]
    sets = (_fitting(image, packages) for image in newest_first(images))
    return [found for found in sets if found]


def missing(packages):
    """What keeps the newest image from being used, for a person."""
    images = newest_first([package for package in packages if _IMAGE.match(package.name)])
    if not images:
        return "no linux-image-VERSION-amd64 among them"
    listed = ", ".join(f"{package.name} {package.version}" for package in packages
                       if package.name.startswith(("linux-headers-", "linux-kbuild-",
                                                   "linux-source-"))
                       and package.version.split("-")[0] == images[0].version.split("-")[0])
    return (f"no headers, kbuild and source fit {images[0].name} {images[0].version} or an older "
            f"image; of its upstream version there are: {listed or 'none'}")


def _abi(image):
    return image.name.removeprefix("linux-image-")


def _fitting(image, packages):
    headers = [package for package in packages if package.name == f"linux-headers-{_abi(image)}"
               and package.version == image.version]
    if not headers:
        return None
    common = kbuild = None
    for name, relation, version in _dependencies(headers[0].depends):
        if name.endswith("-common"):
            common = _satisfying(packages, name, relation, version, image.version)
        elif name.startswith("linux-kbuild-"):
            kbuild = _satisfying(packages, name, relation, version, image.version)
    upstream, _, _ = image.version.rpartition("-")
    series = re.match(r"(?:\d+:)?(\d+\.\d+)", image.version)[1]
    sources = [package for package in packages if package.name == f"linux-source-{series}"
               and package.version.rpartition("-")[0] == upstream]
    source = _preferred(sources, image.version)
    return Kernel(image, headers[0], common, kbuild, source) if common and kbuild and source \
        else None


def _dependencies(text):
    """(name, relation, version) of each dependency; of alternatives the first."""
    for part in filter(None, map(str.strip, text.split(","))):
        found = _DEPENDENCY.match(part)
        if found:
            yield found["name"], found["relation"], found["version"]


def _satisfying(packages, name, relation, version, like):
    fit = [package for package in packages if package.name == name
           and (relation is None or _compare(package.version, _RELATIONS[relation], version))]
    return _preferred(fit, like)


def _preferred(packages, version):
    """The package of just that version, else the newest."""
    exact = [package for package in packages if package.version == version]
    return next(iter(exact or newest_first(packages)), None)


def newest_first(packages):
    """Packages in falling order of their versions, by Debian's rules."""
    def order(one, other):
        return 1 if _compare(one.version, "gt", other.version) else \
            -1 if _compare(one.version, "lt", other.version) else 0

    return sorted(packages, key=functools.cmp_to_key(order), reverse=True)


@functools.cache
def _compare(one, relation, other):
    return subprocess.run(["dpkg", "--compare-versions", one, relation, other],
                          check=False).returncode == 0
