"""Tests that every estimator must pass, beyond river's own checks.

A test module subscribes an estimator with one line:

    TestIsotonic = calibrator_contract(IsotonicCalibrator(), weights_repeat=True)
    TestWrapper = classifier_contract(CalibratedClassifier(GaussianNB()))

Each test clones the prototype, so tests are independent.
"""

import copy
import inspect
import math
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial, update_wrapper
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pytest
from river import base, checks

from streamcal import Calibrator

BAD_WEIGHTS = [0.0, -1.0, math.nan, math.inf, "1", None]
BAD_SCORES = [math.nan, math.inf, -math.inf, "0.5", None]
BAD = (ValueError, TypeError)


def state(estimator: base.Base) -> bytes:
    """Return the whole state of an estimator, to compare it before and after."""
    return pickle.dumps(estimator)


@cache
def elsewhere() -> ProcessPoolExecutor:
    """Return a spawned process, which shares only code with this one."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _prototypes(metafunc: pytest.Metafunc) -> None:
    if "prototype" in metafunc.fixturenames:
        prototypes = metafunc.cls.prototypes
        metafunc.parametrize("prototype", prototypes, ids=[_label(p) for p in prototypes])


def _label(prototype: base.Base) -> str:
    changed = []
    for name, parameter in inspect.signature(type(prototype)).parameters.items():
        value = getattr(prototype, name)
        if value != parameter.default:
            changed.append(f"{name}={value}")
    return f"{type(prototype).__name__}({', '.join(changed)})"


def _subclass(contract: type, prototypes: tuple[base.Base, ...], **promises: Any) -> type:
    return type(contract.__name__, (contract,), {"prototypes": prototypes, **promises})


# Calibrators --------------------------------------------------------------------------------------


def calibrator_contract(
    *prototypes: Calibrator,
    weights_repeat: bool,
    bounded: bool = False,
    monotone: bool = True,
    unlabelled: bool = False,
    labels: tuple[float, float] = (0.0, 1.0),
    bad_labels: tuple[Any, ...] = (math.nan, math.inf, 2.0, -1.0, "yes", None),
) -> type:
    """Return a test class for calibrators.

    ``weights_repeat``: learning with w = 2 equals learning twice. ``bounded``: memory is bounded.
    ``monotone``: predictions do not fall as the score rises. ``unlabelled``: samples of a batch
    whose label is NaN are only predicted. ``labels``: the lowest and the highest. ``bad_labels``:
    labels that must raise an error.
    """
    return _subclass(
        CalibratorContract,
        prototypes,
        weights_repeat=weights_repeat,
        bounded=bounded,
        monotone=monotone,
        unlabelled=unlabelled,
        labels=labels,
        bad_labels=bad_labels,
    )


class CalibratorContract:
    prototypes: ClassVar[tuple[Calibrator, ...]]
    weights_repeat: ClassVar[bool]
    bounded: ClassVar[bool]
    monotone: ClassVar[bool]
    unlabelled: ClassVar[bool]
    labels: ClassVar[tuple[float, float]]
    bad_labels: ClassVar[tuple[Any, ...]]

    grid = np.linspace(0.0, 1.0, 23)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        _prototypes(metafunc)

    @pytest.fixture
    def fresh(self, prototype: Calibrator) -> Calibrator:
        return prototype.clone()

    @pytest.fixture
    def taught(self, prototype: Calibrator) -> Calibrator:
        calibrator = prototype.clone()
        calibrator.learn_many(*self.stream(120))
        return calibrator

    def stream(self, n: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores with ties and the ends 0 and 1, labels that follow them noisily, weights."""
        rng = np.random.default_rng(seed)
        scores = np.round(rng.uniform(size=n), 2)
        low, high = self.labels
        y = np.where(rng.uniform(size=n) < scores**2, high, low)
        return scores, y, rng.integers(1, 4, n) / 2

    def answers(self, calibrator: Calibrator) -> list[float]:
        return [calibrator.predict_one(score) for score in self.grid]

    def test_answers_are_floats_in_order(self, taught: Calibrator) -> None:
        answers = self.answers(taught)
        assert all(type(answer) is float and math.isfinite(answer) for answer in answers)
        if self.monotone:
            assert answers == sorted(answers)
        assert answers[0] < answers[-1]

    def test_before_learning_a_score_is_its_own_answer(self, fresh: Calibrator) -> None:
        before = state(fresh)
        assert self.answers(fresh) == self.grid.tolist()
        assert state(fresh) == before

    def test_learning_returns_nothing(self, fresh: Calibrator) -> None:
        assert fresh.learn_one(0.5, self.labels[1]) is None
        assert fresh.learn_one(score=0.5, y=self.labels[0], w=2.0) is None

    def test_a_weight_of_two_is_the_sample_twice(self, prototype: Calibrator) -> None:
        if not self.weights_repeat:
            pytest.skip("not promised")
        scores, y, _ = self.stream(60)
        once, twice, batch = prototype.clone(), prototype.clone(), prototype.clone()
        for score, label in zip(scores, y, strict=True):
            once.learn_one(score, label, w=2.0)
            twice.learn_one(score, label)
            twice.learn_one(score, label)
        batch.learn_many(scores, y, np.full(60, 2.0))
        assert self.answers(once) == pytest.approx(self.answers(twice), abs=1e-12)
        assert self.answers(batch) == pytest.approx(self.answers(once), abs=1e-12)

    def test_a_heavy_sample_moves_the_answer_more(self, prototype: Calibrator) -> None:
        light, heavy = prototype.clone(), prototype.clone()
        for calibrator, w in ((light, 1.0), (heavy, 50.0)):
            calibrator.learn_one(0.5, self.labels[0])
            calibrator.learn_one(0.5, self.labels[1], w)
        assert heavy.predict_one(0.5) > light.predict_one(0.5)

    @pytest.mark.parametrize("score", BAD_SCORES)
    def test_a_bad_score_is_refused(self, taught: Calibrator, score: Any) -> None:
        before = state(taught)
        with pytest.raises(BAD, match="`score`"):
            taught.learn_one(score, self.labels[1])
        with pytest.raises(BAD, match="`score`"):
            taught.predict_one(score)
        assert state(taught) == before

    @pytest.mark.parametrize("w", BAD_WEIGHTS)
    def test_a_bad_weight_is_refused(self, taught: Calibrator, w: Any) -> None:
        before = state(taught)
        with pytest.raises(BAD, match="`w`"):
            taught.learn_one(0.5, self.labels[1], w)
        assert state(taught) == before

    def test_a_bad_label_is_refused(self, taught: Calibrator) -> None:
        before = state(taught)
        for label in self.bad_labels:
            with pytest.raises(BAD, match="`y`"):
                taught.learn_one(0.5, label)
        assert state(taught) == before

    @pytest.mark.parametrize("method", ["learn_many", "predict_learn_many"])
    def test_bad_batch_changes_nothing(self, taught: Calibrator, method: str) -> None:
        """The bad sample is the last one, so a partly learned batch would be detected."""
        before = state(taught)
        learn: Callable[..., Any] = getattr(taught, method)
        scores, y, w = self.stream(5)
        for bad in (math.nan, math.inf):
            with pytest.raises(ValueError, match=r"`scores`.* position 4"):
                learn(np.append(scores[:4], bad), y, w)
        for bad in [math.inf] if self.unlabelled else [math.nan, math.inf]:
            with pytest.raises(ValueError, match=r"`y`.* position 4"):
                learn(scores, np.append(y[:4], bad), w)
        for bad in (math.nan, 0.0, -1.0, math.inf):
            with pytest.raises(ValueError, match=r"`w`.* position 4"):
                learn(scores, y, np.append(w[:4], bad))
        with pytest.raises(ValueError, match="`y`"):
            learn(scores, y[:4], w)
        with pytest.raises(ValueError, match="`w`"):
            learn(scores, y, w[:4])
        with pytest.raises(ValueError, match="`scores`"):
            learn(scores.reshape(1, -1), y, w)
        with pytest.raises(TypeError, match="`scores`"):
            learn(np.array(["a"] * 5), y, w)
        with pytest.raises(ValueError, match="`scores`"):
            taught.predict_many([0.5, math.nan])
        assert state(taught) == before

    def test_kinds_of_number(self, prototype: Calibrator) -> None:
        """The type of a number makes no difference: bool, int, float and NumPy scalars."""
        low, high = self.labels
        kinds: list[Callable[[float], Any]] = [float, int, np.float64, np.float32, np.int64]
        if (low, high) == (0.0, 1.0):
            kinds += [bool, np.bool_]
        answers = []
        for kind in kinds:
            calibrator = prototype.clone()
            for score, label in ((0.25, low), (0.5, high), (0.75, low), (0.75, high)):
                calibrator.learn_one(np.float32(score), kind(label), np.int64(1))
            answers.append([*self.answers(calibrator), calibrator.predict_one(np.float32(0.5))])
        assert all(answer == answers[0] for answer in answers)

    def test_batch_equals_loop(self, prototype: Calibrator) -> None:
        scores, y, w = self.stream(120)
        loop, batch, chunks = prototype.clone(), prototype.clone(), prototype.clone()
        for sample in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
            loop.learn_one(*sample)
        batch.learn_many(scores, y, w)
        for start in range(0, 120, 50):
            part = slice(start, start + 50)
            chunks.learn_many(scores[part].tolist(), y[part].tolist(), w[part].tolist())
        expected = self.answers(loop)
        assert self.answers(batch) == pytest.approx(expected, abs=1e-12)
        assert self.answers(chunks) == pytest.approx(expected, abs=1e-12)
        predicted = loop.predict_many(self.grid)
        assert isinstance(predicted, np.ndarray)
        assert predicted.dtype == np.float64
        assert predicted.tolist() == expected

    def test_an_empty_batch_changes_nothing(self, taught: Calibrator) -> None:
        before = self.answers(taught)
        taught.learn_many([], [])
        assert taught.predict_many([]).shape == (0,)
        assert taught.predict_learn_many([], []).shape == (0,)
        assert self.answers(taught) == before

    def test_prequential_equals_loop(self, prototype: Calibrator) -> None:
        scores, y, w = self.stream(150)
        loop, compiled = prototype.clone(), prototype.clone()
        expected = []
        for score, label, weight in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
            expected.append(loop.predict_one(score))
            loop.learn_one(score, label, weight)
        predicted = compiled.predict_learn_many(scores, y, w)
        assert isinstance(predicted, np.ndarray)
        assert predicted.tolist() == pytest.approx(expected, abs=1e-12)
        assert self.answers(compiled) == pytest.approx(self.answers(loop), abs=1e-12)

    def test_prediction_is_pure(self, taught: Calibrator) -> None:
        before = state(taught)
        answers = self.answers(taught)
        taught.predict_many(self.grid)
        assert state(taught) == before
        assert self.answers(taught) == answers

    def test_views_and_other_kinds_of_array(self, prototype: Calibrator) -> None:
        """Arrays may be read-only, strided or of fewer bits, as in data frames; or lists."""
        scores, y, w = np.array(self.stream(40))
        scores = np.round(scores * 64) / 64  # also a float32
        read_only, strided, table = scores.copy(), np.repeat(scores, 2)[::2], np.array([scores, y])
        read_only.flags.writeable = False
        answers = []
        for view in (scores, read_only, strided, scores.astype(np.float32), scores.tolist()):
            calibrator = prototype.clone()
            served = calibrator.predict_learn_many(view, table.T[:, 1], w)
            answers.append([*served, *calibrator.predict_many(view), *self.answers(calibrator)])
        assert all(answer == answers[0] for answer in answers)

    def test_masked_values_are_refused(self, fresh: Calibrator) -> None:
        columns = self.stream(10)
        before = state(fresh)
        for i, name in enumerate(("scores", "y", "w")):
            masked: list[Any] = list(columns)
            masked[i] = np.ma.array(columns[i], mask=np.arange(10) == 3)
            with pytest.raises(ValueError, match=f"`{name}` must have no masked values.* 3"):
                fresh.learn_many(*masked)
        assert state(fresh) == before
        twin = fresh.clone()
        fresh.learn_many(*map(np.ma.array, columns))  # nothing is masked
        twin.learn_many(*columns)
        assert self.answers(fresh) == self.answers(twin)

    def test_input_arrays_are_left_alone(self, fresh: Calibrator) -> None:
        samples = self.stream(30)
        copies = copy.deepcopy(samples)
        fresh.learn_many(*samples)
        answers = self.answers(fresh)
        for array, original in zip(samples, copies, strict=True):
            np.testing.assert_array_equal(array, original)
            array[:] = 0.125  # and what the calibrator keeps is its own
        assert self.answers(fresh) == answers

    def test_clone_is_fresh(self, prototype: Calibrator, taught: Calibrator) -> None:
        clone = taught.clone()
        assert type(clone) is type(prototype)
        assert repr(clone) == repr(prototype)
        assert self.answers(clone) == self.answers(prototype.clone())
        before = state(clone)
        taught.learn_many(*self.stream(20, seed=8))
        assert state(clone) == before

    def test_deepcopy_is_independent(self, taught: Calibrator) -> None:
        twin = copy.deepcopy(taught)
        answers = self.answers(taught)
        assert self.answers(twin) == answers
        twin.learn_many(*self.stream(120, seed=8))
        assert self.answers(twin) != answers
        assert self.answers(taught) == answers

    def test_pickle_travels_to_another_process(self, taught: Calibrator) -> None:
        more = self.stream(40, seed=9)
        there = elsewhere().submit(_use_calibrator, state(taught), self.grid, more)
        before, after = there.result()
        assert before == self.answers(taught)
        taught.learn_many(*more)
        assert after == self.answers(taught)

    def test_memory_is_bounded(self, fresh: Calibrator) -> None:
        if not self.bounded:
            pytest.skip("not promised")
        sizes = []
        for seed in range(6):
            fresh.learn_many(*self.stream(1000, seed))
            sizes.append(fresh._raw_memory_usage)
        assert max(sizes[1:]) <= 1.25 * sizes[0] + 1024

    def test_it_passes_the_basic_checks_of_river(self, prototype: Calibrator) -> None:
        for check in RIVER_BASE_CHECKS:
            check(prototype.clone())


