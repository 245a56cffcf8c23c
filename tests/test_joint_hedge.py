"""The default for more than two labels: a hedge over maps of the whole vector of probabilities."""

import copy
import json
import math
import pickle
from collections import deque
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import CalibratedClassifier, HedgedCalibrator, PlattCalibrator, Served
from streamcal._whole import do_all
from streamcal.calibration.context import Context, Contexts
from streamcal.calibration.joint_hedge import JointHedge
from streamcal.calibration.mixture import Mixture
from streamcal.calibration.tickets import Ticket
from streamcal.kernels import joint
from streamcal.kernels.expert import Expert
from streamcal.kernels.joint import JointMaps, Matrix
from streamcal.wrappers.strategies import OneVsRest
from tests.fixed_model import FixedModel
from tests.oracles_hedged import mixtures
from tests.oracles_joint import Maps

SHARES = (0.0, 0.001, 0.01)
N_MAPS = 6


def model_of(**parameters: Any) -> Any:
    return CalibratedClassifier(FixedModel(), **parameters)


def one_vs_rest() -> Any:
    """Return a wrapper without the mixture."""
    model = model_of()
    model._strategy = OneVsRest(HedgedCalibrator(), model._label_of_column)
    return model


def stream(n: int, labels: tuple[Any, ...] = ("a", "b", "c", "d"), seed: int = 0) -> list[Any]:
    """Return samples of a model that claims too much and mistakes each label for the next."""
    rng = np.random.default_rng(seed)
    samples = []
    for z in rng.normal(0.0, 1.0, (n, len(labels))):
        right = np.exp(z) / np.exp(z).sum()
        claimed = np.exp(2.5 * z + 1.5 * np.roll(z, 1))
        raw = dict(zip(labels, (claimed / claimed.sum()).tolist(), strict=True))
        samples.append(({"p": raw}, labels[rng.choice(len(labels), p=right)]))
    return samples


def played(model: Any, samples: list[Any], delay: int = 0) -> list[Any]:
    """Serve and teach samples with labels ``delay`` late; return what was served."""
    waiting: deque[Any] = deque()
    served = []
    for x, y in samples:
        served.append(model.serve_one(x))
        waiting.append((x, y, served[-1]))
        if len(waiting) > delay:
            x, y, kept = waiting.popleft()
            model.learn_one(x, y, served=kept)
    return served


