"""The pages of the reference: one for each public class and function, by its public name.

Each part of the package has a page with its docstring and a table of its names. One page has the
names that users type most, by what they want to do.
"""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.ext.autodoc.mock import mock  # type: ignore[attr-defined]  # not exported

import streamcal

# What `streamcal.spark` imports is not in the extra `docs`. It is mocked everywhere, also where it
# is installed, so that the site is the same in any environment.
MOCKED = ["google", "pandas", "pyspark"]

# The parts of the package in the order of the reference, by the titles of their pages.
PARTS = {
    "wrappers": "Wrappers of river models",
    "calibration": "Calibrators",
    "isotonic": "Isotonic regression",
    "losses": "Losses",
    "ordinal": "Ordinal labels",
    "decision": "Decisions",
    "voting": "Votes",
    "metrics": "Metrics",
    "monitoring": "Alarms",
    "plot": "Plots",
    "durable": "Crash-safe streams",
    "report": "Numbers for Prometheus",
    "sklearn": "scikit-learn",
    "spark": "Spark",
}
# What users want to do, and the names for it. A page lists them before the parts.
TASKS = {
    "Calibrate a model of river": ["CalibratedClassifier", "CalibratedRegressor", "Served"],
    "Put probabilities from elsewhere where a model of river goes": ["PrecomputedClassifier"],
    "Calibrate scores from any source": [
        "HedgedCalibrator",
        "IsotonicCalibrator",
        "PlattCalibrator",
        "BetaCalibrator",
        "HistogramCalibrator",
        "AnytimeCalibrator",
    ],
    "Calibrate for many labels at once": ["TemperatureCalibrator", "TopLabelCalibrator"],
    "Give an interval with each probability": ["VennAbersCalibrator"],
    "Be right for each country or device": ["SegmentCalibrator"],
    "Keep one calibrator for each key": ["KeyedCalibrator", "spark.calibrate"],
    "Undo down-sampling of negatives": ["undo_sampling"],
    "Calibrate a classifier of scikit-learn": [
        "sklearn.OnlineCalibratedClassifier",
        "sklearn.StreamingIsotonicRegression",
    ],
    "Fit a monotone curve": [
        "isotonic_fit",
        "anytime_isotonic",
        "isotonic_fit_sharded",
        "PAVStack",
    ],
    "Choose which samples to label 1": ["maximize", "DecisionClassifier", "EUMThreshold"],
    "Ask people, at most so many times a day": ["decision.ReviewBudget"],
    "Answer where it is sure, and ask elsewhere": ["decision.SelectiveClassifier"],
    "Predict a set of labels": ["decision.PredictionSetClassifier"],
    "Predict grades": [
        "optimal_thresholds",
        "StreamingThresholds",
        "ThresholdClassifier",
        "ordinal.CuSumRank",
        "ordinal.KernelCuSumRank",
    ],
    "Combine the votes of rules or trees": ["VoteClassifier", "voting.optimal_votes"],
    "Measure calibration": [
        "metrics.CORP",
        "metrics.RollingCORP",
        "metrics.SmoothECE",
        "metrics.ECE",
        "metrics.BrierScore",
        "metrics.Multicalibration",
    ],
    "Draw calibration": ["plot.ReliabilityDisplay", "plot.MiscalibrationDisplay"],
    "Draw how many answers are right": ["plot.AccuracyCoverageDisplay"],
    "Raise an alarm": [
        "monitoring.CalibrationTest",
        "monitoring.CalibrationDrift",
        "monitoring.ForecastComparison",
    ],
    "Decide which decisions to have labelled, and calibrate and average for all": [
        "calibration.AuditedCalibrator",
        "monitoring.AuditSampler",
        "monitoring.AuditedMean",
        "monitoring.AuditedMetric",
    ],
    "Follow the share of ones before late labels": ["calibration.PriorShiftCalibrator"],
    "Know a metric before the labels": ["metrics.ExpectedMetric", "metrics.expected_metric"],
    "Survive a crash": ["durable.run", "durable.Store", "durable.LabelJoin"],
}
# Behind the command line and inside; every other part is public and has a page.
INTERNAL = {"cli", "export", "kernels", "notebook", "tables"}


