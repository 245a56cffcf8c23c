"""Keyed calibrators behave like a dict of calibrators, also evicted, saved and opened again."""

import contextlib
import copy
import os
import pickle
import random
import tempfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import (
    AnytimeCalibrator,
    BetaCalibrator,
    Calibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    VennAbersCalibrator,
    losses,
)
from streamcal.calibration.base import predict_learn_known
from streamcal.durable import Store, StoreError
from streamcal.durable.keys import group, name_of

KEYS = ["a", "b", 3, None, True, ("a", 2), ("a", (None, 0.5)), 0.25]


def make() -> Calibrator:
    return IsotonicCalibrator(window=6)


class Plain:
    """The oracle: a dict, and its copy from the last save."""

    def __init__(self) -> None:
        self.held: dict[Any, Calibrator] = {}
        self.saved: dict[Any, bytes] = {}

    def predict_learn(self, key: Any, score: float, y: float) -> float:
        calibrator = self.held.get(key)
        value = (make() if calibrator is None else calibrator).predict_one(score)
        if y == y:
            self.held.setdefault(key, make()).learn_one(score, y)
        return value

    def states(self) -> dict[Any, bytes]:
        return {key: calibrator.to_bytes() for key, calibrator in self.held.items()}

    def save(self) -> None:
        self.saved = self.states()

    def reopen(self) -> None:
        self.held = {key: Calibrator.from_bytes(data) for key, data in self.saved.items()}


def states(keyed: KeyedCalibrator) -> dict[Any, bytes]:
    found = {}
    for key in list(keyed):
        calibrator = keyed._cache.find(key)
        assert calibrator is not None
        found[key] = calibrator.to_bytes()
    return found


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.integers(0, 8).map(lambda n: n / 8),
        st.sampled_from([0.0, 1.0, float("nan")]),
    ),
    max_size=8,
)
STEPS = st.lists(
    st.one_of(SAMPLES, st.sampled_from(["save", "reopen", "ask", "one", "bad", "revert"])),
    max_size=14,
)


@given(STEPS, st.sampled_from([None, 1, 2, 3, 5]), st.booleans(), st.randoms())
def test_as_a_dict_of_calibrators(
    steps: list[Any], max_live: int | None, with_store: bool, random: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        store = Store(path) if with_store else None
        keyed, plain = KeyedCalibrator(make, max_live=max_live, store=store), Plain()
        n_learned = 0
        for step in steps:
            if step == "save" and store is not None:
                keyed.save(n_learned)
                plain.save()
                assert keyed.n_compressed == 0
                assert (len(store), store.offset) == (len(plain.held), n_learned)
            elif step == "reopen" and store is not None:  # what was not saved is lost
                store.close()
                store = Store(path)
                keyed = KeyedCalibrator(make, max_live=max_live, store=store)
                plain.reopen()
            elif step == "revert" and store is not None:
                keyed.revert()
                plain.reopen()
            elif step == "ask":
                for key in KEYS:
                    calibrator = plain.held.get(key) or make()
                    assert keyed.predict_one(key, 0.4) == calibrator.predict_one(0.4)
                    assert keyed.snapshot(key).predict_one(0.4) == calibrator.predict_one(0.4)
                    assert (key in keyed) == (key in plain.held)
            elif step == "one":
                key = random.choice(KEYS)
                keyed.learn_one(key, 0.3, 1)
                plain.predict_learn(key, 0.3, 1.0)
            elif step == "bad":
                with pytest.raises(ValueError, match="`y` must"):
                    keyed.learn_many([*KEYS, "new"], [0.5] * 9, [1] * 8 + [3])
                with pytest.raises(TypeError, match="`keys` must"):
                    keyed.learn_many([*KEYS, ["new"]], [0.5] * 9, [1] * 9)  # type: ignore[list-item]
            elif isinstance(step, list):
                answers = [plain.predict_learn(*sample) for sample in step]
                keys, scores, y = zip(*step, strict=True) if step else ((), (), ())
                np.testing.assert_array_equal(keyed.predict_learn_many(keys, scores, y), answers)
                n_learned += len(step)
            assert len(keyed) == len(plain.held) == len(set(keyed))
            assert keyed.n_live <= (max_live or len(KEYS))
        if store is None:
            assert keyed.n_live + keyed.n_compressed == len(plain.held)
        assert states(keyed) == plain.states()
        if store is not None:
            store.close()


# Keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", [(1, True, 1.0, np.int64(1)), (("a", 0), ("a", False), ("a", -0.0))]
)
def test_equal_keys_are_one(tmp_path: Path, keys: tuple[Any, ...]) -> None:
    with Store(tmp_path / "run.db") as store:
        for n, key in enumerate(keys):
            keyed = KeyedCalibrator(PlattCalibrator(), store=store)
            assert len(keyed) == min(n, 1)
            keyed.learn_one(key, 0.5, 1)
            keyed.save()
            assert all(other in keyed for other in keys)
        assert len(store) == len(keyed) == len(list(keyed)) == 1