# The maps and the mixture -------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1))
def test_maps_and_mixture_are_those_of_the_slow_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hedge, maps = JointHedge(SHARES, 1e-6), Maps()
    likelihoods, served = [], []
    for t in range(60):
        labels = sorted(rng.permutation(3 + t // 15)[: rng.integers(3, 7)].tolist())
        scale = 10.0 ** rng.uniform(-1.0, 1.5)  # some probabilities are nearly 0
        p, q = (rng.dirichlet(np.ones(len(labels)) / scale).tolist() for _ in range(2))
        raw, other = (dict(zip(labels, each, strict=True)) for each in (p, q))
        y = int(rng.choice(labels))
        mixture, (_, answers) = hedge.serve_one(raw, other)
        expected = maps.predict(raw, other)
        for label, of_label in zip(labels, answers, strict=True):
            found = of_label[:N_MAPS]
            assert found == pytest.approx([each[label] for each in expected], rel=1e-6, abs=1e-9)
        if t:
            assert mixture == hedge.predict_one(raw, other)
            assert sum(mixture.values()) == pytest.approx(1.0, abs=1e-12)
        likelihoods.append([each[y] for each in expected])
        served.append(mixture[y])
        hedge.learn_one(raw, other, y, 1.0)
        maps.learn(raw, other, y, 1.0)
    ones = np.ones(len(served))
    right = mixtures(np.array(likelihoods), ones, SHARES, ones)
    # The reference clips what it mixes to 1e-6.
    assert served[1:] == pytest.approx(right[1:].tolist(), rel=1e-5, abs=2e-6)


@given(seed=st.integers(0, 2**32 - 1))
def test_weights_and_forgetting_are_those_of_the_slow_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hedge, maps = JointHedge(SHARES, 1e-6), Maps()
    for _ in range(40):
        p, q = (rng.dirichlet(np.ones(3)).tolist() for _ in range(2))
        raw, other = (dict(zip("abc", each, strict=True)) for each in (p, q))
        y, w = str(rng.choice(list("abc"))), 10.0 ** rng.uniform(-3.0, 3.0)
        hedge.learn_one(raw, other, y, w)
        maps.learn(raw, other, y, w)
    _, (_, answers) = hedge.serve_one(raw, other)
    expected = maps.predict(raw, other)
    for label, of_label in zip("abc", answers, strict=True):
        found = of_label[:N_MAPS]
        assert found == pytest.approx([each[label] for each in expected], rel=1e-5, abs=1e-8)


def test_late_labels_are_charged_what_was_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """And some mixtures are weighted by what the maps answer when the label arrives."""
    current, learn_steps = [], JointHedge.learn_steps

    def learn(self: JointHedge, raw: Any, one_vs_rest: Any, y: Any, *others: Any) -> Any:
        _, answers = self.serve_one(raw, one_vs_rest)[1]
        current.append(answers[list(raw).index(y)][:N_MAPS])
        return learn_steps(self, raw, one_vs_rest, y, *others)

    monkeypatch.setattr(JointHedge, "learn_steps", learn)
    delay, samples = 7, stream(150)
    model = model_of()
    served = played(model, samples, delay)
    expected = Mixture([Expert()] * N_MAPS, SHARES, np.full(N_MAPS, 1.0 / N_MAPS), 1e-6, 0)
    for kept, (_, y), now in zip(served[:-delay], samples, current, strict=False):
        n_samples, answers = kept.ticket[1]
        ticket = Ticket((n_samples, answers[list(kept.raw).index(y)]))
        do_all(*expected.learn_steps(1.0, 1.0, ticket, current=np.array(now)))
    found = model._strategy._joint
    assert list(found.weights.values()) == expected.weights
    assert found.n_samples == 150 - delay


def test_loss_is_within_the_bound_of_the_best_map() -> None:
    samples = stream(1_500)
    served = played(model_of(), samples)
    pairs = [(kept, y) for kept, (_, y) in zip(served, samples, strict=True)][1:]
    loss = -math.fsum(math.log(kept.calibrated[y]) for kept, y in pairs)
    best = min(
        -math.fsum(math.log(kept.ticket[1][1][list(kept.raw).index(y)][i]) for kept, y in pairs)
        for i in range(N_MAPS)
    )
    assert loss <= best + math.log(N_MAPS) + math.log(len(SHARES)) + 2.0  # the first sample
    other = [
        kept.calibrated[y]
        for kept, y in zip(played(one_vs_rest(), samples), [y for _, y in samples], strict=True)
    ]
    assert loss < -math.fsum(map(math.log, other[1:])) - 0.02 * len(samples)


def test_forgetting_stays_bounded_in_directions_without_samples() -> None:
    hedge = JointHedge(SHARES, 1e-6)
    raw = {"a": 0.5, "b": 0.3, "c": 0.2}
    for i in range(60_000):
        hedge.learn_one(raw, raw, "abc"[i % 3], 1.0)
    fields, arrays = hedge.freeze()
    JointHedge(SHARES, 1e-6).thaw(fields, arrays)  # which checks the matrices
    assert hedge.predict_one(raw, raw) == pytest.approx(dict.fromkeys("abc", 1 / 3), abs=0.02)


def test_states_after_heavy_samples_are_possible() -> None:
    hedge = JointHedge(SHARES, 1e-6)
    rng = np.random.default_rng(0)
    for _ in range(300):
        raw = dict(zip("abcd", rng.dirichlet(np.ones(4)).tolist(), strict=True))
        hedge.learn_one(raw, raw, str(rng.choice(list("abcd"))), 10.0 ** rng.uniform(-60.0, 60.0))
        JointHedge(SHARES, 1e-6).thaw(*hedge.freeze())
        assert sum(hedge.predict_one(raw, raw).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "weight_of",
    [
        lambda rng, i: 10.0 ** rng.uniform(-60.0, 60.0),
        lambda rng, i: 1e60,
        lambda rng, i: 1e12,
        lambda rng, i: 1.0 if i else 1e60,
        lambda rng, i: 1e-3 if i % 50 else 1e60,
    ],
    ids=["mixed", "1e60", "1e12", "one heavy", "some heavy"],
)
def test_curvatures_stay_positive_definite_after_heavy_samples(weight_of: Any) -> None:
    rng = np.random.default_rng(0)
    fade = 0.5 ** (1 / 50)  # a short half-life, so rounding errors would grow soon
    matrices = tuple(Matrix(1, 2, 1.0, 30.0, 100.0, fade, 256) for _ in range(3))
    hedge = JointHedge(SHARES, 1e-6)
    hedge._maps = JointMaps(hedge._temperature._kernel, matrices, 1e-6)
    samples = [dict(zip("abcd", p, strict=True)) for p in rng.dirichlet([0.3] * 4, 200).tolist()]
    for i in range(4_000):
        y = "abcd"[rng.integers(4)]
        hedge.learn_one(samples[i % 200], samples[i * 7 % 200], y, weight_of(rng, i))
    inverse = np.zeros((9, 9))
    inverse[np.tril_indices(9)] = hedge._maps.matrices[0].state()[2]
    assert (30.0 * np.linalg.eigvalsh(inverse) > 1e-11).all()  # it reads the lower triangle


def test_a_heavy_weight_is_that_of_the_slow_reference() -> None:
    hedge, maps = JointHedge(SHARES, 1e-6), Maps()
    rng = np.random.default_rng(0)
    for y, w in [("a", 1e9), ("b", 1e60), ("c", 1.0), ("b", 1e12), ("a", 1e6), ("c", 1e60)]:
        raw, other = (dict(zip("abc", p.tolist(), strict=True)) for p in rng.dirichlet([5] * 3, 2))
        hedge.learn_one(raw, other, y, w)
        maps.learn(raw, other, y, w)
    expected = maps.predict(raw, other)
    for label, of_label in zip("abc", hedge.serve_one(raw, other)[1][1], strict=True):
        found = of_label[:N_MAPS]
        assert found == pytest.approx([each[label] for each in expected], rel=1e-4, abs=1e-8)


def test_more_labels_than_the_matrices_hold() -> None:
    labels = tuple(range(300))
    rng = np.random.default_rng(0)
    hedge = JointHedge(SHARES, 1e-6)
    for _ in range(4):
        p = rng.dirichlet(np.ones(300)).tolist()
        raw = dict(zip(labels, p, strict=True))
        hedge.learn_one(raw, raw, 299, 1.0)
        answer = hedge.predict_one(raw, raw)
        assert sum(answer.values()) == pytest.approx(1.0)
    fields, arrays = hedge.freeze()
    twin = JointHedge(SHARES, 1e-6)
    twin.thaw(fields, arrays)
    assert twin.predict_one(raw, raw) == answer


# Labels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(False, True), ("yes", "no")], ids=repr)
@pytest.mark.parametrize("delay", [0, 5])
def test_two_labels_have_no_mixture(labels: Any, delay: int) -> None:
    model, plain = model_of(), one_vs_rest()
    samples = stream(200, labels)
    found, expected = played(model, samples, delay), played(plain, samples, delay)
    assert found == expected
    assert model.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize("labels", [(False, True), ("yes", "no")], ids=repr)
def test_a_third_label_starts_from_what_two_have_learned(labels: Any) -> None:
    model, plain = model_of(), one_vs_rest()
    for each in (model, plain):
        played(each, stream(300, labels))
    x = {"p": {labels[0]: 0.3, labels[1]: 0.5, "third": 0.2}}
    assert model.predict_proba_one(x) == plain.predict_proba_one(x)
    played(model, stream(300, (*labels, "third")))
    assert set(model.predict_proba_one(x)) == {*labels, "third"}
    two = {"p": {labels[0]: 0.3, labels[1]: 0.7}}  # and then two again
    model.learn_one(two, labels[0])
    assert sum(model.predict_proba_one(two).values()) == pytest.approx(1.0)


def test_a_label_without_a_probability_teaches_no_map() -> None:
    model = model_of()
    played(model, stream(50))
    before = model._strategy._joint.freeze()[1]
    model.learn_one({"p": {"a": 0.2, "b": 0.5, "c": 0.3}}, "unknown")
    after = model._strategy._joint.freeze()[1]
    assert {name: part.tolist() for name, part in before.items()} == {
        name: part.tolist() for name, part in after.items()
    }


def test_a_surprise_costs_no_more_than_the_clip() -> None:
    sure = {"a": 0.98, "b": 0.01, "c": 0.01}
    model = CalibratedClassifier(FixedModel())
    for _ in range(50):
        model.learn_one({"p": sure}, "a", w=1e6)
    served = model.calibrate_one(sure)
    assert min(served.values()) >= 0.999e-6
    assert sum(served.values()) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("zeros", [{"a": 0.0, "b": 0.0, "c": 0.0}, {"a": 1.0, "b": 0.0, "c": 0.0}])
def test_zeros_are_probabilities(zeros: Any) -> None:
    model = model_of()
    for label in "abcabc":
        model.learn_one({"p": zeros}, label, 1e60)
        twin = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=FixedModel())
        answer = model.predict_proba_one({"p": zeros})
        assert twin.predict_proba_one({"p": zeros}) == answer
        assert all(0.0 <= p <= 1.0 for p in answer.values())
        assert sum(answer.values()) == pytest.approx(1.0)


def test_other_calibrators_have_no_mixture() -> None:
    assert type(model_of(calibrator=PlattCalibrator())._strategy) is OneVsRest


def test_batches_learn_and_predict_like_single_samples() -> None:
    model, twin = model_of(), model_of()
    samples = stream(60)
    columns = {label: np.array([x["p"][label] for x, _ in samples]) for label in "abcd"}
    strategy = model._strategy
    strategy.learn_many(columns, [y for _, y in samples], np.ones(60), Contexts({}))
    for x, y in samples:
        twin.learn_one(x, y)
    assert strategy.freeze()[0] == twin._strategy.freeze()[0]
    answers = strategy.predict_many(columns, {})
    for i, (x, _) in enumerate(samples):
        expected = list(twin.predict_proba_one(x).values())
        assert answers[:, i].tolist() == pytest.approx(expected, rel=1e-9)


# States and tickets -------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 5])
def test_copies_and_restored_states_go_on_alike(delay: int) -> None:
    model = model_of()
    played(model, stream(100), delay)
    twins = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        CalibratedClassifier.from_bytes(model.to_bytes(), classifier=FixedModel()),
    ]
    rest = stream(50, ("a", "b", "c", "d", "e"), seed=1)
    expected = played(model, rest, delay)
    for twin in twins:
        assert played(twin, rest, delay) == expected
        assert twin.to_bytes() == model.to_bytes()


