"""Calibration for each segment."""

import copy
import itertools
import json
import math
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from streamcal import (
    HedgedCalibrator,
    IdentityCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal.calibration.tickets import Ticket
from tests import named
from tests.oracles import total_log_loss as log_loss
from tests.oracles_hedged import group_mixtures
from tests.oracles_segments import PRIOR, SHARES, Segments, log_odds, sigmoid

Sample = tuple[dict[str, Any], float, float, float]


def stream(seed: int, n: int, fields: tuple[str, ...] = ("a", "b", "c")) -> Iterator[Sample]:
    """Samples whose labels depend on their segments; some fields are missing."""
    draw = np.random.default_rng(seed)
    effects: dict[Any, float] = {}
    for _ in range(n):
        x = {name: f"{name}{draw.zipf(1.5) % 9}" for name in fields if draw.random() < 0.9}
        shift = sum(effects.setdefault(item, draw.normal()) for item in x.items())
        p = draw.random()
        y = float(draw.random() < sigmoid(log_odds(p) + shift))
        yield x, p, y, draw.choice([1.0, 0.3, 2.5])


def columns_of(samples: list[Sample]) -> tuple[dict[str, list[Any]], Any, Any, Any]:
    names = sorted({name for x, *_ in samples for name in x})
    columns = {name: [x.get(name) for x, *_ in samples] for name in names}
    _, p, y, w = (np.array(part) for part in zip(*samples, strict=True))
    return columns, p, y, w


def predict_learn(calibrator: Any, samples: list[Sample]) -> Any:
    columns, p, y, w = columns_of(samples)
    return calibrator.predict_learn_many(p, y, w, x=columns)


# Correctness --------------------------------------------------------------------------------------


@pytest.mark.parametrize("half_life", [3.0, 200.0])
@pytest.mark.parametrize("crosses", [(), (("a", "b"), ("a", "b", "c"))], ids=["fields", "crossed"])
def test_it_computes_what_the_slow_version_does(half_life: float, crosses: Any) -> None:
    fast = SegmentCalibrator(
        ("a", "b", "c"), crosses=crosses, base=PlattCalibrator(), half_life=half_life
    )
    slow, base = Segments(("a", "b", "c"), crosses, half_life), PlattCalibrator()
    for x, p, y, w in stream(1, 120):
        expected = slow.predict(x, base.predict_one(p))
        assert fast.predict_one(p, x) == pytest.approx(expected, rel=1e-8)
        label = y if w < 2.0 else abs(y - 0.25)
        slow.learn(x, base.predict_one(p), label, w)
        base.learn_one(p, label, w)
        fast.learn_one(p, label, w, x=x)


def test_samples_of_any_weight_move_the_terms_to_the_mode() -> None:
    fast = SegmentCalibrator(("a", "b"), crosses=(), base=IdentityCalibrator())
    slow = Segments(("a", "b"), (), fast.half_life)
    for i, (x, p, y, w) in enumerate(stream(4, 300, ("a", "b"))):
        answers = fast._terms.answers(fast._terms.read(x), p)
        assert answers == pytest.approx(slow.answers(x, p), rel=1e-8)
        weight = w * 10.0 ** (i % 5 - 1)
        fast.learn_one(p, y, weight, x=x)
        with np.errstate(invalid="ignore"):  # only the weights of the slow models become NaN
            slow.learn(x, p, y, weight)


@pytest.mark.parametrize("half_life", [3.0, 200.0])
def test_with_room_for_one_sample_it_computes_what_the_slow_version_does(half_life: float) -> None:
    """All terms that a sample does not have give way to its own."""
    fast = SegmentCalibrator(
        ("a", "b"), max_terms=3, base=IdentityCalibrator(), half_life=half_life
    )
    slow = Segments(("a", "b"), [("a", "b")], half_life)
    for x, p, y, w in stream(3, 200, ("a", "b")):
        assert fast.predict_one(p, x) == pytest.approx(slow.predict(x, p), rel=1e-8)
        fast.learn_one(p, y, w, x=x)
        slow.learn(x, p, y, w)
        for model in slow.models:
            model.terms = {key: model.terms[key] for key in slow.keys(x, 0.0)}
    assert fast.n_evicted > 100


def test_the_first_sample_moves_the_terms_to_the_mode_of_their_posterior() -> None:
    calibrator = SegmentCalibrator(["a", "b"], crosses=[("a", "b")], base=IdentityCalibrator())
    calibrator.learn_one(0.3, 1.0, 2.0, x={"a": 1, "b": 2})
    # The slope's feature is the log odds minus their mean, which is 0 before the first sample.
    factors = np.array([1.0, log_odds(0.3), 1.0, 1.0, 1.0])
    variances = np.array([0.2, 0.3, 0.2, 0.2, 0.2 / 3]) ** 2

    def minus_log_posterior(terms: Any) -> float:
        z = log_odds(0.3) + factors @ terms
        return 2.0 * math.log1p(math.exp(-z)) + float(np.sum(terms**2 / variances)) / 2

    found = minimize(minus_log_posterior, np.zeros(5), tol=1e-14).x
    terms = calibrator._terms
    means, learned = terms.effects(terms.read({"a": 1, "b": 2}))[:, :, 1].T
    # The priors have learned too; with the first ones the terms are at the mode.
    precisions = 1.0 / learned - 1.0 / terms.learned_variances[:, 1]
    first = means / learned / (precisions + 1.0 / variances)
    assert first == pytest.approx(found, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_it_loses_at_most_ln_2_to_its_base(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n = 2_000
    columns = {"a": draw.integers(0, 500, n).tolist(), "b": draw.integers(0, 3, n).tolist()}
    p = draw.random(n)
    y = (draw.random(n) < p).astype(float)
    if seed == 3:  # labels that speak against the corrections
        y = np.array([i % 2 for i in range(n)], dtype=float)
    base = PlattCalibrator().predict_learn_many(p, y).clip(1e-6, 1 - 1e-6)
    segments = SegmentCalibrator(["a", "b"], base=PlattCalibrator())
    served = segments.predict_learn_many(p, y, x=columns).clip(1e-6, 1 - 1e-6)
    assert log_loss(served, y) <= log_loss(base, y) + math.log(2) + 1e-9


@pytest.mark.parametrize("n_values", [1, 5, 100])
@pytest.mark.parametrize("first", [1e-6, 0.4])
def test_the_cost_is_at_most_ln_2_if_labels_oppose_the_corrections(
    first: float, n_values: int
) -> None:
    """The first score is wrong by far: the models learn from it, but were not served for it."""
    segments = SegmentCalibrator(["a", "b"], base=IdentityCalibrator())
    served, labels = [], []
    scores = [first, *[0.5] * 500]
    for i, score in enumerate(scores):
        x = {"a": i % n_values, "b": i % 2}
        served.append(segments.predict_one(score, x))
        labels.append(float(served[-1] <= score))
        segments.learn_one(score, labels[-1], x=x)
    assert 0.0 < log_loss(served, labels) - log_loss(scores, labels) <= math.log(2) + 1e-9


def test_it_is_better_than_one_calibrator_on_average_and_one_per_segment() -> None:
    samples = [(x, p, y, 1.0) for x, p, y, _ in stream(5, 6_000)]
    columns, p, y, _ = columns_of(samples)
    keys = [tuple(sorted(x.items())) for x, *_ in samples]
    segments = SegmentCalibrator(["a", "b", "c"]).predict_learn_many(p, y, x=columns)
    average = HedgedCalibrator().predict_learn_many(p, y)
    keyed = KeyedCalibrator(HedgedCalibrator()).predict_learn_many(keys, p, y)
    assert log_loss(segments, y) < min(log_loss(average, y), log_loss(keyed, y)) - 100


@pytest.mark.parametrize("sizes", [(5,), (6, 4, 3), (20, 10)], ids=str)
def test_a_rare_segment_is_corrected_where_the_base_is_right_in_all_others(sizes: Any) -> None:
    """One value of one in fifty samples is wrong by one in log odds."""
    gained, errors = [], []
    for seed in range(4):
        draw = np.random.default_rng(seed)
        n, first = 20_000, sizes[0]
        often = np.array([*[0.98 / (first - 1)] * (first - 1), 0.02])
        codes = [draw.choice(first, n, p=often)]
        codes += [draw.integers(0, size, n) for size in sizes[1:]]
        u = draw.normal(-1.4, 1.0, n)
        y = (draw.random(n) < expit(u + (codes[0] == first - 1))).astype(float)
        columns = {f"field {i}": of_field.tolist() for i, of_field in enumerate(codes)}
        base = HedgedCalibrator().predict_learn_many(expit(u), y)
        p = SegmentCalibrator(list(columns)).predict_learn_many(expit(u), y, x=columns)
        gained.append(log_loss(base, y) - log_loss(p, y))
        rare = (codes[0] == first - 1) & (np.arange(n) >= n // 2)
        errors.append(np.sum((y - p)[rare]) / np.sqrt(np.sum((p * (1.0 - p))[rare])))
    assert np.mean(gained) > 10.0  # nats, with 200 samples of the segment in each half
    assert abs(np.mean(errors)) < 1.2  # of about 5 without a correction


@pytest.mark.parametrize("effect", [0.05, 0.4])
def test_a_sparse_term_has_the_moments_of_its_posterior(effect: float) -> None:
    """By numerical integration: 0 with probability 0.9, else normal with a wide variance."""
    calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator(), half_life=50.0)
    draw = np.random.default_rng(0)
    for value in draw.integers(0, 7, 600).tolist():
        rate = 0.5 + effect * (value % 3 - 1)
        calibrator.learn_one(0.5, float(draw.random() < rate), x={"a": value})
    t = np.linspace(-8.0, 8.0, 200_001)
    priors = calibrator._terms.learned_variances[2]
    assert (priors < 0.25).all() == (effect < 0.1)
    for value in range(8):  # the last one is new
        effects = calibrator._terms.effects(calibrator._terms.read({"a": value}))[2]
        for k, prior in enumerate(priors.tolist()):
            mean, variance = effects[:, k]
            wide = max(prior, 0.25)
            # The dense term's posterior divided by its prior is the likelihood of the samples.
            likelihood = np.exp(t**2 / (2.0 * prior) - (t - mean) ** 2 / (2.0 * variance))
            density = np.exp(-(t**2) / (2.0 * wide)) / math.sqrt(2.0 * math.pi * wide)
            of_0 = 0.9 * math.exp(-(mean**2) / (2.0 * variance))
            others = [0.1 * np.trapezoid(t**n * density * likelihood, t) for n in range(3)]
            first, second = np.array(others[1:]) / (of_0 + others[0])
            expected = pytest.approx([first, second - first**2], rel=1e-6, abs=1e-9)
            assert effects[:, 2 + k].tolist() == expected


def test_an_unseen_value_is_answered_as_its_other_segments_are() -> None:
    calibrator = SegmentCalibrator(["country", "device"])
    for i in range(2_000):
        for country in ("de", "fr"):
            for device, rate in (("tv", 2), ("phone", 8)):
                calibrator.learn_one(0.5, i % 10 < rate, x={"country": country, "device": device})
    for device in ("tv", "phone"):
        known = calibrator.predict_one(0.5, {"country": "de", "device": device})
        new = calibrator.predict_one(0.5, {"country": "new", "device": device})
        assert abs(new - known) < 0.05


def test_it_follows_a_segment_that_changes() -> None:
    calibrator = SegmentCalibrator(["a"], half_life=300.0)
    for rate in (2, 8):
        for i in range(3_000):
            calibrator.learn_one(0.5, (7 * i) % 10 < rate, x={"a": "changing"})
            calibrator.learn_one(0.5, i % 2, x={"a": "constant"})
    assert calibrator.predict_one(0.5, {"a": "changing"}) > 0.75
    assert abs(calibrator.predict_one(0.5, {"a": "constant"}) - 0.5) < 0.05


# Batches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [None, IdentityCalibrator()], ids=["hedge", "raw"])
def test_a_batch_is_the_same_as_one_sample_at_a_time(base: Any) -> None:
    one, many = (SegmentCalibrator(["a", "b", "c"], base=base) for _ in range(2))
    samples = list(stream(2, 400))
    columns, p, y, w = columns_of(samples)
    unlabelled = np.random.default_rng(0).random(len(y)) < 0.2
    served = []
    for (x, score, label, weight), skip in zip(samples, unlabelled, strict=True):
        served.append(one.predict_one(score, x))
        if not skip:
            one.learn_one(score, label, weight, x=x)
    batch = many.predict_learn_many(p, np.where(unlabelled, np.nan, y), w, x=columns)
    assert batch.tolist() == served
    assert many.to_bytes() == one.to_bytes()
    before = many.to_bytes()
    assert many.predict_many(p, columns).tolist() == [
        many.predict_one(score, x) for x, score, *_ in samples
    ]
    assert many.to_bytes() == before


def test_a_batch_after_late_labels_is_the_same_as_one_sample_at_a_time() -> None:
    one = SegmentCalibrator(["a", "b", "c"], base=IdentityCalibrator())
    samples = list(stream(2, 100))
    tickets = [one.serve_one(p, x)[1] for x, p, *_ in samples[:20]]
    for (x, p, y, w), ticket in zip(samples, tickets, strict=False):
        one.learn_one(p, y, w, x=x, ticket=ticket)
    many = one.clone(include_attributes=True)
    served = []
    for x, p, y, w in samples[20:]:
        served.append(one.predict_one(p, x))
        one.learn_one(p, y, w, x=x)
    assert predict_learn(many, samples[20:]).tolist() == served
    assert many.to_bytes() == one.to_bytes()


def test_columns_are_mappings_or_data_frames() -> None:
    samples = list(stream(3, 100))
    columns, p, y, w = columns_of(samples)
    frame = pd.DataFrame(columns)  # a missing value is NaN
    expected = SegmentCalibrator(["a", "b"]).predict_learn_many(p, y, w, x=columns)
    arrays = {name: np.array(values) for name, values in columns.items()}
    of_pandas = frame, frame.astype("category"), frame.astype("string")
    for given in (*of_pandas, pl.DataFrame(columns), pa.table(columns), arrays):
        served = SegmentCalibrator(["a", "b"]).predict_learn_many(p, y, w, x=given)
        assert served.tolist() == expected.tolist()


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=named)
def test_a_field_without_a_column_is_refused(frame: Any) -> None:
    """Its name is mistyped: in a row a field may be missing, in all rows hardly."""
    x = frame({"country": ["de", "fr"]})
    calibrator: Any
    for calibrator, key in (
        (SegmentCalibrator(["contry"]), ()),
        (KeyedCalibrator(SegmentCalibrator(["country", "contry"])), (["a", "b"],)),
    ):
        with pytest.raises(ValueError, match=r"`x` must have a column .*, got none for 'contry'"):
            calibrator.learn_many(*key, [0.2, 0.8], [0, 1], x=x)
    with pytest.raises(ValueError, match="got none for 'contry'"):
        SegmentCalibrator(["contry"]).predict_many([0.2, 0.8], x=x)
    SegmentCalibrator(["contry"]).learn_one(0.2, 0, x={"country": "de"})


def test_a_batch_may_be_empty() -> None:
    calibrator = SegmentCalibrator(["a"])
    assert calibrator.predict_learn_many([], [], x={"a": []}).shape == (0,)
    assert calibrator.n_samples == 0


# Values -------------------------------------------------------------------------------------------

SAME = [
    (1, 1.0, True, np.int64(1), np.float32(1.0), np.bool_(True)),
    (0, False, -0.0, 0.0),
    (None, math.nan, np.nan, np.float64("nan"), pd.NA),
    ("é", np.str_("é")),
    (2**70, 2.0**70),
    (-(2**63), -(2.0**63)),
    (2**63, 2.0**63),
    (0.5, np.float64(0.5)),
]
DIFFERENT = [*(same[0] for same in SAME), "1", "", "\udc80", "None", 10**400, -(10**400), 2**70 + 1]
DIFFERENT += [math.inf, -math.inf, "e", "\0", "\0\0", 2**53 + 1, 2.0**53, -1, "nan", 5e-324]


def test_equal_values_are_one_segment() -> None:
    for same in SAME:
        calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator())
        for value in same:
            calibrator.learn_one(0.5, 1, x={"a": value})
        assert calibrator.n_terms == 1
        assert len({calibrator.predict_one(0.5, {"a": value}) for value in same}) == 1


def test_different_values_are_different_segments() -> None:
    calibrator = SegmentCalibrator(["a", "b"], base=IdentityCalibrator())
    for i, value in enumerate(DIFFERENT, 1):
        calibrator.learn_one(0.5, 1, x={"a": value, "b": None})
        assert calibrator.n_terms == 2 * i + 1  # of ``a``, of both, and one of ``b``


def test_a_missing_field_is_none_and_other_features_do_not_count() -> None:
    calibrator = SegmentCalibrator(["a", "b"], base=IdentityCalibrator())
    calibrator.learn_one(0.5, 1, x={"a": 1})
    calibrator.learn_one(0.5, 1, x={"a": 1, "b": None, "other": [2]})
    assert calibrator.n_terms == 3


def test_a_segment_is_found_in_another_process_too() -> None:
    code = (
        "from streamcal import IdentityCalibrator, SegmentCalibrator\n"
        "calibrator = SegmentCalibrator(['a', 'b'], base=IdentityCalibrator())\n"
        "calibrator.learn_one(0.5, 1, x={'a': 'text', 'b': 2.5})\n"
        "print(calibrator.to_bytes().hex())"
    )
    states = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert states[0] == states[1]


# Memory -------------------------------------------------------------------------------------------


def test_there_are_never_more_terms_than_max_terms() -> None:
    calibrator = SegmentCalibrator(["a", "b"], base=IdentityCalibrator(), max_terms=50)
    draw = np.random.default_rng(0)
    common = {"a": "common", "b": "common"}
    for i in range(3_000):
        calibrator.learn_one(0.5, i % 2, x={"a": int(draw.integers(10**9)), "b": "x"})
        calibrator.learn_one(0.5, 1, x=common)
        assert calibrator.n_terms <= 50
    assert calibrator.n_evicted >= 6_000 + 4 - 50  # a term that was evicted may come back
    # Terms that know much stay.
    effects = [effect.log_odds for effect in calibrator.explain_one(common)]
    assert effects[0] > 0.5
    assert calibrator.predict_one(0.5, common) > 0.95


@pytest.mark.parametrize("max_terms", [6, 7, 20, 64])
def test_terms_are_found_after_many_evictions(max_terms: int) -> None:
    calibrator = SegmentCalibrator(["a", "b", "c"], max_terms=max_terms, base=IdentityCalibrator())
    for x, p, y, w in stream(max_terms, 500):
        calibrator.learn_one(p, y, w, x=x)
    assert calibrator.n_evicted > 100
    # The hash table of the copy was filled anew.
    twin = SegmentCalibrator.from_bytes(calibrator.to_bytes())
    for x, p, y, w in stream(max_terms, 700):
        assert calibrator.predict_one(p, x) == twin.predict_one(p, x)
        assert calibrator.explain_one(x) == twin.explain_one(x)
        calibrator.learn_one(p, y, w, x=x)
        twin.learn_one(p, y, w, x=x)


def test_a_term_takes_less_than_100_bytes() -> None:
    n = 100_000
    calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator(), max_terms=n)
    calibrator.learn_many(np.full(n, 0.5), np.arange(n) % 2, x={"a": list(range(n))})
    assert calibrator.n_terms == n
    assert calibrator.memory_usage <= 100 * n


