"""Mixing by likelihood: the weights of predictors, and by how many samples labels are late.

`streamcal.HedgedCalibrator` mixes calibrators, `streamcal.SegmentCalibrator` its models, and
`streamcal.CalibratedClassifier` maps of all labels. Each holds a `Mixture`. The algorithm is in
`streamcal.kernels.hedge`; it is explained in `streamcal.HedgedCalibrator`.
"""

import math
from array import array
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, array_of, as_float, as_int, require
from streamcal._validation import MOST_COUNT, as_number
from streamcal._whole import Step
from streamcal.calibration.clock import Moment, in_seconds, pack_now, unpack_now
from streamcal.calibration.tickets import OtherTicketError, Ticket, check_ticket_type
from streamcal.kernels.hedge import Hedge
from streamcal.kernels.plain import are_in_unit
from streamcal.kernels.state_bytes import are_within

POWERS = 3
"""Rows of weights for each share, once a label was late."""

_MEMORY = 1_000.0  # labels over which the delay is averaged
# Arrays of the variance ratio in a state.
_LATE = ("sums", "lengths", "long_run", "at_once", "totals", "spans", "counts")
# Beyond all that 2**53 samples with the greatest weight add up to; sums and squares stay finite.
_LARGEST_SUM, _LARGEST_SQUARE = 1e80, 1e180


class MeanDelay(NamedTuple):
    """By how many samples labels come late: the mean of about the last 1,000 labels.

    Attributes
    ----------
    n : int
        The number of labels since the first late one.
    mean : float
        The mean of these; labels before the first late one do not count.

    Examples
    --------
    >>> MeanDelay().after(0).after(4).after(2)
    MeanDelay(n=2, mean=3.0)
    """

    n: int = 0
    mean: float = 0.0

    def after(self, late: float) -> "MeanDelay":
        """Return the mean with one more label, which is so late."""
        if not (late or self.mean):
            return self
        n = self.n + 1
        rate = max(1.0 / n, 1.0 / _MEMORY)
        return tuple.__new__(MeanDelay, (n, self.mean + rate * (late - self.mean)))

    def after_each(self, is_label: NDArray[np.bool_]) -> tuple["MeanDelay", NDArray[np.float64]]:
        """Return the mean after samples whose labels are not late, and the mean at each of them.

        ``is_label`` says which samples have a label.
        """
        delay, means = self, np.zeros(len(is_label))
        for at in np.flatnonzero(is_label).tolist() if self.mean else ():
            delay = delay.after(0.0)
            means[at] = delay.mean
        return delay, means


class Row(NamedTuple):
    """A label with what was served.

    ``n_served`` is the number of samples on the ticket, ``answers`` are the predictions on it, and
    ``t`` is when the label came, in seconds, where something forgets by time.
    """

    score: float
    y: float
    w: float
    n_served: float
    answers: tuple[float, ...]
    t: float = math.nan


