"""A river model that answers where it is sure, and asks elsewhere, under a promise."""

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from river import base
from river.base.typing import ClfTarget

from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_int,
    as_list,
    as_name,
    pack,
    require,
    unpack,
)
from streamcal._validation import (
    as_category,
    as_propensity,
    as_share,
    as_weight,
    check_beside,
    check_choice,
    check_count,
    check_kept,
    check_label,
    check_within,
)
from streamcal._whole import Step, do_all, write_to
from streamcal.calibration.segments import check_fields
from streamcal.decision.classifier import predict_again
from streamcal.decision.promises import MOST_PLACES, ErrorBudget, begin_tests
from streamcal.kernels.selection import N_INTERVALS
from streamcal.kernels.threshold_tests import STAKES, ThresholdTests
from streamcal.wrappers.checks import check_classifier, check_probabilities
from streamcal.wrappers.routing import AnyClassifier, Features, Routing, last_step
from streamcal.wrappers.served import Served

SelectiveMetric = Literal["accuracy", "precision"]
_METRICS: tuple[SelectiveMetric, ...] = get_args(SelectiveMetric)
_MOST_SEGMENTS = 10_000
_PARTS = ("wealth", "gains", "firsts", "has_come")  # of the state of tests


class Promise(NamedTuple):
    """What a `SelectiveClassifier` has answered, and what it promises.

    Attributes
    ----------
    threshold : float
        It answers from this probability on; infinite if it does not answer.
    n_answers, n_errors : int
        The answers whose labels were learned, and how many of them were wrong. With a ``floor``
        these are the audited ones.
    most_errors : float or None
        How many errors there may be among all answers so far, on any stream. None with a ``floor``,
        where this is not promised.

    Examples
    --------
    >>> Promise(threshold=0.83, n_answers=1000, n_errors=48, most_errors=70.0).n_errors
    48
    """

    threshold: float
    n_answers: int
    n_errors: int
    most_errors: float | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of `SelectiveClassifier.serve_one`, to keep until the label arrives.

    Attributes
    ----------
    answer : label or None
        The label that is answered; None: ask.
    served : Served
        What the classifier served: the probability of each label.
    place : int or None
        With ``confidence``, its place in the order of service, among the samples whose labels must
        come; None for an answer whose label may never be asked for.

    Examples
    --------
    >>> import json
    >>> selection = Selection(True, Served({False: 0.05, True: 0.95}, {False: 0.2, True: 0.8}))
    >>> kept = json.dumps(selection.to_dict())
    >>> Selection.from_dict(json.loads(kept)) == selection
    True
    """

    answer: ClfTarget | None
    served: Served
    place: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the content as a dict that JSON keeps exactly, for `from_dict`.

        Raises
        ------
        TypeError, ValueError
            As `Served.to_dict`.
        """
        labels = list(self.served.calibrated)
        at = None if self.answer is None else labels.index(self.answer)
        return {"answer": at, "served": self.served.to_dict(), "place": self.place}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Selection":
        """Return the object that `to_dict` wrote, directly or after JSON wrote and read the dict.

        Raises
        ------
        TypeError
            If ``kept`` is not a mapping.
        ValueError
            If it is not what `to_dict` writes.
        """
        if not isinstance(kept, Mapping):
            raise TypeError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        if {"place", *kept} != {"answer", "served", "place"}:
            raise ValueError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        served = Served.from_dict(kept["served"])
        labels, at, place = list(served.calibrated), kept["answer"], kept.get("place")
        try:
            place = None if place is None else as_int(place, "place")
            if at is None:
                return cls(None, served, place)
            return cls(labels[as_int(at, "answer", 0, len(labels) - 1)], served, place)
        except ValueError as error:
            raise ValueError(f"`kept` must be what `to_dict` returned: {error}") from None


class _Record(NamedTuple):
    """What a segment has answered, and the tests of its thresholds, if there are any."""

    budget: ErrorBudget
    tested: ThresholdTests | None


