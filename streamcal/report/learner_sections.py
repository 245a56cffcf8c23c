"""The sections of a report about learners: the maps, weights, thresholds and decisions in them.

Each function takes learners by the name that is shown, and returns None if it concerns none of
them.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.calibration.base import is_calibrator
from streamcal.plot.reliability_curve import ReliabilityCurve
from streamcal.report.content import Cells, Chart, Section, Series, Table, listed, shown, thin

Vector = NDArray[np.float64]


def of_learners(learners: Mapping[str, Any]) -> list[Section]:
    """Return the sections that concern one of the learners, which are given by name."""
    found = [build(learners) for build in (_weights, _staircases, _thresholds, _decisions)]
    return [section for section in found if section is not None]


def _staircases(states: Mapping[str, Any]) -> Section | None:
    """Return the maps that calibrators have learned."""
    maps: dict[str, tuple[Vector, Vector]] = {}
    n_blocks: int | float
    rows: list[Cells] = []
    for name, state in states.items():
        if not is_calibrator(state) or state.fields:
            continue
        if getattr(state, "n_samples", 1) == 0:
            continue
        stairs = state.staircase() if hasattr(state, "staircase") else None
        if stairs is not None:
            x, y = ReliabilityCurve(stairs, name, np.empty(0), _finite_range(stairs)).points()
            n_blocks = len(stairs)
        else:
            x = np.linspace(0.0, 1.0, 201)
            y, n_blocks = state.predict_many(x), math.nan
        maps[name] = thin(x, y)
        rows.append((name, n_blocks, float(x[0]), float(x[-1]), y[0], y[-1]))
    if not maps:
        return None
    series = [
        Series(name, "line", {"x": x, "y": y}, "c1", choice=name if len(maps) > 1 else "")
        for name, (x, y) in maps.items()
    ]
    inside = all(
        x[0] >= 0.0 and x[-1] <= 1.0 and y[0] >= 0.0 and y[-1] <= 1.0 for x, y in maps.values()
    )
    if inside:
        ends = np.array([0.0, 1.0])
        diagonal = {"x": ends, "y": ends}
        series.insert(0, Series("the score itself", "line", diagonal, "muted", "dashed"))
    square = (-0.02, 1.02) if inside else None
    names = list(maps) if len(maps) < 5 else [*list(maps)[:3], f"{len(maps) - 3} more"]
    summary = f"The calibrated value of each score, for {listed(names)}."
    chart = Chart(
        "staircase", "The map", "score", "calibrated value", tuple(series), summary, square, square
    )
    header = ("Key", "Blocks", "Scores from", "to", "Values from", "to")
    table = Table("staircases", "The maps in numbers", header, tuple(rows))
    text = "The calibrated value that each calibrator gives now to any score."
    return Section("maps", "Calibration maps", text, (chart,), (table,))


def _finite_range(stairs: Any) -> Vector:
    """Return the least and the greatest finite score of a staircase."""
    ends = np.concatenate([stairs.lower, stairs.upper])
    ends = ends[np.isfinite(ends)]
    return np.array([ends.min(), ends.max()]) if len(ends) else np.array([0.0, 1.0])


def _weights(states: Mapping[str, Any]) -> Section | None:
    """Return the weights of hedges."""
    hedges = {
        name: state.weights
        for name, state in states.items()
        if isinstance(getattr(state, "weights", None), Mapping)
    }
    if not hedges:
        return None
    rows = tuple(
        (name, calibrator, float(weight))
        for name, weights in hedges.items()
        for calibrator, weight in weights.items()  # not by weight: rows keep their places
    )
    tables = [
        Table(
            "weights",
            "Weights of the hedge",
            ("Key", "Calibrator", "Weight"),
            rows,
            2,
            sortable=True,
        )
    ]
    if len(hedges) > 1:
        tables.insert(0, _mean_weights(list(hedges.values())))
    text = "The weight of each calibrator in the present mixture."
    return Section("hedge", "Hedge weights", text, (), tuple(tables))


def _mean_weights(hedges: Sequence[Mapping[str, float]]) -> Table:
    """Return the means over several hedges; a calibrator that one does not have has weight 0."""
    heaviest = Counter(max(weights, key=lambda name: weights[name]) for weights in hedges)
    total: Counter[str] = Counter()
    for weights in hedges:
        total.update(weights)
    rows = tuple(
        (name, heaviest[name], float(weight) / len(hedges)) for name, weight in total.items()
    )
    header = ("Calibrator", "Heaviest for", "Mean weight")
    return Table("mean-weights", f"Mean of {len(hedges)} keys", header, rows, 2, sortable=True)


def _thresholds(states: Mapping[str, Any]) -> Section | None:
    """Return the thresholds between ordinal labels."""
    found: dict[str, Any] = {}
    for name, state in states.items():
        cuts = getattr(state, "thresholds", None) if _has_attribute(state, "thresholds") else None
        if cuts is not None:
            found[name] = np.asarray(cuts, dtype=np.float64)
    if not found:
        return None
    series, rows = [], []
    for name, cuts in found.items():
        choice = name if len(found) > 1 else ""
        finite = np.unique(cuts[np.isfinite(cuts)])
        if len(finite):
            margin = 0.25 * (np.ptp(finite) or 1.0)
            ends = [finite[0] - margin, finite[-1] + margin]
            at = np.concatenate([ends[:1], finite])
            labels = 1.0 + np.searchsorted(cuts, at, side="right")
            x = np.concatenate([at, finite, ends[1:]])
            y = np.concatenate([labels, labels])
            order = np.argsort(np.concatenate([np.arange(len(at)) * 2, np.arange(len(at)) * 2 + 1]))
            columns = {"x": x[order], "y": y[order]}
            series.append(Series(name, "line", columns, "c0", choice=choice))
            series.append(Series("threshold", "rules", {"x": finite}, "muted", "dashed", choice))
        rows += [(name, f"{k + 1} | {k + 2}", float(cut)) for k, cut in enumerate(cuts.tolist())]
    charts = (
        Chart(
            "thresholds",
            "Labels by score",
            "score",
            "label",
            tuple(series),
            f"The label of each score, for {listed(list(found)[:3])}.",
        ),
    )
    table = Table("threshold-numbers", "Thresholds", ("Key", "Between", "Threshold"), tuple(rows))
    text = "Thresholds that cut scores into ordinal labels."
    return Section("ordinal", "Ordinal thresholds", text, charts if series else (), (table,))


def _has_attribute(state: Any, name: str) -> bool:
    """Return whether a state has an attribute; a property may raise before the first sample."""
    try:
        return hasattr(state, name)
    except ValueError:
        return False


def _decisions(states: Mapping[str, Any]) -> Section | None:
    """Return curves of a metric over thresholds, and confusion counts."""
    series: list[Series] = []
    best: list[Cells] = []
    counts: list[Cells] = []
    curves = {n: s for n, s in states.items() if callable(getattr(s, "curve", None)) and s.n_scores}
    for name, state in curves.items():
        choice = name if len(curves) > 1 else ""
        thresholds, utilities = state.curve()
        x, y = thin(thresholds[:0:-1], utilities[:0:-1])
        series.append(Series(name, "line", {"x": x, "y": y}, "c0", choice=choice))
        if math.isfinite(state.threshold):
            dot = {"x": np.array([state.threshold]), "y": np.array([state.utility])}
            series.append(Series("the best", "points", dot, "c1", choice=choice))
        best.append((name, str(state.metric), float(state.threshold), float(state.utility)))
    for name, state in states.items():
        if hasattr(state, "claim_gap") and hasattr(state, "counts"):
            cells = (int(n) if n == int(n) else float(n) for n in state.counts)
            counts.append((name, str(state.metric), *cells, float(state.claim_gap)))
    if not best and not counts:
        return None
    charts, tables = [], []
    reached_at = [f"{row[0]} {shown(row[3])} from {shown(row[2])} up" for row in best[:3]]
    if series:
        charts.append(
            Chart(
                "decisions",
                "The metric by threshold",
                "threshold",
                "metric on past samples",
                tuple(series),
                f"Best: {listed(reached_at)}.",
            )
        )
    if best:
        reached = ("Key", "Metric", "Threshold", "Reached")
        tables.append(Table("decision-numbers", "Best thresholds", reached, tuple(best)))
    if counts:
        header = ("Key", "Metric", "TP", "FP", "FN", "TN", "Claim gap")
        tables.append(Table("counts", "Confusion counts carried", header, tuple(counts)))
    text = "The thresholds or counts that determine the next decision."
    return Section("decisions-made", "Decisions", text, tuple(charts), tuple(tables))
