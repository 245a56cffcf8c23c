"""The command line, called in this process."""

from functools import cache

from typer import testing
from typer.testing import CliRunner

__all__ = ["CliRunner"]

# Typer builds all commands again for each call, which takes longer than most of them.
testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]