# Late labels --------------------------------------------------------------------------------------


def test_tickets_of_labels_that_come_at_once_change_nothing() -> None:
    with_tickets, without = SegmentCalibrator(["a", "b"]), SegmentCalibrator(["a", "b"])
    for x, p, y, w in stream(7, 200):
        answer, ticket = with_tickets.serve_one(p, x)
        assert answer == pytest.approx(without.predict_one(p, x), rel=1e-9)
        with_tickets.learn_one(p, y, w, x=x, ticket=ticket)
        without.learn_one(p, y, w, x=x)
        assert with_tickets.predict_one(p, x) == pytest.approx(without.predict_one(p, x), rel=1e-9)


@pytest.mark.parametrize("base", [None, PlattCalibrator()], ids=["hedge", "platt"])
def test_late_labels_are_learned_with_what_was_served(base: Any) -> None:
    calibrator = SegmentCalibrator(["a", "b", "c"], base=base)
    waiting: list[Any] = []
    losses = []
    for x, p, y, _ in stream(8, 4_000):
        answer, ticket = calibrator.serve_one(p, x)
        losses.append(log_loss(answer, y))
        waiting.append((x, p, y, json.dumps(ticket.to_json())))
        if len(waiting) > 50:
            x, p, y, kept = waiting.pop(0)
            calibrator.learn_one(p, y, x=x, ticket=Ticket.from_json(json.loads(kept)))
    _, scores, labels, _ = columns_of([(x, p, y, 1.0) for x, p, y, _ in stream(8, 4_000)])
    assert sum(losses) < log_loss(HedgedCalibrator().predict_learn_many(scores, labels), labels)
    restored = SegmentCalibrator.from_bytes(calibrator.to_bytes())
    assert restored.to_bytes() == calibrator.to_bytes()


