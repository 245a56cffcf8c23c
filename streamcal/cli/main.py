"""The entry point of the console script ``streamcal``."""

import contextlib
import os
import sys
from importlib.util import find_spec

from streamcal._extras import missing

_NEEDED = ("typer", "rich", "pyarrow", "matplotlib", "bokeh")


def main() -> None:
    """Run the command line, or print which packages are missing and exit with status 1."""
    _replace_closed_streams()
    absent = [name for name in _NEEDED if find_spec(name) is None]
    if absent:
        error = missing("the command line", ", ".join(absent), "cli")
        print(f"streamcal: {error}", file=sys.stderr)
        sys.exit(1)
    status = 0
    try:
        from streamcal.cli.app import app

        app(prog_name="streamcal")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # while modules were loaded
        print("streamcal: interrupted", file=sys.stderr)
        status = 130
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    # If a thread of pyarrow releases a Python file while the interpreter shuts down, the process
    # aborts with status 134 although all work is done (apache/arrow#34314). All files are closed
    # here, so the process ends without that shutdown.
    os._exit(status)


def _replace_closed_streams() -> None:
    """Open the null device in the place of each standard stream that is closed.

    Otherwise the next files that are opened get the numbers of these streams, and receive what is
    printed. The null device is opened the wrong way round, so that reading the input and writing
    the outputs still fail as with a closed stream.
    """
    for number, flag in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flag)  # gets the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (messages are discarded)
