"""States with a right checksum and wrong content: refused with ``ValueError``, or fully working."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import (
    BetaCalibrator,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PAVStack,
    PlattCalibrator,
    SegmentCalibrator,
    StreamingThresholds,
    ThresholdClassifier,
    VennAbersCalibrator,
    _state,
    losses,
)
from streamcal._state import Stateful, restore
from streamcal.calibration import segments
from streamcal.calibration.anytime import AnytimeCalibrator
from streamcal.durable.labels import Event, LabelJoin
from streamcal.kernels import score_index as index
from streamcal.ordinal import CuSumRank, KernelCuSumRank, PRank
from tests import WITHOUT_BYTE_CODE, hostile_states
from tests.invariants import Structure


def test_every_class_has_examples() -> None:
    """The classes are counted in the package, so that a new one cannot be left out."""
    found = hostile_states.classes()
    assert len(found) > 30
    assert set(hostile_states.EXAMPLES) <= set(found)
    for name in found:
        for example in hostile_states.examples(name):
            assert type(example.make()).__name__ == name


def test_crafted_states_are_refused_or_work() -> None:
    """Some 20 of each class; thousands by STREAMCAL_SOAK.

    A case that hangs or crashes ends the process: the last line says which one it was.
    """
    pytest.importorskip("jax", reason="a class of states needs JAX")
    n_cases = os.environ.get("STREAMCAL_SOAK", "20")
    done = subprocess.run(
        [*WITHOUT_BYTE_CODE, "-m", "tests.hostile_states", n_cases],
        capture_output=True,
        cwd=Path(__file__).parent.parent,
        check=False,
    )
    lines = done.stdout.decode().replace("\r\n", "\n").splitlines()
    assert done.returncode == 0, (lines[-1:], done.stderr.decode()[-2000:])
    reports = [json.loads(line) for line in lines]
    failed = [report["failed"] for report in reports if "failed" in report]
    assert not failed, "\n".join(map(str, failed))
    totals = dict(report["done"] for report in reports if "done" in report)
    assert set(totals) == set(hostile_states.classes())
    assert all(sum(found.values()) == int(n_cases) for found in totals.values())
    for kind in ("refused", "accepted"):  # or nothing was tried
        assert sum(found[kind] for found in totals.values()) > len(totals)


def changed(learner: Stateful, fields: dict[str, Any] | None = None, **arrays: Any) -> bytes:
    """Return a learner's bytes with some parameters, fields or arrays replaced."""
    state = _state.decode(learner.to_bytes())
    all_fields = {**state.fields, **(fields or {})}
    parameters = {**state.fields["parameters"], **all_fields.pop("given", {})}
    all_fields["parameters"] = parameters
    return _state.encode(state.kind, all_fields, {**state.arrays, **arrays})


@pytest.mark.parametrize(
    ("learner", "parameters"),
    [
        (PlattCalibrator(calibeating=3), {"calibeating": 10**12}),
        (PlattCalibrator(), {"calibeating": 1_000_000}),
        (HistogramCalibrator(), {"n_bins": 10**12}),
        (StreamingThresholds(3), {"n_labels": 32_767}),
        (KernelCuSumRank(window=5), {"labels": {"tuple": list(range(30_000))}}),
    ],
)
def test_nothing_is_allocated_beyond_the_bytes(
    learner: Stateful, parameters: dict[str, Any]
) -> None:
    data = changed(learner, {"given": parameters})
    with pytest.raises(ValueError, match="`data` must be") as raised:
        restore(data)
    assert not isinstance(raised.value.__cause__, MemoryError)


def test_keys_of_terms_that_share_their_low_bits_are_found() -> None:
    """With slots of low bits each search would pass all terms, and take a minute in all."""
    code = (
        "import resource, numpy as np\n"
        "from streamcal import IdentityCalibrator, SegmentCalibrator, _state\n"
        "n = 500_000\n"
        "calibrator = SegmentCalibrator(['a'], base=IdentityCalibrator())\n"
        "calibrator.learn_many(np.full(n, 0.5), np.zeros(n), x={'a': range(n)})\n"
        "state = _state.decode(calibrator.to_bytes())\n"
        "arrays = {**state.arrays, 'keys': np.arange(n + 2) << 40}\n"
        "used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (used + 20, used + 20))\n"
        "restored = _state.restore(_state.encode(state.kind, state.fields, arrays))\n"
        "assert restored.n_terms == n\n"
    )
    subprocess.run([*WITHOUT_BYTE_CODE, "-c", code], check=True)