# Bad input ----------------------------------------------------------------------------------------

GOOD = {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1], 0.5, 1), TypeError, "`x` must be a mapping"),
        (({"a": []}, 0.5, 1), TypeError, r"the value of the field 'a' must be text, .* got \[\]"),
        (({"a": b"x"}, 0.5, 1), TypeError, "the value of the field 'a'"),
        (({"a": np.datetime64("2020-01-01")}, 0.5, 1), TypeError, "the value of the field 'a'"),
        (({"a": 1}, 1.5, 1), ValueError, r"`score` must"),
        (({"a": 1}, math.nan, 1), ValueError, r"`score` must"),
        (({"a": 1}, "0.5", 1), TypeError, r"`score` must"),
        (({"a": 1}, 0.5, 2), ValueError, "`y` must"),
        (({"a": 1}, 0.5, math.nan), ValueError, "`y` must"),
        (({"a": 1}, 0.5, 1, 0.0), ValueError, "`w` must"),
        (({"a": 1}, 0.5, 1, math.inf), ValueError, "`w` must"),
    ],
    ids=str,
)
def test_bad_samples_change_nothing(arguments: Any, error: Any, message: str) -> None:
    calibrator = SegmentCalibrator(["a"])
    calibrator.learn_one(0.5, 1.0, x=GOOD)
    before = calibrator.to_bytes()
    with pytest.raises(error, match=message):
        calibrator.learn_one(*arguments[1:], x=arguments[0])
    x, p, y, *w = arguments
    columns = {"a": [1, x["a"]]} if isinstance(x, dict) else 7
    # In a batch a label that is NaN is a sample without a label.
    weights = [1.0, *(w or [-1.0 if y != y else 1.0])]
    with pytest.raises(error):
        calibrator.learn_many([0.5, p], [1, y], weights, x=columns)
    assert calibrator.to_bytes() == before


