"""What `run` records for those who watch it: losses by period, alarms, the last samples.

The record is a state of the store, under the name `TIMELINE`, and is saved in the same transaction
as the offset and the calibrators. It does not affect what is learned.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    are_in,
    array_of,
    as_float,
    as_int,
    as_list,
    require,
    restore,
)
from streamcal._validation import MOST_COUNT
from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.metrics.log_loss import log_losses
from streamcal.monitoring.fixed_bets import leader_in_words, new_bets

TIMELINE = "timeline"
"""The name of the record among the states."""

LENGTH = 500
"""The number of labelled samples in a new period."""

KEEP = 16
"""If there are more periods of one length, the two oldest of them are merged."""

RECENT = 2_000
"""The number of labelled samples that are kept."""

DECISIONS = 1_000
"""The number of served values that are kept, with a label or without."""

RUN_LENGTH = 20_000
"""The least mean number of labels to a false alarm."""

Vector = NDArray[np.float64]


class LostCalibration(NamedTuple):
    """An alarm of the calibrated values: ``label`` is the number of labels when it came.

    ``since`` is after about how many labels calibration was lost, ``in_words`` what the values
    should be. After an alarm all begins again, so lost calibration raises one alarm after another:
    each has the ``since`` of the first if less than `RECENT` labels lie between them.
    """

    label: int
    since: int
    in_words: str


class Periods(NamedTuple):
    """Consecutive parts of a stream, oldest first: arrays of shape ``(n_periods,)``.

    ``ends`` are the offsets after the last sample, ``times`` when that was learned, in seconds
    since 1970, ``n`` the numbers of labelled samples, ``ones`` the labels 1. ``raw`` and
    ``calibrated`` are sums of log losses; NaN if a label is neither 0 nor 1, or a value lies
    outside [0, 1].
    """

    ends: Vector
    times: Vector
    n: Vector
    ones: Vector
    raw: Vector
    calibrated: Vector


class Timeline(Stateful):
    """The log loss of a run by period, before and after calibration, and its alarms.

    A period has `LENGTH` labelled samples. If there are more than `KEEP` periods of one length, the
    two oldest of them become one of twice the length. So the last periods are short, and n samples
    take O(log n) periods.

    Where labels are 0 or 1, calibrated values are watched as by
    `streamcal.monitoring.CalibrationDrift`. Where scores are probabilities, too, both are compared
    as by `streamcal.monitoring.ForecastComparison`, with the Brier score.

    Attributes
    ----------
    n_labels : int
        How many labelled samples there have been.
    n_alarms : int
        How many alarms there have been.
    alarm : LostCalibration or None
        The last alarm.
    comparison : MeanBounds
        By how much the Brier scores of scores are above those of calibrated values.
    recent : ndarray of shape (n_recent, 3)
        Score, calibrated value and label of the last labelled samples.
    decisions : ndarray of shape (n_decisions, 3)
        The last values that were served: the offset after each, the value, and its label, NaN until
        that comes.
    updated : float or None
        When it was last saved, in seconds since 1970.
    end : int or None
        The offset after the last event that the source had then; None if that is unknown.

    Examples
    --------
    >>> timeline = Timeline()
    >>> timeline.add(np.array([1, 2]), [0.5, 0.5], [0.9, 0.2], [1.0, 0.0], now=0.0)
    >>> periods = timeline.periods()
    >>> periods.n, periods.raw.round(3), periods.calibrated.round(3)
    (array([2.]), array([1.386]), array([0.329]))
    """

    def __init__(self) -> None:
        self.recent: NDArray[np.float64] = np.empty((0, 3))
        self.decisions: NDArray[np.float64] = np.empty((0, 3))
        self.updated: float | None = None
        self.end: int | None = None
        self.n_labels = self.n_alarms = 0
        self.alarm: LostCalibration | None = None
        self.comparison = MeanBounds()
        self._bets = new_bets(spends=False)
        self._closed: list[Vector] = []  # numbers in the order of `Periods`
        self._open = np.zeros(6)

    def periods(self) -> Periods:
        """Return all periods; the last one may have fewer than `LENGTH` samples."""
        rows = [*self._closed, *([self._open] if self._open[2] else [])]
        return Periods(*np.array(rows).reshape(-1, 6).T)

    @property
    def watches(self) -> bool:
        """Whether the last values are probabilities, and one of their labels is 0 or 1."""
        _, calibrated, y = self.recent.T
        are_probabilities = ((calibrated >= 0.0) & (calibrated <= 1.0)).all()
        return bool(are_probabilities and _are_events(calibrated, y).any())

    def add(self, ends: Vector, raw: Vector, calibrated: Vector, y: Vector, now: float) -> None:
        """Add labelled samples: offsets after them, scores, served values and labels."""
        samples = np.column_stack([raw, calibrated, y])
        recent = np.concatenate([self.recent, samples])[-RECENT:]
        numbers = np.column_stack([np.ones(len(samples)), samples[:, 2] == 1.0, _losses(samples)])
        closed, period = list(self._closed), self._open.copy()
        while len(numbers):
            n = min(LENGTH - int(period[2]), len(numbers))
            # One after the other, so that sums do not depend on the batches.
            period[2:] = np.cumsum(np.vstack([period[2:], numbers[:n]]), axis=0)[-1]
            period[:2] = ends[n - 1], now
            ends, numbers = ends[n:], numbers[n:]
            if period[2] == LENGTH:
                _close(closed, period)
                period = np.zeros(6)
        changes = {"recent": recent, "_closed": closed, "_open": period, **self._watched(samples)}
        vars(self).update(changes)  # in one step, so that an exception finds all or nothing

    def serve(self, served: NDArray[np.float64], labels: NDArray[np.float64]) -> None:
        """Add values that were served, and labels of values that were served before.

        Parameters
        ----------
        served : ndarray of shape (n_served, 3)
            As `decisions`, the offsets increasing.
        labels : ndarray of shape (n_labels, 2)
            The offset after the event with the value, and the label.
        """
        decisions = np.concatenate([self.decisions, served])[-DECISIONS:]
        kept = labels[are_in(labels[:, 0], decisions[:, 0])]
        decisions[np.searchsorted(decisions[:, 0], kept[:, 0]), 2] = kept[:, 1]
        self.decisions = decisions

    def _watched(self, samples: NDArray[np.float64]) -> dict[str, Any]:
        """Return what changes as scores are compared with calibrated values, and these watched."""
        raw, calibrated, y = np.ascontiguousarray(samples.T)
        is_event = _are_events(calibrated, y)
        both = is_event & (raw >= 0.0) & (raw <= 1.0)
        comparison = MeanBounds()
        old = self.comparison
        comparison.restore(old.n_samples, old.weight, old.total, old.state())
        w = np.ones(both.sum())
        comparison.add_events(raw[both], calibrated[both], y[both], w, 0.0)
        bets, alarm, n_alarms = new_bets(spends=False), self.alarm, self.n_alarms
        bets.restore(self._bets.n_samples, *self._bets.state())
        at, numbers = 0, np.flatnonzero(is_event)
        p, happened, w = calibrated[is_event], y[is_event], np.ones(len(numbers))
        while at < len(p):
            at += bets.update_many(p[at:], happened[at:], w[at:], math.log(RUN_LENGTH))
            if bets.log_value() >= math.log(RUN_LENGTH):
                label = self.n_labels + int(numbers[at - 1]) + 1
                since = max(label - (bets.n_samples - bets.since()), 0)
                if alarm is not None and label - alarm.label < RECENT:
                    since = alarm.since  # it goes on
                alarm, n_alarms = LostCalibration(label, since, leader_in_words(bets)), n_alarms + 1
                bets = new_bets(spends=False)
        return {
            "comparison": comparison,
            "_bets": bets,
            "alarm": alarm,
            "n_alarms": n_alarms,
            "n_labels": self.n_labels + len(y),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        stakes, others = self._bets.state()
        arrays = {
            "periods": np.array([*self._closed, self._open]),
            "recent": self.recent,
            "decisions": self.decisions,
            "lost": self.comparison.state(),
            "stakes": stakes,
            "others": others,
        }
        fields: dict[str, Any] = {
            "updated": self.updated,
            "end": self.end,
            "n_labels": self.n_labels,
            "n_alarms": self.n_alarms,
            "alarm": None if self.alarm is None else list(self.alarm),
            "n_bets": self._bets.n_samples,
            "n_compared": self.comparison.n_samples,
            "weight": self.comparison.weight,
            "total": self.comparison.total,
        }
        return fields, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        periods = array_of(arrays, "periods", None, 6, finite=False)
        recent = array_of(arrays, "recent", None, 3)
        decisions = array_of(arrays, "decisions", None, 3, finite=False)
        if fields["updated"] is not None:
            self.updated = as_float(fields["updated"], "updated")
        if fields["end"] is not None:
            self.end = as_int(fields["end"], "end")
        _check_periods(periods)
        require(len(recent) <= RECENT, f"there must be at most {RECENT} recent samples")
        require(len(decisions) <= DECISIONS, f"there must be at most {DECISIONS} served values")
        at, served, y = decisions.T
        require(np.isfinite([at, served]).all(), "offsets and served values must be finite")
        require((at == np.floor(at)).all() and (at <= MOST_COUNT).all(), "offsets must be ints")
        require((np.diff(at, prepend=0.0) > 0.0).all(), "served values must be in order")
        require(not np.isinf(y).any(), "labels must be finite, or NaN")
        *self._closed, self._open = list(periods)
        self.recent, self.decisions = recent, decisions
        self._thaw_alarms(fields, arrays)

    def _thaw_alarms(self, fields: Fields, arrays: Arrays) -> None:
        """Restore comparison and alarms."""
        self.n_labels = as_int(fields["n_labels"], "n_labels")
        self.n_alarms = as_int(fields["n_alarms"], "n_alarms")
        require(0 <= self.n_alarms <= self.n_labels, "an alarm must have a label")
        require(
            (fields["alarm"] is not None) == (self.n_alarms > 0), "the last alarm must be known"
        )
        if fields["alarm"] is not None:
            label, since, in_words = as_list(fields["alarm"], "alarm", 3)
            require(isinstance(in_words, str), "an alarm must be in words")
            self.alarm = LostCalibration(as_int(label, "label"), as_int(since, "since"), in_words)
            require(
                0 <= self.alarm.since <= self.alarm.label <= self.n_labels,
                "the last alarm must be of a label",
            )
        self.comparison.restore(
            as_int(fields["n_compared"], "n_compared"),
            as_float(fields["weight"], "weight"),
            as_float(fields["total"], "total"),
            array_of(arrays, "lost", 2, None, finite=False),
        )
        self._bets.restore(
            as_int(fields["n_bets"], "n_bets"),
            array_of(arrays, "stakes", None, 4, finite=False),
            array_of(arrays, "others", 4, finite=False),
        )


def _are_events(calibrated: Vector, y: Vector) -> NDArray[np.bool_]:
    """Return which samples are watched: a probability, and whether an event happened."""
    is_event: NDArray[np.bool_] = (y == 0.0) | (y == 1.0)
    return is_event & (calibrated >= 0.0) & (calibrated <= 1.0)


def _losses(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log losses of scores and values, shape ``(n_samples, 2)``; NaN if undefined."""
    raw, calibrated, y = samples.T
    binary = (y == 0.0) | (y == 1.0)
    losses = [
        np.where(binary & (p >= 0.0) & (p <= 1.0), log_losses(y, p), math.nan)
        for p in (raw, calibrated)
    ]
    return np.column_stack(losses)


