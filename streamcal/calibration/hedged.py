"""A mixture of calibrators that is never much worse than the best of them.

On real streams no calibrator is always the best: a short window is good after a change and noisy
at other times, and a model that is calibrated already needs no map. A hedge therefore runs several
calibrators and serves the weighted mean of their predictions. The weight of a calibrator is
proportional to the likelihood of its predictions so far. For log loss the regret is small on every
stream: the total loss is at most that of the best of N calibrators plus ln N (Vovk 1990). With a
prior π, put −ln π_i for ln N: 1.5 to 3.8 nats in the default set, over the whole stream.

The best calibrator may change in time. A share α of the weight is therefore distributed again after
each sample, so that a calibrator with a small weight can recover (Herbster & Warmuth 1998). The
best α is unknown, so several are used and mixed by the same rule; K shares add ln K to the regret.

The weights depend on the predictions that were *served*. When a label is delayed, the current
prediction differs from the served one: a `Ticket` keeps what was served until the label arrives.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, array_of, fill, nested, require
from streamcal._validation import LARGEST, SMALLEST, as_probabilities, as_probability, as_weight
from streamcal._whole import Step, do_all, write_to
from streamcal.calibration.base import Calibrator
from streamcal.calibration.bursts import (
    LEARN_ONE_BY_ONE,
    MOST_HELD,
    Evidence,
    is_no_outcome,
    read_evidence,
)
from streamcal.calibration.clock import NO_MOMENT, Moment, Time, Times, as_times, maker_of
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts, FieldValues
from streamcal.calibration.hedge_parameters import as_list, check_prior, check_shares, names_of
from streamcal.calibration.identity import IdentityCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.mixture import POWERS, MeanDelay, Mixture, Row, mean_lateness
from streamcal.calibration.platt import PlattCalibrator
from streamcal.calibration.probability import ProbabilityCalibrator, as_label, check_clip
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.export.curve import mixture
from streamcal.export.description import Description, unlearned
from streamcal.kernels.exclusive import no_fork
from streamcal.kernels.expert import Expert
from streamcal.notebook.shape import Samples, Shape

_Answer = TypeVar("_Answer")


class HedgedCalibrator(Locked, ProbabilityCalibrator):
    """Mix calibrators by their likelihood; nearly as good as the best if labels come at once.

    Parameters
    ----------
    calibrators : sequence of Calibrator, optional
        Prototypes, cloned; they must accept scores and labels in [0, 1]. None means
        `default_calibrators`: the score itself; Platt scaling of all samples, and with half-lives
        of 500 and 100; staircases over the last 200, 1,000 and 10,000 samples.
    prior : sequence of float, optional
        The initial weight of each calibrator, from 1e-60 to 1e60; divided by their sum. By default
        all are equal; in the default set, short memories have less (`DEFAULT_PRIOR`).
    share : float, timedelta or tuple of these
        The share α of the weight that is distributed again by the prior after each sample: 0, or
        from 1e-60 to below 1. Several shares, all different, run side by side and are mixed. A
        share of 0 competes with the best single calibrator, any other with the best sequence of
        calibrators; 1/α is about how long one of them stays the best. A timedelta is a half-life:
        after it, half of the weight has been distributed again, however many samples came.
    clip : float
        Predictions are clipped to [clip, 1 − clip]; ``clip`` is in [1e-15, 0.5). Naive Bayes and
        trees predict 0 and 1, which may have an infinite loss.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range, or a calibrator refuses the labels 0 and 1.

    Notes
    -----
    *Immediate labels.* On any stream, with N calibrators and K shares of which one is 0, the total
    log loss is at most that of the best calibrator in hindsight plus ln N + ln K (all predictions
    clipped); with ``share=0`` plus ln N. With a prior π, put −ln π_i for ln N. By default the sum
    is 2.6 for the calibrators of the longest memory and 4.9 for that of the shortest, over the
    whole stream. For each share α the loss is at most that of any *sequence* of calibrators that
    changes m times in n samples, plus ln K + (m + 1) ln N − m ln α − (n − m − 1) ln(1 − α). Weights
    w ≤ 1 keep this bound for the weighted loss. A larger weight counts as w samples that were
    predicted before any of them was learned.

    *Labels d samples late.* When a label arrives, the calibrators have learned d other samples, and
    their predictions differ from those that were served. Serve by `serve_one`, keep its ticket, and
    pass it back: ``learn_one(score, y, ticket=ticket)``. Delays may vary; their mean is learned.
    Without a ticket a label is taken to be immediate.

    The likelihoods of late labels are raised to a power η = 1 / VR, the learning rate. The variance
    ratio VR estimates how many consecutive labels carry the information of one. It is the variance
    of sums of the calibrators' losses over windows of 4 d + 1 labels, divided by the variance that
    independent losses would have; d is the recent mean delay. A delay alone does not increase the
    loss, but the dependence of losses within the delay does: for independent losses η is 1; if the
    rows of one event share their outcome, VR is about the number of these rows. VR starts at d + 1.
    The hedge has three mixtures for each share. The first uses η, and multiplies the share by it.
    The second uses a learning rate of 1. So does the third, with the likelihoods of what the
    calibrators predict when the label arrives, just before they learn it. A served prediction is as
    old as its label and shows a calibrator as it was then; the current one shows what it has
    learned since, but is too good where consecutive labels depend on each other. So the weights of
    all these mixtures are computed from the predictions that they *served*, which the ticket
    contains. Their learning rate is 1 / VR, too, where VR is computed from the losses less their
    mean so far: a calibrator that is always better does not make losses dependent. Mixtures of the
    third kind have half of the prior of others, and none before a label has shown a difference
    between served predictions. In a group, served predictions stand for current ones. The raw
    score, if it is one of the calibrators, is mixed with them, with a prior of (1 − η) / 2.

    The bound above holds for d = 0, where VR is 1. For a constant η the total loss is at most that
    of the raw score plus ln(1 / prior) / η, plus a term for how far the weights move within the
    delay. No bound is known for a variable η. (Interleaving d + 1 hedges would guarantee
    (d + 1) ln N. On some constructed streams of two calibrators, with labels one sample late, this
    hedge loses more than that. On every measured stream it lost less.)

    *Rows that share an outcome*, as those of one game, count as one sample if `learn_group` gets
    them.

    *Bursts.* Labels that are learned with tickets, with no prediction between them, are a burst.
    The hedge learns it as one group if labels of bursts share an outcome, as when a game ends, and
    one by one if they are independent, as in a nightly batch. The first bursts are groups if their
    labels are equal and this would be unlikely for independent labels, even with a score that is
    wrong by 2 log odds; later ones while (Σ(y − p))² / Σp(1 − p), without what a wrong score
    explains, has a mean above 3 (`streamcal.calibration.bursts`). If once they are not, all labels
    are learned one by one from then on. Each prediction (`predict_one`, `predict_many`,
    `serve_one`) closes the open burst, as does a label without a ticket, or the 10,000th label.
    Until then its labels wait, unless bursts are known to be no groups. Waiting labels are part of
    the state, of copies and of `to_bytes`. Properties and `snapshot` include them and leave the
    burst open, so watch a hedge by a snapshot. A group has the mean of its rows' weights. A hedge
    with calibrators that may refuse a sample learns all labels one by one.

    *Time.* If a calibrator forgets by time (its half-life or window is a timedelta), each sample
    needs its time ``t``, when it is learned; those calibrators get it. A late label ages from when
    it comes. In a burst that is learned as a group all labels age from the newest one. Delays count
    samples.

    A share that is a half-life h needs times, too. Then α = 1 − 2^(−g/h), where g is the time from
    the sample before to the one that is learned: 0 for the first one, and for a time that goes
    back. At a constant rate this is counting with that α from the second sample on. The bound for
    sequences holds with −Σ ln(1 − 2^(−g/h)) for −m ln α, a sum over the changes, where a change
    after a sample has its g; and with T/h · ln 2 for −(n − m − 1) ln(1 − α), where T is the time of
    the whole stream. So it costs the same to stay for a day, whether ten samples came or a million;
    after a long gap a change is nearly free; and no change is between samples of one time. For late
    labels such a share is multiplied by η like any other.

    *Calibrators of your own* may raise an error. If the first of them refuses a sample, nothing has
    changed. If a later one does, it skips the sample; all others and the weights learn it, and then
    the error is raised. In a batch the samples before it are learned, and those after it are not.

    A sample costs as much as all calibrators together. One compiled call runs those of the default
    set, beta and histogram calibrators, and any `IsotonicCalibrator` for log loss with linear
    interpolation.

    References
    ----------
    Vovk, *Aggregating Strategies*, COLT 1990. Herbster & Warmuth, *Tracking the Best Expert*,
    Machine Learning 32, 1998. Weinberger & Ordentlich, *On Delayed Prediction of Individual
    Sequences*, IEEE Transactions on Information Theory 48, 2002, on interleaving. Newey & West, *A
    Simple, Positive Semi-Definite, Heteroskedasticity and Autocorrelation Consistent Covariance
    Matrix*, Econometrica 55, 1987. Ribatet, Cooley & Davison, *Bayesian Inference from Composite
    Likelihoods*, Statistica Sinica 22, 2012, on likelihoods raised to a power.

    Examples
    --------
    The model predicts 0.6, and nine labels in ten are 1:

    >>> calibrator = HedgedCalibrator()
    >>> for i in range(300):
    ...     calibrator.learn_one(0.6, i % 10 > 0)
    >>> round(calibrator.predict_one(0.6), 2)
    0.9
    >>> max(calibrator.weights, key=calibrator.weights.get)
    'IsotonicCalibrator(window=10000)'
    """

    makes_tickets = True
    _not_copied = ("_mutex", "_mixture", "_kernel", "_closed")  # a mixture is made of the copies

    def __init__(
        self,
        calibrators: Sequence[Calibrator] | None = None,
        *,
        prior: Sequence[float] | None = None,
        share: float | timedelta | tuple[float | timedelta, ...] = (0.0, 0.001, 0.01),
        clip: float = 1e-6,
    ) -> None:
        check_clip(clip)
        shares = check_shares(share)
        if calibrators is None:
            own, names = default_calibrators(), _default_names()
        else:
            prototypes = as_list(calibrators)
            own, names = [each.clone() for each in prototypes], names_of(prototypes)
        n = len(own)
        usual = DEFAULT_PRIOR if calibrators is None else [1.0] * n
        weights = check_prior(usual if prior is None else prior, n)
        self.calibrators = calibrators
        self.prior = prior
        self.share = share
        self.clip = clip

        self._names = names
        self._evidence = Evidence()
        self._held: list[Row] = []  # the labels of the open burst; the compiled hedge looks at it
        # A copy without open burst, for those who read, and what was learned and held then.
        self._closed: tuple[int, int, Self] | None = None
        is_timed = any(isinstance(each, timedelta) for each in shares)
        if is_timed or any(calibrator.needs_time for calibrator in own):
            self.needs_time = True
        self._shares = shares
        self._weights = weights / weights.sum()
        self._set_calibrators(own)

    def _set_calibrators(self, calibrators: list[Calibrator]) -> None:
        """Mix these calibrators, with their states; the weights are those of the prior."""
        self._calibrators = calibrators
        experts = [calibrator._compiled() or calibrator for calibrator in calibrators]
        kinds = [type(calibrator) for calibrator in calibrators]
        raw = kinds.index(IdentityCalibrator) if IdentityCalibrator in kinds else -1
        self._mixture = Mixture(experts, self._shares, self._weights, self.clip, raw)
        self._kernel = self._mixture.kernel  # for calls that are made for each sample
        self._kernel.held = self._held
        if not all(
            isinstance(expert, Expert) or calibrator._learns_all()
            for expert, calibrator in zip(experts, calibrators, strict=True)
        ):
            self._look_for_no_bursts()  # a label that is held would be refused too late

    def _look_for_no_bursts(self) -> None:
        """Learn all labels one by one from now on, also those that arrive together."""
        self._evidence = LEARN_ONE_BY_ONE

    def _facts(self) -> dict[str, float]:
        return {"mean delay": self.mean_delay} if self.mean_delay else {}

    def _weights_shown(self) -> dict[str, float]:
        return self.weights

    def _shape(self) -> Shape:
        closed = self._without_burst()
        return super()._shape() if closed is self else closed._shape()

    def _kept_scores(self) -> Samples:
        """Return the scores of the calibrator that keeps most of them."""
        kept = [calibrator._kept_scores() for calibrator in self._without_burst()._calibrators]
        return max(kept, key=lambda samples: float(samples[1].sum()))

    def _describe(self) -> Description:
        if not self.n_samples:
            return unlearned(0.0, 1.0, of_probabilities=True)
        curves = [calibrator._map().curve for calibrator in self._calibrators]
        weights = self._mixture.weights
        return Description(mixture(self.predict_many, curves, weights, self.clip))

    def _copy_state(self, memo: dict[int, Any]) -> dict[str, Any]:
        copy_parts = partial(super()._copy_state, memo)
        learned, state = self._kernel.state(copy_parts)
        return {**state, "_learned": (learned, self._mixture.delay)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        learned, delay = state.pop("_learned")
        super().__setstate__(state)
        self._closed = None
        self._set_calibrators(self._calibrators)
        self._kernel.restore(*learned)
        self._mixture.delay = delay

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            fields, arrays, states = self._mixture.freeze(
                lambda: [nested(calibrator) for calibrator in self._calibrators]
            )
            evidence, held = self._evidence, list(self._held)
        arrays |= {str(i): state for i, state in enumerate(states)}
        if held:
            all_answers = self._mixture.all_answers
            arrays["held"] = np.array([(*row[:4], *all_answers(row.answers)) for row in held])
        if held and self.needs_time:
            arrays["times"] = np.array([row.t for row in held])
        return {**fields, "bursts": list(evidence), **self._freeze_kind()}, arrays

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        calibrators, share = parameters.get("calibrators"), parameters.get("share")
        if isinstance(calibrators, list | tuple | None) and isinstance(share, list | tuple):
            n = len(DEFAULT_PRIOR if calibrators is None else calibrators)
            room = array_of(arrays, "weights", None, n).shape[0]
            require(len(share) <= room, "there must be weights for each share")

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        for i, calibrator in enumerate(self._calibrators):
            fill(calibrator, arrays, str(i))
        self._mixture.thaw(fields, arrays)
        self._thaw_kind(fields)
        self._evidence = read_evidence(fields["bursts"])
        self._held += self._read_held(arrays) if "held" in arrays else []
        is_possible = not self._held or self._evidence.shared is not False
        require(is_possible, "only possible bursts are held")

    def _read_held(self, arrays: Arrays) -> list[Row]:
        """Return the labels of the open burst in a state, or raise."""
        n_answers = len(self._names) + POWERS * len(self._shares)
        held = array_of(arrays, "held", None, 4 + n_answers)
        require(0 < len(held) < MOST_HELD, "an open burst must have labels, and room for one")
        weights = held[:, 2]
        require(
            ((weights >= SMALLEST) & (weights <= LARGEST)).all(),
            "weights of held labels must be in range",
        )
        served, others = held[:, 3], np.delete(held, (2, 3), axis=1)
        require(((others >= 0.0) & (others <= 1.0)).all(), "held labels must be in [0, 1]")
        most = self._mixture.n_samples
        require(((served >= 0.0) & (served <= most)).all(), "tickets must be of this hedge")
        times = np.full(len(held), np.nan)
        if self.needs_time:
            times = as_times(array_of(arrays, "times", len(held)), len(held)).seconds
            require(self._kind is not None, "times must be of a kind")
        return [
            Row(p, y, w, at, tuple(answers), t)
            for (p, y, w, at, *answers), t in zip(held.tolist(), times.tolist(), strict=True)
        ]

    # Weights --------------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """How many samples have been learned; a group counts as one."""
        return self._without_burst()._mixture.n_samples

    @property
    def names(self) -> tuple[str, ...]:
        """The calibrators by name, in the order in which they were given."""
        return self._names

    @property
    def weights(self) -> dict[str, float]:
        """The current weight of each calibrator; the weights sum to 1."""
        return dict(zip(self._names, self._without_burst()._mixture.weights, strict=True))

    @property
    def share_weights(self) -> dict[float | timedelta, float]:
        """The weight of each share; a key is as it was given."""
        weights = self._without_burst()._mixture.kernel.share_weights()
        return dict(zip(self._shares, weights.tolist(), strict=True))

    @property
    def mean_delay(self) -> float:
        """By how many samples labels come late: the mean since the first late one.

        It is the mean of about the last 1,000 labels. A label without a ticket counts as 0.
        """
        return self._without_burst()._mixture.delay.mean

    # Bursts ---------------------------------------------------------------------------------------

    @property
    def _mixing(self) -> tuple[tuple[float | timedelta, ...], float] | None:
        return self._shares, self.clip

    def _has_open_burst(self) -> bool:
        """Return whether labels wait for the next prediction."""
        return bool(self._held)

    def _close_burst(self) -> None:
        """Learn the labels of the open burst, if there is one: a prediction ends it."""
        with self._mutex:
            if len(self._held) == 1:
                learn, set_known = self._steps_of_lone(self._held[0], self._kind)
                self._do((learn, self._held.clear, set_known))
            else:
                self._do(self._plan_to_close().steps)

    def _ask(self, predict: Callable[..., _Answer | None], *given: Any) -> _Answer:
        """Return a prediction of the compiled hedge, which returns None while labels wait."""
        answer = predict(*given)
        while answer is None:
            self._close_burst()
            answer = predict(*given)
        return answer

    def _plan(self) -> "_Plan":
        """Return a plan without steps."""
        delay, evidence = self._mixture.delay, self._evidence
        return _Plan([], self._mixture.n_samples, delay, evidence, self._kind)

    def _plan_to_close(self, kind: str | None = None) -> "_Plan":
        """Return the plan that closes the open burst, if there is one.

        ``kind`` is that of the times of what is learned then.
        """
        plan = self._plan()
        plan.kind = kind or plan.kind
        if self._held:
            self._plan_burst(plan, self._held)
        return plan

    def _plan_burst(self, plan: "_Plan", rows: list[Row]) -> None:
        """Learn rows as the evidence says, of which they are a part; none are held then."""
        if len(rows) > 1 and plan.evidence.shared is not False:
            plan.evidence = self._evidence_after(plan, rows)
        if len(rows) > 1 and plan.evidence.shared:
            mean_weight = sum(row.w for row in rows) / len(rows)
            self._plan_group(plan, rows, max(mean_weight, SMALLEST * len(rows)))
        else:
            for row in rows:
                self._plan_row(plan, row)
        if self._held:
            plan.steps.append(self._held.clear)
        plan.steps.append(self._set_known(plan))

    def _plan_row(self, plan: "_Plan", row: Row) -> None:
        """Learn a sample with its ticket."""
        delay = plan.count(plan.n_samples - row.n_served)
        plan.steps.append(self._mixture.learn_row(row, delay, kind=plan.kind))

    def _steps_of_lone(self, row: Row, kind: str | None) -> tuple[Step, Step]:
        """Return what learns a label with a ticket by itself, as `_plan_row` does."""
        mixture = self._mixture
        delay = mixture.delay.after(mixture.kernel.n_samples - row.n_served)
        learn = mixture.learn_row(row, delay.mean, kind=kind)
        return learn, self._set_delay(delay, kind)

    def _plan_group(self, plan: "_Plan", rows: list[Row], w: float) -> None:
        """Learn samples with the tickets of their predictions as one group of weight ``w``."""
        delay = plan.count(mean_lateness(rows, plan.n_samples))
        plan.steps.append(self._mixture.learn_rows(rows, w, delay, plan.kind))

    def _plan_late(self, row: Row, kind: str | None) -> "_Plan":
        """Return the plan that learns a label with a ticket, or lets it wait for its burst."""
        plan, held = self._plan(), self._held
        plan.kind = kind or plan.kind
        if row.n_served > plan.n_samples:  # the prediction of this ticket has closed the burst
            self._plan_burst(plan, held)
            held, row = [], row._replace(n_served=min(row.n_served, plan.n_samples))
        if plan.evidence.shared is None and (row.y != held[0].y if held else is_no_outcome(row.y)):
            plan.evidence = LEARN_ONE_BY_ONE
        if plan.evidence.shared is False or len(held) >= MOST_HELD - 1:
            self._plan_burst(plan, [*held, row])
        else:
            plan.steps += [partial(self._held.append, row), self._set_known(plan)]
        return plan

    def _evidence_after(self, plan: "_Plan", rows: list[Row]) -> Evidence:
        """Return the evidence after a burst, with which a plan begins."""
        weights, n = self._mixture.weights, len(self._names)
        answers = np.array([row.answers[:n] for row in rows])
        return plan.evidence.after(
            answers.clip(self.clip, 1.0 - self.clip) @ weights,
            np.array([row.y for row in rows]),
            min(row.n_served for row in rows),
            plan.n_samples,
            self._kernel.n_labels,
        )

    def _set_known(self, plan: "_Plan") -> Step:
        set_evidence = partial(setattr, self, "_evidence", plan.evidence)
        return partial(do_all, self._set_delay(plan.delay, plan.kind), set_evidence)

    def _set_delay(self, delay: MeanDelay, kind: str | None) -> Step:
        """Return the step that sets the mean delay, and the kind of times if this is the first."""
        set_delay, set_kind = self._mixture.set_delay(delay), self._kind_steps(kind)
        return partial(do_all, set_delay, *set_kind) if set_kind else set_delay

    def _without_burst(self) -> Self:
        """Return this hedge, or a copy whose burst is closed: reading closes none."""
        if not self._held:
            return self
        with self._mutex:
            return self._find_closed()

    def _find_closed(self) -> Self:
        """Do what `_without_burst` does; the lock is held."""
        if not self._held:
            return self
        now = self._mixture.n_samples, len(self._held)
        if self._closed is None or self._closed[:2] != now:
            closed = self._copy({})
            closed._close_burst()
            self._closed = *now, closed
        return self._closed[2]

    # One sample -----------------------------------------------------------------------------------

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
        """Update the weights by the served predictions, then teach the calibrators the sample.

        Parameters
        ----------
        score : float
            A probability in [0, 1].
        y : float or bool
            The label, in [0, 1].
        w : float
            The weight, from 1e-60 to 1e60.
        x
            Not used.
        ticket : Ticket, optional
            The ticket that `serve_one` returned with its prediction. Without it the weights follow
            from the current predictions.
        t : datetime or float
            The time at which the label is learned, if a calibrator forgets by time or a share is a
            timedelta. A late label ages from then on.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range; nothing is learned. An error of a calibrator of your own
            is described in the notes of the class.
        """
        is_one = type(w) is float and w == 1.0
        sample = as_probability(score), as_label(y), 1.0 if is_one else as_weight(w)
        with self._mutex:
            mixture, moment = self._mixture, self._read_time(t)
            usual = ticket is None and not mixture.delay.mean and not self._held
            if usual and moment is NO_MOMENT:
                self._kernel.learn(*sample, 0.0)
            elif usual and moment.kind == self._kind:  # else this is the first time
                self._kernel.learn(*sample, 0.0, None, None, moment.for_kernel())
            else:
                self._do(self._steps(*sample, ticket, moment))

    def _do(self, steps: Sequence[Step]) -> None:
        """Learn by steps; the last one, which sets the mean delay, is done if a sample counts."""
        before = self._mixture.n_samples
        try:
            with no_fork:
                do_all(*steps)
        except BaseException:
            # A calibrator of your own raised, the others have learned. A lone step sets no delay.
            if self._mixture.n_samples > before and len(steps) > 1:
                steps[-1]()
            raise

    def _steps(
        self, p: float, y: float, w: float, ticket: Ticket | None, moment: Moment
    ) -> tuple[Step, ...]:
        """Return what learns a sample that was checked; the last of several sets the mean delay."""
        mixture, kind = self._mixture, moment.kind
        if ticket is None and not mixture.delay.mean and not self._held:  # the usual case
            if kind is None:
                return (partial(mixture.kernel.learn, p, y, w, 0.0),)
            given = p, y, w, 0.0, None, None, moment.for_kernel()
            return partial(mixture.kernel.learn, *given), *self._kind_steps(kind)
        if ticket is not None:
            row = tuple.__new__(Row, (p, y, w, *self._read_ticket(ticket), moment.seconds))
            if not self._held and self._evidence.shared is False:
                return self._steps_of_lone(row, kind)
            if not self._held and not is_no_outcome(y):
                return partial(self._held.append, row), *self._kind_steps(kind)
            return tuple(self._plan_late(row, kind).steps)
        plan = self._plan_to_close(kind)
        delay = plan.count(0.0)
        given = p, y, w, delay, None, None, moment.for_kernel()
        plan.steps.append(partial(mixture.kernel.learn, *given))
        return *plan.steps, self._set_delay(plan.delay, kind)

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not HedgedCalibrator.learn_one:
            return super()._learn_steps(score, y, w, context)
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        moment = self._read_time(context.t)
        return self._steps(as_probability(score), as_label(y), weight, context.ticket, moment)

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the mixture's probability for a score in [0, 1].

        Before anything is learned it is the score itself. What is learned does not change; an open
        burst is closed, see the class.
        """
        p = as_probability(score)
        answer = self._kernel.predict(p)
        return self._ask(self._kernel.predict, p) if answer is None else answer

    def serve_one(self, score: float, x: FieldValues | None = None) -> Prediction:
        """Return `predict_one` of a score, and the ticket to pass back with its label.

        What is learned does not change; an open burst is closed, see the class.

        Examples
        --------
        >>> calibrator = HedgedCalibrator()
        >>> waiting = [(p, calibrator.serve_one(p)) for p in (0.2, 0.7, 0.7)]
        >>> for (p, (answer, ticket)), label in zip(waiting, (0, 1, 1)):
        ...     calibrator.learn_one(p, label, ticket=ticket)
        >>> calibrator.mean_delay
        1.5
        """
        p = as_probability(score)
        answer, n_samples, answers = self._ask(self._kernel.serve, p)
        # Quicker than calls of the classes.
        ticket = tuple.__new__(Ticket, (n_samples, answers))
        return tuple.__new__(Prediction, (answer, ticket))

    def _check_ticket(self, ticket: Any) -> None:
        self._read_ticket(ticket)

    def _read_ticket(self, ticket: Any) -> tuple[float, tuple[float, ...]]:
        """Return the number of samples and the predictions on a ticket of this hedge, or raise."""
        # A copy may have closed a burst that is open here, or learned one by one what is a group
        # here: then it has learned more samples, but no more labels.
        n_labels = self._kernel.n_labels + len(self._held)
        n_served, answers = self._mixture.read(ticket, n_labels)
        return n_served if self._held else min(n_served, self._mixture.n_samples), answers

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

        The weights of the hedge follow from the mean log loss of the rows. If a calibrator of your
        own raises an error, no calibrator learns the rows after that.

        Notes
        -----
        The raw score alone has a prior of 1 − 1 / √m, where m is the mean number of rows of a
        sample. Let all groups have m rows, and let each be served when all groups before it are
        learned. Then the bound for immediate labels holds for groups: the sum of their mean log
        losses is at most that of the best calibrator plus ln N + ln K + ln(m) / 2, and that of the
        raw score plus −ln(1 − 1 / √m), which is about 1 / √m. For late labels this prior is
        1 − (1 + η) / (2 √m), and the delay is counted in groups.

        Examples
        --------
        Three games of a hundred rows each, where all rows say 0.6. Three results say little:

        >>> hedge, scores = HedgedCalibrator(), [0.6] * 100
        >>> for won in (1, 1, 1):
        ...     tickets = [hedge.serve_one(score).ticket for score in scores]
        ...     hedge.learn_group(scores, [won] * 100, tickets=tickets)
        >>> hedge.n_samples, round(hedge.predict_one(0.6), 2)
        (3, 0.61)
        """
        with self._mutex:
            self._do(self._steps_of_group(scores, y, w, Contexts(x, tickets, t)))

    def _group_steps(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        if type(self).learn_group is not HedgedCalibrator.learn_group:
            given: dict[str, Any] = {"t": contexts.t} if self.needs_time else {}
            return (partial(self.learn_group, scores, y, w, tickets=contexts.ticket, **given),)
        with self._mutex:
            return self._steps_of_group(scores, y, w, contexts)

    def _steps_of_group(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        """Return what learns rows that share an outcome; the lock is held."""
        vector, of_rows, _ = self._check_samples(scores, y, None)
        # Own copies, checked again: another thread may write to the arrays.
        rows = [as_probability(p) for p in vector.tolist()]
        labels = [as_label(label) for label in of_rows.tolist()]
        n_rows = len(rows)
        given = [*contexts.rows(n_rows, fields=False)]
        weight, moment = as_weight(w), self._read_time(contexts.t)
        if not n_rows:
            return ()
        if n_rows < 2:  # learned as any other sample
            return self._learn_steps(rows[0], labels[0], weight, given[0])
        part = as_weight(weight / n_rows)
        closed, plan = self._find_closed(), self._plan_to_close(moment.kind)
        group = []
        for p, label, context in zip(rows, labels, given, strict=True):
            ticket = closed.serve_one(p).ticket if context.ticket is None else context.ticket
            group.append(Row(p, label, part, *closed._read_ticket(ticket), moment.seconds))
        self._plan_group(plan, group, weight)
        return *plan.steps, self._set_delay(plan.delay, plan.kind)

    # Many samples ---------------------------------------------------------------------------------

    def _check_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        samples = super()._check_samples(scores, y, w)
        for expert in self._kernel.experts:
            if isinstance(expert, Calibrator):
                expert._check_samples(*samples)
        return samples

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the mixture's probabilities for scores in [0, 1], shape ``(n_samples,)``."""
        probabilities = as_probabilities(scores, "scores")
        values = self._ask(self._kernel.predict_many, self._calibrators, probabilities)
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
        """Learn samples in the order given, in compiled loops."""
        self.predict_learn_many(scores, y, w, t=t)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in compiled loops."""
        samples = self._check_samples(scores, y, w)
        values = np.empty(len(samples[0]))
        with self._mutex, no_fork:
            times, before = self._read_times(t, len(values)), self._mixture.n_samples
            try:
                do_all(*self._run_steps(*samples, values, times))
            except BaseException:
                # A calibrator of your own raised; the samples before it have been learned.
                if times is not None and self._mixture.n_samples > before:
                    do_all(*self._kind_steps(times.kind))
                raise
        return like_given(values, scores)

    def _sampler(self) -> Callable[..., float] | None:
        names = "learn_one", "predict_one", "predict_learn_many"
        own = all(getattr(type(self), name) is getattr(HedgedCalibrator, name) for name in names)
        return self._predict_learn_one if own and self._knows_times() else None

    def _predict_learn_one(self, p: float, y: float, w: float, t: float = math.nan) -> float:
        """Predict, then learn a sample that was checked; if ``y`` is NaN, only predict.

        ``t`` is its time in seconds.
        """
        if y != y:
            return self.predict_one(p)
        with self._mutex:
            if not self._mixture.delay.mean and not self._held:  # the usual case
                if self._kind is None:
                    return self._kernel.predict_learn(p, y, w)
                return self._kernel.predict_learn(p, y, w, (t, maker_of(self._kind)))
        value = self.predict_one(p)
        make_time = maker_of(self._kind)
        self.learn_one(p, y, w, t=None if make_time is None else make_time(t))
        return value

    def _batch_steps(
        self,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
        times: Times | None = None,
    ) -> tuple[Step, ...] | None:
        own = type(self).predict_learn_many is HedgedCalibrator.predict_learn_many
        return self._run_steps(scores, y, w, out, times) if own else None

    def _learns_times(self) -> bool:
        return type(self).predict_learn_many is HedgedCalibrator.predict_learn_many

    def _run_steps(
        self,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
        times: Times | None,
    ) -> tuple[Step, ...]:
        plan = self._plan_to_close(None if times is None else times.kind)
        plan.delay, delays = plan.delay.after_each(np.ones(len(scores), np.bool_))
        # Compiled ones run no Python code, in which a signal handler may raise.
        learners = [calibrator._batch_kernel() or calibrator for calibrator in self._calibrators]
        run = partial(self._kernel.run, learners, scores, y, w, delays)
        if times is not None:
            run = partial(run, times.seconds, maker_of(times.kind))
        set_known = self._set_delay(plan.delay, plan.kind)
        return *plan.steps, write_to(out, slice(None), run), set_known


@dataclass(slots=True)
class _Plan:
    """What learns samples, for `do_all`, and what is known of the hedge after the steps so far."""

    steps: list[Step]
    n_samples: int
    delay: MeanDelay
    evidence: Evidence
    kind: str | None  # of times

    def count(self, late: float) -> float:
        """Count one more sample, which is so late; return the mean delay."""
        self.n_samples += 1
        self.delay = self.delay.after(late)
        return self.delay.mean


# Calibrators with short memories start with less weight: they are seldom the best, and have the
# largest loss when they are not.
DEFAULT_PRIOR = (1.0, 1.0, 0.5, 0.1, 0.3, 0.5, 1.0)


def default_calibrators() -> list[Calibrator]:
    """Return the calibrators that `HedgedCalibrator` mixes by default."""
    return [
        IdentityCalibrator(),
        PlattCalibrator(),
        PlattCalibrator(gamma=0.5, prior=10.0, half_life=500.0),
        PlattCalibrator(prior=10.0, half_life=100.0),
        IsotonicCalibrator(window=200),
        IsotonicCalibrator(window=1_000),
        IsotonicCalibrator(window=10_000),
    ]


@cache
def _default_names() -> tuple[str, ...]:
    """Return the names of the default calibrators."""
    return names_of(default_calibrators())
