"""A Series of pandas or polars in gives one out, with its index and name; other input an array."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import streamcal
from streamcal.calibration import (
    AnytimeCalibrator,
    BetaCalibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    VennAbersCalibrator,
)
from streamcal.decision import EUMThreshold
from streamcal.ordinal import StreamingThresholds

CALIBRATORS = [
    AnytimeCalibrator,
    BetaCalibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    VennAbersCalibrator,
]
SCORES, LABELS = [0.2, 0.9, 0.6, 0.4], [0, 1, 1, 0]


def pandas_series(values: list[float]) -> Any:
    return pd.Series(values, index=["a", "b", "c", "d"], name="score")


def polars_series(values: list[float]) -> Any:
    return pl.Series("score", values)


def make(kind: Any) -> Any:
    return kind("squared") if kind is AnytimeCalibrator else kind()


def check_like(result: Any, given: Any, expected: Any) -> None:
    assert type(result) is type(given)
    assert result.name == "score"
    if isinstance(given, pd.Series):
        assert result.index.tolist() == given.index.tolist()
    assert isinstance(expected, np.ndarray)
    assert result.dtype == type(given)(expected).dtype
    np.testing.assert_array_equal(result.to_numpy(), expected)


@pytest.mark.parametrize("series", [pandas_series, polars_series])
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_calibrators(kind: Any, series: Any) -> None:
    one, other = make(kind), make(kind)
    given = series(SCORES)
    served = one.predict_learn_many(given, series(LABELS), series([1.0, 2.0, 1.0, 1.0]))
    check_like(served, given, other.predict_learn_many(SCORES, LABELS, [1.0, 2.0, 1.0, 1.0]))
    check_like(one.predict_many(given), given, other.predict_many(SCORES))
    check_like(one.snapshot().predict_many(given), given, other.snapshot().predict_many(SCORES))


@pytest.mark.parametrize("series", [pandas_series, polars_series])
def test_segments(series: Any) -> None:
    given, columns = series(SCORES), {"country": ["de", "fr", "de", None]}
    one, other = (streamcal.SegmentCalibrator(["country"]) for _ in range(2))
    served = one.predict_learn_many(columns, given, series(LABELS))
    check_like(served, given, other.predict_learn_many(columns, SCORES, LABELS))
    check_like(one.predict_many(columns, given), given, other.predict_many(columns, SCORES))


@pytest.mark.parametrize("series", [pandas_series, polars_series])
def test_centred_interpolation_keyed_calibrators_and_thresholds(series: Any) -> None:
    given, labels = series(SCORES), series(LABELS)
    one, other = (IsotonicCalibrator(interpolation="centered") for _ in range(2))
    check_like(
        one.predict_learn_many(given, labels), given, other.predict_learn_many(SCORES, LABELS)
    )

    keys = ["x", "y", "x", "y"]
    keyed, same = (streamcal.KeyedCalibrator(IsotonicCalibrator()) for _ in range(2))
    served = keyed.predict_learn_many(keys, given, labels)
    check_like(served, given, same.predict_learn_many(keys, SCORES, LABELS))
    check_like(streamcal.undo_sampling(given, 0.5), given, streamcal.undo_sampling(SCORES, 0.5))

    thresholds = StreamingThresholds(2)
    thresholds.learn_many(given, labels + 1)
    check_like(thresholds.predict_many(given), given, thresholds.predict_many(SCORES))
    threshold = EUMThreshold()
    threshold.learn_many(given, labels)
    check_like(threshold.predict_many(given), given, threshold.predict_many(SCORES))


def test_no_library_of_frames_is_imported() -> None:
    code = (
        "import sys, streamcal\n"
        "print(type(streamcal.PlattCalibrator().predict_many([0.5])).__name__)\n"
        "print([name for name in ('pandas', 'polars', 'river') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "ndarray"
    assert "pandas" not in done.stdout
    assert "polars" not in done.stdout
