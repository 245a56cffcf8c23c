"""Prediction sets of MAPIE, refitted; ``prediction_sets.py`` runs it in another Python.

    PYTHON benchmarks/mapie_sets.py SAMPLES.npz ANSWERS.npz

The file holds probabilities ``p``, the columns ``y`` of the labels, ``coverage``, and ``refit``:
after so many samples MAPIE is fitted to the last so many. Writes for "lac" and "aps" whether each
label is in each set; before the first fit all are. Prints MAPIE's version as JSON.
``pip install mapie`` in an environment of its own.
"""

import json
import sys
import warnings
from typing import Any

import mapie
import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin


class Served(ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn whose probabilities are its features."""

    def __init__(self, n_labels: int) -> None:
        self.n_labels = n_labels
        self.classes_ = np.arange(n_labels)

    def fit(self, X: Any, y: Any) -> Any:
        """Learn nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Any:
        """Return the features."""
        return np.asarray(X)

    def predict(self, X: Any) -> Any:
        """Return the most probable labels."""
        return np.asarray(X).argmax(axis=1)


def main() -> None:
    """Fit, predict and write."""
    warnings.simplefilter("ignore")
    given = np.load(sys.argv[1])
    p, y, refit = given["p"], given["y"], int(given["refit"])
    p = p / p.sum(axis=1, keepdims=True)
    answers = {kind: np.ones(p.shape, dtype=bool) for kind in ("lac", "aps")}
    for kind, chosen in answers.items():
        for start in range(refit, len(y), refit):
            model = SplitConformalClassifier(
                Served(p.shape[1]),
                confidence_level=float(given["coverage"]),
                conformity_score=kind,
                random_state=1,
            )
            model.conformalize(p[start - refit : start], y[start - refit : start])
            # With its default for APS sets are larger, and 93 % of them hold the label, not 90 %.
            options = {"include_last_label": "randomized"} if kind == "aps" else None
            sets = model.predict_set(p[start : start + refit], conformity_score_params=options)
            chosen[start : start + refit] = sets[1][:, :, 0]
    np.savez(sys.argv[2], **answers)
    print(json.dumps(mapie.__version__))


if __name__ == "__main__":
    main()
