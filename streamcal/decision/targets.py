"""Targets that labels must keep: least values of expected metrics, and a budget of labels 1."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from streamcal._advice import shown
from streamcal._validation import as_share, as_within, check_count
from streamcal.decision.goals import (
    SPECIFICITY,
    Accuracy,
    AnyMetric,
    FBeta,
    FractionalLinear,
    Tversky,
    get_metric,
    metric_of_name,
)
from streamcal.decision.metric import Metric

Goal: TypeAlias = "Literal['positives'] | AnyMetric"
"""A goal of `maximize` that labels each sample, for type checkers."""
Targets: TypeAlias = Mapping[Any, float]
"""Targets of `maximize`, for type checkers: a mapping of names does not accept one of metrics."""

GOALS = ("positives", "coverage")
"""What can be maximised beside metrics."""

PRECISION = FBeta(0.0, zero_division=1)

# Without a label 1 none is wrong; without a positive none is missed.
_OF_NOTHING: dict[str, Metric] = {
    "accuracy": Accuracy(zero_division=1),
    "precision": PRECISION,
    "recall": Tversky(0.0, 1.0, zero_division=1),
    "specificity": FractionalLinear(*SPECIFICITY, zero_division=1),
}
_SIGNED = ("mcc", "kappa", "sec")


class Target(NamedTuple):
    """The least value of an expected metric; ``key`` is what stands for the metric."""

    key: Any
    metric: Metric
    least: float


def as_targets(subject_to: Targets | None) -> tuple[list[Target], int | None]:
    """Return the targets for metrics and the greatest number of labels 1, or raise."""
    if subject_to is None:
        return [], None
    if not isinstance(subject_to, Mapping):
        raise TypeError(
            "`subject_to` must be a dict such as {'precision': 0.95}, got " + shown(subject_to)
        )
    targets: list[Target] = []
    most: int | None = None
    for key, value in subject_to.items():
        name = f"subject_to[{key!r}]"
        if key == "positives":
            check_count(value, name, least=0)
            most = int(value)
            continue
        metric = _metric_of(key)
        if not isinstance(key, str):
            number = as_within(value, name, "(-inf, inf)")
        elif key in _SIGNED:
            number = as_within(value, name, "[-1, 1]")
        else:
            number = as_share(value, name, "[0, 1]")
        targets.append(Target(key, metric, number))
    return targets, most


def _metric_of(key: Any) -> Metric:
    """Return the metric of a target, which must be monotone."""
    if isinstance(key, str):
        found = _OF_NOTHING.get(key)
        return found or metric_of_name(key, ("positives",), "subject_to")
    try:
        metric = get_metric(key)
    except TypeError as error:
        raise TypeError(str(error).replace("`metric`", "the key of `subject_to`")) from None
    if not metric.monotone:
        raise ValueError(f"`subject_to` must have monotone metrics, got {metric!r}")
    return metric


def accuracy_of(targets: list[Target], most: int | None) -> list[Target]:
    """Return the target of coverage as one of precision, if it is the only one, or raise."""
    keys = [target.key for target in targets] + ["positives"] * (most is not None)
    if any(key != "accuracy" for key in keys):
        raise ValueError(f"`subject_to` must be of accuracy alone for 'coverage', got {keys}")
    return [Target(key, PRECISION, least) for key, _, least in targets]
