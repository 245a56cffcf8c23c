"""The application: the list of commands in the order of ``streamcal --help``."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import streamcal
from streamcal.cli import calibrate, check, decide, demo, export, plot, report, thresholds, watch
from streamcal.cli.console import ended_early, failure


class _Commands(TyperGroup):
    """The commands; Typer would take any EOFError for the end of a prompt, and say "Aborted."."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise failure(ended_early(error), 1) from error


class _Command(TyperCommand):
    """A command; an error about an argument that is missing says what to write."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # of the click inside Typer, which has no public name
            fault: Any = error
            missing = getattr(fault, "param", None)
            if type(error).__name__ == "MissingParameter" and missing is not None:
                name = missing.opts[0] if missing.param_type_name == "option" else ""
                fault.message = f"Write {name} {missing.metavar}: {missing.help}"
            raise


app = typer.Typer(
    name="streamcal",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Online probability calibration: sample by sample, in one pass over a file.",
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"streamcal {streamcal.__version__}")
        raise typer.Exit


def _examples(lines: tuple[str, ...]) -> str:
    return "\n\n".join(["Examples:", *(f"- `{line}`" for line in lines)])


for _command, _lines in (
    (calibrate.calibrate, calibrate.EXAMPLES),
    (plot.plot, plot.EXAMPLES),
    (thresholds.thresholds, thresholds.EXAMPLES),
    (decide.decide, decide.EXAMPLES),
    (report.report, report.EXAMPLES),
    (check.check, check.EXAMPLES),
    (watch.watch, watch.EXAMPLES),
    (export.export, export.EXAMPLES),
    (demo.demo, demo.EXAMPLES),
):
    app.command(cls=_Command, epilog=_examples(_lines))(_command)
