"""The sections of a report about a calibrated table, and of one about a store of states.

Numbers are computed from all rows, each with weight 1; drawings have only as many points as a
screen can show. The decompositions are those of `streamcal.metrics.CORP`, the curves and bands
those of `streamcal.plot.ReliabilityDisplay`.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._log_loss import RULE, log_losses
from streamcal._state import decode, restore
from streamcal.calibration.base import Calibrator
from streamcal.durable.keys import PREFIX, key_of
from streamcal.durable.store import Store
from streamcal.isotonic.corp import Decomposition, decompose
from streamcal.isotonic.staircase import isotonic_fit
from streamcal.metrics.corp import mean_score_of
from streamcal.plot.reliability_curve import ReliabilityCurve
from streamcal.report.content import Cells, Chart, Section, Series, Table, bars, listed, shown, thin
from streamcal.wrappers import CalibratedClassifier

MAX_STATES = 12
"""If there are more states, the largest are shown."""

LEVEL = 0.9
_MAX_NAME_LENGTH = 100
_BINS = 50
_MAX_WINDOWS, _MIN_WINDOW_ROWS = 50, 200
_DRAWS = 8  # sets of labels drawn in a window, for the miscalibration by chance
_RESAMPLES = 200

Vector = NDArray[np.float64]
_SCORE_NAMES = {"brier": "Brier score", "log": "log loss"}


class Scored(NamedTuple):
    """The labelled rows of a calibrated table, in order: arrays of shape ``(n_rows,)``.

    ``raw`` has the scores, ``calibrated`` probabilities, ``labels`` 0 or 1, ``rows`` the numbers of
    the rows, from 1.
    """

    raw: Vector
    calibrated: Vector
    labels: Vector
    rows: Vector


# --- of a table


def of_table(scored: Scored, score: str, column: str, seed: int = 0) -> list[Section]:
    """Return the sections of a calibrated table.

    Parameters
    ----------
    scored : Scored
        The rows; at least one.
    score, column : str
        The names of the columns before and after.
    seed : int
        Seed of the resampling for bands and chance levels.

    Raises
    ------
    ValueError
        If there are no rows, or they hold other than probabilities and labels.
    """
    probabilities = bool(((scored.raw >= 0.0) & (scored.raw <= 1.0)).all())
    before = {score: scored.raw} if probabilities else {}
    curves = {
        name: ReliabilityCurve.from_predictions(
            scored.labels == 1.0, p, name=name, level=LEVEL, n_resamples=_RESAMPLES, seed=seed
        )
        for name, p in {**before, column: scored.calibrated}.items()
    }
    scores = _scores(scored, curves)
    return [
        _score_section(scored, scores, None if probabilities else score),
        _reliability(curves, scores),
        _over_time(scored, list(curves), seed),
    ]


def _scores(
    scored: Scored, curves: Mapping[str, ReliabilityCurve]
) -> dict[tuple[str, str], Decomposition]:
    """Return the decompositions by score and column."""
    columns = [scored.raw, scored.calibrated][-len(curves) :]
    return {
        (kind, name): decompose(curve.staircase, _mean_score(scored.labels, p, kind), kind)
        for kind in _SCORE_NAMES
        for (name, curve), p in zip(curves.items(), columns, strict=True)
    }


def _mean_score(y: Vector, p: Vector, kind: str) -> float:
    """Return the mean Brier score or log loss; arrays of shape ``(n_samples,)``."""
    return float(np.mean(log_losses(y, p))) if kind == "log" else mean_score_of(y, p, kind)


def _score_section(
    scored: Scored, scores: Mapping[tuple[str, str], Decomposition], left_out: str | None
) -> Section:
    rows: list[Cells] = [
        (_SCORE_NAMES[kind], name, *(float(part) for part in parts))
        for (kind, name), parts in scores.items()
    ]
    header = ("Score", "Column", "Mean", "= MCB", "− DSC", "+ UNC")
    n, positive = len(scored.labels), float(scored.labels.mean())
    text = (
        f"{n:,} rows with a label, {100 * positive:.4g} % of them 1; each counts once. A mean"
        " score is the miscalibration (MCB, the gain by the best recalibration) minus the"
        " discrimination (DSC) plus the uncertainty of the labels (UNC). Less is better."
        f" In the log loss, {RULE}."
    )
    if left_out is not None:
        text += f" {left_out} has values outside [0, 1], so it is not compared."
    return Section(
        "scores", "Scores", text, (), (Table("score-numbers", "Scores", header, tuple(rows)),)
    )


def _reliability(
    curves: Mapping[str, ReliabilityCurve], scores: Mapping[tuple[str, str], Decomposition]
) -> Section:
    left = min(float(curve.edges[0]) for curve in curves.values())
    right = max(float(curve.edges[-1]) for curve in curves.values())
    margin = 0.02 * (right - left)
    square = (left - margin, right + margin)
    edges = np.linspace(left, right, _BINS + 1)
    masses = []
    for i, (name, curve) in enumerate(curves.items()):
        heights = _rebin(curve.mass / curve.mass.sum(), curve.edges, edges)
        masses.append(Series(name, "bars", bars(heights, edges), _color(i, len(curves))))
    summary = listed([f"{name} {shown(scores['brier', name].mcb)}" for name in curves])
    charts = (
        Chart(
            "reliability",
            "Reliability",
            "predicted probability",
            "observed frequency",
            tuple(_reliability_series(curves, np.array([left, right]))),
            f"Isotonic regression of the labels on the predictions. Miscalibration: {summary}.",
            square,
            square,
        ),
        Chart(
            "histogram",
            "Distribution of predictions",
            "predicted probability",
            "share of rows",
            tuple(masses),
            f"Histograms of {listed(list(curves))} over {_BINS} bins.",
            square,
        ),
    )
    text = (
        "Observed against predicted, without bins (CORP). The diagonal is perfect calibration;"
        " deviations inside the band can be by chance."
    )
    table = _reliability_table(curves)
    return Section("reliability-before-after", "Reliability", text, charts, (table,))


def _reliability_series(curves: Mapping[str, ReliabilityCurve], ends: Vector) -> list[Series]:
    """Return the diagonal, and the band and the curve of each column."""
    series = [Series("perfectly calibrated", "line", {"x": ends, "y": ends}, "muted", "dashed")]
    for i, (name, curve) in enumerate(curves.items()):
        color = _color(i, len(curves))
        if curve.band is not None:
            x, low, high = _limit_points(*curve.band)
            columns = {"x": x, "low": low, "high": high}
            label = f"{name}: {100 * LEVEL:g} % band if calibrated"
            series.append(Series(label, "band", columns, color))
        x, y = thin(*curve.points())
        series.append(Series(name, "line", {"x": x, "y": y}, color))
    return series


def _reliability_table(curves: Mapping[str, ReliabilityCurve]) -> Table:
    header = ("Predicted", *(f"observed at {name}" for name in curves))
    rows: tuple[Cells, ...] = tuple(
        (f"{at:.1f}", *(float(curve.staircase(at, outside="nan")) for curve in curves.values()))
        for at in np.linspace(0.0, 1.0, 11).tolist()
    )
    return Table("reliability-numbers", "The curves in numbers", header, rows)


def _color(i: int, n: int) -> str:
    """Return the colour of a column; calibrated values always have the second one."""
    return f"c{i + 2 - n}"


def _limit_points(x: Vector, low: Vector, high: Vector) -> tuple[Vector, Vector, Vector]:
    """Return a band with at most 400 points."""
    if len(x) <= 400:
        return x, low, high
    at = np.linspace(0, len(x) - 1, 400).astype(np.int64)
    return x[at], low[at], high[at]


def _rebin(shares: Vector, edges: Vector, wanted: Vector) -> Vector:
    """Return the shares in other bins; the share of a bin is spread evenly over it."""
    total = np.concatenate([[0.0], np.cumsum(shares)])
    return np.diff(np.interp(wanted, edges, total))


class _Windows(NamedTuple):
    """Numbers of consecutive windows of rows; a row of ``mcb`` and ``losses`` has all columns."""

    ends: Vector
    mcb: Vector
    losses: Vector
    chance: Vector


def _over_time(scored: Scored, names: list[str], seed: int) -> Section:
    windows = _windows(scored, len(names), seed)
    n_windows = len(windows.ends)
    last = listed(
        [f"{name} {shown(float(m))}" for name, m in zip(names, windows.mcb[-1], strict=True)]
    )
    mcb_lines = _window_lines(windows.ends, names, windows.mcb)
    chance = {"x": windows.ends, "y": windows.chance}
    mcb_lines.append(Series("by chance, if calibrated", "line", chance, "muted", "dotted"))
    charts = (
        Chart(
            "mcb-over-time",
            "Miscalibration over time",
            "row",
            "MCB (Brier)",
            tuple(mcb_lines),
            f"Miscalibration in {n_windows} windows; in the last one {last}.",
        ),
        Chart(
            "loss-over-time",
            "Log loss over time",
            "row",
            "log loss",
            tuple(_window_lines(windows.ends, names, windows.losses)),
            f"Mean log loss in {n_windows} windows; {RULE}.",
        ),
    )
    text = (
        f"In windows of about {len(scored.labels) // n_windows:,} rows. Even calibrated predictions"
        " have some miscalibration in a window by chance, shown by the dotted line."
    )
    table = _window_table(windows, names)
    return Section("over-time", "Over time", text, charts, (table,))


def _windows(scored: Scored, n_columns: int, seed: int) -> _Windows:
    """Return the numbers of at most 50 windows of at least 200 rows each."""
    n = len(scored.labels)
    n_windows = max(1, min(_MAX_WINDOWS, n // _MIN_WINDOW_ROWS))
    bounds = np.linspace(0, n, n_windows + 1).astype(np.int64).tolist()
    columns = [scored.raw, scored.calibrated][-n_columns:]
    rng = np.random.default_rng(seed)
    ends, mcb, losses, chance = [], [], [], []
    for start, stop in pairwise(bounds):
        y = scored.labels[start:stop]
        ends.append(scored.rows[stop - 1])
        mcb.append([miscalibration(p[start:stop], y) for p in columns])
        losses.append([_mean_score(y, p[start:stop], "log") for p in columns])
        chance.append(_chance_miscalibration(scored.calibrated[start:stop], rng))
    return _Windows(np.array(ends), np.array(mcb), np.array(losses), np.array(chance))


def _window_lines(x: Vector, names: list[str], values: Vector) -> list[Series]:
    """Return a line for each column; points if there is only one window."""
    kind = "line" if len(x) > 1 else "points"
    return [
        Series(name, kind, {"x": x, "y": y}, _color(i, len(names)))
        for i, (name, y) in enumerate(zip(names, values.T, strict=True))
    ]


def _window_table(windows: _Windows, names: list[str]) -> Table:
    header = (
        "up to row",
        *(f"MCB of {name}" for name in names),
        "by chance",
        *(f"log loss of {name}" for name in names),
    )
    columns = np.column_stack([windows.mcb, windows.chance, windows.losses]).tolist()
    rows = tuple((int(end), *cells) for end, cells in zip(windows.ends, columns, strict=True))
    return Table("over-time-numbers", "The windows in numbers", header, rows)


def miscalibration(p: Vector, y: Vector) -> float:
    """Return MCB of the Brier score; arrays of shape ``(n_samples,)``.

    Examples
    --------
    >>> miscalibration(np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    0.185
    """
    return decompose(isotonic_fit(p, y), mean_score_of(y, p, "brier"), "brier").mcb


def _chance_miscalibration(p: Vector, rng: np.random.Generator) -> float:
    """Return the mean MCB if labels are drawn from the predictions."""
    p = np.sort(p)  # once for all draws
    draws = [(rng.random(len(p)) < p).astype(np.float64) for _ in range(_DRAWS)]
    return float(np.mean([miscalibration(p, y) for y in draws]))


# --- of a store


def of_store(store: Store, max_states: int = MAX_STATES) -> list[Section]:
    """Return the sections of a store, for each kind of states.

    Parameters
    ----------
    store : Store
        The store.
    max_states : int
        Only this many states are shown, the largest ones in bytes.

    Raises
    ------
    StoreError
        If it is damaged.
    """
    sizes = store.sizes()
    largest = sorted(sizes, key=lambda key: (-sizes[key], key))[:max_states]
    states: dict[str, Any] = {}
    names: set[str] = set()
    rows: list[Cells] = []
    for key in largest:
        name, data = _unique_name(_key_text(key), names), store.get_bytes(key)
        names.add(name)
        kind = decode(data).kind
        state = _restore_state(data)
        if state is not None:
            states |= _learners_in(name, state)
        rows.append((name, kind, _n_samples(state), sizes[key]))
    header = ("Key", "Kind", "Samples", "Bytes")
    which = (
        f"the {max_states} largest of {len(sizes):,}"
        if len(sizes) > max_states
        else f"{len(sizes):,}"
    )
    text = f"{store.offset:,} samples of the stream are learned. States: {which}."
    if len(states) > max_states:
        text += (
            f" They hold {len(states):,} learners, of which the first {max_states} are shown below."
        )
        states = dict(islice(states.items(), max_states))
    found = [
        Section("states", "States", text, (), (Table("sizes", "States", header, tuple(rows)),))
    ]
    for build in _BUILDERS:
        section = build(states)
        if section is not None:
            found.append(section)
    return found


def _learners_in(name: str, state: Any) -> dict[str, Any]:
    """Return the learners in a state: the calibrators of a wrapper, or the learner itself."""
    if not isinstance(state, CalibratedClassifier):
        return {name: state}
    parts = state.calibrators
    return {name if len(parts) == 1 else f"{name}: {label}": part for label, part in parts.items()}


def _key_text(key: str) -> str:
    """Return the key of a state as text for users."""
    if not key.startswith(PREFIX):
        return key
    try:
        plain = key_of(key)
    except ValueError:
        return key
    return "all" if plain is None else str(plain)


def _unique_name(name: str, taken: set[str]) -> str:
    """Return a short name, with a number if it is taken: the keys 1 and "1" have the same text."""
    if len(name) > _MAX_NAME_LENGTH:
        name = f"{name[: _MAX_NAME_LENGTH - 1]}…"
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} #{number}"
    return free


def _restore_state(data: bytes) -> Any:
    """Return the learner in a state, with a placeholder for its model; None if that fails."""
    from river import dummy, stats

    placeholders: tuple[dict[str, Any], ...] = (
        {},
        {"classifier": dummy.NoChangeClassifier()},
        {"regressor": dummy.StatisticRegressor(stats.Mean())},
    )
    for given in placeholders:
        try:
            return restore(data, **given)
        except (TypeError, ValueError):
            continue
    return None


def _n_samples(state: Any) -> int | float:
    """Return how many samples a learner has, or holds until their labels come; NaN if unknown."""
    for name in ("n_samples", "n_waiting"):
        found = getattr(state, name, None)
        if found is not None:
            return int(found)
    return math.nan


def _staircases(states: Mapping[str, Any]) -> Section | None:
    """Return the maps that calibrators have learned."""
    maps: dict[str, tuple[Vector, Vector]] = {}
    n_blocks: int | float
    rows: list[Cells] = []
    for name, state in states.items():
        if not isinstance(state, Calibrator):
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
        for calibrator, weight in sorted(weights.items(), key=lambda pair: -pair[1])
    )
    tables = [Table("weights", "Weights of the hedge", ("Key", "Calibrator", "Weight"), rows, 2)]
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
        (name, heaviest[name], float(weight) / len(hedges)) for name, weight in total.most_common()
    )
    header = ("Calibrator", "Heaviest for", "Mean weight")
    return Table("mean-weights", f"Mean of {len(hedges)} keys", header, rows, 2)


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


_BUILDERS: Sequence[Callable[[Mapping[str, Any]], Section | None]] = (
    _weights,
    _staircases,
    _thresholds,
    _decisions,
)