def test_a_state_may_have_other_sums_than_its_terms() -> None:
    calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator())
    for i in range(30):
        calibrator.learn_one(0.5, 1, x={"a": i % 3})
    squares = _state.decode(calibrator.to_bytes()).arrays["squares"]
    for low in (-1.0, 0.0):
        restored = restore(changed(calibrator, squares=np.full_like(squares, low)))
        for i in range(30):
            restored.learn_one(0.5, 0, x={"a": i % 3})
        assert 0.0 < restored.predict_one(0.5, {"a": 1}) < 0.5
        assert restore(restored.to_bytes()).to_bytes() == restored.to_bytes()


@pytest.mark.parametrize("sums", [{"squares": 2.0**53}, {"effective": 1e300}, {"effective": -1e15}])
def test_any_sums_and_the_least_priors_leave_a_state_readable(sums: dict[str, float]) -> None:
    calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator())
    calibrator.learn_one(0.5, 1, x={"a": 0})
    arrays = _state.decode(calibrator.to_bytes()).arrays
    changes = {name: np.full_like(arrays[name], value) for name, value in sums.items()}
    least, most = segments._PRIORS
    for prior in (least, most):
        priors = np.full_like(arrays["priors"], prior)
        restored = restore(changed(calibrator, priors=priors, **changes))
        for a in (1, 0, 0):  # the bytes keep the changed term, then it learns
            assert restore(restored.to_bytes()).to_bytes() == restored.to_bytes()
            restored.learn_one(1e-6, 1, 1e60, x={"a": a})


def test_a_state_with_more_terms_than_max_terms_is_refused() -> None:
    calibrator = SegmentCalibrator(["a"], base=IdentityCalibrator())
    calibrator.learn_many(np.full(100, 0.5), np.zeros(100), x={"a": list(range(100))})
    assert restore(changed(calibrator, {"given": {"max_terms": 100}})).n_terms == 100
    with pytest.raises(ValueError, match="there must be at most `max_terms` terms"):
        restore(changed(calibrator, {"given": {"max_terms": 99}}))


@pytest.mark.parametrize("learner", [CuSumRank, KernelCuSumRank])
def test_windows_take_memory_when_they_are_used(learner: Any) -> None:
    data = changed(learner(window=5), {"given": {"window": 10**12}})
    for model in (learner(window=10**12), restore(data)):
        for i in range(40):
            model.learn_one({"a": i / 40}, i % 3)
        assert sys.getsizeof(model._cusum) < 10_000
        assert restore(model.to_bytes()).to_bytes() == model.to_bytes()
        with pytest.raises(ValueError, match="the ring must hold the last samples"):
            restore(changed(model, {"n_seen": 41}))


def test_bins_take_memory_when_they_are_used() -> None:
    with pytest.raises(ValueError, match="`n_bins` must be an int from 1 to 1000000"):
        HistogramCalibrator(10**12)
    with pytest.raises(ValueError, match="`calibeating` must be an int from 0 to 1000000"):
        PlattCalibrator(calibeating=10**12)
    calibrator = HistogramCalibrator(1_000_000)
    assert sys.getsizeof(calibrator._kernel) < 10_000
    twin, few = HistogramCalibrator(1_000_000, prior=0.0), HistogramCalibrator(20, prior=0.0)
    scores = np.round(np.random.default_rng(0).random(300), 3)
    for learner in (twin, few):  # of either all cells are scores, in tables of different sizes
        learner.learn_many(scores, scores > 0.5)
    assert twin._kernel.state()[0].tolist() == few._kernel.state()[0].tolist()
    assert HistogramCalibrator.from_bytes(twin.to_bytes()).to_bytes() == twin.to_bytes()


def many_chunks() -> IsotonicCalibrator:
    rng = np.random.default_rng(1)
    calibrator = IsotonicCalibrator("squared")
    scores = rng.random(3_000)
    for score, y in zip(scores.tolist(), (scores + rng.normal(size=3_000)).tolist(), strict=True):
        calibrator.learn_one(score, y, float(rng.uniform(0.1, 2.0)))
    return calibrator