@pytest.mark.parametrize(
    "ticket",
    [
        *(7, (None, (0, (0.5,) * 7)), Ticket((1,)), Ticket((None, 3)), Ticket((3, None))),
        *(Ticket((None, (0, (0.5,)))), Ticket((None, (99, (0.5,) * 7)))),
        Ticket(((0, (2.0,)), None)),
    ],
    ids=str,
)
def test_bad_tickets_change_nothing(ticket: Any) -> None:
    calibrator = SegmentCalibrator(["a"])
    calibrator.learn_one(0.5, 1.0, x=GOOD)
    before = calibrator.to_bytes()
    with pytest.raises((TypeError, ValueError), match="`ticket` must"):
        calibrator.learn_one(0.5, 1.0, x=GOOD, ticket=ticket)
    assert calibrator.to_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"fields": "a"}, TypeError, "`fields` must be a sequence of names"),
        ({"fields": []}, ValueError, "`fields` must be 1 to 64"),
        ({"fields": ["a", "a"]}, ValueError, "`fields` must be 1 to 64 different"),
        ({"fields": ["a", 1]}, TypeError, "`fields` must be names, got 1"),
        ({"fields": ["a"] * 65}, ValueError, "`fields` must be 1 to 64"),
        ({"crosses": "all"}, ValueError, "`crosses` must be 'auto'"),
        ({"crosses": 3}, TypeError, "`crosses` must be 'auto'"),
        ({"crosses": ["ab"]}, TypeError, "`crosses` must hold tuples"),
        ({"crosses": [("a",)]}, ValueError, "two or more different"),
        ({"crosses": [("a", "c")]}, ValueError, "two or more different `fields`"),
        ({"crosses": [("a", "b"), ("b", "a")]}, ValueError, "`crosses` must be different"),
        ({"base": 3}, TypeError, "`base` must be a Calibrator"),
        ({"half_life": 0.0}, ValueError, r"`half_life` must lie in \[0.1, 1e\+15\]"),
        ({"half_life": math.inf}, ValueError, "`half_life` must"),
        ({"max_terms": 2}, ValueError, "`max_terms` must be an int from 3 to"),
        ({"max_terms": 2**31}, ValueError, "`max_terms` must be"),
        ({"max_terms": 10.0}, ValueError, "`max_terms` must be"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        SegmentCalibrator(**{"fields": ["a", "b"], **parameters})


def test_lengths_must_agree() -> None:
    calibrator = SegmentCalibrator(["a"])
    for columns, p, y in (({"a": [1]}, [0.5, 0.5], [1, 0]), ({"a": [1, 2]}, [0.5, 0.5], [1])):
        with pytest.raises(ValueError, match="must have"):
            calibrator.learn_many(p, y, x=columns)
    assert calibrator.n_samples == 0


@pytest.mark.parametrize("column", ["de", 5, np.array(5)], ids=repr)
def test_a_column_must_hold_values(column: Any) -> None:
    calibrator = SegmentCalibrator(["country"])
    with pytest.raises(TypeError, match=r"`columns` must hold columns, got .* for 'country'"):
        calibrator.learn_many([0.5, 0.5], [0, 1], x={"country": column})
    assert calibrator.n_samples == 0


class Undefined(IdentityCalibrator):
    """Predicts NaN for one score."""

    def predict_one(self, score: float) -> float:
        return math.nan if score == 0.25 else score

    def predict_many(self, scores: Any) -> Any:
        return np.array([self.predict_one(score) for score in scores])


def test_a_base_that_predicts_nan_is_refused() -> None:
    calibrator = SegmentCalibrator(["a"], base=Undefined())
    calibrator.learn_one(0.5, 1, x={"a": 1})
    x, before = {"a": 1}, calibrator.predict_one(0.5, {"a": 1})
    for call in (
        lambda: calibrator.predict_one(0.25, x),
        lambda: calibrator.serve_one(0.25, x),
        lambda: calibrator.learn_one(0.25, 1, x=x),
        lambda: calibrator.learn_group([0.5, 0.25], [1, 1], x=[x, x]),
        lambda: calibrator.predict_many([0.5, 0.25], {"a": [1, 1]}),
    ):
        with pytest.raises(ValueError, match="`base` must predict numbers, got NaN from Undefined"):
            call()
    assert calibrator.predict_one(0.5, x) == before


@pytest.mark.parametrize("w", [1e-60, 1e60])
@pytest.mark.parametrize("p", [0.0, 1.0, 1e-300])
def test_extreme_samples_leave_probabilities(p: float, w: float) -> None:
    calibrator = SegmentCalibrator(["a", "b"])
    for i, y in itertools.product(range(20), (0.0, 1.0, 0.3)):
        calibrator.learn_one(p, y, w, x={"a": i % 3, "b": i})
        for score in (0.0, p, 0.5, 1.0):
            assert 0.0 <= calibrator.predict_one(score, {"a": 1, "b": 2}) <= 1.0
    assert SegmentCalibrator.from_bytes(calibrator.to_bytes()).n_terms == calibrator.n_terms


# Copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda c: pickle.loads(pickle.dumps(c)),
        lambda c: SegmentCalibrator.from_bytes(c.to_bytes()),
        lambda c: c.clone(include_attributes=True),
    ],
    ids=["deepcopy", "pickle", "bytes", "clone"],
)
def test_a_copy_continues_as_the_original_does(copied: Any) -> None:
    original = SegmentCalibrator(["a", "b"], crosses=[("a", "b")], max_terms=20)
    samples = list(stream(9, 200))
    for x, p, y, w in samples[:100]:
        original.learn_one(p, y, w, x=x)
    twin = copied(original)
    state = original.to_bytes()
    for x, p, y, w in samples[100:]:
        twin.learn_one(p, y, w, x=x)
    assert original.to_bytes() == state
    for x, p, y, w in samples[100:]:
        original.learn_one(p, y, w, x=x)
    assert original.to_bytes() == twin.to_bytes()


