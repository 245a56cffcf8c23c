"""The command line, called in this process."""

from functools import cache
from typing import Any

from typer import testing
from typer.testing import CliRunner, Result

from streamcal.cli.app import app

# Typer builds all commands again for each call, which takes longer than most of them.
testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]


def run(*arguments: object, status: int | None = 0, **options: Any) -> Result:
    """Run a command; a traceback fails the test, and so does another status unless it is None."""
    result = CliRunner().invoke(app, list(map(str, arguments)), **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert status is None or result.exit_code == status, result.output
    return result