def test_bridges_that_end_nowhere_are_refused() -> None:
    """What a state says of its nodes is where their bridges end; all else is found anew."""
    calibrator = many_chunks()
    bridges = _state.decode(calibrator.to_bytes()).arrays["bridges"]
    rng = np.random.default_rng(2)
    for fill in (0.0, -1e300, 1e300, "permuted", "random", "swapped"):
        broken = np.full_like(bridges, fill if isinstance(fill, float) else 0.0)
        if fill == "permuted":
            broken = rng.permutation(bridges)
        elif fill == "random":
            broken = rng.random(bridges.shape)
        elif fill == "swapped":
            broken = bridges[:, ::-1].copy()
        with pytest.raises(ValueError, match="bridges must be edges of the hull"):
            restore(changed(calibrator, bridges=broken))
    twin = restore(calibrator.to_bytes())
    for i in range(200):
        twin.learn_one(i / 200, 0.5)
    Structure(twin).check()


def test_bridges_between_other_vertices_are_refused_or_work() -> None:
    calibrator = many_chunks()
    arrays = _state.decode(calibrator.to_bytes()).arrays
    ends = np.cumsum(arrays["lengths"])
    firsts, lasts = arrays["scores"][ends - arrays["lengths"]], arrays["scores"][ends - 1]
    rng, refused = np.random.default_rng(3), []
    for _ in range(400):
        broken = arrays["bridges"].copy()
        node = rng.integers(len(broken))
        first, last = broken[node]
        near = firsts[(np.abs(firsts - first) < 0.1) & (firsts < arrays["keys"][node])]
        broken[node] = rng.choice(near), rng.choice(lasts[np.abs(lasts - last) < 0.1])
        try:
            restored = restore(changed(calibrator, bridges=broken))
        except ValueError as error:
            refused.append(str(error))
        else:
            hostile_states.use_isotonic(restored)
    assert len(refused) > 300
    assert all("bridges must be edges of the hull" in message for message in refused)