class Mixture:
    """Predictors with weights by their likelihood.

    Parameters
    ----------
    experts : sequence
        The predictors: compiled ones, calibrators, or `Expert()` if their predictions are always
        given.
    shares : tuple of float or timedelta
        As for `streamcal.HedgedCalibrator`.
    prior : ndarray of shape (n_experts,)
        The initial weights, with sum 1.
    clip : float
        Predictions are clipped to [clip, 1 − clip].
    raw : int
        The place of the expert that predicts the raw score; -1: there is none.
    share_prior : sequence of float, optional
        The initial weight of each share, up to a factor; by default all are equal.

    Attributes
    ----------
    kernel : Hedge
        The compiled weights.
    is_timed : bool
        Whether a share is a timedelta, so that each sample needs its time.
    delay : MeanDelay
        By how many samples labels are late.

    Examples
    --------
    >>> from streamcal.kernels.expert import Expert
    >>> mixture = Mixture([Expert(), Expert()], (0.0,), np.array([0.5, 0.5]), 1e-6, -1)
    >>> for step in mixture.learn_steps(1.0, 1.0, current=np.array([0.9, 0.3])):
    ...     done = step()
    >>> mixture.weights
    [0.75, 0.25]
    """

    def __init__(
        self,
        experts: Sequence[Any],
        shares: tuple[float | timedelta, ...],
        prior: NDArray[np.float64],
        clip: float,
        raw: int,
        share_prior: Sequence[float] | None = None,
    ) -> None:
        self._settings = experts, shares, prior, clip, raw
        self._n, self._n_shares, self._clip = len(experts), len(shares), clip
        self.is_timed = any(isinstance(share, timedelta) for share in shares)
        numbers = tuple(0.0 if isinstance(share, timedelta) else share for share in shares)
        half_lives = tuple(map(in_seconds, shares)) if self.is_timed else None
        self.kernel = Hedge(list(experts), numbers, prior, clip, raw, half_lives)
        self.delay = MeanDelay()
        if share_prior is not None:
            n_samples, n_labels, log_odds, *others = self.kernel.state()[0]
            log_odds[: self._n_shares] = np.log(share_prior) - np.log(max(share_prior))
            self.kernel.restore(n_samples, n_labels, log_odds, *others)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._settings, self.kernel.state()[0], self.delay)

    @property
    def n_samples(self) -> int:
        """How many samples have been learned; a group counts as one."""
        return self.kernel.n_samples

    @property
    def weights(self) -> list[float]:
        """The current weight of each predictor; they sum to 1."""
        weights: list[float] = self.kernel.served_weights().tolist()
        return weights

    # Learning -------------------------------------------------------------------------------------

    def read(self, ticket: Any, n_samples: int | None = None) -> tuple[float, tuple[float, ...]]:
        """Return the number of samples and the predictions on a ticket, or raise.

        ``n_samples`` is how many samples may have been learned when it was made; by default, as
        many as now.
        """
        check_ticket_type(ticket)
        try:
            n_served, answers = ticket
            if type(answers) is not tuple:
                raise TypeError
            n_served = as_number(n_served, "ticket")
            if not are_in_unit(answers):  # JSON may have made integers of them
                answers = tuple(array("d", answers))
        except (TypeError, ValueError, OverflowError):
            raise TypeError(
                f"`ticket` must be a ticket of this calibrator's `serve_one`, got {ticket!r}"
            ) from None
        most = self.kernel.n_samples if n_samples is None else n_samples
        if not 0.0 <= n_served <= most:
            raise OtherTicketError(
                f"`ticket` must come from this calibrator, which has learned {most}"
                f" samples, got one after {n_served:g}"
            )
        n, n_shares = self._n, self._n_shares
        fits = len(answers) in (n + n_shares, n + POWERS * n_shares)
        if not fits or not are_in_unit(answers):
            raise ValueError(
                f"`ticket` must hold answers in [0, 1] of {n} calibrators and of {n_shares} or"
                f" {POWERS * n_shares} mixtures, got {answers}"
            )
        return n_served, answers

    def set_delay(self, delay: MeanDelay) -> Step:
        """Return the step that sets the mean delay."""
        return partial(setattr, self, "delay", delay)

    def learn_row(
        self, row: Row, delay: float, current: Any = None, kind: str | None = None
    ) -> Step:
        """Return the step that learns a label with what was served.

        ``delay`` is the mean delay. ``current`` stands for what the experts predict now. ``kind``
        is that of the times of rows.
        """
        p, y, w, _, answers, t = row
        moment = Moment(t, kind).for_kernel()
        return partial(self.kernel.learn, p, y, w, delay, answers, current, moment)

    def learn_rows(
        self, rows: Sequence[Row], w: float, delay: float, kind: str | None = None
    ) -> Step:
        """Return the step that learns labels with what was served as one group of weight ``w``.

        Its time is that of the last row, or of an earlier one that is newer.
        """
        scores, y, *_ = zip(*rows, strict=True)
        answers = np.array([self.all_answers(row.answers) for row in rows])
        served, mixtures = np.hsplit(answers, [self._n])
        mixtures = mixtures.clip(self._clip, 1.0 - self._clip)
        given = list(scores), np.array(y), w, delay, served.copy(), mixtures
        moment = Moment(max(row.t for row in rows), kind).for_kernel()
        return partial(self.kernel.learn_group, *given, moment)

    def all_answers(self, answers: tuple[float, ...]) -> tuple[float, ...]:
        """Return the predictions on a ticket; those of the rows are repeated for each power."""
        if len(answers) == self._n + self._n_shares:  # served before a label was late
            return answers + answers[self._n :] * (POWERS - 1)
        return answers

    def learn_steps(
        self, y: float, w: float, ticket: Ticket | None = None, *, current: Any, t: float = math.nan
    ) -> list[Step]:
        """Return what learns a label, for predictors whose predictions are given.

        ``current`` are those of now: an array that may be filled later, by a step before these.
        With a ticket, the served ones count. ``t`` is the time in seconds.
        """
        if ticket is None:
            delay = self.delay.after(0.0)
            given = 0.5, y, w, delay.mean, current, None, (t, None)
            learn: Step = partial(self.kernel.learn, *given)
        else:
            row = Row(0.5, y, w, *self.read(ticket), t)
            delay = self.delay.after(self.kernel.n_samples - row.n_served)
            learn = self.learn_row(row, delay.mean, current)
        return [learn, self.set_delay(delay)]

    def group_steps(
        self,
        y: Sequence[float],
        w: float,
        tickets: Sequence[Ticket],
        *,
        current: Any,
        t: float = math.nan,
    ) -> list[Step]:
        """Return what learns the rows of a group, as `learn_steps` does one label."""
        if len(tickets) == 1:  # learned as any other sample
            return self.learn_steps(y[0], w, tickets[0], current=current, t=t)
        pairs = zip(y, tickets, strict=True)
        rows = [Row(0.5, label, w, *self.read(ticket), t) for label, ticket in pairs]
        delay = self.delay.after(mean_lateness(rows, self.kernel.n_samples))
        return [self.learn_rows(rows, w, delay.mean), self.set_delay(delay)]

    # State ----------------------------------------------------------------------------------------

    def freeze(self, take: Any = None) -> tuple[Fields, Arrays, Any]:
        """Return the state as fields for JSON and arrays, and what ``take()`` returns just then."""
        learned, taken = self.kernel.state(take)
        n_samples, n_labels, log_odds, weights, mixed, powers, late, now = learned
        fields = {"n_samples": n_samples, "n_labels": n_labels}
        fields |= {"n_late": self.delay.n, "mean_delay": self.delay.mean}
        fields |= {"now": pack_now(now)} if self.is_timed else {}
        arrays = {"log_odds": log_odds, "weights": weights, "mixed": mixed, "powers": powers}
        return fields, arrays | dict(zip(_LATE, late, strict=True) if late else ()), taken

    def thaw(self, fields: Any, arrays: Arrays) -> None:
        """Restore a state that `freeze` returned, or raise."""
        require(isinstance(fields, dict), "a mixture must have fields")
        late = _read_late(arrays, self._n)
        n_samples = as_int(fields["n_samples"], "n_samples")
        n_labels = as_int(fields["n_labels"], "n_labels", n_samples)
        n_late = as_int(fields["n_late"], "n_late")
        mean_delay = as_float(fields["mean_delay"], "mean_delay", 0.0, MOST_COUNT)
        learned = [arrays[name] for name in ("log_odds", "weights", "mixed", "powers")]
        now = unpack_now(fields["now"]) if self.is_timed else math.nan
        is_known = now == now or not (self.is_timed and n_samples)
        require(is_known, "what has learned must have a time")
        self.kernel.read(n_samples, n_labels, *learned, late, now)
        self.delay = MeanDelay(n_late, mean_delay)


def mean_lateness(rows: Sequence[Row], n_samples: int) -> float:
    """Return by how many samples the labels of a group are late, in the mean."""
    return sum((n_samples - row.n_served) / len(rows) for row in rows)


def _restored(settings: tuple[Any, ...], learned: tuple[Any, ...], delay: MeanDelay) -> Mixture:
    """Return the mixture that was pickled or copied."""
    mixture = Mixture(*settings)
    mixture.kernel.restore(*learned)
    mixture.delay = delay
    return mixture


def _read_late(arrays: Arrays, n: int) -> tuple[NDArray[np.float64], ...]:
    """Return the state of the variance ratio, empty if no label was late, or raise."""
    if _LATE[0] not in arrays:
        return ()
    shapes = ((8, n), (8,), (8, n), (n,), (n,), (8,), (4,))
    late = tuple(array_of(arrays, name, *shape) for name, shape in zip(_LATE, shapes, strict=True))
    for name, part in zip(_LATE, late, strict=True):
        if name in ("sums", "totals"):
            require(are_within(part, -_LARGEST_SUM, _LARGEST_SUM), "sums must be in range")
        else:
            require(are_within(part, 0.0, _LARGEST_SQUARE), "squares must be in range")
    return late