@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_fields_may_be_any_sequence_and_later_changes_of_it_do_not_count(kind: Any) -> None:
    fields, crosses = kind(["a", "b", "c"]), kind([kind(["a", "b"])])
    calibrator = SegmentCalibrator(fields, crosses=crosses, base=IdentityCalibrator())
    twin = SegmentCalibrator(["a", "b", "c"], crosses=[("a", "b")], base=IdentityCalibrator())
    for x, p, y, w in stream(3, 20):
        calibrator.learn_one(p, y, w, x=x)
        twin.learn_one(p, y, w, x=x)
    if kind is not tuple:
        fields.append("d")
        crosses.append(("b", "c"))
    assert calibrator.to_bytes() == twin.to_bytes()
    assert repr(calibrator.clone()) == repr(twin)
    assert SegmentCalibrator.from_bytes(calibrator.to_bytes()).to_bytes() == twin.to_bytes()


def test_a_clone_has_learned_nothing() -> None:
    original = SegmentCalibrator(["a"], half_life=5.0)
    original.learn_one(0.5, 1.0, x=GOOD)
    clone = original.clone()
    assert (clone.n_samples, clone.n_terms, clone.half_life) == (0, 0, 5.0)
    assert clone.predict_one(0.3, {"a": 1}) == 0.3


