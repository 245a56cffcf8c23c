"""River models on the streams that ship with river: their own probabilities, and calibrated ones.

Each model runs over each stream once, prequentially: each sample is predicted, then learned. All
calibrators get the same predictions in the same order, as from a `streamcal.CalibratedClassifier`,
so a row compares only calibrators. There is no randomness and no download.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base, compose, datasets, linear_model, naive_bayes, preprocessing, tree
from river.datasets.base import Dataset

from streamcal._validation import check_count
from streamcal.calibration.base import Calibrator
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.identity import IdentityCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.platt import PlattCalibrator
from streamcal.cli.image_files import save
from streamcal.metrics.log_loss import RULE, log_losses
from streamcal.tables.output import write_file
from streamcal.wrappers.classifier import CalibratedClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

    from streamcal.plot import ReliabilityDisplay

STREAMS = (datasets.Phishing, datasets.Bananas, datasets.Shuttle)
MODELS: dict[str, type[base.Classifier]] = {
    "LogisticRegression": linear_model.LogisticRegression,
    "GaussianNB": naive_bayes.GaussianNB,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "PAClassifier": linear_model.PAClassifier,
}
CALIBRATORS: dict[str, Callable[[], Calibrator]] = {
    "Platt": PlattCalibrator,
    "isotonic": IsotonicCalibrator,
    "default": HedgedCalibrator,
}
CALIBRATIONS = ("raw", *CALIBRATORS)
_DRAWN = ("raw", "default")
PICTURE = "reliability.png"
SCORES = "scores.csv"
SCORED = ("Phishing", "LogisticRegression")
"""The stream and the model of the scores that are written."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """The scores of one model on one stream.

    Attributes
    ----------
    stream, model : str
        Their names.
    n_samples : int
        Number of samples scored: those after the model has learned a label.
    log_loss, brier : dict
        Mean score for each of `CALIBRATIONS`; the log loss in nats.
    """

    stream: str
    model: str
    n_samples: int
    log_loss: dict[str, float]
    brier: dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class _StreamRun:
    row: Row
    y: Vector
    served: dict[str, Vector]


def run(out_dir: Path | str | None = None, *, limit: int | None = None) -> list[Row]:
    """Score all models, one row for each pair of a stream and a model.

    Parameters
    ----------
    out_dir : path, optional
        Folder for the reliability diagrams, ``reliability.png``, and for probabilities and labels
        of one model, ``scores.csv``; created if it does not exist. The table is then printed too,
        and on standard error what is computed. Needs the ``cli`` extra.
    limit : int, optional
        Use only the first ``limit`` samples of each stream.

    Raises
    ------
    ValueError
        If ``limit`` is not a positive int.

    Examples
    --------
    >>> row = run(limit=500)[1]
    >>> row.stream, row.model, row.n_samples
    ('Phishing', 'GaussianNB', 499)
    >>> {calibration: round(loss, 3) for calibration, loss in row.log_loss.items()}
    {'raw': 0.828, 'Platt': 0.411, 'isotonic': 0.377, 'default': 0.375}
    """
    check_count(limit, "limit", optional=True)
    if out_dir is None:
        return [each.row for each in _run_all(limit)]

    from rich.console import Console

    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    progress = Console(stderr=True, highlight=False)
    runs = list(_run_all(limit, progress.print))
    rows = [each.row for each in runs]
    console = Console()
    console.print(table(rows))  # also if a file can't be written
    progress.print("drawing reliability diagrams")
    picture = draw(runs, folder / PICTURE)
    scores = write_scores(runs, folder / SCORES)
    console.print(f"Reliability diagrams: {picture}", soft_wrap=True)
    console.print(f"Scores of {SCORED[1]} on {SCORED[0]}: {scores}", soft_wrap=True)
    return rows


def table(rows: Iterable[Row]) -> "Table":
    """Return the table for a terminal of 80 columns, the best of each score in bold."""
    from rich.table import Table

    made = Table(
        title="Prequential scores, lower is better",
        caption=f"In the log loss, {RULE}.",
        box=None,
        collapse_padding=True,
        pad_edge=False,
    )
    made.add_column("\nmodel", no_wrap=True)
    for score in ("log loss", "Brier"):
        for calibration in CALIBRATIONS:
            over = score if calibration == CALIBRATIONS[2] else ""
            made.add_column(f"{over}\n{calibration}", justify="right", no_wrap=True)
    stream = None
    for row in rows:
        name, *cells = cells_of(row, "[bold]", "[/bold]")
        if name != stream:
            made.add_row(f"\n[italic]{name}[/italic]")
        stream = name
        made.add_row(*cells)
    return made


def cells_of(row: Row, left: str, right: str) -> list[str]:
    """Return a row of the table as text, with the best of each score between two marks.

    Examples
    --------
    >>> scores = {"raw": 0.3, "Platt": 0.25, "isotonic": 0.22, "default": 0.2}
    >>> cells_of(Row("Phishing", "PAClassifier", 1250, scores, scores), "[", "]")[2:6]
    ['0.300', '0.250', '0.220', '[0.200]']
    """
    cells = [row.stream, row.model]
    for scores, digits in ((row.log_loss, 3), (row.brier, 4)):
        texts = [f"{scores[calibration]:.{digits}f}" for calibration in CALIBRATIONS]
        best = min(texts, key=float)
        cells += [f"{left}{text}{right}" if text == best else text for text in texts]
    return cells


def draw(runs: list[_StreamRun], path: Path) -> Path:
    """Draw for each stream the most improved model, before and after, above one table."""
    from matplotlib.figure import Figure

    from streamcal.plot._panels import draw_panels

    best: dict[str, _StreamRun] = {}
    for each in runs:
        shown = best.setdefault(each.row.stream, each)
        if _improvement(each.row) > _improvement(shown.row):
            best[each.row.stream] = each
    figure = Figure(figsize=(4.4 * len(best), 7.2), layout="constrained", dpi=120)
    above, below = figure.subplots(2, 1, height_ratios=(5.4, 1.8))
    diagrams = [_diagram(each) for each in best.values()]
    titles = [(each.row.stream, each.row.model) for each in best.values()]
    draw_panels(above, diagrams, titles, n_columns=len(best))
    _draw_table(below, diagrams, titles)
    save(figure, path)
    return path


def _diagram(run: _StreamRun) -> "ReliabilityDisplay":
    """Return the curves of a model without and with the default calibrator, with their bands."""
    from streamcal.plot import ReliabilityDisplay
    from streamcal.plot.reliability_curve import band_finder, find_bands, fit_curves

    models: dict[str | None, Any] = {name: (run.y, run.served[name]) for name in _DRAWN}
    level = 0.9
    find = band_finder("consistency", "asymptotic", level, n_resamples=1, seed=0)
    curves = fit_curves(models, "brier", find_bands(models, find))
    return ReliabilityDisplay(curves, level=level, band="consistency")


def _draw_table(
    ax: "Axes", diagrams: "Sequence[ReliabilityDisplay]", titles: Sequence[tuple[str, str]]
) -> None:
    """Draw the Brier scores of all curves and their parts, and what these are."""
    cells = [
        (*title, curve.name, *(f"{part:.4f}" for part in curve.decomposition))
        for title, diagram in zip(titles, diagrams, strict=True)
        for curve in diagram.curves
    ]
    header = ("stream", "model", "curve", "Brier", "= MCB", "\N{MINUS SIGN} DSC", "+ UNC")
    ax.set_axis_off()
    form: Any = {"cellLoc": "left", "colLoc": "left", "bbox": (0.1, 0.0, 0.8, 0.9)}
    made = ax.table(cells, colLabels=header, edges="horizontal", **form)
    made.auto_set_font_size(False)
    made.set_fontsize(9.0)
    for cell in made.get_celld().values():
        cell.set(linewidth=0.3)
    ax.set_title(
        "MCB, the miscalibration, is what the best recalibration would gain; DSC, the"
        " discrimination, tells labels apart.",
        fontsize=9.0,
    )


def _improvement(row: Row) -> float:
    return row.log_loss["raw"] - row.log_loss["default"]


def write_scores(runs: Iterable[_StreamRun], path: Path) -> Path:
    """Write the probabilities and labels of one model: what `streamcal calibrate` reads."""
    (each,) = (each for each in runs if (each.row.stream, each.row.model) == SCORED)
    rows = zip(each.served["raw"].tolist(), each.y.tolist(), strict=True)
    write_file(path, "".join(["p,y\n", *(f"{p},{y:.0f}\n" for p, y in rows)]).encode())
    return path


def _run_all(
    limit: int | None, say: Callable[[str], None] = lambda line: None
) -> Iterator[_StreamRun]:
    """Run all models over all streams; ``say`` gets a line before each."""
    number, n_runs = 0, len(STREAMS) * len(MODELS)
    for stream in STREAMS:
        for name in MODELS:
            number += 1
            say(f"{number:>2} of {n_runs}: {name} learns {stream.__name__}")
            yield _run_one(stream(), name, limit)


def _run_one(stream: Dataset, model: str, limit: int | None) -> _StreamRun:
    samples = stream if limit is None else stream.take(limit)
    pipeline = preprocessing.StandardScaler() | MODELS[model]()
    y, raw, scores, single = _predict_stream(samples, pipeline)
    served = {"raw": raw}
    for name, make in CALIBRATORS.items():
        served[name] = np.where(single, scores, make().predict_learn_many(scores, y))
    row = Row(
        type(stream).__name__,
        model,
        len(y),
        {name: _log_loss(y, p) for name, p in served.items()},
        {name: float(np.mean((p - y) ** 2)) for name, p in served.items()},
    )
    return _StreamRun(row, y, served)


def _predict_stream(
    stream: Iterable[tuple[dict[Any, Any], Any]], model: compose.Pipeline
) -> tuple[Vector, Vector, Vector, NDArray[np.bool_]]:
    """Return labels, the model's probabilities of True, scores, and where it knew one label only.

    As in river's evaluation, samples before the model has a label are left out. While it has one
    label of two, the score is what the wrapper answers. Else it is the model's probability.
    """
    answers = []
    wrapper = CalibratedClassifier(model, IdentityCalibrator())
    for x, y in stream:
        raw = model.predict_proba_one(x)
        if raw:
            single = len(raw) < 2
            score = wrapper.serve_one(x).calibrated[True] if single else raw[True]
            answers.append((y == True, raw.get(True, 0.0), score, single))  # noqa: E712 (1, too)
        wrapper.learn_one(x, y, served=raw)
    labels, own, scores, alone = map(np.array, zip(*answers, strict=True))
    return labels.astype(np.float64), own.astype(np.float64), scores.astype(np.float64), alone


def _log_loss(y: Vector, p: Vector) -> float:
    return float(np.mean(log_losses(y, p)))
