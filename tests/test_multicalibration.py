"""The multicalibration error: equal to the definition, and no segment is blamed for chance."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import linear_model, utils
from scipy.integrate import quad

from streamcal.metrics import MulticalibrationError, multicalibration_error
from streamcal.metrics.segment_errors import Group, adjust, measure, range_tail
from tests.oracles_diagnostics import segment_error, segments_of

FIELDS = ("country", "device")
GROUPS = [(), ("country",), ("device",), FIELDS]

samples = st.tuples(
    st.booleans(),
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1),
    st.sampled_from([0.25, 1.0, 3.0]),
    st.fixed_dictionaries(
        {"country": st.sampled_from(["de", "fr", None]), "device": st.sampled_from([1, "1", 2.5])}
    ),
)


def columns_of(rows: Any) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in FIELDS}


def many_samples(n: int, n_values: int = 12, seed: int = 0) -> Any:
    """Calibrated predictions and two fields."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, n)
    columns = {name: rng.integers(n_values, size=n) for name in FIELDS}
    return (rng.random(n) < p).astype(float), p, columns


@given(st.lists(samples, min_size=1, max_size=30), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_batch_and_stream_equal_the_definition(stream: Any, min_samples: int) -> None:
    y, p, w, rows = zip(*stream, strict=True)
    batch = multicalibration_error(y, p, columns_of(rows), w=w, min_samples=min_samples)
    metric = MulticalibrationError(FIELDS, min_samples=min_samples)
    for sample in stream:
        metric.update(*sample[:3], x={**sample[3], "other": object()})
    assert metric.result() == batch
    assert metric.get() == batch.error

    expected = {
        name: at
        for name, at in segments_of(rows, GROUPS).items()
        if len(at) >= min_samples or not name
    }
    assert len(batch.segments) == len(expected)
    for found in batch.segments:
        at = expected[tuple(found.segment.items())]
        error, deviation = segment_error(*([column[i] for i in at] for column in (y, p, w)))
        assert found.n_samples == len(at)
        assert found.error == pytest.approx(error, abs=1e-12)
        assert found.deviation == pytest.approx(deviation)
        assert found.weight == pytest.approx(sum(w[i] for i in at))
        assert found.observed == pytest.approx(sum(w[i] * y[i] for i in at) / found.weight)
        assert found.predicted == pytest.approx(sum(w[i] * p[i] for i in at) / found.weight)
        assert found.error >= abs(found.observed - found.predicted) - 1e-12
        assert 0.0 <= found.p_value <= found.adjusted_p_value <= 1.0
    assert batch.segments[0].adjusted_p_value == batch.p_value


def test_it_equals_mcgrad() -> None:
    """The numbers are those of MCGrad 0.1.5, for scores that are all different.

    ``m = mcgrad.metrics.MulticalibrationError(pandas.DataFrame({**columns, "p": p**1.5, "y": y,
    "w": w}), "y", "p", "w", categorical_segment_columns=["country", "device"], max_depth=2,
    max_values_per_segment_feature=100, precision_dtype="float64")``, then ``m.mce``,
    ``m.mce_sigma``, ``m.global_ecce``, ``m.total_number_segments`` and
    ``m.segments_ecce.sum()``.
    """
    y, p, columns = many_samples(3_000, 5)
    w = np.random.default_rng(1).exponential(size=len(p))
    found = multicalibration_error(y, p**1.5, columns, w=w, pos_val=1)
    (whole,) = [each for each in found.segments if not each.segment]
    assert found.error == pytest.approx(0.09252432432, rel=1e-9)
    assert found.sigmas == pytest.approx(13.0310472932, rel=1e-9)
    assert whole.error == pytest.approx(0.09252432432, rel=1e-9)
    assert len(found.segments) == 36
    assert sum(each.error for each in found.segments) == pytest.approx(3.618204925, rel=1e-9)


def test_p_values_are_those_of_the_limit_for_many_samples() -> None:
    y, p, columns = many_samples(150_000, 2)
    for each in multicalibration_error(y, p, columns, pos_val=1).segments:
        limit = range_tail(np.array([each.sigmas]))[0]
        assert each.p_value == pytest.approx(limit, rel=0.05)
        assert each.p_value >= limit


def test_the_tail_is_that_of_the_range_of_brownian_motion() -> None:
    """By the integral of Feller's density (1951, equation 3.6), and by random walks."""

    def density(r: float) -> float:
        k = np.arange(1.0, 200.0)
        terms = (-1.0) ** (k - 1.0) * k**2 * np.exp(-0.5 * (k * r) ** 2)
        return float(8.0 / math.sqrt(2.0 * math.pi) * terms.sum())

    for x in (0.6, 0.9, 0.999, 1.001, 1.6, 2.5, 4.0):
        assert range_tail(np.array([x]))[0] == pytest.approx(quad(density, x, 12.0)[0], abs=1e-9)
    walks = np.cumsum(np.random.default_rng(2).choice(np.array([-1.0, 1.0]), (500, 900)), axis=1)
    ranges = (np.maximum(walks.max(axis=1), 0) - np.minimum(walks.min(axis=1), 0)) / 30.0
    assert range_tail(ranges + 1.0 / 30.0).mean() == pytest.approx(0.5, abs=0.05)
    tail = range_tail(np.linspace(0.0, 40.0, 2_000))
    assert (np.diff(tail) <= 1e-15).all()
    assert (tail[0], tail[-1]) == (1.0, pytest.approx(0.0, abs=1e-100))


@pytest.mark.parametrize("kind", ["rare", "few", "mixed", "even", "weighted"])
def test_p_values_of_calibrated_segments_are_not_too_small(kind: str) -> None:
    """For any number of expected events; those of the limit would be, for rare ones."""
    rng = np.random.default_rng(3)
    p = {
        "rare": rng.random(50) * 1e-3,
        "few": rng.random(10),
        "mixed": rng.beta(1, 20, 150),
        "even": rng.random(150),
        "weighted": rng.random(60),
    }[kind]
    n = 200_000 // len(p)
    w = rng.exponential(size=len(p)) ** 2 if kind == "weighted" else np.ones(len(p))
    all_p, codes = np.tile(p, n), np.repeat(np.arange(n), len(p))
    y = (rng.random(len(all_p)) < all_p).astype(float)
    errors = measure([Group((), [()] * n, codes)], y, all_p, np.tile(w, n))
    for level in (0.1, 0.01, 0.001):
        allowed = level + 3.0 * math.sqrt(level / n)
        assert (errors.p_values <= level).mean() <= allowed
    if kind == "rare":
        assert (range_tail(np.minimum(errors.sigmas, 99.0)) <= 0.001).mean() > 0.01


def test_calibrated_segments_are_seldom_blamed_and_wrong_ones_are() -> None:
    """Of 60 streams with some 160 segments, at most about 3 have one at the 5 % level."""
    wrong = sum(
        multicalibration_error(*many_samples(1_500, seed=i), pos_val=1).p_value <= 0.05
        for i in range(60)
    )
    assert wrong <= 7
    y, p, columns = many_samples(20_000)
    bad = (columns["country"] == 3) & (columns["device"] == 7)
    p[bad] = 1.0 - (1.0 - p[bad]) ** 3
    found = multicalibration_error(y, p, columns, pos_val=1)
    assert [each.segment for each in found.miscalibrated(0.01)] == [{"country": 3, "device": 7}]
    assert found.worst.segment == {"country": 3, "device": 7}
    assert found.worst.predicted > found.worst.observed
    assert found.mean > found.mean_if_calibrated / 1.2
    assert found.mean_if_calibrated == pytest.approx(1.596 * found.mean_deviation, rel=1e-3)


def test_corrected_p_values_are_those_of_holm() -> None:
    p_values = np.array([0.01, 0.04, 0.03, 0.005])
    assert adjust(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust(np.array([0.5, 0.9])).tolist() == [1.0, 1.0]


def test_the_order_of_equal_predictions_does_not_matter() -> None:
    y, p, columns = many_samples(500)
    p = p.round(1)
    order = np.random.default_rng(4).permutation(500)
    again = {name: column[order] for name, column in columns.items()}
    first = multicalibration_error(y, p, columns, pos_val=1)
    second = multicalibration_error(y[order], p[order], again, pos_val=1)
    assert second.error == pytest.approx(first.error)
    assert second.p_value == pytest.approx(first.p_value)


def test_values_that_are_equal_are_one_segment() -> None:
    values = [1, 1.0, True, np.int64(1), np.float32(1), None, math.nan, np.float64("nan"), "1"]
    values.append(pytest.importorskip("pandas").NA)
    found = multicalibration_error([0, 1] * 5, [0.5] * 10, {"a": values}, min_samples=1)
    sizes = {each.segment["a"]: each.n_samples for each in found.segments if each.segment}
    assert sizes == {1: 5, None: 4, "1": 1}
    metric = MulticalibrationError(["a"], min_samples=1)
    for value in values:
        metric.update(True, 0.5, x={"a": value})
    metric.update(True, 0.5, x={})
    sizes = {each.segment["a"]: each.n_samples for each in metric.result().segments if each.segment}
    assert sizes == {1: 5, None: 5, "1": 1}


@pytest.mark.parametrize("crosses", ["auto", (), [("country", "device", "hour")]])
def test_crossings_are_those_of_the_calibrator(crosses: Any) -> None:
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(3, size=300) for name in (*FIELDS, "hour")}
    found = multicalibration_error(rng.random(300) < 0.5, rng.random(300), columns, crosses=crosses)
    kinds = {tuple(each.segment) for each in found.segments}
    pairs = {FIELDS, ("country", "hour"), ("device", "hour")} if crosses == "auto" else set(crosses)
    assert kinds == {(), ("country",), ("device",), ("hour",), *pairs}


def test_data_frames_have_columns_too() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    y, p, columns = many_samples(300)
    expected = multicalibration_error(y, p, columns, pos_val=1)
    tables = pytest.importorskip("pyarrow").table(columns), polars.DataFrame(columns)
    for frame in (*tables, pandas.DataFrame(columns)):
        assert multicalibration_error(y, p, frame, pos_val=1) == expected
        with pytest.raises(
            ValueError, match=r"`columns` must have a column .*, got none for 'planet'"
        ):
            multicalibration_error(y, p, frame, fields=["planet"], pos_val=1)
    nullable = pandas.DataFrame({"device": pandas.array([1, None] * 150, dtype="Int64")})
    found = multicalibration_error(y, p, nullable, pos_val=1)
    assert {each.segment["device"] for each in found.segments if each.segment} == {1, None}
    only = multicalibration_error(y, p, frame, fields=["device"], pos_val=1)
    assert {tuple(each.segment) for each in only.segments} == {(), ("device",)}


def test_predictions_of_0_and_1() -> None:
    right = multicalibration_error([0, 1], [0.0, 1.0], {"a": [1, 1]}, min_samples=1)
    assert (right.error, right.sigmas, right.p_value) == (0.0, 0.0, 1.0)
    wrong = multicalibration_error([1, 1], [0.0, 1.0], {"a": [1, 2]}, min_samples=1)
    assert (wrong.worst.segment, wrong.sigmas, wrong.p_value) == ({}, math.inf, 0.0)
    one = multicalibration_error([1], [0.5], {"a": [1]})
    assert (one.error, one.sigmas) == (0.5, 1.0)
    assert one.p_value > 0.5
    ones = multicalibration_error(np.ones(50), np.full(50, 0.9), {"a": np.ones(50)})
    assert ones.worst.observed == 1.0
    assert ones.p_value < 0.2


@pytest.mark.parametrize("p", [1e-300, 1e-310, 5e-324])
def test_a_wrong_prediction_near_0_is_the_clearest_error(p: float) -> None:
    found = multicalibration_error([1] + [0] * 19, [p] * 20, {"a": [0] * 10 + [1] * 10})
    assert found.p_value < 1e-290
    assert [each.segment for each in found.segments if each not in found.miscalibrated()] == [
        {"a": 1}
    ]


# A river metric -----------------------------------------------------------------------------------


def test_it_is_a_river_metric() -> None:
    metric = MulticalibrationError(["a"], min_samples=2)
    assert not metric.bigger_is_better
    assert not metric.requires_labels
    assert metric.works_with_weights
    assert metric.works_with(linear_model.LogisticRegression())
    assert metric.get() == 0.0
    with pytest.raises(ValueError, match="at least one sample"):
        metric.result()
    nothing: Any
    for nothing in ({}, None):
        metric.update(True, nothing, x={"a": 1})
    assert metric.get() == 0.0
    metric.update(True, {False: 0.75, True: 0.25}, x={"a": 1})
    metric.update(np.bool_(False), 0.5, 2.0, x={"a": 1})
    assert repr(metric).startswith("MulticalibrationError: 0.")
    thawed = pickle.loads(pickle.dumps(metric))
    copied = metric.clone(include_attributes=True)
    for each in (metric, thawed, copied):
        each.update(1, 0.25, w=2.0, x={"a": 1})
    assert thawed.get() == copied.get() == metric.get() > 0.0
    assert metric.clone().get() == 0.0
    assert metric.clone()._get_params() == metric._get_params()


def test_later_changes_of_the_sequence_of_fields_do_not_count() -> None:
    fields, crosses = ["device", "country"], [["device", "country"]]
    metric = MulticalibrationError(fields, crosses)
    fields.append("hour")
    crosses[0].append("hour")
    clone = metric.clone()
    for each in (metric, clone):
        for hour in range(20):
            each.update(True, 0.5, x={"device": "tv", "country": "de", "hour": hour // 10})
    assert clone.result() == metric.result()


def test_it_holds_a_window_and_can_remove_samples() -> None:
    y, p, columns = many_samples(60, 2)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    stream = list(zip(y.tolist(), p.tolist(), rows, strict=True))
    windowed = MulticalibrationError(FIELDS, window=20, min_samples=2)
    everything = MulticalibrationError(FIELDS, window=None, min_samples=2)
    rolling: Any = utils.Rolling(
        MulticalibrationError, window_size=20, fields=FIELDS, window=None, min_samples=2
    )
    for n, (label, q, row) in enumerate(stream, 1):
        for metric in (windowed, everything, rolling):
            metric.update(label, q, x=row)
        last = slice(max(n - 20, 0), n)
        part = {name: column[last] for name, column in columns.items()}
        expected = multicalibration_error(y[last], p[last], part, pos_val=1, min_samples=2)
        assert windowed.get() == rolling.get() == expected.error
    assert everything.result().segments[0].n_samples <= 60
    for label, q, row in stream[:40]:
        everything.revert(label, q, x=row)
    assert everything.get() == windowed.get()
    with pytest.raises(ValueError, match="must have been added before and be in the window"):
        windowed.revert(*stream[0][:2], x=stream[0][2])


@pytest.mark.parametrize(
    ("arguments", "x", "error", "message"),
    [
        ((True, 0.5), None, TypeError, "`x` must be a mapping from fields to values, got None"),
        ((True, 0.5), {"a": []}, TypeError, r"'a' must be text, a number or None, got \["),
        ((True, 0.5), {"a": b"de"}, TypeError, "the field 'a' must be text, a number or None"),
        ((None, 0.5), {"a": 1}, ValueError, "`y_true` must be a label, got None"),
        ((True, 1.5), {"a": 1}, ValueError, "`y_pred` must be a probability"),
        ((True, 0.5, -1.0), {"a": 1}, ValueError, "`w` must be a positive finite number"),
    ],
)
def test_bad_samples_change_nothing(arguments: Any, x: Any, error: Any, message: str) -> None:
    metric = MulticalibrationError(["a"])
    metric.update(True, 0.25, x={"a": 1})
    for change in (metric.update, metric.revert):
        with pytest.raises(error, match=message):
            change(*arguments, x=x)
    assert metric.result().worst.n_samples == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"columns": {"b": [1]}, "fields": ["a"]},
            ValueError,
            "`columns` must have a column .* 'a'",
        ),
        ({"columns": {"a": [1, 2]}}, ValueError, "`columns` must have one value per score"),
        ({"columns": {"a": [[1]]}}, TypeError, "the field 'a' must be text, numbers or None"),
        ({"columns": {"a": [b"x"]}}, TypeError, "the field 'a' must be text, a number or None"),
        ({"columns": 3}, TypeError, "`columns` must be a mapping or a data frame"),
        ({"columns": {}}, ValueError, "`fields` must be 1 to 64 different names"),
        ({"crosses": "all"}, ValueError, "`crosses` must be 'auto' or tuples of fields"),
        ({"min_samples": 0}, ValueError, "`min_samples` must be a positive int, got 0"),
        ({"y_prob": [2.0]}, ValueError, "`y_prob` must be a probability"),
        ({"w": [0.0]}, ValueError, "`w` must be a positive finite number"),
    ],
)
def test_bad_arrays_are_refused(change: Any, error: Any, message: str) -> None:
    arguments = {"y_true": [1], "y_prob": [0.5], "columns": {"a": [1]}, **change}
    with pytest.raises(error, match=message):
        multicalibration_error(**arguments)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="`window` must be a positive int or None, got 0"):
        MulticalibrationError(["a"], window=0)
    with pytest.raises(TypeError, match="`fields` must be a sequence of names, got 'a'"):
        MulticalibrationError("a")
