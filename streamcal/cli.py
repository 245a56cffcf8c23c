"""The console script ``streamcal``; its commands are in `streamcal.commands`."""

import sys
from importlib.util import find_spec

_NEEDED = ("typer", "rich", "pyarrow", "matplotlib")


def main() -> None:
    """Run the command line, or say which extra it needs and exit with status 1."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"streamcal: the command line needs {', '.join(missing)}:"
            " pip install '.[cli]' in the checkout",
            file=sys.stderr,
        )
        sys.exit(1)
    from streamcal.commands import app

    app(prog_name="streamcal")


if __name__ == "__main__":
    main()
