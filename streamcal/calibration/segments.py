"""Calibration that is right for each segment: each country, device, campaign, and their crossings.

A map of the score alone is right on average, and may be wrong for each segment. One calibrator per
segment (`streamcal.KeyedCalibrator`) learns nothing from other segments: a new one starts from
nothing. Here all segments share a base calibrator, and its log odds are corrected by shrunken terms
that are learned online (see `streamcal.kernels.segment_terms`). The corrected probabilities are
mixed with the base's by their likelihood, so that corrections which do not help are not served.
Where only a few segments need one, sparse models correct these and leave all others as they are.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._advice import shown
from streamcal._frames import like_given
from streamcal._locked import Locked
from streamcal._state import (
    Arrays,
    Fields,
    array_of,
    as_float,
    as_int,
    fill,
    nested,
    prefixed,
    require,
    without_prefix,
)
from streamcal._validation import (
    as_probability,
    as_vector,
    as_weight,
    as_weights,
    as_within,
    check_count,
    check_same_length,
)
from streamcal._whole import Step, do_all, write_to
from streamcal.calibration.base import Calibrator, check_calibrator, predict_learn_known
from streamcal.calibration.clock import Time, Times, check_span, or_time
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts, FieldValues, field_column
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.mixture import Mixture
from streamcal.calibration.probability import ProbabilityCalibrator, as_label
from streamcal.calibration.tickets import Prediction, Ticket, check_ticket_type
from streamcal.kernels.exclusive import no_fork
from streamcal.kernels.expert import Expert
from streamcal.kernels.segment_terms import N_MODELS, N_SPEEDS, SegmentTerms
from streamcal.notebook.card import card

Array = NDArray[np.float64]

_MODELS = ("base", "forgetting", "all samples", "forgetting, sparse", "all samples, sparse")
_CLIP = 1e-6  # predictions are clipped to [_CLIP, 1 − _CLIP]
_BASE_PRIOR = 2.0 / 3.0  # of the weights of the models, within each share
_SHARES = {0.0: 0.75, 0.001: 0.25}  # with their prior; 2/3 · 3/4 is 1/2, so the cost is ln 2
_DEVIATIONS = {"intercept": 0.2, "slope": 0.3, "field": 0.2, "crossing": 0.2 / 3.0}
_MOST_FIELDS = 64
_MOST_CROSSED = 10  # fields, whose pairs are all crossed by default
_MOST_TERMS_PER_SAMPLE = 1_000
_MOST_TERMS = 2**31 - 3  # in memory; places are 32-bit
_LONGEST_HALF_LIFE = 1e15
# Of a term in a state: its prior variance, kept in 32 bits, its precision, and its pull, which is
# mean / variance.
_PRIORS, _MOST_PRECISION, _MOST_PULL = (float(np.float32(1e-12)), 1.0), 1.1e12, 3.3e13


class Effect(NamedTuple):
    """A term of the log odds, as `SegmentCalibrator.explain_one` returns it.

    Attributes
    ----------
    segment : dict
        The fields' values; empty for the intercept.
    log_odds : float
        The mean of the term.
    deviation : float
        The standard deviation of the term.
    """

    segment: dict[str, Any]
    log_odds: float
    deviation: float


class SegmentCalibrator(Locked, ProbabilityCalibrator):
    """Calibrate probabilities on average and within each segment, from its first sample on.

    Parameters
    ----------
    fields : sequence of str
        The names of the fields that make segments, 1 to 64.
    crosses : "auto" or sequence of tuples of str
        Which fields are crossed: ``[("country", "device")]`` gives each pair of a country and a
        device a term of its own. "auto" crosses all pairs of up to 10 fields, and none of more.
    base : Calibrator, optional
        The prototype of the calibrator whose probabilities are corrected; it is cloned. By default
        a `HedgedCalibrator`.
    half_life : float or timedelta
        Terms are learned twice, side by side: once from all samples, once forgetting half of what
        was learned of a segment after this number of samples of the stream, from 0.1 to 1e15; or
        after this time. `learn_one` then needs the time ``t`` of each sample, as it does if the
        base forgets by time.
    max_terms : int
        The greatest number of terms, that is, values and crossings of values. If there are more, a
        new one replaces the least informative of eight random ones. At least the number of fields
        and crossings.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, or ``base`` refuses scores or labels in [0, 1].

    Notes
    -----
    The log odds of the base are corrected by an intercept, a slope, and a term for each value of a
    field and each crossing. It is a Bayesian logistic model with independent normal terms, and it
    answers with the mean over its uncertainty. A value that was never seen has a term with mean 0,
    so the sample is treated as its other segments are. The prior variance of each field is learned.

    *Few segments.* Many small terms that are not needed cost more than a few large ones gain, and
    then the base would be served in all segments. So each model has a sparse one beside it. There a
    term with mean m and variance v is 0 with a prior probability of 0.9, and counts with the
    probability π that it is not, given its samples: its mean is π m. If the prior variance of terms
    that are not 0 is S, at least 0.25, π / (1 − π) = sqrt(v / S) · exp(m² / (2 v)) / 9.

    *Cost of being wrong.* The models are mixed as in a `HedgedCalibrator` with the shares 0, of
    prior ¾, and 0.001; the base has the prior ⅔. As ¾ · ⅔ = ½, the total log loss is at most that
    of the base plus ln 2 = 0.69, over the whole stream, if labels come at once and no weight is
    above 1. All predictions, also those of the base, are clipped to [1e-6, 1 − 1e-6]. A larger
    weight w counts as w samples that were predicted before any of them was learned.

    *Values* of fields are text, numbers, booleans or None; a missing field, NaN and ``pandas.NA``
    are None. Values that are equal in Python are one segment. Terms are found by 64-bit hashes of
    the values: of a million terms, two share one with a probability of 3e-8. Whoever can choose
    values could make two terms collide on purpose; they would share their correction, but not slow
    the others down.

    *Time.* With a half-life of time, terms forget when a sample is learned, after it was predicted:
    a prediction is at the time of the newest sample. With one that counts, they have forgotten one
    sample more. A time that goes back counts as equal to the newest one.

    *Memory.* 70 to 90 bytes for each term. Threads may share it: each call is atomic.

    References
    ----------
    Graepel, Candela, Borchert & Herbrich, *Web-Scale Bayesian Click-Through Rate Prediction for
    Sponsored Search Advertising in Microsoft's Bing Search Engine*, ICML 2010, section 3, for an
    online model of this kind with a probit link. MacKay, *The Evidence Framework Applied to
    Classification Networks*, Neural Computation 4, 1992, for the mean over the uncertainty.
    Mitchell & Beauchamp, *Bayesian Variable Selection in Linear Regression*, Journal of the
    American Statistical Association 83, 1988, for terms that may be 0. Vovk, *Aggregating
    Strategies*, COLT 1990, for the bound.

    Examples
    --------
    The model says 0.5 everywhere. In the north 8 of 10 labels are 1, in the south 2 of 10:

    >>> calibrator = SegmentCalibrator(["region", "device"])
    >>> for i in range(1_000):
    ...     calibrator.learn_one(0.5, i % 10 < 8, x={"region": "north", "device": "tv"})
    ...     calibrator.learn_one(0.5, i % 10 < 2, x={"region": "south", "device": "tv"})
    >>> round(calibrator.predict_one(0.5, {"region": "north", "device": "tv"}), 1)
    0.8
    >>> round(calibrator.predict_one(0.5, {"region": "south", "device": "watch"}), 1)
    0.2
    >>> round(calibrator.predict_one(0.5, {"region": "west", "device": "tv"}), 1)
    0.5
    """

    makes_tickets = True

    def __init__(
        self,
        fields: Sequence[str],
        *,
        crosses: Literal["auto"] | Sequence[tuple[str, ...]] = "auto",
        base: Calibrator | None = None,
        half_life: float | timedelta = 16_000.0,
        max_terms: int = 1_000_000,
    ) -> None:
        names = check_fields(fields)
        crossings = check_crosses(crosses, names)
        # There must be room for all terms of one sample.
        check_count(max_terms, "max_terms", len(names) + len(crossings), _MOST_TERMS)
        timed = isinstance(half_life, timedelta)
        if isinstance(half_life, timedelta):
            check_span(half_life, "half_life")
            length = half_life.total_seconds()
        else:
            within = partial(as_within, name="half_life", interval=f"[0.1, {_LONGEST_HALF_LIFE:g}]")
            length = or_time(within, half_life, "half_life")
        prototype = HedgedCalibrator() if base is None else base
        check_calibrator(prototype, "base", propensity=True, scores=True)
        if prototype.needs_propensity:
            raise TypeError(
                "`base` must need no propensity: write"
                f" AuditedCalibrator(SegmentCalibrator({list(names)})), got {shown(prototype)}"
            )
        if prototype._counts_scores:
            raise TypeError(
                "`base` must need no scores without labels: write"
                f" PriorShiftCalibrator(SegmentCalibrator({list(names)})), got {shown(prototype)}"
            )
        self.fields = names  # not the caller's list, which may change
        self.crosses = crosses if isinstance(crosses, str) else tuple(map(tuple, crosses))
        self.base = base
        self.half_life = half_life
        self.max_terms = max_terms
        self._timed = timed
        if timed or prototype.needs_time:
            self.needs_time = True

        self._base = prototype.clone()
        self._base._look_for_no_bursts()  # the terms would learn one by one beside it
        self._terms = SegmentTerms(
            names, crossings, _prior_variances(names, crossings), length, max_terms, timed
        )
        self._mixture = _make_mixture()

    # What it holds --------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        with self._mutex:
            facts = {"samples": self.n_samples, "terms": self.n_terms, "evicted": self.n_evicted}
            return card(self, facts, weights=self._weights(), inside=[self._base._repr_html_()])

    def _shape(self) -> NoReturn:
        raise TypeError(
            "`calibrator` must be a map of scores, but a SegmentCalibrator also depends on the"
            " fields: draw its predictions with `from_predictions`"
        )

    @property
    def n_samples(self) -> int:
        """How many samples have been learned; a group counts as one."""
        return self._mixture.n_samples

    @property
    def n_terms(self) -> int:
        """How many values and crossings of values have a term."""
        return self._terms.n_terms

    @property
    def n_evicted(self) -> int:
        """How many terms were replaced by others, because there were too many."""
        return self._terms.n_evicted

    @property
    def memory_usage(self) -> int:
        """Bytes of memory of the terms."""
        return self._terms.memory_usage

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the base calibrator and of the four corrected models; they sum to 1."""
        with self._mutex:
            return self._weights()

    def _weights(self) -> dict[str, float]:
        return dict(zip(_MODELS, self._mixture.weights, strict=True))

    # One sample -----------------------------------------------------------------------------------

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated probability of a score in [0, 1], for a sample of these segments.

        Parameters
        ----------
        score : float
            The model's probability.
        x : mapping
            The values of the fields; other entries are ignored, so `x` may be all features.

        Raises
        ------
        ValueError, TypeError
            If the score is not in [0, 1], or a field's value is not text, a number or None.
        """
        p, values = as_probability(score), self._values(x)
        with self._mutex:
            return self._terms.predict(self._mixture.kernel, values, self._predict_base(p))

    def serve_one(self, score: float, x: FieldValues | None = None) -> Prediction:
        """Return `predict_one`, and the ticket to pass back with the label.

        Examples
        --------
        >>> calibrator = SegmentCalibrator(["region"])
        >>> p, ticket = calibrator.serve_one(0.3, {"region": "north"})
        >>> calibrator.learn_one(0.8, 1, x={"region": "south"})  # meanwhile
        >>> calibrator.learn_one(0.3, 1, x={"region": "north"}, ticket=ticket)
        >>> p
        0.3
        """
        p, hashes = as_probability(score), self._terms.read(self._values(x))
        with self._mutex:
            return self._serve(p, hashes)

    def _serve(self, p: float, hashes: Any) -> Prediction:
        """Do what `serve_one` does, after checks; the lock is held."""
        base, ticket = self._base.serve_one(p)
        self._check_base(base)
        answers = self._terms.answers(hashes, base)
        n_samples, kernel = self._mixture.n_samples, self._mixture.kernel
        rows = np.asarray(kernel.rows()) @ answers
        of_models = n_samples, (*answers, *rows.clip(0.0, 1.0).tolist())
        served = self._terms.mixture(kernel) if n_samples else base
        return Prediction(served, Ticket((ticket and tuple(ticket), of_models)))

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
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
        x : mapping
            As for `predict_one`.
        ticket : Ticket, optional
            The ticket of `serve_one`, if the label is late. Labels that come together are learned
            one by one: for rows that share an outcome call `learn_group`.
        t : datetime or float
            The time at which it is learned, if ``half_life`` is a timedelta or the base forgets by
            time.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range; nothing is learned.
        """
        with self._mutex:
            do_all(*self._steps(score, y, w, x, ticket, Context(t=t)))

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not SegmentCalibrator.learn_one:
            return super()._learn_steps(score, y, w, context)
        return self._steps(score, y, w, context.x, context.ticket, context)

    def _steps(
        self,
        score: float,
        y: float,
        w: float,
        x: FieldValues | None,
        ticket: Ticket | None,
        context: Context = NO_CONTEXT,
    ) -> list[Step]:
        """Return what learns a sample; of ``context`` the base gets all but the ticket."""
        p, label = as_probability(score), as_label(y)
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        hashes, moment = self._terms.read(self._values(x)), self._read_time(context.t)
        t = moment.seconds
        of_models = None
        if ticket is not None:
            of_base, of_models = self._read_ticket(ticket)
            context = context.with_ticket(of_base)
        base, mixture = self._predict_base(p), self._mixture
        steps = [*self._base._learn_steps(p, label, weight, context)]
        if of_models is None:
            delay = mixture.delay.after(0.0)
            learn = partial(self._terms.learn_and_weigh, mixture.kernel, hashes, base)
            steps += partial(learn, label, weight, delay.mean, t), mixture.set_delay(delay)
        else:
            answers = np.empty(len(_MODELS))  # what the models answer now
            terms = partial(self._terms.learn, hashes, base, label, weight, t)
            steps.append(write_to(answers, slice(None), terms))
            steps += mixture.learn_steps(label, weight, of_models, current=answers)
        self._terms.reserve(1)
        return [*steps, *self._kind_steps(moment.kind)]

    def _values(self, x: FieldValues | None) -> FieldValues:
        """Return the values of the fields, or raise if there are none."""
        if x is None:
            listed = ", ".join(map(repr, self.fields))
            hint = f"; pass x={{{self.fields[0]!r}: …}}"
            raise TypeError(f"`x` must have the values of the fields {listed}, got None{hint}")
        return x

    def _predict_base(self, p: float) -> float:
        """Return the base's probability; raise if it is NaN, which would stay in all terms."""
        base = self._base.predict_one(p)
        self._check_base(base)
        return base

    def _check_base(self, base: float) -> None:
        if base != base:
            raise ValueError(f"`base` must predict numbers, got NaN from {self._base!r}")

    def _read_ticket(self, ticket: Any) -> tuple[Ticket | None, Ticket]:
        """Return the tickets of the base and of the models, or raise."""
        check_ticket_type(ticket)
        try:
            base, models = ticket
            of_base = None if base is None else Ticket(base)
            of_models = Ticket(models)
        except (TypeError, ValueError):
            raise TypeError(
                f"`ticket` must be a ticket of this calibrator's `serve_one`, got {ticket!r}"
            ) from None
        self._mixture.read(of_models)
        if of_base is not None:
            self._base._check_ticket(of_base)
        return of_base, of_models

    @property
    def _mixing(self) -> tuple[tuple[float | timedelta, ...], float] | None:
        return self._base._mixing

    def _check_ticket(self, ticket: Any) -> None:
        with self._mutex:
            self._read_ticket(ticket)

    def _check_fields(self, x: Any) -> None:
        self._terms.read(self._values(x))

    def explain_one(self, x: FieldValues) -> list[Effect]:
        """Return the terms of a sample, those with the largest effect first.

        They are means over the five models by their weights; in the base all terms are 0. The
        slope is left out, because its effect depends on the score.

        Examples
        --------
        >>> calibrator = SegmentCalibrator(["region"])
        >>> for i in range(200):
        ...     calibrator.learn_one(0.5, 1, x={"region": "north"})
        ...     calibrator.learn_one(0.5, 0, x={"region": "south"})
        >>> for effect in calibrator.explain_one({"region": "north"})[:1]:
        ...     print(effect.segment, round(effect.log_odds, 1))
        {'region': 'north'} 3.2
        """
        hashes = self._terms.read(x)
        with self._mutex:
            found = self._terms.effects(hashes)
            weights = np.array(self._mixture.weights[1:])
        names = self._terms.fields
        groups = [(), None, *((i,) for i in range(len(names))), *self._terms.crossings]
        effects = [
            Effect(
                {names[i]: x.get(names[i]) for i in group},
                float(weights @ mean),
                float(np.sqrt(max(weights @ (variance + mean**2) - (weights @ mean) ** 2, 0.0))),
            )
            for group, (mean, variance) in zip(groups, found, strict=True)
            if group is not None
        ]
        return sorted(effects, key=lambda effect: -abs(effect.log_odds))

    # Many samples ---------------------------------------------------------------------------------

    def learn_group(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: float = 1.0,
        *,
        x: Sequence[FieldValues] | None = None,
        tickets: Sequence[Ticket | None] | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn rows that share an outcome, or nearly so, as one sample; see `Calibrator`.

        The weights of the models follow from the mean log loss of the rows. For ``half_life`` each
        row is a sample.

        Examples
        --------
        >>> calibrator = SegmentCalibrator(["team"])
        >>> for won in (1, 0, 1):
        ...     calibrator.learn_group([0.6] * 90, [won] * 90, x=[{"team": "a"}] * 90)
        >>> calibrator.n_samples
        3
        """
        with self._mutex:
            do_all(*self._steps_of_group(scores, y, w, Contexts(x, tickets, t)))

    def _group_steps(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        if type(self).learn_group is not SegmentCalibrator.learn_group:
            given = {"x": contexts.x, "tickets": contexts.ticket}
            given |= {"t": contexts.t} if self.needs_time else {}
            return [partial(self.learn_group, scores, y, w, **given)]
        with self._mutex:
            return self._steps_of_group(scores, y, w, contexts)

    def _steps_of_group(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> list[Step]:
        """Return what learns rows that share an outcome; the lock is held."""
        vector, labels, _ = self._check_samples(scores, y, None)
        n_rows, weight = len(vector), as_weight(w)
        rows = [*contexts.rows(n_rows, fields=True)]
        samples = list(zip(vector.tolist(), labels.tolist(), strict=True))
        steps: list[Step] = []
        if n_rows < 2:  # learned as any other sample
            for sample, context in zip(samples, rows, strict=True):
                steps += self._learn_steps(*sample, weight, context)
            return steps
        part, moment = as_weight(weight / n_rows), self._read_time(contexts.t)
        hashes = [self._terms.read(x) for x in contexts.x]
        # All rows are predicted before any of them is learned.
        known = [
            self._read_ticket(self._serve(p, of_row).ticket if c.ticket is None else c.ticket)
            for (p, _), of_row, c in zip(samples, hashes, rows, strict=True)
        ]
        of_base, of_models = zip(*known, strict=True)
        bases = [self._predict_base(p) for p, _ in samples]
        of_base_rows = contexts._replace(ticket=of_base)
        steps += self._base._group_steps(vector, labels, weight, of_base_rows)
        answers = np.empty(len(_MODELS))
        for row in zip(hashes, bases, labels.tolist(), strict=True):
            steps.append(partial(self._terms.learn, *row, part, moment.seconds))
        steps += self._mixture.group_steps(labels.tolist(), weight, of_models, current=answers)
        self._terms.reserve(n_rows)
        return [*steps, *self._kind_steps(moment.kind)]

    def predict_many(self, scores: ArrayLike, x: Any = None) -> Array:
        """Return the calibrated probabilities of ``scores``, shape ``(n_samples,)``.

        ``x`` is as for `predict_learn_many`. For a Series they are one, as in
        `Calibrator.predict_many`.
        """
        vector = as_vector(scores, "scores")
        unknown = np.full(len(vector), np.nan)
        checked, hashes = self._check_scores(vector), self._read_hashes(x, len(vector))
        values = self._predict_learn_read(hashes, checked, unknown, np.ones(len(vector)))
        return like_given(values, scores)

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> None:
        """Learn samples in the order given; see `predict_learn_many`."""
        self.predict_learn_many(scores, y, w, x=x, t=t)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> Array:
        """Predict each sample, then learn it, in the order given.

        Parameters
        ----------
        scores, y, w : array_like of shape (n_samples,)
            The model's probabilities, labels in [0, 1] and weights. A sample whose label is NaN is
            only predicted.
        x : mapping or data frame
            For each field a column of ``n_samples`` values.
        t : array_like of shape (n_samples,), optional
            The time of each sample, if one is needed; see `learn_one`.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
            Those of `predict_one` before the label of the sample was learned; a Series if
            ``scores`` is one, as in `predict_many`.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range or lengths differ; nothing is learned.
        """
        vector = as_vector(scores, "scores")
        labels = as_vector(y, "y", finite=False)
        weights = as_weights(w, len(vector))
        checked = self._check_known(vector, labels, weights)
        read = self._read_contexts(Contexts(x, t=t), len(vector))
        return like_given(self._predict_learn_read(read, checked, labels, weights), scores)

    def _check_known(self, scores: Array, labels: Array, w: Array) -> Array:
        check_same_length(labels, len(scores), "y")
        known = ~np.isnan(labels)
        checked = self._check_samples(scores[known], labels[known], w[known])
        self._base._check_samples(*checked)
        scores = scores.copy()
        scores[known] = checked[0]
        scores[~known] = self._check_scores(scores[~known])
        return scores

    def _read_contexts(self, contexts: Contexts, n_samples: int) -> NDArray[np.uint64]:
        """Return the hashes of the fields' values, shape ``(n_samples, n_fields)``, or raise.

        Where time is needed, the bits of what `Times.pack` returns are behind them.
        """
        hashes = self._read_hashes(contexts.x, n_samples)
        times = self._read_times(contexts.t, n_samples)
        return hashes if times is None else np.hstack([hashes, times.pack().view(np.uint64)])

    def _read_hashes(self, x: Any, n_samples: int) -> NDArray[np.uint64]:
        given = self._values(x)
        values = [field_column(given, name, n_samples) for name in self._terms.fields]
        return self._terms.read_columns(values, n_samples)

    def _predict_learn_read(self, read: Any, scores: Array, labels: Array, weights: Array) -> Array:
        with self._mutex, no_fork:
            known = ~np.isnan(labels)
            delay, delays = self._mixture.delay.after_each(known)
            bases, mixtures = np.empty(len(scores)), np.empty(len(scores))
            hashes, times = self._split_read(read)
            seconds = None if times is None or not self._timed else times.seconds
            arrays = hashes, bases, labels, weights, delays, seconds
            learn = partial(self._terms.predict_learn_many, self._mixture.kernel, *arrays)
            of_base = times if self._base.needs_time else None
            samples = scores, labels, weights
            steps = self._base._batch_steps(*samples, bases, of_base) if known.all() else None
            if steps is None:
                bases[:] = predict_learn_known(self._base, *samples, of_base)
                if np.isnan(bases).any():
                    raise ValueError(f"`base` must predict numbers, got NaN from {self._base!r}")
            do_all(
                *(steps or ()),
                write_to(mixtures, slice(None), learn),
                self._mixture.set_delay(delay),
                *self._kind_steps(None if times is None else times.kind),
            )
            return mixtures

    def _split_read(self, read: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Times | None]:
        """Return hashes and times of which `_read_contexts` made an array."""
        n = len(self._terms.fields)
        if read.shape[1] == n:
            return read, None
        packed = np.ascontiguousarray(read[:, n:]).view(np.float64)
        return np.ascontiguousarray(read[:, :n]), Times.unpack(packed)

    # State ----------------------------------------------------------------------------------------

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            numbers, *arrays = self._terms.state()
            base = nested(self._base)
            mixture, of_mixture, _ = self._mixture.freeze()
        fields: Fields = dict(zip(_NUMBERS, numbers[: len(_NUMBERS)], strict=True))
        if self._timed:
            passed, now = numbers[len(_NUMBERS) :]
            fields |= {"passed": passed, **self._freeze_clock(now)}
        else:
            fields |= self._freeze_kind()
        named = dict(zip(_ARRAYS, arrays, strict=True))
        return {**fields, "mixture": mixture}, {
            **named,
            **prefixed("mixture", of_mixture),
            "base": base,
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        fill(self._base, arrays, "base")
        numbers: list[float] = [*_read_numbers(fields)]
        if self._timed:
            numbers += as_float(fields["passed"], "passed", 0.0), self._thaw_clock(fields)
        else:
            self._thaw_kind(fields)
        n_groups = len(self._terms.learned_variances)
        passed = numbers[4] if self._timed else None
        terms = _read_terms(arrays, numbers[0], n_groups, self.max_terms, passed)
        self._mixture.thaw(fields["mixture"], without_prefix("mixture", arrays))
        self._terms.restore(numbers, *terms)


_NUMBERS = ("n_samples", "n_evicted", "centre", "random")
_ARRAYS = ("squares", "effective", "keys", "groups", "learned", "precisions", "pulls", "priors")


def _read_numbers(fields: Fields) -> tuple[int, int, float, int]:
    """Return the numbers of a state, or raise."""
    return (
        as_int(fields["n_samples"], "n_samples"),
        as_int(fields["n_evicted"], "n_evicted"),
        as_float(fields["centre"], "centre", -20.0, 20.0),
        as_int(fields["random"], "random", 0, 2**64 - 1),
    )


def _read_terms(
    arrays: Arrays, n_samples: float, n_groups: int, max_terms: int, passed: float | None
) -> list[NDArray[Any]]:
    """Return the terms of a state, or raise."""
    squares, effective = (
        array_of(arrays, name, n_groups, N_SPEEDS) for name in ("squares", "effective")
    )
    keys = array_of(arrays, "keys", None, dtype=np.int64)
    n = len(keys)
    require(n <= 2 + max_terms, "there must be at most `max_terms` terms")
    groups = array_of(arrays, "groups", n, dtype=np.int64)
    learned = array_of(arrays, "learned", n)
    precisions, pulls, priors = (
        array_of(arrays, name, n, N_SPEEDS) for name in ("precisions", "pulls", "priors")
    )
    require(n >= 2 and groups[:2].tolist() == [0, 1], "intercept and slope must come first")
    require(((groups[2:] >= 2) & (groups[2:] < n_groups)).all(), "terms must be of a group")
    require(len(np.unique(keys[2:])) == n - 2, "terms must be different")
    if passed is None:
        whole = learned == np.floor(learned)
        in_order = whole & (learned < max(n_samples, 1))
        require(in_order.all(), "terms must learn whole samples")
    else:
        require((learned <= passed).all(), "terms must have learned before now")
    new = learned[:2] < 0.0
    require(
        (new == (n_samples == 0)).all() and (learned[2:] >= 0.0).all(), "terms must have learned"
    )
    least, most = _PRIORS
    known = priors[learned >= 0.0]
    require(((known >= least) & (known <= most)).all(), "prior variances must be in range")
    in_range = (precisions >= 0.0) & (precisions <= _MOST_PRECISION) & (np.abs(pulls) <= _MOST_PULL)
    require(in_range.all(), "precisions and pulls must be in range")
    return [squares, effective, keys, groups, learned, precisions, pulls, priors]


def check_fields(fields: Any, argument: str = "fields") -> tuple[str, ...]:
    """Return the names of fields, or raise."""
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of names, got {fields!r}")
    names = tuple(fields)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must be names, got {name!r}")
    if not 1 <= len(names) <= _MOST_FIELDS or len(set(names)) < len(names):
        raise ValueError(
            f"`{argument}` must be 1 to {_MOST_FIELDS} different names, got {fields!r}"
        )
    return names


def check_crosses(crosses: Any, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the indices of the fields of each crossing."""
    if isinstance(crosses, str):
        if crosses != "auto":
            raise ValueError(f"`crosses` must be 'auto' or tuples of fields, got {crosses!r}")
        few = range(len(names)) if len(names) <= _MOST_CROSSED else ()
        return tuple(combinations(few, 2))
    if not isinstance(crosses, Sequence):
        raise TypeError(f"`crosses` must be 'auto' or tuples of fields, got {crosses!r}")
    found = []
    for crossing in crosses:
        if isinstance(crossing, str) or not isinstance(crossing, Sequence):
            raise TypeError(f"`crosses` must hold tuples of fields, got {crossing!r}")
        if len(set(crossing)) < max(2, len(crossing)) or not set(crossing) <= set(names):
            raise ValueError(
                f"`crosses` must hold tuples of two or more different `fields`, got {crossing!r}"
            )
        found.append(tuple(sorted(names.index(name) for name in crossing)))
    if len(set(found)) < len(found) or len(found) + len(names) > _MOST_TERMS_PER_SAMPLE:
        raise ValueError(
            f"`crosses` must be different, and with the fields at most {_MOST_TERMS_PER_SAMPLE},"
            f" got {crosses!r}"
        )
    return tuple(found)


def _prior_variances(names: Sequence[str], crossings: Sequence[Any]) -> Array:
    kinds = ["intercept", "slope", *["field"] * len(names), *["crossing"] * len(crossings)]
    return np.array([_DEVIATIONS[kind] ** 2 for kind in kinds])


def _make_mixture() -> Mixture:
    """Return a mixture of the models; the first one is the base, whose score is the raw one."""
    prior = np.array([_BASE_PRIOR, *[(1.0 - _BASE_PRIOR) / N_MODELS] * N_MODELS])
    shares, share_prior = tuple(_SHARES), tuple(_SHARES.values())
    return Mixture([Expert()] * len(_MODELS), shares, prior, _CLIP, 0, share_prior)