def _use_calibrator(
    pickled: bytes, grid: np.ndarray, more: tuple[np.ndarray, ...]
) -> tuple[list[float], list[float]]:
    calibrator: Calibrator = pickle.loads(pickled)
    before = [calibrator.predict_one(score) for score in grid]
    calibrator.learn_many(*more)
    return before, [calibrator.predict_one(score) for score in grid]


def river_checks(model: base.Estimator, most: int = 300) -> Iterator[Callable[[Any], None]]:
    """Yield river's checks that are meant for a model, on at most so many samples.

    River takes 200, but 2,000 to see whether memory grows faster and faster. Each check can be made
    once: its samples are read as it runs.
    """
    for check in checks.yield_checks(model):
        if isinstance(check, partial):
            samples = islice(check.keywords["dataset"], most)
            check = update_wrapper(partial(check, dataset=samples), check)
        if check.__name__ not in model._unit_test_skips():
            yield check


RIVER_BASE_CHECKS = [
    checks.common.check_repr,
    checks.common.check_str,
    checks.common.check_clone_same_class,
    checks.common.check_clone_is_idempotent,
    checks.common.check_init_has_default_params_for_tests,
    checks.common.check_init_default_params_are_not_mutable,
    checks.common.check_doc,
    checks.common.check_clone_changes_memory_addresses,
    checks.common.check_mutate_can_be_idempotent,
    checks.common.check_pickling_supports_roundtrip,
    checks.common.check_repr_roundtrips_clone,
    checks.common.check_clone_with_new_params_applies,
    checks.common.check_get_params_matches_signature,
]