class SelectiveClassifier(Routing, Stateful, base.Wrapper[Any], base.Classifier):
    """Answer as many samples as possible, of which at least a share is right; ask for the others.

    `predict_one` answers a label, or None where it is not sure: a person decides then. (river's
    ``progressive_val_score`` leaves None out.) There are two promises:

    *On any stream*, if the labels of all answers come: at most (1 − ``target``) n + 20 + W of n
    answers are wrong, where W is the greatest number of answers that waited for their labels at one
    time, 0 if each label comes before the next sample. There is no promise about how many are
    answered: on a stream whose first answers are all wrong, it soon asks for all [1]_.

    *With probability* ``confidence``, for independent samples from one source: the true share of
    errors of all samples from the threshold up is at most 1 − ``target``, for each threshold that
    is ever in use. It answers nothing before that is shown by labels, and less than without
    ``confidence``. The classifier must not change, or only so that at no threshold in use there are
    more errors than before: with one that learns, a threshold means something else every day.
    Thresholds are tested one after the other [2]_, by bets on labels [3]_.

    Parameters
    ----------
    classifier : river classifier or pipeline
        A classifier with probabilities, preferably calibrated, such as
        `streamcal.CalibratedClassifier`. It is not copied. What is promised holds for any
        probabilities, but only good ones let it answer much.
    metric : {"accuracy", "precision"}
        With "accuracy" the most probable label is answered, and counts as right or wrong. With
        "precision" only ``pos_val`` is answered, where it is sure.
    target : float
        The share of answers that are right, from 1e-6 to below 1.
    confidence : float, optional
        With which probability the second promise holds, in (0, 1). Then both hold.
    floor : float, optional
        If only some answers are audited: the least probability with which the label of an answer
        is asked for, in (0, 1]; see `streamcal.monitoring.AuditSampler`. Then only the second
        promise holds, which needs ``confidence``.
    segments : sequence of str, optional
        Names of features. What is promised holds for each combination of their values on its own.
    pos_val : bool, int or str
        The positive label, for "precision".

    Raises
    ------
    TypeError, ValueError
        If ``classifier`` is not a classifier, or another argument is not as described.

    Notes
    -----
    `predict_one` changes nothing. `learn_one` repeats its decision, and counts it against the
    label. If labels come late, call `serve_one`, and pass its result as ``served`` with the label,
    once, and with the same features. Without it the promise is about the decision of then.

    The labels of samples that were asked for teach where the threshold should be. Without
    ``confidence`` they may be left out. With it all of them must come: who labels only the easy
    ones shows nothing. If these are too many, let it learn from samples that are chosen at random,
    answered or not, and call `predict_one` for the others.

    Labels may be late, in any order, also wrong ones later than right ones: the second promise
    takes those of `serve_one` in the order in which the samples were served, so one that has not
    come holds up the others. If 10,000 of these wait for it, or there are 1,000,000 places from its
    own on, it is taken for lost, and counts as a wrong answer. These numbers, with up to 32 bytes
    for each, bound the memory of a segment. Three kinds of samples count only when their labels
    come: those without ``served``, those that a state of before knows nothing of, and, with a
    ``floor``, answers without `ask_one`. How late their labels are, and which of these never come,
    must not depend on the sample, nor on whether its answer was wrong.

    If many answers, 1,000 + 20 / ``floor``, were given by `serve_one` since the label of one came,
    all samples are asked for, until one comes: without audits of answers nothing can be promised.

    A classifier that knows fewer than two labels has no answer. Combinations of values after the
    first 10,000 are not answered. The formulas are in `streamcal.decision.promises`.

    References
    ----------
    .. [1] Gangrade, Kag, Cutkosky & Saligrama, *Online selective classification with limited
       feedback*, NeurIPS 2021.
    .. [2] Angelopoulos, Bates, Candès, Jordan & Lei, *Learn then test*, arXiv 2110.01052, 2021.
    .. [3] Waudby-Smith & Ramdas, *Estimating means of bounded random variables by betting*, Journal
       of the Royal Statistical Society B 86(1), 2024.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> from streamcal import CalibratedClassifier
    >>> model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> model = SelectiveClassifier(CalibratedClassifier(model), target=0.95)
    >>> answers = []
    >>> for x, y in datasets.Phishing():
    ...     answers.append((model.predict_one(x), y))
    ...     model.learn_one(x, y)
    >>> given = [answer == y for answer, y in answers if answer is not None]
    >>> len(answers), len(given), sum(given)
    (1250, 836, 795)
    """

    def __init__(
        self,
        classifier: AnyClassifier,
        metric: SelectiveMetric = "accuracy",
        target: float = 0.95,
        *,
        confidence: float | None = None,
        floor: float | None = None,
        segments: Sequence[str] | None = None,
        pos_val: bool | int | str = True,
    ) -> None:
        check_classifier(classifier)
        if isinstance(last_step(classifier), SelectiveClassifier):
            raise TypeError("`classifier` must not be a SelectiveClassifier, which asks on its own")
        check_choice(metric, "metric", _METRICS)
        as_share(target, "target", "[1e-06, 1)")
        if confidence is not None:
            as_share(confidence, "confidence")
        check_within(floor, "floor", "(0, 1] or None")
        if floor is not None and confidence is None:
            raise ValueError(
                f"`confidence` must be given with a `floor`, {floor}: on any stream, the labels of"
                " all answers are needed"
            )
        check_label(pos_val, "pos_val")
        self.classifier = classifier
        self.metric = metric
        self.target = target
        self.confidence = confidence
        self.floor = floor
        self.segments = None if segments is None else check_fields(segments, "segments")
        self.pos_val = pos_val
        self._set_routes(classifier, "learn_one", "predict_proba_one")
        self._records: dict[tuple[Any, ...], _Record] = {}

    _given = ("classifier",)
    _passes_probabilities = True

    @property
    def _wrapped_model(self) -> AnyClassifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression()}

    @property
    def promises(self) -> dict[tuple[Any, ...], Promise]:
        """What is promised, by the values of ``segments``; without these the key is ``()``."""
        return {key: self._promise_of(record) for key, record in self._records.copy().items()}

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the classifier's own probabilities."""
        answer: dict[ClfTarget, float] = self._call("predict_proba_one", x, **kwargs)
        return answer

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label of a sample, or None: ask."""
        probabilities = self.predict_proba_one(x, **kwargs)
        check_probabilities(probabilities, x)
        return self._answer(self._segment_of(x), *self._likeliest(probabilities))

    def serve_one(self, x: Features) -> Selection:
        """Return the answer for a sample whose label comes late, with what its label needs.

        The answer counts as one that waits for its label.

        Examples
        --------
        >>> from river import linear_model
        >>> from streamcal import CalibratedClassifier
        >>> model = SelectiveClassifier(CalibratedClassifier(linear_model.LogisticRegression()))
        >>> for i in range(200):
        ...     model.learn_one({"x": i % 2}, i % 2 == 1)
        >>> selection = model.serve_one({"x": 1})
        >>> selection.answer
        True
        >>> model.learn_one({"x": 1}, True, served=selection)
        """
        key, served = self._segment_of(x), self._serve(x)
        label, confidence = self._likeliest(served.calibrated)
        answer, place = self._answer(key, label, confidence), dict[str, int | None]()
        if confidence is not None and self._has_room(key):
            budget, tested = self._record_of(key)
            answered = answer is not None
            record = _Record(budget.served(confidence, answered=answered), tested)
            steps: list[Step] = [partial(self._records.__setitem__, key, record)]
            if tested is not None:
                tested.make_room()
                take = partial(tested.serve, confidence, answered)
                steps.append(write_to(place, "place", take))
            do_all(*steps)
        return Selection(answer, served, place.get("place"))

    def ask_one(
        self, x: Features, selection: Selection, *, propensity: float | None = None
    ) -> Selection:
        """Note that the label of an answer is asked for, and return the selection to keep.

        With a ``floor`` it can't be known when an answer is served whether its label will come. Who
        says it here, before the label comes, may get the labels of wrong answers later than others.

        Parameters
        ----------
        x : dict
            The features; those of ``segments`` as they were served.
        selection : Selection
            What `serve_one` returned for this sample. If it has a place, or no answer, it is
            returned as it is.
        propensity : float
            The probability with which the label is asked for, from ``floor`` to 1, as for
            `learn_one`.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described, or the model does not give such an answer; nothing
            has changed then.

        Examples
        --------
        >>> from streamcal import PrecomputedClassifier
        >>> model = SelectiveClassifier(PrecomputedClassifier("p"), confidence=0.9, floor=0.1)
        >>> for i in range(200):
        ...     model.learn_one({"p": 0.99}, True, propensity=1.0)
        >>> selection = model.serve_one({"p": 0.99})
        >>> selection.answer, selection.place
        (True, None)
        >>> selection = model.ask_one({"p": 0.99}, selection, propensity=0.2)
        >>> selection.place
        200
        >>> model.learn_one({"p": 0.99}, True, served=selection, propensity=0.2)
        """
        key, (_, confidence) = self._segment_of(x), self._check_selection(selection, "selection")
        answered = selection.answer is not None
        chance = self._as_propensity(propensity, answered=answered)
        if not answered or selection.place is not None or confidence is None:
            return selection
        record, place = self._record_of(key), dict[str, int]()
        if record.tested is None or not self._has_room(key):
            return selection
        record.tested.make_room()
        do_all(
            partial(self._records.__setitem__, key, record),
            write_to(place, "place", partial(record.tested.ask, confidence, chance)),
        )
        return replace(selection, place=place["place"])

    def learn_one(
        self,
        x: Features,
        y: ClfTarget,
        *,
        served: Selection | None = None,
        propensity: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Teach the classifier a sample, and count its answer against the label.

        Parameters
        ----------
        x : dict
            The features; those of ``segments`` as they were served.
        y : bool, int or str
            The label.
        served : Selection, optional
            What `serve_one` returned for this sample, or `ask_one`; by default the decision is made
            again.
        propensity : float, optional
            The probability with which this label was asked for, from ``floor`` to 1, if there is a
            ``floor``. It must be given for answers. For a sample that was not answered it is 1.
            The classifier gets it, too, if its calibrator needs it.
        **kwargs
            The classifier gets those that its ``learn_one`` takes, such as a weight ``w``. Each
            answer counts once, for any weight.

        Raises
        ------
        ValueError, TypeError
            If an argument is not as described, or ``served`` has an answer that this model does not
            give; nothing has changed then.
        """
        check_label(y)
        if self.metric == "precision":
            check_beside(y, self.pos_val)
        if "w" in kwargs:
            as_weight(kwargs["w"])
        key = self._segment_of(x)
        if served is None:
            probabilities = predict_again(self.classifier, x)
            check_probabilities(probabilities, x)
            label, confidence = self._likeliest(probabilities)
            answered = self._answer(key, label, confidence) is not None
        else:
            label, confidence = self._check_selection(served, "served")
            answered = served.answer is not None
            if hasattr(self.classifier, "serve_one"):  # else there is more to it than we know
                kwargs["served"] = served.served
        chance = self._as_propensity(propensity, answered=answered)
        if getattr(last_step(self.classifier), "needs_propensity", False):
            kwargs["propensity"] = chance
        steps: list[Step] = []
        if confidence is not None and self._has_room(key):
            budget, tested = self._record_of(key)
            wrong, waited = bool(y != label), served is not None
            budget = budget.learned(confidence, answered=answered, wrong=wrong, waited=waited)
            steps.append(partial(self._records.__setitem__, key, _Record(budget, tested)))
            if tested is not None:
                tested.make_room()
                place = None if served is None else served.place
                steps.append(partial(tested.learn, place, confidence, answered, wrong, chance))
        self._call("learn_one", x, y, **kwargs)
        # Only now, and in one step: if the model raises, nothing is counted.
        do_all(*steps)

    def _serve(self, x: Features) -> Served:
        """Return what the classifier serves for a label that comes late."""
        serve = getattr(self.classifier, "serve_one", None)
        served = self.classifier.predict_proba_one(x) if serve is None else serve(x)
        if isinstance(served, Served):
            return served
        check_probabilities(served, x)
        return Served(dict(served), dict(served))

    def _check_selection(self, given: Any, name: str) -> tuple[ClfTarget | None, float | None]:
        """Return the label that may be answered, and its probability, as they were served."""
        if not isinstance(given, Selection):
            raise TypeError(f"`{name}` must be what `serve_one` returned, got {given!r}")
        check_count(given.place, f"{name}.place", 0, optional=True)
        check_probabilities(given.served.calibrated)
        label, confidence = self._likeliest(given.served.calibrated)
        if given.answer is not None and given.answer != label:
            raise ValueError(
                f"`{name}` must have an answer that this model gives, {label!r}, got"
                f" {given.answer!r}"
            )
        return label, confidence

    def _likeliest(
        self, probabilities: Mapping[ClfTarget, float]
    ) -> tuple[ClfTarget | None, float | None]:
        """Return the label that may be answered, and its probability; None if there is none."""
        if len(probabilities) < 2:
            return None, None
        label: ClfTarget | None = max(probabilities, key=probabilities.__getitem__)
        if self.metric == "precision":
            # Not a generator: what a signal handler raises while one is closed is lost.
            found = [each for each in probabilities if each == self.pos_val]
            label = found[0] if found else None
        if label is None:
            return None, None
        return label, min(max(float(probabilities[label]), 0.0), 1.0)

    def _answer(
        self, key: tuple[Any, ...], label: ClfTarget | None, confidence: float | None
    ) -> ClfTarget | None:
        """Return the likeliest label of a sample of a segment as its answer, or None: ask."""
        if confidence is None or not self._has_room(key):
            return None
        budget, tested = self._record_of(key)
        if tested is None:
            return label if budget.answers(confidence) else None
        if self.floor is None and not budget.allows_one:
            return None
        return label if confidence >= tested.threshold else None

    def _segment_of(self, x: Features) -> tuple[Any, ...]:
        """Return the values of ``segments``, or raise."""
        key = tuple([as_category(x.get(name), name) for name in self.segments or ()])
        for name, value in zip(self.segments or (), key, strict=True):
            check_kept(value, name)
        return key

    def _has_room(self, key: tuple[Any, ...]) -> bool:
        return key in self._records or len(self._records) < _MOST_SEGMENTS

    def _record_of(self, key: tuple[Any, ...]) -> _Record:
        found = self._records.get(key)
        return self._begin() if found is None else found

    def _begin(self) -> _Record:
        """Return the record of a segment before its first sample."""
        tested = None
        if self.confidence is not None:
            floor = 1.0 if self.floor is None else self.floor
            tested = begin_tests(1.0 - self.target, 1.0 - self.confidence, floor)
        return _Record(ErrorBudget(1.0 - self.target), tested)

    def _promise_of(self, record: _Record) -> Promise:
        budget, tested = record
        if tested is None:
            threshold = budget.threshold
        else:
            is_open = self.floor is not None or budget.allows_one
            threshold = tested.threshold if is_open else math.inf
        most = None if self.floor is not None else budget.most_errors
        return Promise(threshold, budget.n_answers, budget.n_errors, most)

    def _as_propensity(self, propensity: float | None, *, answered: bool) -> float:
        """Return the probability with which a label was asked for, or raise."""
        if propensity is None:
            if answered and self.floor is not None:
                raise ValueError(
                    "`propensity` must be given for an answer, since there is a `floor`, got None"
                )
            return 1.0
        if self.floor is None:
            raise ValueError(
                "`propensity` must be None without a `floor`, as the labels of all answers come,"
                f" got {propensity!r}"
            )
        if not answered and propensity != 1.0:
            raise ValueError(
                "`propensity` must be 1 or None for a sample that was not answered, as the labels"
                f" of all of these come, got {propensity!r}"
            )
        return as_propensity(propensity, self.floor)

    def _freeze(self) -> tuple[Fields, Arrays]:
        records = self._records.copy()
        budgets = [record.budget.freeze() for record in records.values()]
        fields: Fields = {
            "segments": [[pack(value) for value in key] for key in records],
            "budgets": [numbers for numbers, _ in budgets],
        }
        arrays = {"counts": np.array([counts for _, counts in budgets]).reshape(-1, N_INTERVALS)}
        tests = [record.tested.state() for record in records.values() if record.tested is not None]
        if tests:
            numbers, *parts = zip(*tests, strict=True)
            fields["tests"] = list(numbers)
            fields["n_waiting"] = [len(gains) for gains in parts[1]]
            arrays |= dict(zip(_PARTS, map(np.concatenate, parts), strict=True))
        return fields, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        n_fields, begun = len(self.segments or ()), self._begin()
        keys = [
            tuple(as_name(unpack(value), "a segment", none=True) for value in as_list(key, "a key"))
            for key in as_list(fields["segments"], "segments")
        ]
        require(all(len(key) == n_fields for key in keys), "keys must have a value per segment")
        require(len(set(keys)) == len(keys) <= _MOST_SEGMENTS, "segments must be different")
        budgets = as_list(fields["budgets"], "budgets", len(keys))
        counts = array_of(arrays, "counts", 4 * len(keys), N_INTERVALS)
        share = begun.budget.share
        records = [
            _Record(ErrorBudget.thaw(share, as_list(numbers, "a budget", 5), rows.copy()), None)
            for numbers, rows in zip(budgets, counts.reshape(-1, 4, N_INTERVALS), strict=True)
        ]
        if begun.tested is not None and records:
            records = self._thaw_tests(records, fields, arrays)
        self._records = dict(zip(keys, records, strict=True))

    def _thaw_tests(self, records: list[_Record], fields: Fields, arrays: Arrays) -> list[_Record]:
        """Return the records with the tests that `_freeze` described."""
        n = len(records)
        n_waiting = [
            as_int(each, "what waits", 0, MOST_PLACES)
            for each in as_list(fields["n_waiting"], "n_waiting", n)
        ]
        ends, total = np.cumsum(n_waiting), sum(n_waiting)
        wealth = array_of(arrays, "wealth", None, len(STAKES) + 1)
        gains = array_of(arrays, "gains", total)
        marks = [array_of(arrays, name, total, dtype=np.uint8) for name in ("firsts", "has_come")]
        parts: list[list[Any]] = [np.split(part, ends[:-1]) for part in (gains, *marks)]
        require(len(wealth) % n == 0, "all segments must have all thresholds")
        thawed = []
        for record, numbers, *own in zip(
            records,
            as_list(fields["tests"], "tests", n),
            wealth.reshape(n, -1, len(STAKES) + 1),
            *parts,
            strict=True,
        ):
            tested = self._begin().tested
            assert tested is not None
            counts = [as_int(count, "a count") for count in as_list(numbers, "a test", 2)]
            tested.restore(counts, *own)
            thawed.append(record._replace(tested=tested))
        return thawed