def test_different_keys_are_different(tmp_path: Path) -> None:
    keys = [
        1,
        "1",
        None,
        "null",
        ("a",),
        "a",
        "",
        (),
        ((),),
        0.1,
        float("inf"),
        2**80,
        "\ud800",
        "😀",
    ]
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store)
        for n, key in enumerate(keys):
            keyed.learn_many([key] * (n + 1), [0.5] * (n + 1), [1] * (n + 1))
        keyed.save()
        again = KeyedCalibrator(PlattCalibrator(), store=store)
        assert sorted(map(repr, again)) == sorted(map(repr, keys))
        for key in keys:
            assert again.predict_one(key, 0.5) == keyed.predict_one(key, 0.5)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (["a"], TypeError),
        ({"a": 1}, TypeError),
        (b"a", TypeError),
        (len, TypeError),
        (("a", [1]), TypeError),
        (frozenset(), TypeError),
        (float("nan"), ValueError),
        (("a", float("nan")), ValueError),
        ("\ud83d\ude00", ValueError),  # in JSON the same as one character
        (Decimal(1), TypeError),  # though it equals the key 1
        (("a", Fraction(1, 2)), TypeError),
    ],
)
@pytest.mark.parametrize("with_store", [False, True])
def test_what_is_no_key(tmp_path: Path, key: Any, error: type[Exception], with_store: bool) -> None:
    store = Store(tmp_path / "run.db") if with_store else None
    keyed = KeyedCalibrator(PlattCalibrator(), store=store)
    for known in ("a", 1, ("a", 0.5)):
        keyed.learn_one(known, 0.5, 1)
    before = states(keyed)
    with pytest.raises(error, match="`key` must"):
        keyed.learn_one(key, 0.5, 1)
    with pytest.raises(error, match="`keys` must"):
        keyed.learn_many(["a", key], [0.5, 0.5], [1, 1])
    assert states(keyed) == before
    keyed.saved()
    with pytest.raises(error, match="`key` must"):
        keyed.learn_one(key, 0.5, 1)
    assert keyed.states() == {}
    if store is not None:
        store.close()


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_no_key_is_refused_by_every_call(tmp_path: Path, stored: bool) -> None:
    """Though it equals a key that has a calibrator."""
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(make, store=store if stored else None)
        keyed.learn_many([1, (1, "a")], [0.3, 0.4], [1, 0])
        for key in (Decimal(1), Fraction(1), (Decimal(1), "a"), complex(1)):
            for call in (
                keyed.__contains__,
                keyed.snapshot,
                lambda key: keyed.predict_one(key, 0.3),
                lambda key: keyed.learn_one(key, 0.3, 1),
            ):
                with pytest.raises(TypeError, match=r"`keys?` must be (a string|strings), number"):
                    call(key)
        assert all(key in keyed for key in (1, 1.0, True, np.int64(1), (1, "a"), (True, "a")))
        assert (list(keyed), 2 in keyed) == ([1, (1, "a")], False)


