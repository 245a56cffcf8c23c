"""ThresholdClassifier with a window of time: exact on the samples that are young enough."""

import copy
import math
import pickle
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import base, linear_model, preprocessing

from streamcal import CalibratedClassifier, PlattCalibrator, ThresholdClassifier
from streamcal._state.format import decode, encode
from streamcal.calibration import IsotonicCalibrator
from streamcal.ordinal import optimal_thresholds
from streamcal.ordinal._rescoring import _rescore_pickled

START = datetime(2024, 3, 1)
WINDOW = 600.0
N_LABELS = 3
KINDS = {
    "seconds": float,
    "naive": lambda t: START + timedelta(seconds=t),
    "aware": lambda t: (START + timedelta(seconds=t)).replace(tzinfo=timezone(timedelta(hours=2))),
}
GRID = [-2.0, -0.3, 0.1, 0.6, 1.4, 5.0]


class Growing(base.Regressor):
    """A regressor whose scores grow as it learns; of some learned samples they are not finite."""

    def __init__(self) -> None:
        self.n_learned = 0
        self.times: list[Any] = []

    def learn_one(self, x: Any, y: Any, t: Any = None) -> None:
        self.n_learned += 1
        self.times.append(t)

    def predict_one(self, x: Any) -> float:
        lost = x.get("lost", False) and self.n_learned > x["i"]
        return math.nan if lost else float(x["score"]) * (1.0 + self.n_learned / 64.0)


class Waiting:
    """A background process that answers when it is told to."""

    done, busy = False, False
    job: Any = None

    def ready(self) -> bool:
        return self.job is None

    def submit(self, *parts: Any) -> bool:
        assert self.job is None
        self.job = parts
        return True

    def finish(self) -> None:
        self.done = self.job is not None

    def poll(self) -> Any:
        job, self.job, self.done = self.job, None, False
        return _rescore_pickled(*job)


def held(samples: list[Any]) -> list[Any]:
    """Return the samples that are young enough at the newest; each is a tuple that ends with t."""
    return [s for s in samples if samples[-1][-1] - s[-1] < WINDOW]


class Oracle:
    """Keeps (score, rank, weight, time) of all samples, and solves from scratch."""

    def __init__(self, regressor: Any, every: int | None) -> None:
        self.regressor = regressor
        self.every = self.due = every
        self.now = -math.inf
        self.samples: list[Any] = []
        self.features: list[Any] = []
        self.job: list[Any] | None = None  # new scores, and how many samples there were
        self.resolved: list[Any] | None = None

    def rescore(self) -> None:
        """Take the window, as a job does when it begins."""
        n, n_held = len(self.samples), len(held(self.samples))
        rows = zip(self.features[n - n_held :], self.samples[n - n_held :], strict=True)
        found = [(self.regressor.predict_one(x), *s[1:]) for x, s in rows]
        self.job = [n, [s for s in found if math.isfinite(s[0])]]

    def finish(self) -> None:
        """Serve what a job has found, with the samples since."""
        if self.job is not None:
            n, found = self.job
            self.job = None
            if found:
                self.resolved = found + self.samples[n:]

    def before(self, background: bool) -> None:
        """Do what comes before a sample is learned."""
        if self.due is None or len(self.samples) < self.due:
            return
        if background and self.job is not None:
            self.due = len(self.samples) + 100
            return
        self.due = len(self.samples) + (self.every or 0)
        self.rescore()
        if not background:
            self.finish()

    def learn(self, x: Any, rank: int, w: float, t: float, score: float) -> None:
        self.now = max(self.now, t)
        self.samples.append((score, rank, w, self.now))
        self.features.append(x)
        if self.resolved is not None:
            self.resolved.append(self.samples[-1])

    def check(self, model: Any) -> None:
        """Compare a model whose labels are all stated."""
        layer = model._score_model
        kept = held(self.samples)
        origin = model._now - self.now  # of dates
        assert [s[2:] for s in model._samples] == [(s[0], s[2], s[3] + origin) for s in kept]
        compare(layer.streaming, kept)
        for k, calibrator in enumerate(layer.calibrators):
            fresh = IsotonicCalibrator()
            scores, ranks, w, _ = map(np.array, zip(*kept, strict=True))
            fresh.learn_many(scores, ranks > k, w)
            assert calibrator.n_samples == len(kept)
            np.testing.assert_allclose(
                calibrator.predict_many(GRID), fresh.predict_many(GRID), rtol=1e-9, atol=1e-12
            )
        assert (layer.resolved is None) == (self.resolved is None)
        if self.resolved is not None:
            compare(layer.resolved, held(self.resolved))