# Classifiers --------------------------------------------------------------------------------------

Sample = tuple[dict[str, float], Any]

LABELS: dict[str, tuple[Any, ...]] = {
    "bool": (False, True),
    "int": (0, 1),
    "numpy bool": (np.False_, np.True_),
    "str": ("cold", "warm", "hot"),
    "more ints": (3, 1, 2),
}


def classifier_contract(
    *prototypes: base.Classifier, multiclass: bool = True, bounded: bool = False
) -> type:
    """Return a test class for river classifiers.

    ``multiclass``: labels other than False and True are accepted. ``bounded``: memory is bounded.
    """
    return _subclass(ClassifierContract, prototypes, multiclass=multiclass, bounded=bounded)


class ClassifierContract:
    prototypes: ClassVar[tuple[base.Classifier, ...]]
    multiclass: ClassVar[bool]
    bounded: ClassVar[bool]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        _prototypes(metafunc)
        if "kind" in metafunc.fixturenames:
            kinds = [k for k, labels in LABELS.items() if self._understands(metafunc.cls, labels)]
            metafunc.parametrize("kind", kinds)

    @staticmethod
    def _understands(cls: "type[ClassifierContract]", labels: tuple[Any, ...]) -> bool:
        return cls.multiclass or set(labels) == {False, True}

    @pytest.fixture
    def fresh(self, prototype: base.Classifier) -> base.Classifier:
        return prototype.clone()

    @pytest.fixture
    def taught(self, prototype: base.Classifier) -> base.Classifier:
        model = prototype.clone()
        self.teach(model, self.stream("bool", 80))
        return model

    def stream(self, kind: str, n: int, seed: int = 5) -> Iterator[Sample]:
        """Features around a centre of each label; the first labels come in turn."""
        labels = LABELS[kind]
        rng = np.random.default_rng(seed)
        for i in range(n):
            at = i % len(labels) if i < 6 else int(rng.integers(len(labels)))
            features = rng.normal(at, 0.8, 3)
            yield dict(zip("abc", features.tolist(), strict=True)), labels[at]

    def teach(self, model: base.Classifier, stream: Iterator[Sample]) -> None:
        for x, y in stream:
            model.learn_one(x=x, y=y)

    def answers(self, model: base.Classifier, kind: str = "bool") -> list[dict[Any, float]]:
        return [model.predict_proba_one(x) for x, _ in self.stream(kind, 25, seed=6)]

    def test_probabilities_sum_to_one_and_name_the_label(
        self, fresh: base.Classifier, kind: str
    ) -> None:
        labels = LABELS[kind]
        for x, y in self.stream(kind, 80):
            answer = fresh.predict_proba_one(x)
            assert all(type(p) is float and 0.0 <= p <= 1.0 for p in answer.values())
            if answer:
                assert math.isclose(sum(answer.values()), 1.0, abs_tol=1e-9)
                assert answer[fresh.predict_one(x)] == max(answer.values())
            assert fresh.learn_one(x, y) is None
        assert set(answer) == set(labels)
        if not isinstance(labels[0], np.bool_) and self.multiclass:
            assert {type(label) for label in answer} == {type(labels[0])}
        hits = [fresh.predict_one(x) == y for x, y in self.stream(kind, 60, seed=6)]
        assert np.mean(hits) > 0.6

    def test_before_learning_a_score_is_its_own_answer(self, fresh: base.Classifier) -> None:
        answer = fresh.predict_proba_one({"a": 1.0})
        assert isinstance(answer, dict)
        assert (fresh.predict_one({"a": 1.0}) is None) == (not answer)

    def test_weights_are_accepted(self, prototype: base.Classifier) -> None:
        one, two = prototype.clone(), prototype.clone()
        for x, y in self.stream("bool", 60):
            one.learn_one(x, y, w=1.0)
            two.learn_one(x, y)
        assert self.answers(one) == self.answers(two)
        two.learn_one(x, y, w=3)
        two.learn_one(x, not y, w=np.float64(0.5))

    @pytest.mark.parametrize("w", BAD_WEIGHTS)
    def test_a_bad_weight_is_refused(self, taught: base.Classifier, w: Any) -> None:
        before = state(taught)
        with pytest.raises(BAD, match="`w`"):
            taught.learn_one({"a": 1.0}, True, w=w)
        assert state(taught) == before

    def test_an_argument_that_nothing_takes_is_refused(self, taught: base.Classifier) -> None:
        before = state(taught)
        with pytest.raises(TypeError, match="'serverd'"):
            taught.learn_one({"a": 1.0}, True, serverd=None)
        assert state(taught) == before

    @pytest.mark.parametrize("y", [None, math.nan, np.float64("nan")])
    def test_a_bad_label_is_refused(self, taught: base.Classifier, y: Any) -> None:
        before = state(taught)
        with pytest.raises(BAD, match="`y`"):
            taught.learn_one({"a": 1.0}, y)
        assert state(taught) == before

    def test_prediction_is_pure(self, taught: base.Classifier) -> None:
        before = state(taught)
        x = {"a": 1.0, "b": -1.0, "c": 0.5}
        answer = taught.predict_proba_one(x)
        taught.predict_one(x)
        assert x == {"a": 1.0, "b": -1.0, "c": 0.5}
        answer.clear()  # the answer is the caller's
        assert state(taught) == before

    def test_clone_is_fresh(self, prototype: base.Classifier, taught: base.Classifier) -> None:
        clone = taught.clone()
        assert type(clone) is type(prototype)
        assert repr(clone) == repr(prototype)
        assert self.answers(clone) == self.answers(prototype.clone())
        before = state(clone)
        self.teach(taught, self.stream("bool", 10, seed=8))
        assert state(clone) == before

    def test_deepcopy_is_independent(self, taught: base.Classifier) -> None:
        twin = copy.deepcopy(taught)
        answers = self.answers(taught)
        assert self.answers(twin) == answers
        self.teach(twin, self.stream("bool", 40, seed=8))
        assert self.answers(twin) != answers
        assert self.answers(taught) == answers

    def test_pickle_travels_to_another_process(self, fresh: base.Classifier, kind: str) -> None:
        self.teach(fresh, self.stream(kind, 40))
        queries = [x for x, _ in self.stream(kind, 25, seed=6)]
        more = list(self.stream(kind, 20, seed=9))
        there = elsewhere().submit(_use_classifier, state(fresh), queries, more)
        before, after = there.result()
        assert before == self.answers(fresh, kind)
        self.teach(fresh, iter(more))
        assert after == self.answers(fresh, kind)

    def test_memory_is_bounded(self, fresh: base.Classifier) -> None:
        if not self.bounded:
            pytest.skip("not promised")
        sizes = []
        for seed in range(6):
            self.teach(fresh, self.stream("bool", 400, seed))
            sizes.append(fresh._raw_memory_usage)
        assert max(sizes[1:]) <= 1.25 * sizes[0] + 1024


def _use_classifier(
    pickled: bytes, queries: list[dict[str, float]], more: list[Sample]
) -> tuple[list[dict[Any, float]], list[dict[Any, float]]]:
    model: base.Classifier = pickle.loads(pickled)
    before = [model.predict_proba_one(x) for x in queries]
    for x, y in more:
        model.learn_one(x, y)
    return before, [model.predict_proba_one(x) for x in queries]