def test_a_drift_alarm_starts_the_mixture_anew() -> None:
    model = model_of()
    played(model, stream(50))
    model._strategy = model._strategy.fresh()
    assert model.to_bytes() == _without_names(model_of(), model).to_bytes()


def _without_names(fresh: Any, model: Any) -> Any:
    fresh._label_of_column.update(model._label_of_column)
    fresh._known.thaw(model._known.freeze())  # the labels of the stream stay the same
    return fresh


def test_tickets_survive_json() -> None:
    model = model_of()
    played(model, stream(50), 5)
    x, y = stream(1, seed=2)[0]
    served = model.serve_one(x)
    back = Served.from_dict(json.loads(json.dumps(served.to_dict())))
    assert back == served
    twin = copy.deepcopy(model)
    model.learn_one(x, y, served=served)
    twin.learn_one(x, y, served=back)
    assert twin.to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda owns, n, answers: Ticket((owns, (10**6, answers))),
        lambda owns, n, answers: Ticket((owns, (n, ((0.5,),) * len(answers)))),
        lambda owns, n, answers: Ticket((owns, (n, answers[1:]))),
        lambda owns, n, answers: Ticket((owns[1:], (n, answers))),
        lambda owns, n, answers: Ticket((((10**6, owns[0][1]), *owns[1:]), (n, answers))),
        lambda owns, n, answers: Ticket((owns, (n, answers), None)),
        lambda owns, n, answers: Ticket((None, (n, answers))),
        lambda owns, n, answers: Ticket((owns, None)),
        lambda owns, n, answers: Ticket((owns, (n, iter(answers)))),
        lambda owns, n, answers: Ticket((owns, (n, (set(answers[0]), *answers[1:])))),
        lambda owns, n, answers: (owns, (n, answers)),
        lambda owns, n, answers: [owns],
    ],
    ids=[
        *("later", "short", "a label less", "a label less of one-vs-rest", "later of one label"),
        *("of three", "none of one-vs-rest", "none of all labels", "iterator", "set of answers"),
        *("plain", "list"),
    ],
)
def test_a_wrong_ticket_changes_nothing(change: Any) -> None:
    model = model_of()
    played(model, stream(50))
    x, y = stream(1, seed=2)[0]
    served, before = model.serve_one(x), model.to_bytes()
    owns, (n, answers) = served.ticket
    wrong = Served(served.calibrated, served.raw, change(owns, n, answers))
    with pytest.raises((TypeError, ValueError), match="ticket"):
        model.learn_one(x, y, served=wrong)
    assert model.to_bytes() == before


