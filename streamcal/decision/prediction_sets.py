"""A river model that predicts sets of labels, so that a given share of them has the true label.

A label is in the set if its score is above a threshold, which is the same for all samples. After
each label the threshold moves, down after a miss and up after a hit. It cannot leave [0, 1] for
long, so its steps must nearly balance, and their sizes are such that they do so if misses come at
the rate that is asked for. That holds whatever the model and the stream do.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, Literal, get_args

from river import base
from river.base.typing import ClfTarget

from streamcal._advice import shown
from streamcal._state import Arrays, Fields, Stateful, as_float, as_int
from streamcal._validation import (
    as_number,
    as_share,
    as_within,
    check_among,
    check_choice,
    check_count,
    check_label,
    check_mapping,
)
from streamcal._whole import do_all
from streamcal.decision.classifier import predict_again, probabilities_in
from streamcal.kernels.plain import are_probabilities
from streamcal.wrappers.checks import (
    as_probabilities_of_labels,
    check_classifier,
    check_probabilities,
    check_served,
)
from streamcal.wrappers.memory import PredictionMemory, Remembered
from streamcal.wrappers.routing import AnyClassifier, Features, Routing

Score = Literal["lac", "aps"]
_SCORES = get_args(Score)
# Roots of the thresholds above which no set has a second label: of two labels, one has at most ½.
_HIGHEST = {"lac": math.sqrt(0.5), "aps": 1.0}


class PredictionSetClassifier(Routing, Stateful, base.Wrapper[Any], base.Classifier):
    r"""Predict a set of labels that holds the true one as often as ``coverage`` says.

    Parameters
    ----------
    classifier : river classifier or pipeline
        A classifier with probabilities, preferably calibrated, such as
        `streamcal.CalibratedClassifier`. It is not copied.
    coverage : float
        The share of sets that are to hold the true label, in (0, 1).
    score : {"lac", "aps"}
        What the threshold cuts off. "lac" is the probability of a label, which gives the smallest
        sets [1]_. "aps" is the probability of the label and of all less probable ones, so that
        sets grow where the model is unsure, and misses are spread more evenly over easy and
        difficult samples [2]_. What probabilities lack of a sum of 1 counts as less probable. It is
        not randomised: the threshold is learned, so that sets are no larger on average than
        ``coverage`` needs.
    step : float
        How far the threshold moves, in (0, 1]. A longer step follows changes faster and keeps the
        coverage more closely; its sets are a little larger.
    remember : int
        How many of the latest sets are remembered until their labels arrive.

    Raises
    ------
    TypeError, ValueError
        If ``classifier`` is not a classifier with probabilities, or another argument is not as
        described.

    Notes
    -----
    **The promise.** Let :math:`c` be the coverage, :math:`s` the step. On any stream, of any model,
    at any time, the number of misses among the first :math:`n` labels is at most

    .. math:: (1 - c)\,n + \sqrt{1 - c}\,/\,s + 1 + u,

    and in any stretch of :math:`n` labels that starts later at most :math:`(1 - c)\,n + 1/s + 1 +
    u`. Here :math:`u` is the number of misses that no set could avoid: the classifier did not know
    the label. They count as misses, and the other sets make up for them as far as they can. With
    late labels, add the greatest number of sets that waited for their labels at one time. With the
    defaults there are at most 1,064 misses among the first 10,000 labels.

    There are fewer misses only where no set could be smaller. A set always has the most probable
    label, and the threshold does not rise above the height from which on sets have no other. If the
    most probable label is right more often than ``coverage`` asks for, then so are the sets, each
    of one label. If the threshold was at that height after :math:`m` of the labels, there are at
    least :math:`(1 - c)(n - m) - 1/s - 1` misses.

    **The rule.** The threshold is :math:`\max(\theta, 0)^2`, and at 0 a set has all labels. After
    each label :math:`\theta` grows by :math:`s\,(1 - c)`, or after a miss falls by :math:`s\,c`.
    At the start it is :math:`\sqrt{1 - c}`. This is adaptive conformal inference [3]_ by gradient
    steps of constant size [4]_, for the root of a probability: the same step is then fine for
    low thresholds, and not slow for high ones. The bounds follow from the sum of the steps, since
    no set is missed, but for unknown labels, while :math:`\theta` is below 0.

    A label counts for the set that was served. `predict_set_one` remembers it, and `learn_one`
    finds it by the features, by the rules of `CalibratedClassifier`. If features cannot be
    compared, or the process may end before the label arrives, pass the set as ``decided``. Without
    both, the set is predicted again, and the promise is about that set.

    Each of the methods that predict asks the classifier for its probabilities: with a
    `CalibratedClassifier`, which remembers its predictions, too, call one of them for a sample. A
    pipeline belongs inside, since those of river have no ``predict_set_one``.

    References
    ----------
    .. [1] Sadinle, Lei & Wasserman, *Least Ambiguous Set-Valued Classifiers with Bounded Error
       Levels*, Journal of the American Statistical Association 114, 2019.
    .. [2] Romano, Sesia & Candès, *Classification with Valid and Adaptive Coverage*, NeurIPS 2020.
    .. [3] Gibbs & Candès, *Adaptive Conformal Inference Under Distribution Shift*, NeurIPS 2021,
       Proposition 4.1.
    .. [4] Angelopoulos, Barber & Bates, *Online Conformal Prediction with Decaying Step Sizes*,
       ICML 2024, section 1.

    Examples
    --------
    >>> from river import datasets, naive_bayes
    >>> from streamcal import CalibratedClassifier
    >>> model = PredictionSetClassifier(CalibratedClassifier(naive_bayes.GaussianNB()), 0.95)
    >>> sizes = []
    >>> for x, y in datasets.ImageSegments():
    ...     sizes.append(len(model.predict_set_one(x)))
    ...     model.learn_one(x, y)
    >>> model.n_samples, model.n_misses, round(sum(sizes) / len(sizes), 2)
    (2310, 90, 1.68)
    """

    def __init__(
        self,
        classifier: AnyClassifier,
        coverage: float = 0.9,
        *,
        score: Score = "lac",
        step: float = 0.005,
        remember: int = 10_000,
    ) -> None:
        check_classifier(classifier)
        self._coverage = as_share(coverage, "coverage")
        check_choice(score, "score", _SCORES)
        self._step = as_within(step, "step", "(0, 1]")
        check_count(remember, "remember", 0)
        self.classifier = classifier
        self.coverage = coverage
        self.score = score
        self.step = step
        self.remember = remember
        self._set_routes(classifier, "learn_one", "predict_proba_one")
        self._highest = _HIGHEST[score]
        root = min(math.sqrt(1.0 - self._coverage), self._highest)
        # θ, and how many labels came and were missed: replaced as one, so that no signal parts it.
        self._learned = (root, 0, 0)
        self._memory = PredictionMemory(remember)

    _given = ("classifier",)
    _passes_probabilities = True

    def _freeze(self) -> tuple[Fields, Arrays]:
        root, n_samples, n_misses = self._learned
        return {"root": root, "n_samples": n_samples, "n_misses": n_misses}, {}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        n_samples = as_int(fields["n_samples"], "n_samples")
        n_misses = as_int(fields["n_misses"], "n_misses", most=n_samples)
        lowest = -self._step * (n_samples + 1)
        root = as_float(fields["root"], "root", lowest, self._highest)
        self._learned = (root, n_samples, n_misses)

    @property
    def _wrapped_model(self) -> AnyClassifier:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, naive_bayes, preprocessing

        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression()}
        yield {"classifier": naive_bayes.GaussianNB(), "score": "aps"}

    @property
    def threshold(self) -> float:
        """The score above which a label is in the set, in [0, 1]; at 0 all labels are.

        For "lac" it is a probability; for "aps" the probability of a label and of all less probable
        ones.
        """
        return max(self._learned[0], 0.0) ** 2

    @property
    def n_samples(self) -> int:
        """How many labels were learned."""
        return self._learned[1]

    @property
    def n_misses(self) -> int:
        """How many of them were not in their set."""
        return self._learned[2]

    def decide(self, probabilities: Mapping[ClfTarget, float]) -> list[ClfTarget]:
        """Return the set for a classifier's probabilities by label, as `predict_set_one` does.

        Examples
        --------
        >>> from river import naive_bayes
        >>> model = PredictionSetClassifier(naive_bayes.GaussianNB(), 0.9)
        >>> model.decide({"cat": 0.15, "dog": 0.8, "cow": 0.05})
        ['dog', 'cat']
        >>> PredictionSetClassifier(naive_bayes.GaussianNB(), 0.7).decide({"cat": 0.2, "dog": 0.8})
        ['dog']
        """
        if isinstance(probabilities, Mapping):
            for label, p in probabilities.items():
                as_number(p, f"probabilities[{label!r}]")
        _check(probabilities)
        return self._set_of(probabilities)

    def _set_of(self, raw: Mapping[ClfTarget, float]) -> list[ClfTarget]:
        """Return the labels whose score is above the threshold; always the most probable one."""
        labels = _ranked(raw)
        if self._learned[0] <= 0.0:
            return labels
        threshold, left, is_mass = self.threshold, 1.0, self.score == "aps"
        for size, label in enumerate(labels):
            p = raw[label]
            if size and (left if is_mass else p) <= threshold:
                return labels[:size]
            left -= p
        return labels

    def predict_set_one(self, x: Features, **kwargs: Any) -> list[ClfTarget]:
        """Return the labels that one may be, the most probable first.

        It is a list, so that it can be shown, shortened and stored in this order.

        Parameters
        ----------
        x : dict
            The features.
        **kwargs
            For the classifier, if its ``predict_proba_one`` accepts them.

        Returns
        -------
        list of labels
            At least the most probable label; empty only while the classifier knows no label.

        Raises
        ------
        ValueError
            If the classifier's probabilities are not in [0, 1], or one of its labels is NaN.
        """
        raw = self.predict_proba_one(x, **kwargs)
        labels = self._set_of(raw)
        if self.remember:
            self._memory.add(x, Remembered(dict(raw), None, 0, None, len(labels)), _no_ticket)
        return labels

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the most probable label, the first one of the set; None if there is none."""
        labels = _ranked(self.predict_proba_one(x, **kwargs))
        return labels[0] if labels else None

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the classifier's own probabilities."""
        raw: dict[ClfTarget, float] = self._call("predict_proba_one", x, **kwargs)
        _check(raw, x)
        return raw

    def learn_one(
        self,
        x: Features,
        y: ClfTarget,
        *,
        served: Any = None,
        decided: Collection[ClfTarget] | None = None,
        **kwargs: Any,
    ) -> None:
        """Teach the classifier, and move the threshold by whether the set has the label.

        Parameters
        ----------
        x : dict
            The features.
        y : bool, int or str
            The label. One that the classifier does not know is a miss.
        served : mapping from label to probability, or Served, optional
            The probabilities when the sample was served. A result of
            `CalibratedClassifier.serve_one` is passed on to that classifier.
        decided : list of labels, optional
            The set that was served. Without it, that of ``served``; without both, the set that is
            remembered for these features; if there is none, it is predicted again.
        **kwargs
            The classifier gets those that its ``learn_one`` takes, such as a weight ``w``. Each
            set counts once, for any weight.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None or NaN, or is text where the predicted labels are not, or the reverse,
            a probability is not a number in [0, 1], ``served`` is no mapping from labels to
            probabilities, or ``decided`` is no collection of labels. Nothing has been learned then.
        """
        check_label(y)
        self._check_arguments(kwargs)
        found = self._memory.find(x)
        raw: Mapping[ClfTarget, float] = {}
        size: int | None = None
        if served is not None:
            given = probabilities_in(served)
            raw = as_probabilities_of_labels(given)
            check_served(raw, ())
            if given is not served:
                kwargs["served"] = served
        elif found is not None:
            raw, size = found.prediction.raw, found.prediction.set_size
        elif decided is None:
            raw = predict_again(self.classifier, x)
            _check(raw, x)
        if decided is not None:
            labels = _as_labels(decided)
            # A label that the classifier does not know must not fill the sets after it.
            if served is None and found is None and y not in labels:
                raw = predict_again(self.classifier, x)
                _check(raw, x)
        else:
            labels = self._set_of(raw) if size is None else _ranked(raw)[:size]
        for predicted in filter(None, (raw, labels)):
            check_among(y, predicted)
        learned = self._learned_with(y not in labels, y in raw)
        if found is None and served is None and decided is None:
            self._memory.warn_if_late(x, "pass the set as `decided`")
        self._call("learn_one", x, y, **kwargs)
        # Only now: if the model raises, nothing is counted.
        take = () if found is None else self._memory.take_steps((found,))
        do_all(*take, partial(setattr, self, "_learned", learned))

    def _learned_with(self, is_miss: bool, is_known: bool) -> tuple[float, int, int]:
        """Return θ and the counts after one more label; see the class for the rule."""
        root, n_samples, n_misses = self._learned
        if not is_miss:
            root = min(root + self._step * (1.0 - self._coverage), self._highest)
        else:
            lower = root - self._step * self._coverage
            # All sets are full below 0. If θ sank there by labels that no set can have, sets would
            # remain full for long afterwards.
            root = lower if is_known else max(lower, min(root, 0.0))
        return root, n_samples + 1, n_misses + is_miss


def _check(raw: Any, x: Any = None) -> None:
    """Raise unless these are probabilities of labels; ``x`` are the features, if they are known."""
    if type(raw) is dict and are_probabilities(raw):  # obviously
        return
    check_mapping(raw)
    check_probabilities(raw, x)


def _ranked(raw: Mapping[ClfTarget, float]) -> list[ClfTarget]:
    """Return labels, the most probable one first; ties in the order of the classifier."""
    return sorted(raw, key=raw.__getitem__, reverse=True)


def _no_ticket(raw: Mapping[ClfTarget, float], features: Any) -> tuple[None, tuple[()]]:
    """Return the ticket of a prediction that waits: no calibrator needs one."""
    return None, ()


def _as_labels(decided: Any) -> list[Any]:
    """Return the labels of a served set, or raise."""
    is_other = isinstance(decided, str | bytes | bytearray | Mapping)
    if is_other or not isinstance(decided, Collection):
        raise TypeError(
            f"`decided` must be the labels of the set that was served, got {shown(decided)}"
        )
    labels = list(decided)
    for label in labels:
        check_label(label, "decided")
    return labels
