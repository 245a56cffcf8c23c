"""Bytes of every learner: restored, it predicts and learns bit for bit; damage is refused."""

import contextlib
import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import linear_model, naive_bayes

import streamcal
from streamcal import (
    AnytimeCalibrator,
    BetaCalibrator,
    CalibratedClassifier,
    CalibratedRegressor,
    Calibrator,
    DecisionClassifier,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PAVStack,
    PlattCalibrator,
    StreamingThresholds,
    ThresholdClassifier,
    VennAbersCalibrator,
    _state,
    losses,
)
from streamcal._state import Stateful, restore
from streamcal.decision import (
    FBeta,
    FractionalLinear,
    Metric,
    PredictionSetClassifier,
    SelectiveClassifier,
)
from streamcal.ordinal import CuSumRank, KernelCuSumRank, PACuSumRank, PRank
from tests import hostile_states

RECORDED = Path(__file__).parent / "recorded" / "formats.json"
RNG = np.random.default_rng(0)
SCORES = np.round(RNG.random(400), 3).tolist()
WEIGHTS = RNG.uniform(0.1, 3.0, 400).tolist()
Teach = Callable[[Any, int, int], None]


def teach_binary(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.learn_one(SCORES[i], float(SCORES[i - 1] < SCORES[i]), WEIGHTS[i])


def teach_pushes(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.push(float(i // 2), SCORES[i], WEIGHTS[i])


def teach_ranks(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        label = 1 + min(3, int(4 * (0.7 * SCORES[i] + 0.3 * SCORES[i - 1])))
        learner.learn_one(SCORES[i], label, WEIGHTS[i])


def teach_rows(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        x = {"a": SCORES[i], 7: SCORES[i - 1], f"only {i % 5}": 1.0}
        learner.learn_one(x, min(3, int(4 * (0.7 * SCORES[i] + 0.3 * SCORES[i - 2]))), WEIGHTS[i])


def teach_truths(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.learn_one({"a": SCORES[i], "b": SCORES[i - 1]}, SCORES[i] > SCORES[i - 2])


def teach_numbers(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.learn_one({"a": SCORES[i], "b": SCORES[i - 1]}, 3 * SCORES[i] + SCORES[i - 2])


def nothing(learner: Any, start: int, stop: int) -> None:
    pass


LEARNERS: dict[str, tuple[Callable[[], Any], Teach]] = {
    "isotonic": (lambda: IsotonicCalibrator(), teach_binary),
    "isotonic, window": (lambda: IsotonicCalibrator("squared", window=90), teach_binary),
    "Venn-Abers": (lambda: VennAbersCalibrator(window=90), teach_binary),
    "isotonic, half-life": (
        lambda: IsotonicCalibrator(losses.Tweedie(power=1.2), half_life=30.0),
        lambda learner, start, stop: teach_pushes_as(learner, start, stop),
    ),
    "Platt": (lambda: PlattCalibrator(gamma=0.2), teach_binary),
    "Platt, calibeating": (lambda: PlattCalibrator(calibeating=7, half_life=50.0), teach_binary),
    "beta": (lambda: BetaCalibrator(half_life=80.0), teach_binary),
    "histogram": (lambda: HistogramCalibrator(4, half_life=30.0), teach_binary),
    "identity": (lambda: IdentityCalibrator(), teach_binary),
    "hedge": (lambda: HedgedCalibrator(), teach_binary),
    "hedge, late": (
        lambda: HedgedCalibrator((PlattCalibrator(), IsotonicCalibrator()), share=0.1),
        lambda learner, start, stop: teach_late(learner, start, stop),
    ),
    "anytime": (lambda: AnytimeCalibrator("absolute", window=100, every=30), teach_binary),
    "stack": (lambda: PAVStack("squared"), teach_pushes),
    "convex stack": (lambda: PAVStack(losses.Pinball(tau=0.8)), teach_pushes),
    "thresholds": (lambda: StreamingThresholds(4), teach_ranks),
    "thresholds, window": (lambda: StreamingThresholds(4, "squared", window=60), teach_ranks),
    "thresholds, min-plus": (lambda: StreamingThresholds(4, "zero-one", half_life=40), teach_ranks),
    "thresholds, costs": (
        lambda: StreamingThresholds(4, losses.CostTable((1 - np.eye(4)).tolist())),
        teach_ranks,
    ),
    "CuSum": (lambda: CuSumRank(averaging="uniform"), teach_rows),
    "CuSum, labels": (lambda: CuSumRank(labels=(0, 1, 2, 3), margin=0.5), teach_rows),
    "PA": (lambda: PACuSumRank(window=50), teach_rows),
    "PRank": (lambda: PRank(averaging=20.0), teach_rows),
    "kernel CuSum": (lambda: KernelCuSumRank(budget=20), teach_rows),
    "EUM": (lambda: EUMThreshold(FBeta(2.0)), teach_binary),
    "EUM, window": (lambda: EUMThreshold("mcc", window=70, half_life=50.0), teach_binary),
    "metric": (lambda: FractionalLinear((0, 2, 0, 0), (0, 0, 1, 1)), nothing),
}


def teach_late(learner: Any, start: int, stop: int) -> None:
    tickets = []
    for i in range(start, stop):
        tickets.append(learner.serve_one(SCORES[i])[1])
        if i - start >= 7:
            label = SCORES[i - 7] > SCORES[i - 8]
            learner.learn_one(SCORES[i - 7], label, WEIGHTS[i], ticket=tickets[-8])


def teach_pushes_as(learner: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        learner.learn_one(SCORES[i], SCORES[i - 1], WEIGHTS[i])


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("n", [0, 1, 2, 50, 300])
def test_restored_goes_on_bit_for_bit(name: str, n: int) -> None:
    make, teach = LEARNERS[name]
    learner = make()
    teach(learner, 0, n)
    data = learner.to_bytes()
    twin = restore(data)
    assert type(twin) is type(learner)
    assert repr(twin) == repr(learner)
    assert twin.to_bytes() == data == learner.to_bytes()
    teach(learner, n, n + 90)
    teach(twin, n, n + 90)
    assert twin.to_bytes() == learner.to_bytes()
    for question in ("thresholds", "threshold", "known_labels", "n_samples"):
        if n and hasattr(learner, question):
            np.testing.assert_array_equal(getattr(twin, question), getattr(learner, question))
    for score in (0.0, 0.31, 0.9, 200.0) if hasattr(learner, "predict_one") else ():
        x = {"a": score} if isinstance(learner, CuSumRank | PACuSumRank | PRank) else score
        x = {"a": score} if isinstance(learner, KernelCuSumRank) else x
        if score <= 1.0:
            assert twin.predict_one(x) == learner.predict_one(x)


MODELS: dict[str, tuple[Callable[[], Any], str, Teach]] = {
    "classifier": (
        lambda: CalibratedClassifier(linear_model.LogisticRegression()),
        "classifier",
        teach_truths,
    ),
    "classes": (
        lambda: CalibratedClassifier(naive_bayes.GaussianNB(), PlattCalibrator()),
        "classifier",
        lambda learner, start, stop: [
            learner.learn_one({"a": SCORES[i]}, ("low", "mid", "top")[int(3 * SCORES[i - 1])])
            for i in range(start, stop)
        ],
    ),
    "segments": (
        lambda: CalibratedClassifier(
            linear_model.LogisticRegression(), PlattCalibrator(), segments=("a",)
        ),
        "classifier",
        teach_truths,
    ),
    "regressor": (
        lambda: CalibratedRegressor(linear_model.LinearRegression()),
        "regressor",
        teach_numbers,
    ),
    "ordinal": (
        lambda: ThresholdClassifier(linear_model.LinearRegression(), window=80, every=40),
        "regressor",
        lambda learner, start, stop: [
            learner.learn_one({"a": SCORES[i]}, int(3 * SCORES[i - 1])) for i in range(start, stop)
        ],
    ),
    "decision": (
        lambda: DecisionClassifier(linear_model.LogisticRegression(), "f2", half_life=30.0),
        "classifier",
        teach_truths,
    ),
    "sets": (
        lambda: PredictionSetClassifier(linear_model.LogisticRegression(), 0.8, score="aps"),
        "classifier",
        teach_truths,
    ),
    "selective": (
        lambda: SelectiveClassifier(linear_model.LogisticRegression(), target=0.6),
        "classifier",
        teach_truths,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_wrappers_are_restored_around_their_model(name: str) -> None:
    make, argument, teach = MODELS[name]
    learner = make()
    teach(learner, 0, 120)
    data = learner.to_bytes()
    with pytest.raises(TypeError, match=f"`{argument}` must be given"):
        type(learner).from_bytes(data)
    twin = type(learner).from_bytes(data, **{argument: copy.deepcopy(getattr(learner, argument))})
    teach(learner, 120, 180)
    teach(twin, 120, 180)
    assert twin.to_bytes() == learner.to_bytes()
    x = {"a": 0.4, "b": 0.2}
    assert twin.predict_one(x) == learner.predict_one(x)


@pytest.mark.parametrize("window", [None, 400])
def test_restored_again_and_again(window: int | None) -> None:
    """Sums of floats depend on the order they were made in: that is part of the state."""
    rng = np.random.default_rng(0)
    scores = rng.random(3000).round(4)
    y, w = (rng.random(3000) < scores).astype(np.float64), rng.uniform(0.5, 2.0, 3000)
    at_once = IsotonicCalibrator(window=window).predict_learn_many(scores, y, w)
    calibrator, answers = IsotonicCalibrator(window=window), []
    for start in range(0, 3000, 50):
        part = slice(start, start + 50)
        answers.append(calibrator.predict_learn_many(scores[part], y[part], w[part]))
        calibrator = IsotonicCalibrator.from_bytes(calibrator.to_bytes())
    np.testing.assert_array_equal(np.concatenate(answers), at_once)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(1, 5)), min_size=0, max_size=60
    ),
    st.sampled_from([None, 7]),
    st.integers(0, 30),
)
def test_thresholds_after_removals(
    samples: list[tuple[int, int, int]], window: int | None, n_back: int
) -> None:
    learner = StreamingThresholds(3, window=window)
    for score, label, w in samples:
        learner.learn_one(score / 8, label, w / 3)
    for score, label, w in samples[-n_back:] if window is None else []:
        learner.unlearn_one(score / 8, label, w / 3)
    twin = StreamingThresholds.from_bytes(learner.to_bytes())
    for score, label, w in samples:
        learner.learn_one(score / 9, label, w)
        twin.learn_one(score / 9, label, w)
    assert twin.to_bytes() == learner.to_bytes()
    assert twin.risk == learner.risk


@pytest.mark.parametrize("name", LEARNERS)
def test_damage_is_refused(name: str) -> None:
    make, teach = LEARNERS[name]
    learner = make()
    teach(learner, 0, 80)
    data = learner.to_bytes()
    rng = np.random.default_rng(3)
    for _ in range(60):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        with pytest.raises(ValueError, match="`data` must be"):
            restore(bytes(broken))
        with pytest.raises(ValueError, match="`data` must be"):
            restore(data[: rng.integers(len(data))])


@pytest.mark.parametrize("name", LEARNERS)
def test_forgery_is_refused_or_harmless(name: str) -> None:
    """Bytes with a right checksum and one number changed: an error, or a learner that works."""
    make, teach = LEARNERS[name]
    learner = make()
    teach(learner, 0, 80)
    state = _state.decode(learner.to_bytes())
    rng = np.random.default_rng(4)
    for _ in range(80):
        arrays = {key: array.copy() for key, array in state.arrays.items()}
        filled = [key for key, array in arrays.items() if array.size]
        if not filled:
            continue
        array = arrays[filled[rng.integers(len(filled))]]
        values = [-1.0, 0.0, 3.0, 1e9, np.nan, np.inf][: 6 if array.dtype.kind == "f" else 4]
        new = np.array(values[rng.integers(len(values))]).astype(array.dtype)
        array.reshape(-1)[rng.integers(array.size)] = new
        data = _state.encode(state.kind, state.fields, arrays)
        try:
            twin = restore(data)
        except ValueError:
            with pytest.raises(ValueError, match=r"^`data` must be"):
                restore(data)
        else:
            with contextlib.suppress(ValueError):  # an error, not a crash
                teach(twin, 80, 100)
            twin.to_bytes()


def test_the_wrong_class_is_refused() -> None:
    data = PlattCalibrator().to_bytes()
    with pytest.raises(ValueError, match="of a IsotonicCalibrator, got that of a PlattCalibrator"):
        IsotonicCalibrator.from_bytes(data)
    assert type(Calibrator.from_bytes(data)) is PlattCalibrator
    with pytest.raises(TypeError, match="`speed` must be a parameter of PlattCalibrator"):
        PlattCalibrator.from_bytes(data, speed=3)
    unknown = _state.encode("os.system", {"parameters": {}}, {})
    with pytest.raises(ValueError, match=r"known and imported, got 'os\.system'"):
        restore(unknown)


def test_functions_are_given() -> None:
    loss = losses.from_function(lambda z, y: (z - y) ** 4, name="fourth")
    calibrator = AnytimeCalibrator(loss, window=50)
    calibrator.learn_many(SCORES[:40], SCORES[1:41])
    data = calibrator.to_bytes()
    with pytest.raises(ValueError, match="fourth"):
        restore(data)
    twin = restore(data, loss=loss)
    assert twin.predict_one(0.4) == calibrator.predict_one(0.4)
    with pytest.raises(ValueError, match="`loss` must be the fourth loss"):
        restore(data, loss="huber")

    metric = Metric(lambda tp, fp, fn, tn: tp / (tp + fp + fn + 1.0))
    threshold = EUMThreshold(metric)
    teach_binary(threshold, 0, 30)
    with pytest.raises(ValueError, match="must be given"):
        restore(threshold.to_bytes())
    assert restore(threshold.to_bytes(), metric=metric).threshold == threshold.threshold


class Shifted(PlattCalibrator):
    """A user's own calibrator: its parent's state and a number more."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.shift = shift
        self.n = 0

    def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
        super().learn_one(score, y, w)
        self.n += 1

    def _freeze(self) -> tuple[dict[str, Any], dict[str, Any]]:
        fields, arrays = super()._freeze()
        return {**fields, "n": self.n}, arrays

    def _thaw(self, fields: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._thaw(fields, arrays)
        self.n = fields["n"]


def test_a_class_of_the_user() -> None:
    learner = Shifted(0.5)
    teach_binary(learner, 0, 20)
    twin = restore(learner.to_bytes())
    assert isinstance(twin, Shifted)
    assert (twin.shift, twin.n, twin.slope) == (0.5, 20, learner.slope)


def test_equal_parameters_of_other_types_stay_what_they_are() -> None:
    """Heads of states are looked up: 1, 1.0 and True are equal, but not written alike."""
    for _ in range(2):
        for gamma in (1, 1.0, True, np.float64(1.0)):
            twin = restore(PlattCalibrator(gamma=gamma).to_bytes())
            assert type(twin.gamma) is type(gamma if type(gamma) is not np.float64 else 1.0)
        for share in ((0, 0.5), (0.0, 0.5), [0.0, 0.5]):
            hedge = HedgedCalibrator([PlattCalibrator()], share=share)
            twin = restore(hedge.to_bytes())
            assert repr(twin.share) == repr(share)
            assert twin.to_bytes() == hedge.to_bytes()


def test_parameters_are_written_as_they_are_now() -> None:
    hedge = HedgedCalibrator([PlattCalibrator()], share=[0.0, 0.5])
    before = hedge.to_bytes()
    hedge.share.append(0.25)
    assert hedge.to_bytes() != before
    calibrator = PlattCalibrator()
    calibrator.to_bytes()
    calibrator.gamma = 0.5
    assert restore(calibrator.to_bytes()).gamma == 0.5


def test_restored_learners_share_no_parameters_that_change() -> None:
    data = HedgedCalibrator([PlattCalibrator()], share=[0.0, 0.5]).to_bytes()
    one, other = restore(data), restore(data)
    one.share.append(0.25)
    assert other.share == [0.0, 0.5]
    assert one.calibrators[0] is not other.calibrators[0]


def test_more_kinds_of_states_than_are_looked_up() -> None:
    learners = [PlattCalibrator(gamma=0.1 + i / 1000) for i in range(600)]
    states = [learner.to_bytes() for learner in learners]
    for state, learner in zip(states + states[::-1], learners + learners[::-1], strict=True):
        assert restore(state).gamma == learner.gamma


def test_a_class_that_is_defined_again_reads_its_states() -> None:
    def define() -> type[Any]:
        return type("Again", (PlattCalibrator,), {"__module__": "of_a_user"})

    first = define()
    data = first().to_bytes()
    assert type(restore(data)) is first
    second = define()
    assert type(restore(data)) is second


@pytest.mark.parametrize(
    "inner",
    [
        PlattCalibrator(gamma=0.3),  # other parameters
        BetaCalibrator(),
        IdentityCalibrator(),
    ],
    ids=str,
)
def test_members_of_other_kinds_are_refused(inner: Any) -> None:
    state = _state.decode(HedgedCalibrator([PlattCalibrator()]).to_bytes())
    own = HedgedCalibrator([inner])
    arrays = {**state.arrays, "0": _state.decode(own.to_bytes()).arrays["0"]}
    with pytest.raises(ValueError, match="nested learners must have the class and parameters"):
        restore(_state.encode(state.kind, state.fields, arrays))


class Mute(Calibrator):
    """A calibrator without methods for its state."""

    def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
        pass

    def predict_one(self, score: float, x: Any = None) -> float:
        return score

    def _check_labels(self, y: Any) -> Any:
        return np.asarray(y, dtype=np.float64)


def test_without_hooks_there_are_no_bytes() -> None:
    with pytest.raises(TypeError, match="Mute must define `_freeze` and `_thaw`"):
        Mute().to_bytes()


def test_every_learner_has_a_home() -> None:
    """A fresh process finds each class by its name alone."""
    own = {}
    for module in walk_packages(streamcal.__path__, "streamcal."):
        if module.name.startswith(("streamcal.kernels", "streamcal.spark")):
            continue
        for thing in vars(import_module(module.name)).values():
            if isinstance(thing, type) and issubclass(thing, Stateful):
                if not thing.__name__.startswith("_") and thing.__module__ == module.name:
                    own[thing.__name__] = module.name
    abstract = {"CodedMetric", "CompiledCalibrator", "LinearRanker", "ProbabilityCalibrator"}
    abstract |= {"Betting", "RankLearner", "Stateful", "TwoMaps"}
    known = _state.stateful.homes()
    assert {name: own[name] for name in own if known.get(name) != own[name]}.keys() == abstract


def test_a_fresh_process_reads_them() -> None:
    learners = [make() for make, _ in LEARNERS.values()]
    code = (
        "import pickle, sys\n"
        "from streamcal._state import restore\n"
        "for data in pickle.load(sys.stdin.buffer): print(type(restore(data)).__name__)"
    )
    data = pickle.dumps([learner.to_bytes() for learner in learners])
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().split() == [type(learner).__name__ for learner in learners]


def formats() -> dict[str, list[list[list[str]]]]:
    """Return the names of parameters, fields and arrays in the states of each class."""
    found: dict[str, list[list[list[str]]]] = {}
    for name in sorted(hostile_states.classes()):
        for example in hostile_states.examples(name):
            learner = example.make()
            for i in range(12):
                example.teach(learner, i)
            state = _state.decode(learner.to_bytes())
            parts = state.fields["parameters"], state.fields, state.arrays
            found.setdefault(name, []).append([sorted(part) for part in parts])
    return found


def test_another_format_has_another_version() -> None:
    # Where this fails, raise `_state.VERSION` and record anew: `python -m tests.test_state`. If a
    # class is new, recording is enough.
    recorded = json.loads(RECORDED.read_text())
    assert {"version": _state.VERSION, "formats": formats()} == recorded


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({"version": _state.VERSION, "formats": formats()}) + "\n")
