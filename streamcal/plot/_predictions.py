"""Labels and predicted probabilities of a classifier, by the name of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamcal.wrappers.classifier import CalibratedClassifier
from streamcal.wrappers.routing import last_step, name_of

Models = dict[str, tuple[Any, Any]]
"""Whether the label is the positive one, and its probability: arrays of shape (n_samples,)."""


def predictions_of(estimator: Any, X: Any, y: Any, pos_val: Any, name: str | None) -> Models:
    """Return the predictions; see `ReliabilityDisplay.from_estimator`."""
    if hasattr(estimator, "predict_proba_one"):
        if y is not None:
            raise TypeError(
                "`y` must be None for a model of river: `X` is a dataset of pairs, as zip(X, y) is"
            )
        return _prequential(estimator, X, pos_val, name)
    if hasattr(estimator, "predict_proba"):
        if y is None:
            raise TypeError("`y` must be the labels of `X` for a model of scikit-learn, got None")
        return {name or name_of(estimator): _batch(estimator, X, y, pos_val)}
    raise TypeError(
        "`estimator` must have `predict_proba_one` or `predict_proba`, got"
        f" {name_of(last_step(estimator))}"
    )


def _prequential(model: Any, dataset: Any, pos_val: Any, name: str | None) -> Models:
    """Predict each sample, then learn it; samples before the first label are left out."""
    labels, before, after = [], [], []
    wrapped = isinstance(model, CalibratedClassifier)
    for x, y in dataset:
        served = model.serve_one(x) if wrapped else None
        raw: Mapping[Any, float] = served.raw if served else model.predict_proba_one(x)
        if raw:
            labels.append(y)
            before.append(raw.get(pos_val, 0.0))
            after.append(served.calibrated.get(pos_val, 0.0) if served else 0.0)
        if served and raw:
            model.learn_one(x, y, served=served)
        else:
            model.learn_one(x, y)
    inside = model.classifier if wrapped else model
    events = _events(labels, pos_val)
    found: Models = {name or name_of(last_step(inside)): (events, np.array(before))}
    if wrapped:
        found["calibrated"] = events, np.array(after)
    return found


def _batch(model: Any, X: Any, y: Any, pos_val: Any) -> tuple[Any, Any]:
    columns = [i for i, label in enumerate(model.classes_) if label == pos_val]
    if not columns:
        raise ValueError(
            f"`pos_val` must be one of the labels {list(model.classes_)}, got {pos_val!r}"
        )
    return np.array([label == pos_val for label in y]), model.predict_proba(X)[:, columns[0]]


def _events(labels: list[Any], pos_val: Any) -> Any:
    """Return whether each label is the positive one, or raise if none can be."""
    events = np.array([bool(label == pos_val) for label in labels])
    kinds = list(dict.fromkeys(labels))
    if len(kinds) > 1 and not events.any():
        raise ValueError(f"`pos_val` must be one of the labels {kinds}, got {pos_val!r}")
    return events
