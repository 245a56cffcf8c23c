"""Summed votes of the leaves of river's trees, or of its rules, with calibration.

Each leaf of a tree, and each rule of a rule set, covers part of the samples. It votes a small
integer for each class, by `optimal_votes` of the class weights of its samples. The votes of all
trees of an ensemble, or of all rules that cover the sample, are summed. The sum takes few distinct
values, so isotonic regression on it is small and exact.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from river import base
from river.base.typing import ClfTarget

from streamcal._validation import as_weight, check_label
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator, check_calibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.voting.votes import optimal_votes, two_class_votes
from streamcal.wrappers.routing import Features, Routing, name_of
from streamcal.wrappers.snapshot import ModelSnapshot

_WEIGHTS_ATTRIBUTE, _VOTES_ATTRIBUTE = "voting_weights", "voting_votes"


class _RiverClasses(NamedTuple):
    """The classes of river that this module distinguishes."""

    rules: Any
    forest: Any
    tree: Any
    branch: Any


@cache
def _river_classes() -> _RiverClasses:
    """Import them for the first model, since river's trees import pandas."""
    from river.forest import ARFClassifier
    from river.rules import AMRules
    from river.tree.base import Branch
    from river.tree.hoeffding_tree import HoeffdingTree

    return _RiverClasses(AMRules, ARFClassifier, HoeffdingTree, Branch)