class Unhashable:
    """Equal to a label, and without a hash, like an array of size 1."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def __eq__(self, other: object) -> bool:
        return bool(self.label == other)


def test_a_true_label_without_a_hash_finds_its_ticket() -> None:
    model, twin = model_of(), model_of()
    for each in (model, twin):
        played(each, stream(20))
    late = [(x, y, model.serve_one(x)) for x, y in stream(5, seed=2)]
    for x, y, served in late:
        context = Context(x, served.ticket)
        model._strategy.learn_one(x["p"], Unhashable(y), 1.0, context)
        twin._strategy.learn_one(x["p"], y, 1.0, context)
    assert model.to_bytes() == twin.to_bytes()


def _indefinite(d: int, variance: float) -> Any:
    """Return the lower triangle of a matrix whose 2 × 2 blocks are all possible."""
    full = np.full((d, d), -variance)
    np.fill_diagonal(full, variance)
    return full[np.tril_indices(d)]


class LimitedNumpy:
    """NumPy, but one of the arrays of a kernel finds no memory."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at

    def __getattr__(self, name: str) -> Any:
        if name in ("zeros", "empty", "array"):
            self.left -= 1
            if self.left == 0:
                raise MemoryError
        return getattr(np, name)


def test_a_lack_of_memory_while_labels_are_added_can_be_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = JointHedge(SHARES, 1e-6)
    for x, y in stream(20, ("a", "b", "c")):
        before.learn_one(x["p"], x["p"], y, 1.0)
    (x, y), *later = stream(5, seed=1)
    three, four = {"a": 0.5, "b": 0.3, "c": 0.2}, x["p"]
    twin = copy.deepcopy(before)
    twin.learn_one(four, four, y, 1.0)
    for fails_at in count(1):
        hedge = copy.deepcopy(before)
        with monkeypatch.context() as patch:
            patch.setattr(joint, "np", LimitedNumpy(fails_at))
            try:
                hedge.learn_one(four, four, y, 1.0)
                break
            except MemoryError:
                pass
        JointHedge(SHARES, 1e-6).thaw(*hedge.freeze())
        for raw in (three, four):
            assert hedge.predict_one(raw, raw) == before.predict_one(raw, raw)
        hedge.learn_one(four, four, y, 1.0)
        _check_alike(hedge, twin)
    assert fails_at > 20
    for x, y in later:
        for each in (hedge, twin):
            each.learn_one(x["p"], x["p"], y, 1.0)
    _check_alike(hedge, twin)


