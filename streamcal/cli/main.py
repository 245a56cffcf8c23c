"""The console script ``streamcal``; its commands are in `streamcal.commands`."""

import contextlib
import os
import sys
from importlib.util import find_spec

_NEEDED = ("typer", "rich", "pyarrow", "matplotlib", "bokeh")


def _stand_in() -> None:
    """Put something in the place of standard streams that are closed.

    The next files to be opened would get their numbers, and whatever is printed would go there.
    What stands in fails as a closed stream does: the input can't be read, nor the outputs written.
    """
    for number, flag in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flag)  # gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (nobody hears what is said)


def main() -> None:
    """Run the command line, or say which extra it needs and exit with status 1."""
    _stand_in()
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"streamcal: the command line needs {', '.join(missing)}:"
            " pip install '.[cli]' in the checkout",
            file=sys.stderr,
        )
        sys.exit(1)
    from streamcal.commands import app

    status = 0
    try:
        app(prog_name="streamcal")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    # A thread of pyarrow that lets go of a Python file while the interpreter shuts down aborts the
    # process, with status 134 after all the work is done (apache/arrow#34314). So it is not shut
    # down: every file is closed by now.
    os._exit(status)


if __name__ == "__main__":
    main()
