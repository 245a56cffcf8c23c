"""scikit-learn's own tests of isotonic regression, run with `StreamingIsotonicRegression`.

They are those of the scikit-learn that is installed: nothing of them is copied here.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.tests import test_isotonic as theirs
from sklearn.utils import check_array

from streamcal.sklearn import StreamingIsotonicRegression

_CHECK = "about `check_increasing`, which is scikit-learn's and is called as it is"
_UNIQUE = "about the private helper `_make_unique`, which has no counterpart"
LEFT_OUT = {
    "test_check_increasing_small_number_of_samples": _CHECK,
    "test_check_increasing_up": _CHECK,
    "test_check_increasing_up_extreme": _CHECK,
    "test_check_increasing_down": _CHECK,
    "test_check_increasing_down_extreme": _CHECK,
    "test_check_ci_warn": _CHECK,
    "test_make_unique_dtype": _UNIQUE,
    "test_make_unique_tolerance": _UNIQUE,
    "test_fast_predict": "calls the private `_build_y` and `_build_f`, which have no counterpart",
    "test_get_feature_names_out": "the name of the output is that of the class",
}
"""Tests that do not apply, and why."""

TESTS = {name: each for name, each in vars(theirs).items() if name.startswith("test_")}
globals().update({name: each for name, each in TESTS.items() if name not in LEFT_OUT})


def isotonic_regression(
    y: Any, *, sample_weight: Any = None, increasing: bool = True, **bounds: Any
) -> Any:
    """Do what scikit-learn's function does by the estimator."""
    y = check_array(y, dtype=[np.float64, np.float32], ensure_2d=False)
    model = StreamingIsotonicRegression(increasing=increasing, **bounds)
    return model.fit_transform(np.arange(len(y), dtype=y.dtype), y, sample_weight=sample_weight)


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theirs, "IsotonicRegression", StreamingIsotonicRegression)
    monkeypatch.setattr(theirs, "isotonic_regression", isotonic_regression)


def test_most_of_them_are_run() -> None:
    assert LEFT_OUT.keys() <= TESTS.keys()
    assert len(TESTS) - len(LEFT_OUT) >= 29
    assert theirs.IsotonicRegression is StreamingIsotonicRegression
