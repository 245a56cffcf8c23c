"""Measure which lines of Python the tests run: ``pytest -p tests.measured``, in any processes.

It shows each file with lines that nothing has run, and the share of all; see ``make coverage``.
Processes that tests start are not measured, so what runs in these alone counts as not run.
"""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "build" / "coverage" / "lines"
_WITHOUT = ["if TYPE_CHECKING:", r"^\s*\.\.\.$", r":\s*\.\.\.$"]


def _lines(suffix: bool) -> Any:
    """Return the lines of this process alone, or of all."""
    import coverage

    lines = coverage.Coverage(
        data_file=str(DATA), data_suffix=suffix, source=[str(ROOT / "streamcal")], config_file=False
    )
    lines.set_option("report:exclude_also", _WITHOUT)
    return lines


_running: list[Any] = []  # what measures this process


def pytest_configure(config) -> None:
    """Forget the last run, once; begin before anything of the package is imported."""
    is_first = not hasattr(config, "workerinput")
    if is_first:
        DATA.parent.mkdir(parents=True, exist_ok=True)
        for path in DATA.parent.glob(f"{DATA.name}*"):
            path.unlink()
    if not is_first or not getattr(config.option, "numprocesses", None):
        _running.append(_lines(suffix=True))
        _running[0].start()


def _save() -> None:
    while _running:
        measure = _running.pop()
        measure.stop()
        measure.save()


def pytest_sessionfinish() -> None:
    """Write what this process has run: later is too late in a process of xdist."""
    _save()


def pytest_terminal_summary(terminalreporter) -> None:
    """Show what all processes have run: those of xdist have ended."""
    _save()
    lines = _lines(suffix=False)
    lines.combine([str(DATA.parent)], keep=True)
    terminalreporter.section("lines of Python that no test ran")
    lines.report(
        file=terminalreporter._tw, show_missing=True, skip_covered=True, precision=1, sort="-miss"
    )