def _check_alike(hedge: JointHedge, twin: JointHedge) -> None:
    (fields, arrays), (expected_fields, expected) = hedge.freeze(), twin.freeze()
    assert fields == expected_fields
    assert all(np.array_equal(arrays[name], part) for name, part in expected.items())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numbers1", np.array([0.0, 10.0, 0.0])),
        ("numbers1", np.array([1.0, 10.0, 99.0])),
        ("numbers2", np.array([1.0, -1.0, 0.0])),
        ("numbers0", np.array([1.0, 1e-17, 0.0])),
        ("numbers0", np.array([1.0, 9.9, 0.0])),
        ("inverse1", _indefinite(9, 0.6)),
        ("inverse2", _indefinite(9, 1e-9)),
        ("inverse1", np.zeros(45)),
        ("weights1", np.full((9, 4), 1e3)),
        ("weights1", np.zeros((2, 4))),
        ("inverse1", np.full(45, 1.0)),
        ("inverse1", np.full(45, -0.01)),
        ("inverse1", np.full(45, math.nan)),
    ],
)
def test_impossible_states_raise(name: str, value: Any) -> None:
    hedge = JointHedge(SHARES, 1e-6)
    for x, y in stream(20):
        hedge.learn_one(x["p"], x["p"], y, 1.0)
    fields, arrays = hedge.freeze()
    JointHedge(SHARES, 1e-6).thaw(fields, dict(arrays))
    with pytest.raises(ValueError, match="must"):
        JointHedge(SHARES, 1e-6).thaw(fields, arrays | {name: value})
