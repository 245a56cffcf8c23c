"""Audits: how many decisions are asked for, with which probability, and the same answer again."""

import itertools
import math
import pickle
import sys
import threading
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal.monitoring import AuditSampler
from streamcal.monitoring.audits import Audit


def stream(kind: str, n: int, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    p = {
        "uniform": rng.random(n),
        "sure": rng.beta(0.3, 0.3, n),
        "rare": rng.beta(0.5, 50.0, n),
        "constant": np.full(n, 0.9),
        "drift": np.where(np.arange(n) < n // 2, rng.random(n), rng.beta(0.2, 20.0, n)),
    }[kind]
    return list(p.tolist())


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["uniform", "sure", "rare", "constant", "drift"])
def test_the_share_is_within_a_twentieth_of_the_rate(kind: str, rate: float) -> None:
    sampler = AuditSampler(rate, secret=kind)
    audits = [sampler.audit_one(i, p) for i, p in enumerate(stream(kind, 10_000, 0))]
    assert sum(audit.ask for audit in audits) == sampler.n_asked
    assert sampler.n_samples == 10_000
    assert sampler.n_asked / 10_000 == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("kind", ["uniform", "sure", "rare"])
def test_propensities_are_the_probabilities_of_being_asked(kind: str) -> None:
    """Sums of asked / propensity are sums over all decisions, up to chance."""
    p, excess, variance = np.array(stream(kind, 2_000, 1)), 0.0, 0.0
    for seed in range(30):
        sampler = AuditSampler(0.05, secret=str(seed))
        audits = [sampler.audit_one(i, x) for i, x in enumerate(p.tolist())]
        pi = np.array([audit.propensity for audit in audits])
        asked = np.array([audit.ask for audit in audits])
        excess += float(np.sum((asked / pi - 1.0) * p))
        variance += float(np.sum((1.0 / pi - 1.0) * p**2))
    assert abs(excess) < 3.0 * math.sqrt(variance)


def test_the_floor_holds_and_sure_decisions_are_asked_at_it() -> None:
    sampler = AuditSampler(0.04, secret="s", floor=0.03)
    for i, p in enumerate([0.0, 1.0, 1e-12, 0.5] * 500):
        assert sampler.audit_one(i, p).propensity >= 0.03
    assert sampler.audit_one("sure", 1.0).propensity == 0.03


def test_decisions_near_the_threshold_are_asked_more_often() -> None:
    sampler = AuditSampler(0.05, secret="s", threshold=0.9)
    near, far = [], []
    for i in range(2_000):
        near.append(sampler.audit_one(("near", i), 0.9).propensity)
        far.append(sampler.audit_one(("far", i), 0.1).propensity)
    assert np.mean(near[100:]) > 1.6 * np.mean(far[100:])


def test_thin_segments_are_asked_more_often() -> None:
    sampler, rng = AuditSampler(0.05, secret="s", fields=["country"]), np.random.default_rng(0)
    found: dict[str, list[float]] = {"big": [], "small": []}
    for i, small in enumerate((rng.random(4_000) < 0.02).tolist()):
        country = "small" if small else "big"
        found[country].append(sampler.audit_one(i, 0.4, {"country": country}).propensity)
    assert np.mean(found["small"]) > 1.6 * np.mean(found["big"])


def test_a_retry_has_the_same_answer_as_long_as_it_is_remembered() -> None:
    sampler = AuditSampler(0.3, secret="s", remember=50)
    first = [sampler.audit_one(i, 0.4) for i in range(50)]
    before = sampler.to_bytes()
    assert [sampler.audit_one(i, 0.9) for i in range(50)] == first
    assert sampler.audit_one(7.0, 0.1) == first[7]  # an equal key
    assert sampler.to_bytes() == before
    sampler.audit_one("new", 0.4)
    assert sampler.n_samples == 51
    sampler.audit_one(0, 0.4)  # forgotten by now
    assert sampler.n_samples == 52


class Kind(StrEnum):
    CALL = "call"


def test_equal_keys_have_equal_random_numbers() -> None:
    for key, same in [(Kind.CALL, "call"), (("a", Kind.CALL, None), ("a", "call", None)), (2.0, 2)]:
        one, other = (AuditSampler(0.5, secret="s") for _ in range(2))
        for p in np.linspace(0.0, 1.0, 20).tolist():
            assert one.audit_one((key, p), p) == other.audit_one((same, p), p)
        assert AuditSampler.from_bytes(one.to_bytes()).to_bytes() == other.to_bytes()


def test_bytes_are_of_one_instant_while_threads_ask() -> None:
    sampler = AuditSampler(0.3, secret="s", fields=["f"], remember=500)
    done, before = threading.Event(), sys.getswitchinterval()

    def ask() -> None:
        for i in itertools.count():
            if done.is_set():
                return
            sampler.audit_one((threading.get_ident(), i), 0.4, {"f": i % 300})

    threads = [threading.Thread(target=ask) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(50):
            copied = AuditSampler.from_bytes(sampler.to_bytes())
            assert sum(copied._counts[0].values()) == copied.n_samples
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)


def test_who_asks_depends_on_the_secret_and_the_key_only() -> None:
    def asked(secret: str) -> list[bool]:
        sampler = AuditSampler(0.5, secret=secret)
        return [sampler.audit_one(("call", i), 0.5).ask for i in range(200)]

    assert asked("a") == asked("a")
    assert asked("a") != asked("b")


@given(
    steps=st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 1.0), st.sampled_from("abc"))),
    cut=st.integers(0, 20),
)
def test_bytes_and_pickles_go_on_alike(steps: Any, cut: int) -> None:
    def program() -> AuditSampler:
        return AuditSampler(0.2, secret="s", fields=["f"], remember=10)

    whole, other = program(), program()
    for i, (key, p, f) in enumerate(steps):
        if i == cut:
            other = AuditSampler.from_bytes(other.to_bytes())
        if i == 2 * cut:
            other = pickle.loads(pickle.dumps(other))
        assert whole.audit_one(key, p, {"f": f}) == other.audit_one(key, p, {"f": f})
    assert whole.to_bytes() == other.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 0.0}, "`rate`"),
        ({"rate": 1.5}, "`rate`"),
        ({"secret": ""}, "`secret` must be text that is not empty"),
        ({"secret": 7}, "`secret` must be text, got 7"),
        ({"secret": "\ud800"}, "`secret` must be text that UTF-8 can hold"),
        ({"floor": 0.0}, "`floor`"),
        ({"floor": 0.5}, "`floor` must be at most `rate`, 0.02, got 0.5"),
        ({"threshold": 1.0}, "`threshold`"),
        ({"fields": "country"}, "`fields`"),
        ({"remember": 0}, "`remember`"),
    ],
)
def test_bad_parameters_are_named(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        AuditSampler(**{"secret": "s", **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.audit_one("k", 1.5, {"f": "a"}), "`p`"),
        (lambda s: s.audit_one("k", math.nan, {"f": "a"}), "`p`"),
        (lambda s: s.audit_one([], 0.5, {"f": "a"}), "`key` must be text, a number or a tuple"),
        (lambda s: s.audit_one(math.nan, 0.5, {"f": "a"}), "`key` must be text"),
        (lambda s: s.audit_one("\ud83d\ude00", 0.5, {}), "`key` must have no surrogate pairs"),
        (lambda s: s.audit_one((10**4301,), 0.5, {}), "`key` must have numbers of at most 4,300"),
        (
            lambda s: s.audit_one("k", 0.5, {"f": "\ud83d\ude00"}),
            "`x` must have no surrogate pairs",
        ),
        (lambda s: s.audit_one("k", 0.5, {"f": 10**5000}), "`x` must have numbers of at most"),
        (lambda s: s.audit_one("k", 0.5), r"`x` must be a mapping with \['f'\], got None"),
        (lambda s: s.audit_one("k", 0.5, {"f": []}), "`x` must have text or numbers in 'f'"),
    ],
)
def test_what_is_refused_changes_nothing(call: Any, message: str) -> None:
    sampler = AuditSampler(0.2, secret="s", fields=["f"])
    sampler.audit_one("a", 0.3, {})
    before = sampler.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        call(sampler)
    assert sampler.to_bytes() == before


def test_parameters_are_kept_as_numbers_that_bytes_can_hold() -> None:
    sampler = AuditSampler(
        cast(Any, Fraction(1, 2)), secret="s", floor=cast(Any, Decimal("0.25")), threshold=0.5
    )
    assert AuditSampler.from_bytes(sampler.to_bytes()).floor == 0.25


def test_an_audit_has_names() -> None:
    assert Audit(True, 0.5).ask
    assert Audit(True, 0.5).propensity == 0.5


def test_all_that_is_missing_counts_as_one_value() -> None:
    sampler = AuditSampler(0.2, secret="s", fields=["f"])
    for i, missing in enumerate([None, math.nan, np.float64("nan"), pd.NA]):
        sampler.audit_one(i, 0.5, {"f": missing})
    sampler.audit_one("left out", 0.5, {})
    assert sampler._counts == [{None: 5}]
