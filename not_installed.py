"""List what is in a package's folder and does not belong to the package, for ``meson.build``.

A package is its files of Python, their types, the files of the report, and a schema. All else
stays behind: sources of kernels, modules that were compiled in place, caches, notes.
"""

import sys
from pathlib import Path

INSTALLED = {".py", ".pyi", ".typed", ".css", ".html", ".js", ".json"}

folder = Path(sys.argv[1])
for path in sorted(folder.rglob("*")):
    if path.is_file() and (path.suffix not in INSTALLED or path.parent.name == "__pycache__"):
        print(path.relative_to(folder).as_posix())