def exported(module: ModuleType) -> list[str]:
    """Return ``__all__``, or where there is none the public classes and functions of a module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def public_parts() -> list[str]:
    """Return the names of the parts of the package that users import from, in order."""
    there = [found.name for found in pkgutil.iter_modules(streamcal.__path__)]
    public = {name for name in there if not name.startswith("_")} - INTERNAL
    return [*(part for part in PARTS if part in public), *sorted(public - set(PARTS))]


def public_name(part: str, name: str) -> str:
    """Return the shortest path by which a user imports a name of a part."""
    short = name in streamcal.__all__ and getattr(streamcal, name) is getattr(
        import_module(f"streamcal.{part}"), name
    )
    return f"streamcal.{name}" if short else f"streamcal.{part}.{name}"


def members(cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class that this library documents."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != "streamcal":
            continue
        for name, value in vars(base).items():
            kinds: Any = property | classmethod | staticmethod
            if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, kinds)):
                continue
            if value.__doc__:
                yield name


def heading(title: str, part: str = "") -> str:
    """Return a title, underlined; a page of a part gets a link to the part."""
    # In the navigation of every page, two hundred names would be slow to build and long to read.
    orphan, link = (":orphan:\n\n", f":doc:`{part}`\n\n") if part else ("", "")
    return f"{orphan}{title}\n{'=' * len(title)}\n\n{link}"


def summary(value: Any) -> str:
    """Return the first paragraph of a docstring, in one line and without footnotes."""
    first = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return re.sub(r" ?\[\d+\]_", "", " ".join(first.split())).replace("|", r"\|")


def table(title: str, values: dict[str, Any], within: str = "") -> str:
    """Return a table of paths, as links, with the first sentences of their docstrings.

    A link shows the last name of its path, or all names after ``within``.
    """
    rows = ""
    for path, value in values.items():
        shown = path.removeprefix(within) if within else path.rpartition(".")[2]
        rows += f"   * - :py:obj:`{shown} <{path}>`\n     - {summary(value)}\n"
    return f".. rubric:: {title}\n\n.. list-table::\n   :widths: auto\n\n{rows}\n" if rows else ""


def page(part: str, path: str, value: Any) -> str:
    """Return the page of a class, a function or a module."""
    text = heading(path.removeprefix("streamcal."), part)
    if inspect.ismodule(value):
        inner = {f"{path}.{name}": getattr(value, name) for name in exported(value)}
        functions = "".join(f".. autofunction:: {each}\n\n" for each in inner)
        return f"{text}.. automodule:: {value.__name__}\n\n{table('Functions', inner)}{functions}"
    if not inspect.isclass(value):
        return f"{text}.. autofunction:: {path}\n"
    found = {name: inspect.getattr_static(value, name) for name in members(value)}
    properties = {f"{path}.{at}": it for at, it in found.items() if isinstance(it, property)}
    methods = {f"{path}.{at}": it for at, it in found.items() if not isinstance(it, property)}
    tables = table("Methods", methods) + table("Properties", properties)
    # autodoc puts these between the docstring and the members.
    inside = "".join(f"   {line}\n" if line else "\n" for line in tables.splitlines())
    return f"{text}.. autoclass:: {path}\n   :members: {', '.join(found)}\n\n{inside}"


def mocked(module: str) -> AbstractContextManager[None]:
    """Mock what autodoc will; but other parts must not take a mock for an installed package."""
    return mock(MOCKED) if module == "streamcal.spark" else nullcontext()


def pages_of(part: str) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the pages of a part."""
    with mocked(f"streamcal.{part}"):
        module = import_module(f"streamcal.{part}")
        values = {public_name(part, name): getattr(module, name) for name in exported(module)}
    kinds: dict[str, dict[str, Any]] = {
        "Classes": {path: it for path, it in values.items() if inspect.isclass(it)},
        "Functions": {path: it for path, it in values.items() if inspect.isroutine(it)},
        "Modules": {path: it for path, it in values.items() if inspect.ismodule(it)},
    }
    paged = [path for named in kinds.values() for path in named]
    constants = [path for path in values if path not in paged]
    title = PARTS.get(part, part.replace("_", " ").capitalize())
    text = f"{heading(title)}.. automodule:: {module.__name__}\n\n"
    text += "".join(table(kind, named) for kind, named in kinds.items())
    text += "".join(f".. autodata:: {path}\n   :no-value:\n\n" for path in constants)
    yield part, text
    for path in paged:
        yield path, page(part, path, values[path])


def page_of_tasks() -> str:
    """Return the page of what users want to do.

    Raises
    ------
    AttributeError
        If a name does not exist.
    """
    text = heading("The API by task")
    for task, names in TASKS.items():
        values = {f"streamcal.{name}": value_of(f"streamcal.{name}") for name in names}
        text += table(task, values, within="streamcal.")
    return text


def value_of(path: str) -> Any:
    """Return what a path of the package names."""
    module, _, name = path.rpartition(".")
    with mocked(module):
        return getattr(import_module(module), name)


def write_reference(folder: Path) -> list[str]:
    """Write the pages into a folder and return the names of those of parts.

    Raises
    ------
    ValueError
        If a name of the package is on none of them.
    """
    folder.mkdir(exist_ok=True)
    parts = public_parts()
    pages = dict(page for part in parts for page in pages_of(part))
    pages["tasks"] = page_of_tasks()
    missing = {f"streamcal.{name}" for name in streamcal.__all__} - set(pages)
    missing -= {f"streamcal.{part}" for part in parts}
    if missing:
        raise ValueError(f"the reference has no page for {sorted(missing)}")
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [f"reference/{part}" for part in parts]
