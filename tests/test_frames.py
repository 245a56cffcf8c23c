"""A Series in gives one out, with its index, and its name extended; other input gives an array."""

import subprocess
import sys
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
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


def arrow_column(values: list[float]) -> Any:
    return pa.chunked_array([values])


def narwhals_series(values: list[float]) -> Any:
    return nw.from_native(polars_series(values), series_only=True)


all_series = pytest.mark.parametrize(
    "series", [pandas_series, polars_series, arrow_column, narwhals_series]
)


def make(kind: Any) -> Any:
    return kind("squared") if kind is AnytimeCalibrator else kind()


def check_like(result: Any, given: Any, expected: Any, what: str = "calibrated") -> None:
    assert type(result) is type(given)
    if not isinstance(given, pa.ChunkedArray):  # which has no name
        assert result.name == f"score_{what}"
    if isinstance(given, pd.Series):
        assert result.index.tolist() == given.index.tolist()
    assert isinstance(expected, np.ndarray)
    array = result.to_numpy()
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


@all_series
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_calibrators(kind: Any, series: Any) -> None:
    one, other = make(kind), make(kind)
    given = series(SCORES)
    served = one.predict_learn_many(given, series(LABELS), series([1.0, 2.0, 1.0, 1.0]))
    check_like(served, given, other.predict_learn_many(SCORES, LABELS, [1.0, 2.0, 1.0, 1.0]))
    check_like(one.predict_many(given), given, other.predict_many(SCORES))
    check_like(one.snapshot().predict_many(given), given, other.snapshot().predict_many(SCORES))


@all_series
def test_segments(series: Any) -> None:
    given, columns = series(SCORES), {"country": ["de", "fr", "de", None]}
    one, other = (streamcal.SegmentCalibrator(["country"]) for _ in range(2))
    served = one.predict_learn_many(given, series(LABELS), x=columns)
    check_like(served, given, other.predict_learn_many(SCORES, LABELS, x=columns))
    check_like(one.predict_many(given, columns), given, other.predict_many(SCORES, columns))


@all_series
def test_keyed_calibrators_and_thresholds(series: Any) -> None:
    given, labels = series(SCORES), series(LABELS)
    keys = ["x", "y", "x", "y"]
    keyed, same = (streamcal.KeyedCalibrator(IsotonicCalibrator()) for _ in range(2))
    served = keyed.predict_learn_many(keys, given, labels)
    check_like(served, given, same.predict_learn_many(keys, SCORES, LABELS))
    among_all = streamcal.undo_sampling(SCORES, 0.5)
    check_like(streamcal.undo_sampling(given, 0.5), given, among_all, "among_all")

    thresholds = StreamingThresholds(2)
    thresholds.learn_many(given, series([1 + y for y in LABELS]))
    check_like(thresholds.predict_many(given), given, thresholds.predict_many(SCORES), "label")
    threshold = EUMThreshold()
    threshold.learn_many(given, labels)
    check_like(threshold.predict_many(given), given, threshold.predict_many(SCORES), "label")


def test_a_column_of_a_frame_is_not_overwritten() -> None:
    calibrator = streamcal.IsotonicCalibrator()
    calibrator.learn_many(SCORES, LABELS)
    expected = {"p": SCORES, "p_calibrated": calibrator.predict_many(SCORES).tolist()}
    frame = pl.DataFrame({"p": SCORES})
    assert frame.with_columns(calibrator.predict_many(frame["p"])).to_dict(as_series=False) == (
        expected
    )
    pandas = pd.DataFrame({"p": SCORES})
    assert pandas.join(calibrator.predict_many(pandas["p"])).to_dict("list") == expected
    table = pa.table({"p": SCORES})
    values = calibrator.predict_many(table["p"])
    assert table.append_column("p_calibrated", values).to_pydict() == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [(None, None), ("", ""), (0, "0_calibrated"), (("a", "p"), ("a", "p_calibrated"))],
)
def test_names_of_pandas(name: Any, expected: Any) -> None:
    given = pd.Series(SCORES, name=name)
    assert streamcal.PlattCalibrator().predict_many(given).name == expected  # type: ignore[attr-defined]


def test_a_series_without_a_name_has_none_after() -> None:
    assert streamcal.PlattCalibrator().predict_many(pl.Series(SCORES)).name == ""  # type: ignore[attr-defined]


def test_no_library_of_frames_is_imported() -> None:
    code = (
        "import sys, streamcal\n"
        "print(type(streamcal.PlattCalibrator().predict_many([0.5])).__name__)\n"
        "print([name for name in ('pandas', 'polars', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "ndarray"
    assert done.stdout.splitlines()[1] == "[]"