class VoteClassifier(Routing, base.Wrapper[Any], base.Classifier):
    """Classify by summed votes of leaves or rules, calibrated by isotonic regression.

    Use it with an adaptive random forest and two classes: there the log loss was lower than that of
    the forest, calibrated or not, in each of three streams. Do not use it with single trees, with
    bags of trees that split late (the naive Bayes models in their leaves distinguish samples, votes
    do not) or with many classes. ``docs/study.md`` has the numbers.

    Parameters
    ----------
    model : river model
        A Hoeffding tree classifier of any kind, an ensemble of those (``forest.ARFClassifier``,
        ``ensemble.BaggingClassifier``, …), or ``rules.AMRules`` for the labels False and True. It
        is not copied.
    calibrator : Calibrator or None
        The prototype that is cloned for each class; None means ``IsotonicCalibrator()``.

    Raises
    ------
    TypeError
        If ``model`` has no known leaves or rules, or ``calibrator`` is not a `Calibrator`.

    Examples
    --------
    >>> from river import datasets, evaluate, forest, metrics
    >>> model = forest.ARFClassifier(n_models=10, seed=1)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model.clone(), metrics.LogLoss())
    LogLoss: 0.3
    >>> evaluate.progressive_val_score(
    ...     datasets.Phishing(), VoteClassifier(model), metrics.LogLoss()
    ... )
    LogLoss: 0.285...
    """

    def __init__(self, model: Any, calibrator: Calibrator | None = None) -> None:
        if calibrator is None:
            calibrator = IsotonicCalibrator()
        check_calibrator(calibrator, binary=False)
        if not _has_covers(model):
            raise TypeError(
                "`model` must be a Hoeffding tree classifier, an ensemble of them or AMRules, "
                f"got {name_of(model)}"
            )
        self.model = model
        self.calibrator = calibrator
        self._set_routes(model, "learn_one")
        self._labels: list[ClfTarget] = []
        self._calibrators: dict[ClfTarget, Calibrator] = {}

    @property
    def _wrapped_model(self) -> Any:
        return self.model

    @property
    def _multiclass(self) -> bool:
        return not isinstance(self.model, _river_classes().rules)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import forest, tree

        yield {"model": tree.HoeffdingTreeClassifier()}
        yield {"model": forest.ARFClassifier(n_models=3, seed=1)}

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0, **kwargs: Any) -> None:
        """Learn the sample, then the votes for ``x`` from before, then new votes.

        Parameters
        ----------
        x : dict
            The features.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample for the calibrators and for the rules' class weights, from 1e-60 to
            1e60; the model learns without it, since not all river models take one.
        **kwargs
            The model gets those that its ``learn_one`` takes.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None or NaN, or neither False nor True for rules, or ``w`` not positive and
            finite; nothing is learned.
        """
        check_label(y)
        w, given = as_weight(w), self._route("learn_one", kwargs)
        regresses = isinstance(self.model, _river_classes().rules)
        if regresses and y not in (False, True):
            raise ValueError(f"`y` must be False or True for rules, got {y!r}")
        steps: list[Step] = []
        calibrators = dict(self._calibrators)
        for label, score in self.votes_one(x).items():
            if label not in calibrators:
                calibrators[label] = self.calibrator.clone()
            steps += calibrators[label]._learn_steps(score, float(y == label), w)
        seen = (False, True) if regresses else (y,)
        labels = [*self._labels, *(label for label in seen if label not in self._labels)]
        steps.append(partial(vars(self).update, _calibrators=calibrators, _labels=labels))

        target = float(y) if regresses else y
        self.model.learn_one(x, target, **given)
        for cover in _covers(self.model, x):
            steps += _steps_of_votes(cover, labels, y, w)
        do_all(*steps)

    def votes_one(self, x: Features) -> dict[ClfTarget, float]:
        """Return the sum of the votes for each label, an integer; empty before learning.

        With two labels it is the difference to the other label's sum.
        """
        totals = dict.fromkeys(self._labels, 0.0)
        if not totals:
            return totals
        for cover in _covers(self.model, x):
            votes: Mapping[ClfTarget, float] = getattr(
                cover, _VOTES_ATTRIBUTE, None
            ) or _best_votes(self._labels, _class_weights(cover))
            for label in totals:
                totals[label] += votes.get(label, -1.0)
        if len(totals) == 2:
            (a, s), (b, t) = totals.items()
            return {a: s - t, b: t - s}
        return totals

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return calibrated probabilities of the labels so far; empty before learning."""
        self._check_arguments(kwargs)
        scores = self.votes_one(x)
        values = {
            label: self._calibrators[label].predict_one(score)
            if label in self._calibrators
            else 1.0 / len(scores)
            for label, score in scores.items()
        }
        total = sum(values.values())
        if total <= 0.0:
            return dict.fromkeys(values, 1.0 / max(len(values), 1))
        return {label: value / total for label, value in values.items()}

    def snapshot(self) -> ModelSnapshot:
        """Return an immutable copy of wrapper and model that predicts, for other threads."""
        return ModelSnapshot(copy.deepcopy(self))


def _steps_of_votes(cover: Any, labels: Sequence[ClfTarget], y: ClfTarget, w: float) -> list[Step]:
    """Return what sets the votes of a leaf or rule, computed after it has learned a sample."""
    weights = _class_weights(cover)
    steps: list[Step] = []
    if not isinstance(getattr(cover, "stats", None), dict):
        weights = {**weights, y: weights.get(y, 0.0) + w}
        steps.append(partial(setattr, cover, _WEIGHTS_ATTRIBUTE, weights))
    steps.append(partial(setattr, cover, _VOTES_ATTRIBUTE, _best_votes(labels, weights)))
    return steps


def _best_votes(
    labels: Sequence[ClfTarget], weights: Mapping[ClfTarget, float]
) -> dict[ClfTarget, float]:
    """Return the best votes for class weights; a label without samples has weight 0."""
    if len(labels) < 2 or not any(weights.values()):
        return dict.fromkeys(labels, 0.0)
    if len(labels) == 2:
        a, b = labels
        margin = two_class_votes(weights.get(a, 0.0), weights.get(b, 0.0))
        return {
            a: -float(margin > 1) if margin > 0 else float(margin < 0),
            b: -float(margin < -1) if margin < 0 else float(margin > 0),
        }
    votes = optimal_votes([weights.get(label, 0.0) for label in labels]).votes
    return dict(zip(labels, votes.tolist(), strict=True))


def _has_covers(model: Any) -> bool:
    kinds = _river_classes()
    if isinstance(model, (kinds.rules, kinds.forest)):
        return True
    if isinstance(model, kinds.tree):
        return isinstance(model, base.Classifier)
    if isinstance(model, base.Ensemble):
        return len(model) > 0 and all(map(_has_covers, model))
    return False


def _covers(model: Any, x: Features) -> Iterable[Any]:
    """Yield the leaves or rules that cover a sample."""
    kinds = _river_classes()
    if isinstance(model, kinds.rules):
        fired = [rule for rule in model._rules.values() if rule.covers(x)]
        yield from fired[: 1 if model.ordered_rule_set else None] or [model._default_rule]
    elif isinstance(model, kinds.tree):
        root = model._root
        if isinstance(root, kinds.branch):
            reached = root.traverse(x, until_leaf=True)
            # An adaptive tree has alternative subtrees, and returns the leaves of all of them.
            yield from reached if isinstance(reached, list) else [reached]
        elif root is not None:
            yield root
    else:
        for member in model:
            yield from _covers(member, x)


def _class_weights(cover: Any) -> Mapping[ClfTarget, float]:
    """Return class weights: those of a leaf are in the tree, those of a rule are stored here."""
    stats = getattr(cover, "stats", None)
    if isinstance(stats, dict):
        return stats
    kept: dict[ClfTarget, float] = getattr(cover, _WEIGHTS_ATTRIBUTE, {})
    return kept