def test_edges_that_are_none_are_refused() -> None:
    calibrator = IsotonicCalibrator(prior=0.0)
    calibrator.learn_many([0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 1.0])
    state = _state.decode(calibrator.to_bytes())
    assert state.arrays["lengths"].tolist() == [1, 2, 1]
    pooled = changed(
        calibrator, lengths=np.array([4]), edges=np.array([[4.0, 2.0]])
    )  # 0 and then 1, pooled for no reason
    with pytest.raises(ValueError, match="violate the order"):
        restore(pooled)
    apart = changed(
        calibrator,
        lengths=np.ones(4, np.int64),
        edges=np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
    )
    with pytest.raises(ValueError, match="edges must rise"):
        restore(apart)
    heavy = changed(calibrator, edges=np.array([[1.0, 0.0], [3.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="the sums of their slots"):
        restore(heavy)


@pytest.mark.parametrize(
    "samples",
    [
        [(0.1, 1e-197, 1e-60), (0.2, 0.0, 1e60)],  # a mean of 1e-317, which has few digits
        [(0.1, 3e-197, 1e-60), (0.2, 0.0, 1e60)],
        [(0.1, 1e-257, 1e-60), (0.2, 3e-257, 1e-60)],  # pooled: products of sums and weights are 0
    ],
)
def test_edges_of_the_smallest_sums_are_read(samples: list[tuple[float, float, float]]) -> None:
    calibrator = IsotonicCalibrator("log")
    for sample in samples:
        calibrator.learn_one(*sample)
    assert len(_state.decode(calibrator.to_bytes()).arrays["lengths"]) == 1
    assert restore(calibrator.to_bytes()).to_bytes() == calibrator.to_bytes()


def test_small_sums_that_are_pooled_for_no_reason_are_refused() -> None:
    calibrator = IsotonicCalibrator("log")
    calibrator.learn_one(0.1, 1e-197)
    calibrator.learn_one(0.2, 3e-197)
    edges = _state.decode(calibrator.to_bytes()).arrays["edges"]
    assert len(edges) == 2
    pooled = changed(calibrator, lengths=np.array([2]), edges=edges.sum(axis=0, keepdims=True))
    with pytest.raises(ValueError, match="violate the order"):
        restore(pooled)


def test_trees_that_lean_are_refused() -> None:
    """Kernels walk a tree with a stack that is long enough for one in balance."""
    n = 300
    shape = np.array([index.INNER, 1] * (n - 1) + [1])
    learner = StreamingThresholds(3, "zero-one")
    scores = np.arange(float(n))
    learner.learn_many(scores, 1 + np.arange(n) % 3)
    for leaning in (shape, np.array([index.INNER] * (n - 1) + [1] * n)):
        keys = scores[1:] if leaning is shape else scores[:0:-1]
        with pytest.raises(ValueError, match="the tree must be balanced"):
            restore(changed(learner, shape=leaning, keys=keys))


def test_trees_of_best_thresholds_that_lean_are_refused() -> None:
    n = 300
    shape = np.array([index.INNER, 1] * (n - 1) + [1])
    learner = EUMThreshold()
    learner.learn_many(np.arange(float(n)), np.arange(n) % 2)
    with pytest.raises(ValueError, match="the tree must be balanced"):
        restore(changed(learner, shape=shape, keys=np.arange(1.0, n)))


@pytest.mark.parametrize(
    ("fields", "arrays"),
    [
        ({"now": "x"}, {}),
        ({"now": 1e300}, {}),
        ({"counts": [0, 0, True]}, {}),
        ({"keys": [{"list": []}, None]}, {}),
        ({"ids": [{"tuple": [{"list": []}]}, "b"]}, {}),
        ({"tickets": [[0, "x"], None]}, {}),
        ({"tickets": [5, None]}, {}),
        ({"tickets": [{"base": None}, None]}, {}),
        ({"tickets": [{"base": None, "models": None}, None]}, {}),
        ({"tickets": [{"base": {"base": None}, "models": [0]}, None]}, {}),
        ({"x": [None]}, {}),
        ({"x": ["x", None]}, {}),
        ({"x": [{"a": []}, None]}, {}),
        ({"x": [{"a": float("nan")}, None]}, {}),
        ({}, {"numbers": np.array([[0.5, 1.0, 1.0], [0.5, np.nan, 1.0]])}),
        ({}, {"arrived": np.array([1, 2**62])}),
        ({}, {"done": np.array([0, 7])}),
    ],
)
def test_a_join_of_nonsense_is_refused(fields: dict[str, Any], arrays: dict[str, Any]) -> None:
    join = LabelJoin(10)
    join.add(Event(0.5, id="a"))
    join.add(Event(0.7, id="b"))
    assert LabelJoin.from_bytes(changed(join)).n_waiting == 2
    with pytest.raises(ValueError, match="`data` must be"):
        restore(changed(join, fields, **arrays))


@pytest.mark.parametrize(
    "fields",
    [
        {"due": "soon"},
        {"due": None},
        {"n_samples": 1e300},
        {"order": {"tuple": [0, 1]}},
        {"order": {"list": [{"list": []}, 1]}},
        {"solution": [1.0, [], True]},
    ],
)
def test_a_classifier_of_nonsense_is_refused(fields: dict[str, Any]) -> None:
    regressor = hostile_states.regressor()
    model = ThresholdClassifier(regressor, window=80, every=10)
    for i in range(30):
        model.learn_one({"a": i / 30}, i % 3)
    with pytest.raises(ValueError, match="`data` must be"):
        ThresholdClassifier.from_bytes(changed(model, fields), regressor=regressor)


def test_a_stack_of_nonsense_is_refused() -> None:
    stack = PAVStack(losses.Pinball(tau=0.5))
    stack.push_many([1.0, 2.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0])
    for arrays in (
        {"starts": np.array([0.0, 1.0])},
        {"starts": np.array([0, 2])},  # two blocks of one score
        {"values": np.array([0.0, np.nan])},
        {"values": np.array([0.0, 7.0])},
        {"samples": np.zeros(3)},
        {"samples": np.zeros((3, 0))},
    ):
        with pytest.raises(ValueError, match="`data` must be"):
            restore(changed(stack, **arrays))


def test_heavy_samples_do_not_part_equal_scores() -> None:
    """Found by a crafted state: a weight of 1e60 made two blocks of one score."""
    calibrator = AnytimeCalibrator("absolute", window=100, every=1)
    for i in range(40):
        calibrator.learn_one(float(i // 4), (7 * i % 11) / 10, 1e60 if i == 18 else 1.0)
    assert len(calibrator.solve()) <= 10


def test_a_clip_that_no_float_can_tell_is_refused() -> None:
    """Found by a crafted state: 1 - 1e-300 is 1, and its log odds are infinite."""
    for make in (BetaCalibrator, PlattCalibrator):
        with pytest.raises(ValueError, match=r"`clip` must lie in \[1e-15, 0.5\), got 1e-300"):
            make(clip=1e-300)
        calibrator = make(clip=1e-15)
        calibrator.learn_many([0.0, 1.0, 0.5], [1.0, 0.0, 1.0])
        assert np.isfinite(calibrator.predict_many([0.0, 1.0])).all()


@pytest.mark.parametrize("max_scores", [16, np.int64(16)], ids=["int", "int64"])
def test_scores_are_merged_for_any_type_of_int(max_scores: Any) -> None:
    calibrator = IsotonicCalibrator(max_scores=max_scores)
    for i in range(40):
        calibrator.learn_one(i / 40, i % 2)
    assert calibrator.n_scores <= 16
    assert restore(calibrator.to_bytes()).to_bytes() == calibrator.to_bytes()


def test_many_labels_bring_their_costs() -> None:
    """Memory grows with the square of the labels; beyond 500 so do the bytes."""
    learner = StreamingThresholds(600)
    assert len(StreamingThresholds(500).to_bytes()) < 1_000
    data = learner.to_bytes()
    assert len(data) > 600**2 * 8
    twin = StreamingThresholds.from_bytes(data)
    for one in (learner, twin):
        one.learn_many([0.1, 0.5, 0.9], [1, 300, 600])
    assert twin.to_bytes() == learner.to_bytes()


def any_weight(rng: np.random.Generator) -> float:
    return float(10.0 ** rng.uniform(-60.0, 60.0)) if rng.random() < 0.5 else 1.0


LEARNERS: list[Any] = [
    lambda h, n: IsotonicCalibrator(half_life=h, window=n),
    lambda h, n: IsotonicCalibrator("squared", half_life=h, window=n, max_scores=20),
    lambda h, n: IsotonicCalibrator("logistic", half_life=h, window=n, prior=0.0),
    lambda h, n: VennAbersCalibrator(half_life=h, window=n),
    lambda h, n: HistogramCalibrator(2, half_life=h),
    lambda h, n: PlattCalibrator(half_life=h, calibeating=3),
    lambda h, n: BetaCalibrator(half_life=h),
    lambda h, n: StreamingThresholds(3, half_life=h, window=n),
    lambda h, n: EUMThreshold(half_life=h, window=n),
    lambda h, n: CuSumRank(averaging=h, window=n or 20, l2=0.5),
    lambda h, n: PRank(averaging=h, window=n or 20),
    lambda h, n: KernelCuSumRank(averaging=h, window=n or 20, budget=n),
    lambda h, n: PAVStack("log"),
    lambda h, n: PAVStack("absolute"),
    lambda h, n: HedgedCalibrator((PlattCalibrator(), IsotonicCalibrator(window=n))),
]


@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("half_life", [None, 0.1, 100.0])
@pytest.mark.parametrize("window", [None, 30])
def test_nothing_that_was_learned_is_refused(
    make: Any, half_life: float | None, window: int | None
) -> None:
    """The checks are as wide as what weights, half-lives and windows can lead to."""
    rng = np.random.default_rng(8)
    learner, tickets = make(half_life, window), []
    for i in range(150):
        score, y, w = round(float(rng.random()), 1), int(rng.integers(2)), any_weight(rng)
        if isinstance(learner, PAVStack):
            learner.push(float(i // 3), y, w)
        elif isinstance(learner, CuSumRank | PRank | KernelCuSumRank):
            learner.learn_one({"a": score, "b": y - 0.5}, int(rng.integers(4)), w)
        elif isinstance(learner, HedgedCalibrator):
            tickets.append(learner.serve_one(score)[1])
            learner.learn_one(score, y, w, ticket=tickets[max(0, i - (window or 0))])
        else:
            low = -1 if getattr(learner, "loss", None) == "logistic" else 0
            learner.learn_one(score, 1 if y or isinstance(learner, StreamingThresholds) else low, w)
        if i % 40 == 0 or i > 146:
            data = learner.to_bytes()
            assert restore(data).to_bytes() == data