def test_a_notebook_shows_segments_and_base() -> None:
    calibrator = SegmentCalibrator(["a"])
    for x, p, y, w in stream(4, 50):
        calibrator.learn_one(p, y, w, x=x)
    html = calibrator._repr_html_()
    for shown in ("SegmentCalibrator", "HedgedCalibrator", "terms", "all samples"):
        assert shown in html


def test_predicting_changes_nothing() -> None:
    calibrator = SegmentCalibrator(["a", "b"])
    for x, p, y, w in stream(4, 50):
        calibrator.learn_one(p, y, w, x=x)
    before = calibrator.to_bytes()
    for x, p, *_ in stream(5, 50):
        calibrator.predict_one(p, x)
        calibrator.serve_one(p, x)
        calibrator.explain_one(x)
    assert calibrator.to_bytes() == before


def test_a_snapshot_predicts_what_was_learned_before_it() -> None:
    calibrator = SegmentCalibrator(["a", "b", "c"])
    samples = list(stream(9, 200))
    columns, scores, *_ = columns_of(samples)
    for x, p, y, w in samples[:100]:
        calibrator.learn_one(p, y, w, x=x)
    snapshot = calibrator.snapshot()
    before = [calibrator.predict_one(p, x) for x, p, *_ in samples]
    for x, p, y, w in samples[100:]:
        calibrator.learn_one(p, y, w, x=x)
    assert before != [calibrator.predict_one(p, x) for x, p, *_ in samples]
    for each in (snapshot, pickle.loads(pickle.dumps(snapshot)), copy.deepcopy(snapshot)):
        assert [each.predict_one(p, x) for x, p, *_ in samples] == before
        assert each.predict_many(scores, columns).tolist() == before
        assert each.n_samples == 100
    with pytest.raises(AttributeError, match="cannot assign to field"):
        snapshot.n_samples = 0
    assert not hasattr(snapshot, "learn_one")


