"""The section of a report with scores for every key, the worst first."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.report.content import Cells, Section, Table
from streamcal.report.table_sections import (
    Scored,
    calibration_error_of_means,
    expected_calibration_error,
)

MAX_KEYS = 200
"""If there are more keys, the worst are shown."""

_MAX_NAME_LENGTH = 100
_HEADER = (
    *("Key", "Rows", "Labels 1", "Log loss before", "Log loss after", "Saved in all rows"),
    *("MCB (Brier)", "ECE"),
)
_REMARK = "MCB and ECE are those of the calibrated values; with few rows, both are large by chance."
_HEADER_OF_MEANS = (
    *("Key", "Rows", "Mean label", "Deviance before", "Deviance after", "Saved in all rows"),
    *("MCB", "ECE"),
)

Vector = NDArray[np.float64]


class Keys(NamedTuple):
    """The keys of rows: the names, and for each row the place of its name, from 0."""

    names: list[str]
    places: NDArray[np.int64]


def of_keys(scored: Scored, keys: Keys, max_keys: int = MAX_KEYS) -> Section:
    """Return the scores of each key.

    Keys are in the order of the log loss that calibration has saved in all rows of the key, the
    least first; where scores are not probabilities, in the order of the mean log loss, the greatest
    first.

    Parameters
    ----------
    scored : Scored
        The rows.
    keys : Keys
        Their keys.
    max_keys : int
        Only this many keys are shown.
    """
    n, before, after = _sums(scored, keys)
    raised = np.flatnonzero(after > before)  # none where scores are not probabilities
    found = np.flatnonzero(n)
    with np.errstate(invalid="ignore"):
        badness = after - before if scored.comparable else after / n
    order = found[np.argsort(-badness[found], kind="stable")]
    rows_of = _rows_by_key(keys)
    rows: list[Cells] = []
    means_given = scored.deviance is not None
    for place in order[:max_keys].tolist():
        p, y = scored.calibrated[rows_of(place)], scored.labels[rows_of(place)]
        weight, w = float(n[place]), scored.weights_of(rows_of(place))
        means = (before[place] / weight, after[place] / weight, before[place] - after[place])
        error = calibration_error_of_means if means_given else expected_calibration_error
        errors = (scored.mcb(p, rows_of(place)), error(p, y, w))
        name = shorten(keys.names[place])
        rows.append((name, len(y), float(np.average(y, weights=w)), *map(float, means), *errors))
    header = _HEADER_OF_MEANS if means_given else _HEADER
    table = Table("key-scores", "Scores by key", header, tuple(rows), sortable=True)
    text = f"{len(found):,} keys, the worst first"
    text += f"; the {max_keys} worst are shown." if len(found) > max_keys else "."
    if scored.comparable:
        text += (
            f" Calibration raises the {scored.loss_name} of {len(raised):,} of them. The key with"
            f" the least {scored.loss_name} saved in all its rows comes first."
        )
    else:
        text += f" The key with the greatest {scored.loss_name} comes first."
    return Section("keys", "Keys", f"{text} {_REMARK}", (), (table,))


def _sums(scored: Scored, keys: Keys) -> tuple[Vector, Vector, Vector]:
    """Return the weight of the rows of each key, and the sums of its losses before and after."""
    weights = np.ones(len(keys.places)) if scored.weights is None else scored.weights

    def total(values: Vector) -> Vector:
        return np.asarray(np.bincount(keys.places, weights * values, len(keys.names)), np.float64)

    n = total(np.ones(len(keys.places)))
    after = total(scored.losses(scored.calibrated))
    if not scored.comparable:
        return n, np.full(len(n), math.nan), after
    return n, total(scored.losses(scored.raw)), after


def _rows_by_key(keys: Keys) -> Callable[[int], NDArray[np.int64]]:
    """Return a function that returns the places of the rows of a key."""
    order = np.argsort(keys.places, kind="stable")
    bounds = np.searchsorted(keys.places[order], np.arange(len(keys.names) + 1))
    return lambda place: order[bounds[place] : bounds[place + 1]]


def shorten(name: str) -> str:
    """Return the text of a key as a table shows it."""
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