def _close(closed: list[Vector], period: Vector) -> None:
    """Add a period to those that are closed; merge old ones if there are too many."""
    closed.append(period)
    length = LENGTH
    while True:
        same = [i for i, each in enumerate(closed) if each[2] == length]
        if len(same) <= KEEP:
            return
        older, newer = closed[same[0]], closed[same[1]]
        merged = np.concatenate([newer[:2], older[2:] + newer[2:]])
        closed[same[0] : same[1] + 1] = [merged]
        length *= 2


def _check_periods(periods: NDArray[np.float64]) -> None:
    """Raise unless these can be the periods of a timeline, the open one last."""
    require(len(periods), "there must be an open period")
    ends, times, n, ones, *losses = periods.T
    counts = np.concatenate([ends, n, ones])
    require(np.isfinite([*counts, *times]).all(), "offsets, times and counts must be finite")
    require((counts == np.floor(counts)).all(), "offsets and counts must be whole numbers")
    require((counts <= MOST_COUNT).all(), "offsets and counts must be in range")
    begun = ends if n[-1] else ends[:-1]  # the open one has no end before its first sample
    require((np.diff(begun, prepend=0.0) > 0.0).all(), "periods must be in order")
    require(((ones >= 0.0) & (ones <= n)).all(), "no more labels may be 1 than there are")
    require(0 <= n[-1] < LENGTH, f"the open period must have fewer than {LENGTH} samples")
    levels = np.log2(n[:-1] / LENGTH) if len(n) > 1 else np.empty(0)
    require(are_in(levels, np.arange(44.0)).all(), "a length must be a power of two of the first")
    require((np.diff(levels) <= 0.0).all(), "older periods must not be shorter")
    _, repeats = np.unique(levels, return_counts=True)
    require((repeats <= KEEP).all(), f"there must be at most {KEEP} periods of one length")
    require(not (np.array(losses) < 0.0).any(), "losses must not be negative")