def test_threads_may_share_it() -> None:
    calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator(), max_terms=30)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for x, p, y, w in stream(seed, 300, ("a",)):
                calibrator.learn_one(p, y, w, x={**x, "b": seed})
                assert 0.0 <= calibrator.predict_one(p, x) <= 1.0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert calibrator.n_samples == 1_200


# Groups -------------------------------------------------------------------------------------------


def groups(sizes: list[int], seed: int = 0) -> list[tuple[list[dict[str, Any]], Any, Any]]:
    """Rows with segments, and an outcome that they share."""
    rng = np.random.default_rng(seed)
    found = []
    for m in sizes:
        xs = [{"a": int(rng.integers(3)), "b": f"b{rng.integers(2)}"} for _ in range(m)]
        found.append((xs, rng.uniform(0.2, 0.8, m), np.full(m, float(rng.random() < 0.6))))
    return found


def test_groups_are_learned_as_the_slow_version_learns_them() -> None:
    """Each row with its part of the weight; the models' weights by the mean log likelihood."""
    crosses = (("a", "b"),)
    fast = SegmentCalibrator(["a", "b"], crosses=crosses, base=PlattCalibrator(), half_life=30.0)
    slow, base = Segments(["a", "b"], crosses, 30.0), PlattCalibrator()
    odds = np.log(list(SHARES.values())) - np.log(max(SHARES.values()))
    labelled: list[Any] = []
    for xs, scores, y in groups([3, 20, 2, 17, 5, 8, 2, 12]):
        bases = [base.predict_one(p) for p in scores.tolist()]
        answers = np.array([slow.answers(x, p) for x, p in zip(xs, bases, strict=True)])
        served = [fast.serve_one(p, x)[0] for x, p in zip(xs, scores.tolist(), strict=True)]
        labelled.append((answers, y))
        if slow.n_samples:
            mixtures = group_mixtures(
                labelled, tuple(SHARES), tuple(PRIOR), raw=0, odds=tuple(odds)
            )
            assert served == pytest.approx(mixtures[-1].tolist(), rel=1e-7)
        fast.learn_group(scores, y, x=xs)
        for x, p, label in zip(xs, bases, y.tolist(), strict=True):
            slow.learn(x, p, label, 1.0 / len(y))
        base.learn_many(scores, y, np.full(len(y), 1.0 / len(y)))
    assert fast.n_samples == len(labelled)