def compare(thresholds: Any, kept: list[Any]) -> None:
    scores, ranks, w, _ = map(np.array, zip(*kept, strict=True))
    best = optimal_thresholds(scores, ranks + 1, N_LABELS, loss=thresholds.loss, w=w)
    assert thresholds.n_samples == len(kept)
    assert thresholds.risk == pytest.approx(best.risk, rel=1e-9, abs=1e-12)


def other_kinds(kind: str) -> list[Any]:
    return [make(5.0) for name, make in KINDS.items() if name != kind]


class Program:
    """Random calls of a model, each of them also of the oracle."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        pick = self.draw.choice
        self.kind = pick(list(KINDS))
        self.background = pick([False, True])
        every, loss = pick([None, 1, 4, 15]), pick(["absolute", "squared", "zero-one"])
        regressor = Growing()
        self.by_feature = pick([False, True])
        self.model: Any = ThresholdClassifier(
            regressor,
            tuple("abc"),
            loss=loss,
            window=timedelta(seconds=WINDOW),
            every=every,
            background=self.background,
            time="moment" if self.by_feature else None,
        )
        self.oracle = Oracle(regressor, every)
        self.t, self.i = 0.0, 0
        self.wait()

    def wait(self) -> None:
        """Replace the background process of a new object, which has no job."""
        self.oracle.job = None
        if self.background:
            self.model._rescorer.worker.close()
            self.model._rescorer.worker = Waiting()

    def learn(self) -> None:
        pick = self.draw.choice
        self.t += pick([0.0, 0.0, 1.0, 30.0, 30.0, 100.0, -250.0, WINDOW - 1.0, WINDOW, 1e5])
        t, w = KINDS[self.kind](self.t), pick([1.0, 2.0, 0.5])
        x = {"score": pick(GRID), "i": self.i, "lost": self.draw.random() < 0.2}
        rank = self.draw.randrange(N_LABELS)
        score = self.oracle.regressor.predict_one(x)
        self.oracle.before(self.background)
        given = {"t": t}
        if self.by_feature and pick([False, True]):
            x["moment"], given = t, {}
        self.model.learn_one(x, "abc"[rank], w, **given)
        self.oracle.learn(x, rank, w, self.t, score)
        self.i += 1

    def finish(self) -> None:
        if self.background:
            self.model._rescorer.worker.finish()
            self.model._update_thresholds()
            self.oracle.finish()
            self.oracle.before(True)  # asking also starts a job that is due

    def copy(self) -> None:
        if self.background:
            self.model._rescorer.worker = None  # a copy goes on without the job of another
        self.model = self.draw.choice([copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])(
            self.model
        )
        if self.background:
            self.oracle.job, self.model._rescorer.worker = None, Waiting()
        self.oracle.regressor = self.model.regressor

    def restore(self) -> None:
        data, old = self.model.to_bytes(), self.model
        self.model = ThresholdClassifier.from_bytes(data, regressor=old.regressor)
        assert self.model.to_bytes() == data
        assert self.model._kind == old._kind
        self.wait()

    def refuse(self) -> None:
        if self.model._kind is None:
            return
        before = self.model.to_bytes()
        good, x = KINDS[self.kind](self.t + 1e4), {"score": 0.1, "i": self.i}
        for t in [*other_kinds(self.kind), None, "noon", math.nan, pd.NaT]:
            with pytest.raises((TypeError, ValueError), match="`t`"):
                self.model.learn_one(x, "a", t=t)
        for label, w, score in (("z", 1.0, 0.1), ("a", 0.0, 0.1), ("a", 1.0, math.nan)):
            with pytest.raises(ValueError, match=r"`y`|`w`|`regressor`"):
                self.model.learn_one({**x, "score": score}, label, w, t=good)
        assert self.model.to_bytes() == before
        assert len(self.oracle.regressor.times) == self.i

    def run(self, n: int) -> None:
        acts = [self.learn] * 12 + [self.finish] * 2 + [self.copy, self.restore, self.refuse]
        self.learn()
        for _ in range(n):
            self.draw.choice(acts)()
            if self.oracle.samples:
                self.oracle.check(self.model)


@given(st.integers(0, 2**32))
def test_programs_are_as_solving_from_scratch(seed: int) -> None:
    Program(seed).run(60)


@pytest.mark.parametrize("every", [None, 1, 25])
@pytest.mark.parametrize("loss", ["absolute", "zero-one"])
@pytest.mark.parametrize("labels", [tuple("abc"), None])
def test_at_a_constant_rate_time_is_as_counting(labels: Any, loss: Any, every: int | None) -> None:
    a = ThresholdClassifier(Growing(), labels, loss=loss, window=50, every=every)
    b = ThresholdClassifier(
        Growing(), labels, loss=loss, window=timedelta(minutes=50), every=every, time="moment"
    )
    rng = np.random.default_rng(1)
    for i in range(200):
        x = {"score": float(rng.normal()), "i": i, "moment": START + timedelta(minutes=i)}
        label = "abc"[int(np.clip(np.round(x["score"] + rng.normal() / 2), 0, 2))]
        assert a.predict_one(x) == b.predict_one(x)
        assert a.predict_proba_one(x) == pytest.approx(b.predict_proba_one(x), abs=1e-12)
        w = float(rng.integers(1, 3))
        a.learn_one(x, label, w)
        b.learn_one(x, label, w)
        assert [s[:-1] for s in a._samples] == [s[:-1] for s in b._samples]
        assert (a.solution is None) == (b.solution is None)
        if a.solution is not None:
            assert (a.solution.thresholds == b.solution.thresholds).all()
    assert len(b._samples) == 50


def teach(model: Any, times: Any, score: float = 0.0) -> None:
    for i, t in enumerate(times):
        model.learn_one({"score": score + i % 3, "i": 0}, "abc"[i % 3], t=t)


def windowed(**options: Any) -> Any:
    window = timedelta(seconds=WINDOW)
    return ThresholdClassifier(Growing(), tuple("abc"), window=window, **options)


def test_what_left_the_window_while_a_job_ran_does_not_count_after_it() -> None:
    model = windowed(every=10, background=True)
    model._rescorer.worker.close()
    worker = model._rescorer.worker = Waiting()
    teach(model, range(11))
    assert worker.job is not None
    teach(model, [300.0, 604.0, 604.5])  # the first five samples have left
    worker.finish()
    teach(model, [604.0])  # goes back
    assert model._score_model.resolved.n_samples == len(model._samples) == 6 + 4
    teach(model, [1e6])
    assert model._score_model.resolved.n_samples == len(model._samples) == 1
    for _ in range(2):  # all that a job knows has left
        teach(model, 1e6 + np.arange(10))
        if worker.job is not None:
            break
    teach(model, [2e6])
    worker.finish()
    teach(model, [2e6])
    assert model._score_model.resolved.n_samples == len(model._samples) == 2


def test_a_new_label_learns_from_what_is_in_the_window() -> None:
    model = ThresholdClassifier(Growing(), window=timedelta(seconds=WINDOW))
    for y, t in [(1, 0.0), (1, 500.0), (2, 700.0), (3, 1_050.0), (1, 2_000.0), (9, 2_100.0)]:
        model.learn_one({"score": float(y), "i": 0}, y, t=t)
        layer = model._score_model
        assert layer is None or layer.streaming.n_samples == len(model._samples)
    assert [s[-1] for s in model._samples] == [2_000.0, 2_100.0]


@pytest.mark.parametrize("w", [1.0, 2.0])
def test_a_regressor_gets_the_time_beside_any_weight(w: float) -> None:
    class OnlyPredictsByTime(Growing):
        def learn_one(self, x: Any, y: Any) -> None:
            super().learn_one(x, y)

        def predict_one(self, x: Any, t: Any = None) -> float:
            return super().predict_one(x)

    for regressor, times in ((Growing(), [3.0]), (OnlyPredictsByTime(), [None])):
        model = ThresholdClassifier(regressor, labels=(0, 1), window=timedelta(days=1))
        model.learn_one({"score": 0.5}, 1, w, t=3.0)
        assert regressor.times == times


def test_the_time_is_a_feature_or_given_and_the_regressor_gets_what_is_given() -> None:
    by_feature, given_t = windowed(time="moment"), windowed()
    for i in range(30):
        t = START + timedelta(seconds=60 * i)
        x = {"score": float(i % 5), "i": i, "moment": t}
        by_feature.learn_one(x, "abc"[i % 3])
        given_t.learn_one(x, "abc"[i % 3], t=pd.Timestamp(t) if i % 2 else np.datetime64(t))
    assert [s[1:] for s in by_feature._samples] == [s[1:] for s in given_t._samples]
    assert by_feature.regressor.times == [None] * 30
    assert None not in given_t.regressor.times
    by_feature.learn_one({"score": 0.0, "i": 0}, "a", t=t + timedelta(days=1))
    assert len(by_feature._samples) == 1
    with pytest.raises(ValueError, match="`x` must have the feature 'moment', which `time` names"):
        by_feature.learn_one({"score": 0.0, "i": 0}, "a")
    with pytest.raises(TypeError, match="the feature 'moment' must be a datetime"):
        by_feature.learn_one({"score": 0.0, "i": 0, "moment": "noon"}, "a")
    with pytest.raises(TypeError, match=r"since ThresholdClassifier forgets by time; pass t="):
        given_t.learn_one({"score": 0.0, "i": 0}, "a")
    assert len(by_feature._samples) == 1


def test_a_regressor_without_times_gets_none() -> None:
    regressor = preprocessing.StandardScaler() | linear_model.LinearRegression()
    model = ThresholdClassifier(regressor, window=timedelta(days=1))
    for i in range(20):
        model.learn_one({"a": float(i)}, i % 3, t=START + timedelta(hours=3 * i))
    assert len(model._samples) == 8
    counting = ThresholdClassifier(linear_model.LinearRegression())
    counting.learn_one({"a": 1.0}, 1, t=START)  # needs none
    assert counting._kind is None


def test_a_calibrated_classifier_passes_the_time_on() -> None:
    platt = PlattCalibrator(half_life=timedelta(days=1))
    model = CalibratedClassifier(windowed(), platt)
    for i in range(40):
        model.learn_one({"score": float(i % 3), "i": i}, "abc"[i % 3], t=60.0 * i)
    assert len(model.classifier._samples) == 10
    assert model.predict_one({"score": 0.0, "i": 0}) in "abc"


@pytest.mark.parametrize("first", [None, *KINDS])
def test_bad_times_change_nothing(first: str | None) -> None:
    model = windowed()
    bad = [None, "now", math.nan, math.inf, [1.0], pd.NaT, 10**400, np.timedelta64(1, "s")]
    if first is not None:
        model.learn_one({"score": 0.0, "i": 0}, "a", t=KINDS[first](60.0))
        bad += other_kinds(first)
    before = model.to_bytes()
    for t in bad:
        with pytest.raises((TypeError, ValueError), match="`t` must"):
            model.learn_one({"score": 0.0, "i": 0}, "b", t=t)
    assert model.to_bytes() == before
    assert len(model.regressor.times) == (first is not None)


def test_a_regressor_that_raises_leaves_the_clock() -> None:
    class Broken(Growing):
        def learn_one(self, x: Any, y: Any, t: Any = None) -> None:
            raise RuntimeError

    model = ThresholdClassifier(Broken(), window=timedelta(days=1))
    before = model.to_bytes()
    with pytest.raises(RuntimeError):
        model.learn_one({"score": 0.0}, 1, t=START)
    assert model.to_bytes() == before
    assert model._kind is None


@pytest.mark.parametrize("times", [(-1e300, 1e300), (0.0, 5e-324), (-1e300, 0.0, 1e300, -1e300)])
def test_extreme_times_are_learned(times: tuple[float, ...]) -> None:
    model = windowed(every=3)
    teach(model, times * 4)
    layer = model._score_model
    assert layer.streaming.n_samples == layer.calibrators[0].n_samples == len(model._samples)
    twin = ThresholdClassifier.from_bytes(model.to_bytes(), regressor=Growing())
    assert twin.to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"window": timedelta(0)}, ValueError, "`window` must be a timedelta of at least 1 micro"),
        ({"window": "7d"}, ValueError, "`window`.*a time is a timedelta"),
        ({"window": np.timedelta64(1, "D")}, TypeError, "`window` must be a number or a timedelta"),
        ({"time": "moment"}, ValueError, "`time` must be None unless `window` is a timedelta"),
        ({"window": timedelta(1), "time": 5}, TypeError, "`time` must be the name of a feature"),
    ],
)
def test_bad_parameters_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        ThresholdClassifier(Growing(), **arguments)


# States -------------------------------------------------------------------------------------------


def test_clones_and_snapshots() -> None:
    model = windowed(time="moment")
    teach(model, 60.0 * np.arange(20))
    clone = model.clone()
    assert (clone.window, clone.time, clone._kind) == (model.window, "moment", None)
    assert clone.needs_time
    assert model.snapshot().predict_one({"score": 1.0}) == model.predict_one({"score": 1.0})


def test_states_that_count_are_as_before_there_were_times() -> None:
    model = ThresholdClassifier(Growing(), tuple("abc"))
    teach(model, [None] * 5)
    state = decode(model.to_bytes())
    assert "time" not in state.fields["parameters"]
    assert {"now", "kind"}.isdisjoint(state.fields)
    assert "times" not in state.arrays


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1),
        datetime(2024, 10, 27, 2, 30, 0, 1, fold=1),
        datetime(2024, 10, 27, 2, 30, tzinfo=UTC),
        datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        datetime(2024, 10, 27, 2, 30, tzinfo=timezone(timedelta(seconds=-1))),
    ],
    ids=str,
)
def test_a_state_keeps_the_feature_with_the_time(moment: datetime) -> None:
    model = windowed(time="moment")
    model.learn_one({"score": 1.0, "i": 0, "moment": moment}, "a")
    twin = ThresholdClassifier.from_bytes(model.to_bytes(), regressor=Growing())
    assert twin.to_bytes() == model.to_bytes()
    found = twin._samples[0][0]["moment"]
    assert type(found) is datetime
    assert (found.replace(tzinfo=None), found.fold) == (moment.replace(tzinfo=None), moment.fold)
    assert found.utcoffset() == moment.utcoffset()


@pytest.mark.parametrize(
    "packed",
    [
        5,
        [],
        ["noon", 0, None],
        [5, 0, None],
        ["2024-03-01", 2, None],
        ["2024-03-01", None, None],
        ["2024-03-01", 0, 5],
        ["2024-03-01", 0, {"timedelta": [1, 0, 0]}],
    ],
    ids=str,
)
def test_crafted_features_are_refused(packed: Any) -> None:
    model = windowed(time="moment")
    model.learn_one({"score": 1.0, "i": 0, "moment": START}, "a")
    state = decode(model.to_bytes())
    features = [[["score", 1.0], ["moment", {"datetime": packed}]]]
    with pytest.raises(ValueError, match="`data`"):
        ThresholdClassifier.from_bytes(
            encode(state.kind, {**state.fields, "features": features}, state.arrays),
            regressor=model.regressor,
        )


def test_a_state_before_the_first_sample_has_no_time() -> None:
    empty = windowed()
    twin = ThresholdClassifier.from_bytes(empty.to_bytes(), regressor=Growing())
    teach(twin, [START])
    assert twin._kind == "naive"


@pytest.mark.parametrize("every", [None, 7])
def test_crafted_times_are_refused(every: int | None) -> None:
    model = windowed(every=every)
    teach(model, 60.0 * np.arange(40))
    state = decode(model.to_bytes())
    times = state.arrays["times"]
    assert times.tolist() == [60.0 * i for i in range(30, 40)]
    crafted = [times[:-1], times[::-1].copy(), times - 60.0, times + 1.0, np.full(10, np.nan)]
    crafted += [np.array(times, np.int64), np.r_[-1e9, times[1:]], np.r_[times[:-1], 2_339.0]]
    changes = [(state.fields, {**state.arrays, "times": other}) for other in crafted]
    rest = {name: array for name, array in state.arrays.items() if name != "times"}
    changes.append((state.fields, rest))
    clocks: list[Any] = [
        *({"now": now} for now in (math.nan, math.inf, "1", None, True, 2_341.0)),
        *({"kind": kind} for kind in ("sundial", 1, None, ["seconds"])),
    ]
    changes += [({**state.fields, **clock}, state.arrays) for clock in clocks]
    later = {**state.arrays, "times": times + 1.0}
    changes.append(({**state.fields, "now": 2_341.0}, later))  # other clocks inside
    for fields, arrays in changes:
        with pytest.raises(ValueError, match="`data`"):
            ThresholdClassifier.from_bytes(
                encode(state.kind, fields, arrays), regressor=model.regressor
            )


@pytest.mark.parametrize("part", ["streaming", "resolved", "staircase 0", "staircase 1"])
def test_parts_with_later_clocks_are_refused(part: str) -> None:
    model, later = windowed(every=7), windowed(every=7)
    teach(model, 60.0 * np.arange(40))
    teach(later, 60.0 * np.arange(40) + 1.0)
    state, other = decode(model.to_bytes()), decode(later.to_bytes())
    arrays = {**state.arrays, part: other.arrays[part]}
    data = encode(state.kind, state.fields, arrays)
    with pytest.raises(ValueError, match=r"`data`.*clocks must agree"):
        ThresholdClassifier.from_bytes(data, regressor=model.regressor)


def test_times_are_of_one_kind_inside() -> None:
    """A state whose parts have other times could not learn."""
    model = windowed()
    teach(model, [60.0, 61.0])
    aware = windowed()
    teach(aware, [datetime.fromtimestamp(60.0, UTC), datetime.fromtimestamp(61.0, UTC)])
    state, other = decode(model.to_bytes()), decode(aware.to_bytes())
    assert other.fields["kind"] == "aware"
    assert all((state.arrays[name] == other.arrays[name]).all() for name in state.arrays)
