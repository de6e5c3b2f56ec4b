"""Prints the requirements of some extras of pyproject.toml, one a line."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
for name in sys.argv[1:]:
    print("\n".join(project["optional-dependencies"][name]))