def test_keys_of_columns() -> None:
    import pandas as pd
    import polars as pl

    for keys in (["b", "a", "b"], np.array(["b", "a", "b"]), pd.Series(["b", "a", "b"])):
        assert list(group(keys).items()) == [("b", [0, 2]), ("a", [1])]
    assert list(group(pl.Series([2, 1, 2]))) == [2, 1]
    assert name_of(np.str_("a")) == name_of("a")


# Input --------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"keys": ["a"]}, "`keys` must have one per score"),
    ({"scores": [0.5, np.nan]}, "`scores` must be finite"),
    ({"scores": [[0.5, 0.5]]}, "`scores` must be one-dimensional"),
    ({"y": [1]}, "`y` must have one value per score"),
    ({"y": [1, 7]}, "`y` must"),
    ({"w": [1, -1]}, "`w` must"),
    ({"w": [1]}, "`w` must have one value per score"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_samples_change_nothing(change: dict[str, Any], message: str) -> None:
    keyed = KeyedCalibrator(make, max_live=2)
    keyed.learn_many(["a", "b", "c"], [0.1, 0.2, 0.3], [0, 1, 0])
    before, live = states(keyed), keyed.n_live
    with pytest.raises(ValueError, match=message):
        keyed.predict_learn_many(
            **{"keys": ["a", "new"], "scores": [0.5, 0.5], "y": [1, 1], **change}
        )
    with pytest.raises(ValueError, match="`y` must"):
        keyed.learn_one("new", 0.5, 3)
    assert (states(keyed), keyed.n_live) == (before, live)
    assert "new" not in keyed


class HalfSteps(PlattCalibrator):
    """A class of a user's own, which extends one with a compiled loop."""

    def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
        super().learn_one(score, y, 0.5 * w, **given)


def late_hedge() -> HedgedCalibrator:
    """Return a hedge whose labels were late, with an open burst."""
    hedge = HedgedCalibrator()
    served = [hedge.serve_one(p) for p in (0.2, 0.6, 0.7)]
    for p, y, prediction in zip((0.2, 0.6, 0.7), (0, 1, 1), served, strict=True):
        hedge.learn_one(p, y, ticket=prediction.ticket)
    return hedge


@pytest.mark.parametrize(
    "make",
    [
        lambda: IsotonicCalibrator(window=5),
        lambda: IsotonicCalibrator(half_life=9.0, interpolation="step"),
        lambda: IsotonicCalibrator("squared"),
        lambda: IsotonicCalibrator("poisson"),
        lambda: PlattCalibrator(calibeating=4),
        BetaCalibrator,
        HistogramCalibrator,
        IdentityCalibrator,
        VennAbersCalibrator,
        HedgedCalibrator,
        late_hedge,
        lambda: HedgedCalibrator([HalfSteps(), IdentityCalibrator()]),
        HalfSteps,
    ],
)
def test_small_groups_are_learned_as_large_ones(make: Callable[[], Calibrator]) -> None:
    """A few samples of a key take another way: the same predictions and states, to the last bit."""
    rng = np.random.default_rng(3)
    prototype = make()
    keyed = KeyedCalibrator(lambda: copy.deepcopy(prototype))
    alone = [copy.deepcopy(prototype) for _ in range(12)]
    for n in (30, 1, 40, 400, 12, 25):
        keys, scores = rng.integers(12, size=n), rng.random(n).round(1)
        scores[:1] = np.nextafter(1.0, 2.0)  # what rounding makes of 1
        y = np.where(rng.random(n) < 0.2, np.nan, rng.integers(2, size=n))
        w = rng.choice([1.0, 0.25, 3.0], size=n)
        values = keyed.predict_learn_many(keys, scores, y, w)
        for key in range(12):
            at = keys == key
            expected = predict_learn_known(alone[key], scores[at], y[at], w[at])
            np.testing.assert_array_equal(values[at], expected)
    for key, calibrator in states(keyed).items():
        assert calibrator == alone[key].to_bytes()


def test_labels_that_are_not_known() -> None:
    keyed = KeyedCalibrator(IsotonicCalibrator("squared"))
    values = keyed.predict_learn_many(
        ["a", "a", "b", "a"], [0.5, 0.5, 0.7, 0.5], [1, np.nan, np.nan, 0]
    )
    np.testing.assert_array_equal(values, [0.5, 1.0, 0.7, 1.0])
    assert list(keyed) == ["a"]


def test_bad_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`max_live` must be a positive int or None, got 0"):
        KeyedCalibrator(make, max_live=0)
    bad: Callable[[], Any] = dict
    with pytest.raises(TypeError, match="`calibrator` must be a Calibrator or make one, got dict"):
        KeyedCalibrator(bad)
    anything: Any = None
    with pytest.raises(TypeError, match="`calibrator` must be a Calibrator or make one, got None"):
        KeyedCalibrator(anything)
    anything = tmp_path / "run.db"
    with pytest.raises(TypeError, match="`store` must be a Store or None, got"):
        KeyedCalibrator(make, store=anything)
    with pytest.raises(ValueError, match="`store` must be given to save to, got None"):
        KeyedCalibrator(make).save()


class Brittle(PlattCalibrator):
    """Raises after it has learned a score of 0.9."""

    def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
        super().learn_one(score, y, w)
        if score == 0.9:
            raise RuntimeError("it broke")

    def predict_learn_many(self, scores: Any, y: Any, w: Any = None, **given: Any) -> Any:
        for score, label in zip(scores, y, strict=True):
            self.learn_one(score, label)
        return scores


class Mute(IdentityCalibrator):
    """Has no bytes."""

    def _freeze(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise TypeError("Mute has no bytes")


def test_without_bytes_nothing_can_be_compressed(tmp_path: Path) -> None:
    assert KeyedCalibrator(Mute()).predict_one("a", 0.5) == 0.5
    with pytest.raises(TypeError, match="Mute has no bytes"):
        KeyedCalibrator(Mute(), max_live=1)
    with Store(tmp_path / "run.db") as store, pytest.raises(TypeError, match="Mute has no bytes"):
        KeyedCalibrator(Mute(), store=store)


# Store --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [True, False])
def test_what_is_learned_before_an_error_is_reverted(tmp_path: Path, many: bool) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(Brittle(), store=store)
        keyed.learn_one("a", 0.3, 1)
        keyed.save(1)
        before = store.get_bytes(name_of("a"))
        learn: Callable[..., None] = keyed.learn_many if many else keyed.learn_one
        with pytest.raises(RuntimeError, match="it broke"):
            learn(*((["a", "a"], [0.2, 0.9], [0, 0]) if many else ("a", 0.9, 0)))
        assert keyed.states()[name_of("a")] != before
        keyed.revert()
        assert keyed.predict_one("a", 0.3) == store.get(name_of("a")).predict_one(0.3)
        keyed.learn_one("b", 0.8, 1)
        keyed.save(2)
        assert store.get_bytes(name_of("a")) == before


def test_no_sample_is_lost_between_those_who_share_a_store(tmp_path: Path) -> None:
    """A hundred times as many rounds by STREAMCAL_SOAK=3000."""
    n_rounds = int(os.environ.get("STREAMCAL_SOAK", "30"))
    assert sum(share_a_store(tmp_path / f"{seed}.db", seed) for seed in range(n_rounds)) > 0


def share_a_store(path: Path, seed: int) -> int:
    """Three are on one store, and a hand that writes to it; return how many calls were refused.

    The oracle holds what the store has, and for each of the three what it has learned and not
    saved, with the state of the key from which it continued.
    """
    draw = random.Random(seed)
    keys = ["a", "b", 3]
    limits = draw.choice([(None, None, None), (1, 2, None), (1, 1, 1)])
    n_refused = 0
    with Store(path) as store:
        banks = [KeyedCalibrator(make, max_live=limit, store=store) for limit in limits]
        saved: dict[Any, bytes] = {}
        unsaved: list[dict[Any, tuple[bytes | None, bytes]]] = [{} for _ in banks]
        for _ in range(60):
            at = draw.randrange(3)
            keyed, mine, key = banks[at], unsaved[at], draw.choice(keys)
            score, y = draw.randrange(9) / 8, draw.randrange(2)
            step = draw.choice(["learn", "learn", "ask", "ask", "save", "revert", "hand", "forget"])
            base, here = mine.get(key, (saved.get(key), saved.get(key)))
            twin = make() if here is None else Calibrator.from_bytes(here)
            try:
                if step == "learn":
                    keyed.learn_one(key, score, y)
                elif step == "ask":
                    assert keyed.predict_one(key, score) == twin.predict_one(score)
                    assert (key in keyed) == (here is not None)
                    assert set(keyed) == set(saved) | set(mine)
                elif step == "save":
                    keyed.save()
                elif step == "revert":
                    keyed.revert()
            except StoreError as error:
                message = str(error)
            else:
                message = ""
            if message:
                assert "`revert` drops that and continues from the store" in message
                assert any(saved.get(name) != old for name, (old, _) in mine.items())
                n_refused += 1
                continue
            if step == "learn":
                twin.learn_one(score, y)
                mine[key] = (base, twin.to_bytes())
            elif step == "save":
                assert all(saved.get(name) == old for name, (old, _) in mine.items())
                saved |= {name: new for name, (_, new) in mine.items()}
                mine.clear()
            elif step == "revert":
                mine.clear()
            elif step == "hand":  # one that knows what is there
                twin = Calibrator.from_bytes(saved[key]) if key in saved else make()
                twin.learn_one(score, y)
                saved[key] = twin.to_bytes()
                store.save({name_of(key): twin, "something else": twin})
            elif step == "forget":
                saved.pop(key, None)
                store.save({}, forget=[name_of(key)])
            assert {k: store.get_bytes(name_of(k)) for k in keys if name_of(k) in store} == saved
    return n_refused


def test_a_reader_that_looks_again_answers_with_what_it_sees(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store, Store(tmp_path / "run.db", read_only=True) as reader:
        writing = KeyedCalibrator(make, store=store)
        for n in range(1, 5):
            writing.learn_many(["a", "b"], [0.3, 0.6], [n % 2, 1])
            writing.save(n)
            if n == 1:
                reader.refresh()
                serving = KeyedCalibrator(make, store=reader)
            before = serving.predict_one("a", 0.3)
            assert reader.offset < n or before == writing.predict_one("a", 0.3)
            reader.refresh()
            assert reader.offset == n
            for key in "ab":
                assert serving.predict_one(key, 0.3) == writing.predict_one(key, 0.3)
        assert before != serving.predict_one("a", 0.3)


def test_a_save_that_was_interrupted_when_it_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a save the store has the own state: later samples continue from it."""
    original = Store.save

    def interrupted(self: Store, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        raise KeyboardInterrupt

    for after in (
        ["save"],
        ["learn", "save"],
        ["look", "learn", "save"],
        ["revert", "learn", "save"],
    ):
        twin = make()
        with Store(tmp_path / "".join(after)) as store:
            keyed = KeyedCalibrator(make, store=store)
            keyed.learn_one("a", 0.3, 1)
            twin.learn_one(0.3, 1)
            with monkeypatch.context() as patched:
                patched.setattr(Store, "save", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    keyed.save(1)
            for step in after:
                if step == "learn":
                    keyed.learn_one("a", 0.6, 0)
                    twin.learn_one(0.6, 0)
                elif step == "look":
                    assert "a" in keyed
                elif step == "revert":
                    keyed.revert()
                else:
                    keyed.save(2)
            assert store.get_bytes(name_of("a")) == twin.to_bytes()


def test_a_save_that_was_interrupted_at_its_end_hides_no_later_one(tmp_path: Path) -> None:
    """The states are saved, but evicted calibrators are in memory still."""

    class Interrupted(dict[Any, Any]):
        def pop(self, *given: Any) -> Any:
            super().pop(*given)
            raise KeyboardInterrupt

    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(make, max_live=1, store=store)
        keyed.learn_many(["a", "b"], [0.3, 0.3], [1, 1])
        keyed._cache._base = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            keyed.save(2)
        keyed._cache._base = dict(keyed._cache._base)
        other = KeyedCalibrator(make, store=store)
        other.learn_many(["a", "b"], [0.3, 0.3], [0, 0])
        other.save(4)
        for key in ("a", "b"):
            assert keyed.predict_one(key, 0.3) == other.predict_one(key, 0.3)


def test_other_parameters_than_the_stores(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(make, store=store)
        keyed.learn_one("a", 0.5, 1)
        keyed.save(1)
        for other in (IsotonicCalibrator(window=7), PlattCalibrator()):
            with pytest.raises(
                ValueError, match="`calibrator` must give the parameters that the states"
            ):
                KeyedCalibrator(other, store=store)
        KeyedCalibrator(make, store=store)


def test_a_loss_of_ones_own_is_compressed_too(tmp_path: Path) -> None:
    loss = losses.from_function(lambda z, y: (z - y) ** 4, name="fourth")
    with Store(tmp_path / "run.db") as store:
        for _ in range(2):
            keyed = KeyedCalibrator(AnytimeCalibrator(loss, window=9), max_live=1, store=store)
            keyed.learn_many(["a", "b", "a"], [0.1, 0.2, 0.3], [0, 1, 0])
            assert keyed.predict_one("a", 0.3) < 0.2
            keyed.save()
        assert keyed.predict_one("a", 0.3) < 0.2


def test_a_save_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(make, max_live=1, store=store)
        keyed.learn_many(["a", "b", "c"], [0.1, 0.2, 0.3], [0, 1, 0])
        before = states(keyed)

        def fail(*args: Any, **kwargs: Any) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(store, "save", fail)
            with pytest.raises(StoreError, match="full"):
                keyed.save(3)
        assert states(keyed) == before
        keyed.save(3)
        assert keyed.n_compressed == 0
        assert states(keyed) == before


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(make, store=store)
        keyed.learn_many(["a", "b"], [0.1, 0.2], [0, 1])
        assert set(keyed.states()) == {name_of("a"), name_of("b")}
        keyed.save()
        keyed.predict_one("a", 0.3)
        keyed.learn_many(["a", "b"], [0.1, 0.2], [np.nan, 1])
        assert set(keyed.states()) == {name_of("b")}


def test_a_representation_reads_nothing_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any) -> Any:
        raise AssertionError("the store is read")

    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(make, max_live=2, store=store)
        keyed.learn_many(["a", "b", "c"], [0.1, 0.2, 0.3], [0, 1, 1])
        for name in ("keys", "get_bytes", "digest", "first_key"):
            monkeypatch.setattr(Store, name, read)
        assert repr(keyed) == f"KeyedCalibrator(2 live, 1 compressed, store={store!r})"
        assert "live calibrators" in keyed._repr_html_()
    assert repr(KeyedCalibrator(make)) == "KeyedCalibrator(0 live, 0 compressed)"


def test_memory_is_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    n_keys, n = 60, 2_000
    keys, scores = rng.integers(0, n_keys, n).tolist(), rng.random(n)
    sizes = {}
    with Store(tmp_path / "run.db") as store:
        for name, keyed in {
            "free": KeyedCalibrator(make),
            "compressed": KeyedCalibrator(make, max_live=5),
            "stored": KeyedCalibrator(make, max_live=5, store=store),
        }.items():
            keyed.learn_many(keys, scores, rng.random(n) < scores)
            if keyed.store is not None:
                keyed.save()
            assert len(keyed) == n_keys
            sizes[name] = keyed.memory_usage
        assert (keyed.n_live, keyed.n_compressed) == (5, 0)
    assert sizes["stored"] * 10 < sizes["free"]
    assert sizes["stored"] < sizes["compressed"] < sizes["free"] / 2


@pytest.mark.parametrize("with_store", [False, True])
def test_no_sample_is_lost_by_an_eviction_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_store: bool
) -> None:
    """Memory may run out when a calibrator is compressed, and be sufficient later."""
    store = Store(tmp_path / "run.db") if with_store else None
    keyed = KeyedCalibrator(PlattCalibrator(), max_live=1, store=store)
    keyed.learn_one("a", 0.5, 1)
    keyed.learn_one("b", 0.5, 1)  # "a" is compressed
    expected = states(keyed)
    for use in (
        lambda: keyed.predict_one("a", 0.5),
        lambda: keyed.predict_one("b", 0.5),
        lambda: keyed.learn_one("c", 0.5, 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(PlattCalibrator, "to_bytes", Mock(side_effect=MemoryError))
            with contextlib.suppress(MemoryError):
                use()
        held = states(keyed)
        assert {key: held[key] for key in "ab"} == expected
    if store is not None:
        store.close()


def test_pickling_keeps_what_is_learned() -> None:
    keyed = KeyedCalibrator(IsotonicCalibrator(window=6), max_live=2)
    keyed.learn_many(["a", "b", "c"], [0.1, 0.2, 0.3], [0, 1, 0])
    assert states(pickle.loads(pickle.dumps(keyed))) == states(keyed)


def test_segments_by_key() -> None:
    keyed = KeyedCalibrator(SegmentCalibrator(["a"]), max_live=1)
    twins = {key: SegmentCalibrator(["a"]) for key in "xy"}
    keys, columns = list("xyxxy"), {"a": [1, 2, "1", None, 1]}
    scores, y = [0.2, 0.4, 0.5, 0.6, 0.7], [0, 1, 1, 0, 1]
    values = keyed.predict_learn_many(keys, scores, y, x=columns)
    for key, twin in twins.items():
        at = [i for i, name in enumerate(keys) if name == key]
        mine = {"a": [columns["a"][i] for i in at]}
        wanted = twin.predict_learn_many([scores[i] for i in at], [y[i] for i in at], x=mine)
        assert values[at].tolist() == wanted.tolist()
    value, ticket = keyed.serve_one("x", 0.3, x={"a": 1})
    assert value == keyed.predict_one("x", 0.3, x={"a": 1}) == twins["x"].predict_one(0.3, {"a": 1})
    keyed.learn_one("x", 0.3, 1, 2.0, x={"a": 1}, ticket=ticket)
    twins["x"].learn_one(0.3, 1, 2.0, x={"a": 1}, ticket=twins["x"].serve_one(0.3, {"a": 1})[1])
    assert keyed.predict_one("x", 0.3, x={"a": 1}) == twins["x"].predict_one(0.3, {"a": 1})


def test_a_snapshot_of_a_key_with_segments_needs_the_fields_too() -> None:
    keyed = KeyedCalibrator(SegmentCalibrator(["a"]))
    for i in range(40):
        keyed.learn_one("k", 0.5, i % 4 > 0, x={"a": i % 2})
    snapshot, new = keyed.snapshot("k"), keyed.snapshot("a new key")
    before = keyed.predict_one("k", 0.5, x={"a": 0})
    keyed.learn_one("k", 0.5, 1, x={"a": 0})
    assert snapshot.predict_one(0.5, {"a": 0}) == before != keyed.predict_one("k", 0.5, x={"a": 0})
    assert new.predict_one(0.5, {"a": 0}) == 0.5
    assert list(keyed) == ["k"]


def test_fields_are_given_if_and_only_if_there_are_segments() -> None:
    segments, plain = KeyedCalibrator(SegmentCalibrator(["a"])), KeyedCalibrator(PlattCalibrator())
    needs: Any = {"match": "must have the values of the fields 'a', got None"}
    none: Any = {"match": "`x` must be None: the calibrator has no fields"}
    for keyed, x, wanted in ((segments, None, needs), (plain, {"a": 1}, none)):
        for call in (
            lambda: keyed.predict_one("k", 0.5, x=x),  # noqa: B023
            lambda: keyed.serve_one("k", 0.5, x=x),  # noqa: B023
            lambda: keyed.learn_one("k", 0.5, 1, x=x),  # noqa: B023
            lambda: keyed.learn_many(["k"], [0.5], [1], x=x),  # noqa: B023
        ):
            with pytest.raises(TypeError, match=wanted["match"]):
                call()
    with pytest.raises(TypeError, match="got \\[\\]"):
        segments.learn_many(["j", "k"], [0.5, 0.5], [1, 1], x={"a": [1, []]})
    assert len(segments) == len(plain) == 0


def test_a_group_is_one_sample_of_its_key() -> None:
    keyed, twin = KeyedCalibrator(HedgedCalibrator()), HedgedCalibrator()
    scores, tickets = [0.6, 0.7, 0.2], []
    for _ in range(3):
        tickets = [keyed.serve_one("a", score)[1] for score in scores]
        keyed.learn_group("a", scores, [1, 1, 0], 2.0, tickets=tickets)
        twin.learn_group(scores, [1, 1, 0], 2.0)
    assert keyed.predict_one("a", 0.6) == twin.predict_one(0.6)
    with pytest.raises(ValueError, match="`tickets` must have one per score"):
        keyed.learn_group("b", scores, [1, 1, 0], tickets=tickets[:2])
    assert list(keyed) == ["a"]


def test_a_group_of_any_calibrator_has_its_weight() -> None:
    keyed, twin = KeyedCalibrator(PlattCalibrator()), PlattCalibrator()
    for _ in range(3):
        keyed.learn_group("a", [0.6, 0.7], [1, 0], 2.0)
        for score, y in ((0.6, 1), (0.7, 0)):
            twin.learn_one(score, y, 1.0)
    assert keyed.predict_one("a", 0.6) == twin.predict_one(0.6)


def test_a_group_of_segments_is_one_sample_of_its_key() -> None:
    keyed, twin = KeyedCalibrator(SegmentCalibrator(["a"])), SegmentCalibrator(["a"])
    xs, rows = [{"a": 1}, {"a": 2}, {"a": 1}], ([0.6, 0.7, 0.2], [1, 1, 0], 2.0)
    for _ in range(3):
        tickets = [keyed.serve_one("k", p, x=x)[1] for x, p in zip(xs, rows[0], strict=True)]
        keyed.learn_group("k", *rows, x=xs, tickets=tickets)
        mine = [twin.serve_one(p, x)[1] for x, p in zip(xs, rows[0], strict=True)]
        twin.learn_group(*rows, x=xs, tickets=mine)
    for x in xs:
        assert keyed.predict_one("k", 0.4, x=x) == twin.predict_one(0.4, x)
    with pytest.raises(ValueError, match="`x` must have one row per score"):
        keyed.learn_group("new", *rows, x=xs[:2])
    with pytest.raises(TypeError, match="`x` must have the values of the fields 'a', got None"):
        keyed.learn_group("new", *rows)
    with pytest.raises(TypeError, match="`x` must be None: the calibrator has no fields"):
        KeyedCalibrator(HedgedCalibrator()).learn_group("new", *rows, x=xs)
    assert list(keyed) == ["k"]
