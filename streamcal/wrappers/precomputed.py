"""A river classifier whose probabilities are features: a model elsewhere has computed them."""

from collections.abc import Iterator, Mapping
from typing import Any

from river import base
from river.base.typing import ClfTarget

from streamcal._state.clone import Cloned
from streamcal._validation import as_probability, check_label
from streamcal.wrappers.routing import Features


class PrecomputedClassifier(Cloned, base.Classifier):
    """Predict the probabilities that a sample brings as features; learn nothing.

    A model outside of river, such as a language model, a service or a table, has computed them.
    With this class they go where a classifier is needed: into `CalibratedClassifier`,
    `streamcal.decision.SelectiveClassifier`, or the evaluation of river. Without such a wrapper a
    calibrator alone is enough; it learns scores and labels.

    Parameters
    ----------
    features : str or dict
        The name of the feature with the probability of True; False has the rest. For other labels,
        or more, the name of the feature with the probability of each label, by label.

    Raises
    ------
    TypeError, ValueError
        If ``features`` is neither the name of a feature nor a dict of names, by two labels or more.

    Examples
    --------
    >>> from streamcal import CalibratedClassifier
    >>> model = CalibratedClassifier(PrecomputedClassifier("score"))
    >>> for i in range(1_000):
    ...     model.learn_one({"score": 0.9}, i % 2 == 0)
    >>> model.predict_proba_one({"score": 0.9})[True].__round__(2)
    0.5
    >>> PrecomputedClassifier({"cat": "p_cat", "dog": "p_dog"}).predict_one(
    ...     {"p_cat": 0.2, "p_dog": 0.8}
    ... )
    'dog'
    """

    def __init__(self, features: str | Mapping[ClfTarget, str]) -> None:
        if isinstance(features, Mapping):
            if len(features) < 2:
                raise ValueError(
                    f"`features` must have the feature of two labels or more, got {features!r}"
                )
            for label in features:
                check_label(label, "features")
        names = features.values() if isinstance(features, Mapping) else (features,)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    "`features` must be the name of a feature, or a dict of names by label, got"
                    f" {features!r}"
                )
        self.features = features

    @property
    def _multiclass(self) -> bool:
        return isinstance(self.features, Mapping) and len(self.features) > 2

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"features": "empty_server_form_handler"}  # of the Phishing data: from 0 to 1

    def _unit_test_skips(self) -> set[str]:
        # These take the feature away, and there is no other to predict from.
        return {"check_disappearing_features", "check_radically_disappearing_features"}

    def learn_one(self, x: Features, y: ClfTarget) -> None:
        """Learn nothing."""

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the probability of each label.

        Raises
        ------
        ValueError, TypeError
            If a feature is missing, or is no number in [0, 1].
        """
        if isinstance(self.features, str):
            p = _probability_in(x, self.features)
            return {False: 1.0 - p, True: p}
        return {label: _probability_in(x, name) for label, name in self.features.items()}


def _probability_in(x: Features, name: str) -> float:
    """Return the probability in a feature, or raise."""
    if name not in x:
        raise ValueError(f"`x` must have the feature {name!r}, got the features {list(x)}")
    return as_probability(x[name], f"x[{name!r}]")
