"""Translate kernels into C, for ``meson.build``: ``cythonize.py FOLDER ARGUMENT... SOURCE...``.

One process translates them all, which takes a third of the time of a process for each: Cython
starts longer than it translates. In a FOLDER with translations by the same arguments, only those
are made again whose source has changed, or a file that it cimports. ``kernels.d`` names all of
these files for ninja.
"""

import sys
from pathlib import Path

from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler.CmdLine import parse_command_line
from Cython.Compiler.Main import compile

folder, arguments = Path(sys.argv[1]), sys.argv[2:]
options, sources = parse_command_line(arguments)
translations = {source: folder / f"{Path(source).stem}.c" for source in sources}
made_with = folder / "kernels.arguments"
if not made_with.exists() or made_with.read_text() != repr(arguments):
    for translation in translations.values():
        translation.unlink(missing_ok=True)
    made_with.write_text(repr(arguments))

tree = create_dependency_tree()
for source, translation in translations.items():
    if translation.exists() and translation.stat().st_mtime > tree.newest_dependency(source)[0]:
        continue
    options.output_file = str(translation)
    if compile([source], options).num_errors:  # which has printed them
        translation.unlink(missing_ok=True)
        sys.exit(1)

files = sorted({file for source in sources for file in tree.all_dependencies(source)})
names = " ".join(name.replace(" ", "\\ ") for name in [*files, __file__])
(folder / "kernels.d").write_text(f"{folder.as_posix()}/{Path(sources[0]).stem}.c: {names}\n")