@pytest.mark.parametrize("base", [None, PlattCalibrator()], ids=["hedge", "platt"])
def test_tickets_of_a_group_that_is_learned_at_once_change_nothing(base: Any) -> None:
    with_tickets, without = (SegmentCalibrator(["a", "b"], base=base) for _ in range(2))
    for xs, scores, y in groups([4, 7, 2, 9]):
        rows = zip(xs, scores.tolist(), strict=True)
        tickets: list[Any] = [with_tickets.serve_one(p, x)[1] for x, p in rows]
        with_tickets.learn_group(scores, y, 3.0, x=xs, tickets=[None, *tickets[1:]])
        without.learn_group(scores, y, 3.0, x=xs)
    assert with_tickets.to_bytes() == without.to_bytes()


def test_late_tickets_of_a_group_say_what_was_served() -> None:
    one, other = (SegmentCalibrator(["a", "b"]) for _ in range(2))
    first, *others = groups([5, 6, 7])
    xs, scores, y = first
    tickets = [one.serve_one(p, x)[1] for x, p in zip(xs, scores.tolist(), strict=True)]
    for each in (one, other):
        for group in others:
            each.learn_group(*group[1:], x=group[0])
    one.learn_group(scores, y, x=xs, tickets=tickets)
    other.learn_group(scores, y, x=xs)
    assert one._mixture.delay.mean > 0.0 == other._mixture.delay.mean
    assert one.weights != other.weights


@pytest.mark.parametrize("ticketed", [False, True])
def test_a_group_of_one_row_is_a_sample(ticketed: bool) -> None:
    one, other = SegmentCalibrator(["a"]), SegmentCalibrator(["a"])
    for x, p, y, w in stream(3, 30):
        ticket = one.serve_one(p, x)[1] if ticketed else None
        one.learn_one(p, y, w, x=x, ticket=ticket)
        other.learn_group([p], [y], w, x=[x], tickets=[ticket] if ticketed else None)
    other.learn_group([], [], x=[])
    assert other.to_bytes() == one.to_bytes()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"x": [{}]}, ValueError, r"`x` must have one row per score \(2\), got 1"),
        ({"x": 5}, TypeError, "`x` must be a sequence of mappings, got 5"),
        ({"x": [{}, 3]}, TypeError, "`x` must be a mapping"),
        ({"x": [{}, {"a": []}]}, TypeError, "the value of the field 'a'"),
        ({"scores": [0.5, 2.0]}, ValueError, "scores"),
        ({"y": [1, 2]}, ValueError, "y"),
        ({"y": [1]}, ValueError, "y"),
        ({"w": 0.0}, ValueError, "`w` must"),
        ({"w": 1e-60}, ValueError, "`w` must"),
        ({"tickets": [None]}, ValueError, "`tickets` must have one"),
        ({"tickets": [None, Ticket((None, (99, (0.5,) * 7)))]}, ValueError, "`ticket` must"),
        ({"tickets": 5}, TypeError, "`tickets` must"),
    ],
    ids=str,
)
def test_bad_groups_change_nothing(changes: Any, error: Any, message: str) -> None:
    calibrator = SegmentCalibrator(["a"])
    calibrator.learn_one(0.5, 1.0, x=GOOD)
    before = calibrator.to_bytes()
    group = {"x": [{"a": 1}, {"a": 2}], "scores": [0.5, 0.5], "y": [1, 1]}
    with pytest.raises(error, match=message):
        calibrator.learn_group(**{**group, **changes})
    assert calibrator.to_bytes() == before
