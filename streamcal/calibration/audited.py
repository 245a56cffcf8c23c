"""Calibration where only some samples are labelled, and the score or the past decides which.

A sample whose label was asked for with probability π, its *propensity*, stands for 1 / π samples.
If only the score, the fields and the past decide, samples of one score are labelled at random, so a
map that is free at each score is right without weights. What is pooled is not: a curve with two
parameters, a prior, the weights of a hedge, and any map if the selection knows more than the score.

A weight of 1 / π would undo the bounds of all learners, which need weights of at most 1. So the
weight is floor / π, where the floor is the least propensity there is. Frequently labelled samples
then count little, and a change that they show is learned late. So there are two maps::

    scores → all labels alike → correction, by propensity
    scores → by propensity

The first follows what changes in all labels, and corrects what the selection hides, which mostly
stays. It does not change a map that is right. The second does not depend on what is learned from
labels that were selected. Which of the two is better depends on the stream, so they are mixed by
what they predicted for a sample of all samples.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._validation import (
    SMALLEST,
    as_probability,
    as_propensity,
    as_vector,
    as_weight,
    as_weights,
    as_within,
    check_order,
    check_same_length,
)
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts, FieldValues
from streamcal.calibration.probability import as_label
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.calibration.two_maps import TwoMaps


class AuditedCalibrator(TwoMaps):
    """Calibrate for all samples, where some are labelled with a known probability.

    Parameters
    ----------
    calibrator : Calibrator, optional
        The prototype, of which there are three clones; it must accept scores and labels in [0, 1].
        By default a `HedgedCalibrator`.
    floor : float
        The least propensity, in (0, 1]. The default is that of an `AuditSampler` with its default
        rate.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    A *propensity* π is the probability with which the label of a sample was asked for: known when
    the sample was served, from the score, the fields and the past alone, and 1 for samples that are
    always labelled. `learn_one` must get it with each label.

    One clone learns all labels alike, which is right where the labels of a score are those of any
    sample of this score. A second one maps its answers, and a third one the scores; both learn with
    the weights floor / π, which is right for any selection with known propensities. These two are
    mixed as in a `HedgedCalibrator`, by their likelihood with the weights floor / π.

    *Cost of being wrong.* If labels come at once, the sum of floor / π times the log loss is at
    most that of the better of the two plus ln 2 + ln 3 = 1.8. Divided by the floor, the sum on the
    left is an unbiased estimate of the log loss of all samples. For this estimate the bound is
    1.8 / floor, and the bound ln N of a hedge of N calibrators becomes ln N / floor.

    Samples that never get a label, not even by an audit, are not learned. Labels that come together
    are learned one by one; for rows that share an outcome call `learn_group`.

    References
    ----------
    Horvitz & Thompson, *A Generalization of Sampling Without Replacement from a Finite Universe*,
    Journal of the American Statistical Association 47, 1952, for the weights 1 / π.

    Examples
    --------
    In the north, where the label 1 is common, all samples are labelled; elsewhere one in fifty. The
    score does not know the region:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> calibrator = AuditedCalibrator(floor=0.02)
    >>> for _ in range(20_000):
    ...     is_north = rng.random() < 0.2
    ...     propensity = 1.0 if is_north else 0.02
    ...     if rng.random() < propensity:
    ...         y = rng.random() < (0.9 if is_north else 0.4)
    ...         calibrator.learn_one(0.5, y, propensity=propensity)
    >>> round(calibrator.predict_one(0.5), 1)  # 0.2 · 0.9 + 0.8 · 0.4
    0.5
    """

    needs_propensity = True
    _map_names = ("all labels, corrected", "by propensity")
    _clone_names = ("alike", "corrected", "weighted")
    _alike: Calibrator
    _corrected: Calibrator
    _weighted: Calibrator

    def __init__(self, calibrator: Calibrator | None = None, *, floor: float = 0.01) -> None:
        self._clone(calibrator)
        self.calibrator = calibrator
        self.floor: float = as_within(floor, "floor", "(0, 1]")

    # One sample -----------------------------------------------------------------------------------

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated probability of a score in [0, 1].

        ``x`` has the values of ``fields``, if the calibrator has any.
        """
        p, given = as_probability(score), self._given_x(x)
        with self._mutex:
            return self._mixed(p, self._answers(self._answer_alike(p, given), p, given))

    def serve_one(self, score: float, x: FieldValues | None = None) -> Prediction:
        """Return `predict_one`, and the ticket to pass back with the label.

        Examples
        --------
        >>> calibrator = AuditedCalibrator(floor=0.02)
        >>> p, ticket = calibrator.serve_one(0.3)
        >>> calibrator.learn_one(0.8, 1, propensity=1.0)  # meanwhile
        >>> calibrator.learn_one(0.3, 0, ticket=ticket, propensity=0.02)
        >>> calibrator.n_samples
        2
        """
        p, given = as_probability(score), self._given_x(x)
        with self._mutex:
            return self._serve(p, given)

    def _serve(self, p: float, given: dict[str, Any]) -> Prediction:
        """Do what `serve_one` does, after checks; the lock is held."""
        alike, of_alike = self._alike.serve_one(p, **given)
        corrected, of_corrected = self._corrected.serve_one(self._checked(alike), **given)
        weighted, of_weighted = self._weighted.serve_one(p, **given)
        answers = self._checked(corrected), self._checked(weighted)
        return self._served(p, alike, answers, of_alike, of_corrected, of_weighted)

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
        propensity: float | None = None,
    ) -> None:
        """Learn the label of a sample.

        Parameters
        ----------
        score : float
            The model's probability, in [0, 1].
        y : float or bool
            The label, in [0, 1].
        w : float
            The weight, from 1e-60 to 1e60.
        x : mapping, optional
            As for `predict_one`.
        ticket : Ticket, optional
            The ticket of `serve_one`, if the label is late.
        t : datetime or float, optional
            The time at which it is learned, if the calibrator forgets by time.
        propensity : float
            The probability with which this label was asked for, in [``floor``, 1].

        Raises
        ------
        ValueError, TypeError
            If an argument is missing or out of range; nothing is learned.
        """
        with self._mutex:
            do_all(*self._steps(score, y, w, Context(x, ticket, t, propensity)))

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not AuditedCalibrator.learn_one:
            return super()._learn_steps(score, y, w, context)
        return self._steps(score, y, w, context)

    def _steps(self, score: float, y: float, w: float, context: Context) -> list[Step]:
        """Return what learns a sample."""
        p, label = as_probability(score), as_label(y)
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        part = self._part(weight, self._read_propensity(context.propensity))
        kind = self._read_time(context.t).kind
        given = self._given_x(context.x)
        q = self._answer_alike(p, given)
        current = np.array(self._answers(q, p, given))
        if context.ticket is None:
            known = self._without_tickets(q)
            learn = self._mixture.learn_steps(label, part, current=current)
        else:
            known = self._read_ticket(context.ticket)
            learn = self._mixture.learn_steps(label, part, known.mixed, current=current)
        alike, corrected, weighted = map(context.with_ticket, known.own)
        return [
            *self._alike._learn_steps(p, label, weight, alike),
            *self._corrected._learn_steps(known.moved, label, part, corrected),
            *self._weighted._learn_steps(p, label, part, weighted),
            *learn,
            *self._kind_steps(kind),
        ]

    def _read_propensity(self, propensity: Any) -> float:
        """Return the propensity of a label, or raise."""
        return as_propensity(propensity, self.floor)

    def _part(self, w: float, propensity: float) -> float:
        """Return the weight of a sample among all samples."""
        return max(w * (self.floor / propensity), SMALLEST)

    def _answer_alike(self, p: float, given: dict[str, Any]) -> float:
        """Return the probability by all labels alike."""
        return self._checked(self._alike.predict_one(p, **given))

    def _answers(self, alike: float, p: float, given: dict[str, Any]) -> tuple[float, float]:
        """Return the two probabilities of a score, whose probability by all labels is known."""
        corrected = self._corrected.predict_one(alike, **given)
        return self._checked(corrected), self._checked(self._weighted.predict_one(p, **given))

    # Many samples ---------------------------------------------------------------------------------

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
        propensity: ArrayLike | None = None,
    ) -> None:
        """Learn samples in the order given, each with its propensity."""
        self.predict_learn_many(scores, y, w, x=x, t=t, propensity=propensity)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
        propensity: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in the order given; see `Calibrator`.

        ``propensity`` has shape ``(n_samples,)``. A sample whose label is NaN is only predicted;
        its propensity does not matter.
        """
        vector = as_vector(scores, "scores")
        labels, weights = as_vector(y, "y", finite=False), as_weights(w, len(vector))
        check_same_length(labels, len(vector), "y")
        check_order(scores, vector, labels)
        checked = self._check_known(vector, labels, weights)
        of_labels = self._read_propensities(propensity, labels)
        read = self._read_contexts(Contexts(x, t=t, propensity=of_labels), len(vector))
        return like_given(self._predict_learn_read(read, checked, labels, weights), scores)

    def _read_propensities(self, propensity: Any, labels: NDArray[np.float64]) -> Any:
        known = ~np.isnan(labels)
        if propensity is None:
            self._read_propensity(None)  # raises
        checked = np.array(as_vector(propensity, "propensity", finite=False))
        check_same_length(checked, len(labels), "propensity")
        for at in np.flatnonzero(known & ~((checked >= self.floor) & (checked <= 1.0)))[:1]:
            self._read_propensity(checked[at])  # raises
        return np.where(known, checked, np.nan)

    def learn_group(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: float = 1.0,
        *,
        x: Sequence[FieldValues] | None = None,
        tickets: Sequence[Ticket | None] | None = None,
        t: Time | None = None,
        propensity: float | None = None,
    ) -> None:
        """Learn rows that share an outcome as one sample; see `Calibrator`.

        ``propensity`` is that of all rows: their labels were asked for together.

        Examples
        --------
        >>> calibrator = AuditedCalibrator(floor=0.02)
        >>> calibrator.learn_group([0.6] * 90, [1] * 90, propensity=0.5)
        >>> calibrator.n_samples
        1
        """
        with self._mutex:
            do_all(*self._steps_of_group(scores, y, w, Contexts(x, tickets, t, propensity)))

    def _group_steps(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        if type(self).learn_group is not AuditedCalibrator.learn_group:
            given = {"x": contexts.x, "tickets": contexts.ticket, "t": contexts.t}
            learn = partial(self.learn_group, propensity=contexts.propensity, **given)
            return [partial(learn, scores, y, w)]
        with self._mutex:
            return self._steps_of_group(scores, y, w, contexts)

    def _steps_of_group(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        """Return what learns rows that share an outcome; the lock is held."""
        vector, labels, _ = self._check_samples(scores, y, None)
        rows = [*contexts.rows(len(vector), fields=bool(self.fields))]
        weight, scores_of = as_weight(w), vector.tolist()
        if len(rows) < 2:  # learned as any other sample
            samples = zip(scores_of, labels.tolist(), rows, strict=True)
            return [step for p, label, c in samples for step in self._steps(p, label, w, c)]
        part = self._part(weight, self._read_propensity(contexts.propensity))
        kind = self._read_time(contexts.t).kind
        # All rows are predicted before any of them is learned.
        served = [
            self._read_ticket(
                self._serve(p, self._given_x(c.x)).ticket if c.ticket is None else c.ticket
            )
            for p, c in zip(scores_of, rows, strict=True)
        ]
        alike, own, mixed = zip(*served, strict=True)
        tickets_of = zip(*own, strict=True)
        steps: list[Step] = []
        for clone, of_scores, v, tickets in zip(
            self._clones,
            (vector, np.array(alike), vector),
            (weight, part, part),
            tickets_of,
            strict=True,
        ):
            steps += clone._group_steps(of_scores, labels, v, contexts._replace(ticket=tickets))
        current = np.full(2, 0.5)  # not used: all rows were served
        steps += self._mixture.group_steps(labels.tolist(), part, mixed, current=current)
        return [*steps, *self._kind_steps(kind)]

    # Shown ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {"floor": self.floor}

    def _describe(self) -> NoReturn:
        raise TypeError(
            "`export` can't bound the error of an AuditedCalibrator, whose map is a map of a map"
        )
