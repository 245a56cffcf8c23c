"""A call that an exception interrupts has learned its sample whole, or not at all.

Signal handlers raise: Ctrl-C, and timeouts. `tests.interrupts` raises at points where CPython runs
handlers, in random programs over every public class (`tests.programs`). ``STREAMCAL_SOAK`` is the
number of points of each act; by default a few are tried.
"""

import copy
import math
import os
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import base, linear_model, tree

from streamcal import (
    AnytimeCalibrator,
    CalibratedClassifier,
    DecisionClassifier,
    HedgedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
    ThresholdClassifier,
    TopLabelCalibrator,
    VennAbersCalibrator,
    VoteClassifier,
)
from streamcal._state import Stateful
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator, hedged
from streamcal.decision import PredictionSetClassifier, SelectiveClassifier
from streamcal.durable import Event, KeyedCalibrator, LabelJoin, Store
from tests import programs
from tests.fixed_model import FixedModel
from tests.interrupts import InterruptionError, interrupt, points_of

MOST_POINTS = int(os.environ.get("STREAMCAL_SOAK", "25"))

# Acts that are documented as loops over calls with one sample, or whose files can't be copied.
LOOPS: dict[type, tuple[str, ...]] = {
    VennAbersCalibrator: ("_learn_isotonic_many",),
    AnytimeCalibrator: ("_learn_isotonic_many",),
    AuditedCalibrator: ("learn_many",),
    PriorShiftCalibrator: ("learn_many",),
    KeyedCalibrator: ("learn_many",),
}
CLASSES = sorted(programs.cases().keys() - {Store}, key=lambda kind: kind.__name__)


def seen(case: Any, instance: Any) -> Any:
    """Return what can be seen of an instance: its bytes, else its answers.

    Models are foreign, and may have learned: of a wrapper it is the state beside its model.
    """
    if isinstance(instance, VoteClassifier):
        calibrators = instance._calibrators.items()
        return instance._labels, [(label, each.to_bytes()) for label, each in calibrators]
    if isinstance(instance, ThresholdClassifier):  # solving again is no learning
        fields, arrays = instance._freeze()
        learned = ("samples", "times")
        known = [name for name in arrays if name in learned or "staircase" in name]
        now = fields.get("now"), fields.get("kind")
        return fields["n_samples"], now, [(name, arrays[name].tobytes()) for name in known]
    if isinstance(instance, AnytimeCalibrator):
        return instance._samples.n_learned, instance._samples.rows.tobytes()
    if isinstance(instance, Stateful):
        data = instance.to_bytes()
        type(instance).from_bytes(data, **case.given(instance))  # or it raises
        return data
    return repr(case.ask(instance))


def check_act(case: Any, act: Callable[..., Any], instance: Any, held: list[Any]) -> None:
    """Interrupt an act at some of its points.

    An act may be several calls: interrupted in one of them, what is seen must be what was seen at
    the first point of this call, or at that of the next.
    """

    def start() -> tuple[Any, Callable[[], Any]]:
        twin, kept = copy.deepcopy((instance, held))
        return twin, lambda: act(programs.Draw("act"), twin, kept)

    def state_at(k: int) -> Any:
        twin, call = start()
        error = InterruptionError()
        came = interrupt(call, k, error)
        assert came is error, f"{act.__name__}: at point {k} came {came!r}"
        return seen(case, twin)

    whole, call = start()
    n_points, begins = points_of(call)
    first = [state_at(begin) for begin in begins] + [seen(case, whole)]
    for i, (begin, end) in enumerate(pairwise([*begins, n_points])):
        step = max(1, len(begins) * (end - begin) // MOST_POINTS)
        for k in range(end - 1, begin, -step):
            state = state_at(k)
            assert state == first[i] or state == first[i + 1], f"{act.__name__}: half at {k}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_sample_is_learned_whole_or_not_at_all(kind: type) -> None:
    case, instance, held = programs.taught(kind)
    for act in dict.fromkeys(case.acts):
        if act.__name__ not in LOOPS.get(kind, ()):
            check_act(case, act, instance, held)


@pytest.mark.parametrize(
    "event",
    [Event(0.5, id=3), Event(0.5, id=0), Event(0.5, id=2), Event(math.nan, 1, id=2), Event(0.5, 1)],
)
def test_a_label_join_drops_the_old_and_adds_the_new_or_does_neither(event: Event) -> None:
    join = LabelJoin(horizon=3)
    for n in range(3):
        join.add(Event(0.5, id=n))
    join.horizon = 1  # the next event drops the first two

    def add(_: programs.Draw, join: LabelJoin, held: list[Any]) -> None:
        join.add(event)

    check_act(programs.cases()[LabelJoin], add, join, [])


@pytest.mark.parametrize("n_before", [0, 3])
@pytest.mark.parametrize(
    "make", [lambda: SegmentCalibrator(["a"]), lambda: VennAbersCalibrator(window=4)]
)
def test_a_group_is_learned_whole_or_not_at_all(make: Callable[[], Any], n_before: int) -> None:
    """The first one, too, which makes room in a hedge for weights of late labels."""
    calibrator = make()
    for n in range(n_before):
        given = {"x": {"a": n}} if calibrator.fields else {}
        calibrator.learn_one(0.3, n % 2, **given)

    def learn_group(_: programs.Draw, twin: Any, held: list[Any]) -> None:
        given = {"x": [{"a": 0}, {"a": 1}, {"a": None}]} if twin.fields else {}
        twin.learn_group([0.2, 0.6, 0.9], [1, 1, 0], **given)

    check_act(programs.cases()[type(calibrator)], learn_group, calibrator, [])


# Bursts -------------------------------------------------------------------------------------------

BURST_ACTS: list[Callable[..., Any]] = [
    lambda _, hedge, held: hedge.learn_one(0.6, 1, ticket=held[0]),
    lambda _, hedge, held: hedge.learn_one(0.6, 0, ticket=held[0]),
    lambda _, hedge, held: hedge.learn_one(0.6, 1, ticket=held[1]),
    lambda _, hedge, held: hedge.learn_one(0.6, 0.5, ticket=held[1]),
    lambda _, hedge, held: hedge.learn_one(0.6, 1),
    lambda _, hedge, held: hedge.learn_group([0.6, 0.7], [1, 0], tickets=[held[0], None]),
    lambda _, hedge, held: hedge.learn_many([0.6, 0.7], [1, 0]),
    lambda _, hedge, held: hedge.predict_one(0.6),
    lambda _, hedge, held: hedge.serve_one(0.6),
    lambda _, hedge, held: hedge.predict_many([0.6]),
]


@pytest.mark.parametrize("evidence", [None, True])
@pytest.mark.parametrize("most", [4, 10_000])
def test_a_burst_is_held_and_learned_whole_or_not_at_all(
    evidence: bool | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``held``: a ticket of the burst, and one that was made after a copy has closed it."""
    monkeypatch.setattr(hedged, "MOST_HELD", most)
    made, score = hedge(), 0.6 if evidence else 0.99
    if evidence:
        teach_burst(made, [made.serve_one(0.6)[1] for _ in range(3)], 1)
    tickets = [made.serve_one(score)[1] for _ in range(4)]
    teach_burst(made, tickets[:3], 1, score)
    assert len(made._held) == 3
    later = copy.deepcopy(made).serve_one(0.5)[1]
    for act in BURST_ACTS:
        check_act(programs.cases()[HedgedCalibrator], act, made, [tickets[3], later])


@pytest.mark.parametrize("n_held", [0, 1])
@pytest.mark.parametrize("shared", [None, False])
def test_a_label_that_is_alone_is_held_and_learned_whole_or_not_at_all(
    n_held: int, shared: bool | None
) -> None:
    made = hedge()
    if shared is False:
        teach_burst(made, [made.serve_one(0.6)[1]], 0.5)  # no outcome
    tickets = [made.serve_one(0.6)[1] for _ in range(4)]
    assert made._evidence.shared is shared
    teach_burst(made, tickets[:n_held], 1)
    assert len(made._held) == (n_held if shared is None else 0)
    later = copy.deepcopy(made).serve_one(0.5)[1]
    for act in BURST_ACTS:
        check_act(programs.cases()[HedgedCalibrator], act, made, [tickets[3], later])


class OwnJoint(TemperatureCalibrator):
    """A joint calibrator that learns by Python code of its own, which has one step."""

    def learn_one(self, raw: Any, y: Any, w: float = 1.0) -> None:
        super().learn_one(raw, y, w)


@pytest.mark.parametrize("kind", [TemperatureCalibrator, TopLabelCalibrator])
def test_a_joint_calibrator_learns_and_the_wrapper_counts_a_sample_or_neither(kind: type) -> None:
    x = {"p": {"a": 0.5, "b": 0.3, "c": 0.2}}
    model = CalibratedClassifier(FixedModel(), kind(), labels=("a", "b", "c", "d"))
    acts: list[Callable[..., Any]] = [
        lambda _, twin, held: twin.learn_one(x, "a"),
        lambda _, twin, held: twin.learn_group([x, x], ["a", "b"]),
    ]
    for _ in range(2):  # the calibrator of the top label is new, then known
        for act in acts:
            check_act(programs.cases()[CalibratedClassifier], act, model, [])
        model.learn_one(x, "a")


@pytest.mark.parametrize("kind", [TemperatureCalibrator, TopLabelCalibrator])
def test_a_joint_calibrator_learns_the_rows_of_a_group_one_after_the_other(kind: Any) -> None:
    rows = [({"a": 0.5, "b": 0.3, "c": 0.2}, "a"), ({"a": 0.6, "b": 0.3, "c": 0.1}, "b")] * 2
    model, alone = CalibratedClassifier(FixedModel(), kind()), kind()
    model.learn_group([{"p": raw} for raw, _ in rows], [y for _, y in rows])
    for raw, y in rows:
        alone.learn_one(raw, y, 0.25)
    assert model.calibrate_one(rows[0][0]) == alone.predict_one(rows[0][0])


def test_a_joint_calibrator_of_a_user_learns_in_the_wrapper_as_by_itself() -> None:
    raw = {"a": 0.5, "b": 0.3, "c": 0.2}
    model, alone = CalibratedClassifier(FixedModel(), OwnJoint()), OwnJoint()
    for label in "abcab":
        model.learn_one({"p": raw}, label)
        alone.learn_one(raw, label)
    assert model.calibrate_one(raw) == alone.predict_one(raw)
    assert alone.n_samples == 5


def teach_burst(made: Any, tickets: list[Any], y: Any, score: float = 0.6) -> None:
    for ticket in tickets:
        made.learn_one(score, y, ticket=ticket)


@pytest.mark.parametrize("labels", ["ab", "abc"])
def test_the_bursts_of_all_labels_are_held_and_learned_together(labels: str) -> None:
    x = {"p": {label: 1.0 / len(labels) for label in labels}}
    model = CalibratedClassifier(FixedModel())
    for label in labels:
        model.learn_one(x, label)
    served = [model.serve_one(x) for _ in range(6)]
    for each in served[:4]:
        model.learn_one(x, "a", served=each)
    acts: list[Callable[..., Any]] = [
        lambda _, twin, held: twin.learn_one(x, "a", served=held[0]),
        lambda _, twin, held: twin.learn_one(x, "b", served=held[0]),
        lambda _, twin, held: twin.learn_group([x, x], ["a", "b"], served=held),
    ]
    for act in acts:
        check_act(programs.cases()[CalibratedClassifier], act, model, served[4:])


# Exceptions arrive as they are --------------------------------------------------------------------


def hedge() -> HedgedCalibrator:
    made = HedgedCalibrator()
    made.learn_many([0.2, 0.6, 0.7], [0, 1, 1])
    return made


def wrapper() -> Any:
    """Return a wrapper whose label comes after another prediction."""
    model = CalibratedClassifier(linear_model.LogisticRegression())
    for i in range(3):
        model.learn_one({"a": i / 3}, i > 1)
    model.predict_proba_one({"a": 0.5})
    model.predict_proba_one({"a": 0.25})
    return model


A, B, C, LATEST = ({"a": value} for value in (0.55, 0.6, 0.7, 0.8))


@pytest.mark.parametrize(
    ("act", "learned"),
    [
        (lambda model: model.predict_proba_one({"a": 0.75}), []),
        (lambda model: model.learn_one({"a": 9.0}, True), []),
        (lambda model: model.learn_one(A, True), [A]),
        (lambda model: model.learn_one(LATEST, True), [LATEST]),
        (lambda model: model.learn_group([A, LATEST, C], [True, True, False]), [A, LATEST, C]),
    ],
)
def test_a_prediction_waits_until_its_label_is_learned(act: Any, learned: list[Any]) -> None:
    """And it has the ticket that it would have without the interruption."""

    def start() -> Any:
        model = wrapper()
        for x in (A, B, C, LATEST):
            model.predict_proba_one(x)
        return model

    def ticket_of(model: Any, x: Any) -> Any:
        model._memory.store_latest(model._make_ticket)
        found = model._memory.find(x)
        return found and found.prediction.ticket

    whole = start()
    expected = {x["a"]: ticket_of(start(), x) for x in (A, B, C, LATEST)}
    before = whole.to_bytes()
    n_points, _ = points_of(lambda: act(whole))
    assert n_points
    for k in range(n_points):
        model = start()
        interrupt(lambda model=model: act(model), k, InterruptionError())
        gone = [] if model.to_bytes() == before else learned
        for x in (A, B, C, LATEST):
            wanted = None if x in gone else expected[x["a"]]
            assert ticket_of(model, x) == wanted, f"at {k}: {x}"


@pytest.mark.parametrize("labels", [(False, True), ("a", "b", "c")])
def test_a_score_counts_once_although_its_prediction_is_interrupted(labels: Any) -> None:
    """`PriorShiftCalibrator` counts a prediction when the next one is made, and is retried."""

    class Model(base.Classifier):
        def learn_one(self, x: Any, y: Any) -> None:
            pass

        def predict_proba_one(self, x: Any) -> Any:
            rest = (1.0 - x["p"]) / (len(labels) - 1)
            return {label: x["p"] if label == labels[-1] else rest for label in labels}

    model = CalibratedClassifier(Model(), PriorShiftCalibrator(PlattCalibrator()))
    rng = np.random.default_rng(0)
    for i in range(130):
        p = float(rng.random())
        model.learn_one({"p": p}, labels[-1] if rng.random() < p else labels[i % 2 - 2])

    def start() -> Any:
        twin = copy.deepcopy(model)
        twin.predict_proba_one({"p": 0.9})
        return twin

    def prior_after(twin: Any) -> Any:
        twin.predict_proba_one({"p": 0.2})
        twin.predict_proba_one({"p": 0.4})
        return [each.prior for each in twin.calibrators.values()]

    without, whole = prior_after(start()), start()
    n_points, _ = points_of(lambda: whole.predict_proba_one({"p": 0.8}))
    expected = [without, prior_after(whole)]
    for k in range(n_points):
        twin = start()
        interrupt(lambda twin=twin: twin.predict_proba_one({"p": 0.8}), k, InterruptionError())
        assert prior_after(twin) in expected, f"at {k}"


def read_bytes(_: Path) -> Callable[[], Any]:
    data = SegmentCalibrator(["a"]).to_bytes()
    return lambda: SegmentCalibrator.from_bytes(data)


def open_store(folder: Path) -> Callable[[], Any]:
    with Store(folder / "s.db") as store:
        store.save({"a": hedge()}, 1)

    def use() -> None:
        with Store(folder / "s.db") as store:
            store.load()
            store.get("a")
            store.save({"b": hedge()}, 2)

    return use


def use_keys(folder: Path) -> Callable[[], Any]:
    store = Store(folder / "s.db")
    keyed = KeyedCalibrator(PlattCalibrator(), max_live=1, store=store)
    keyed.learn_many(["a", "b", "c"], [0.2, 0.6, 0.7], [0, 1, 1])

    def use() -> None:
        with store:
            keyed.predict_one("a", 0.5)
            keyed.learn_one("b", 0.5, 1)
            keyed.save(3)

    return use


def learn_late(_: Path) -> Callable[[], Any]:
    model = wrapper()
    return lambda: model.learn_one({"a": 0.5}, True)


def predict(_: Path) -> Callable[[], Any]:
    model = wrapper()
    return lambda: model.predict_proba_one({"a": 0.75})


def read_columns(_: Path) -> Callable[[], Any]:
    calibrator = SegmentCalibrator(["a"])
    return lambda: calibrator.predict_many([0.2, 0.3], {"a": ["x", "y"]})


@pytest.mark.parametrize("error", [TimeoutError("too late"), InterruptionError("too late")])
@pytest.mark.parametrize(
    "make", [read_bytes, open_store, use_keys, learn_late, predict, read_columns]
)
def test_exceptions_of_signal_handlers_arrive_as_they_are(
    make: Any, error: Exception, tmp_path: Path
) -> None:
    folders = (tmp_path / str(i) for i in count())

    def start() -> Any:
        folder = next(folders)
        folder.mkdir()
        return make(folder)

    n_points, _ = points_of(start())
    assert n_points
    for k in range(0, n_points, max(1, n_points // MOST_POINTS)):
        came = interrupt(start(), k, error)
        assert came is error, f"at point {k} came {came!r}"
        error.__context__ = error.__cause__ = error.__traceback__ = None


def test_a_model_that_raises_leaves_counts_and_calibrators_as_they_were() -> None:
    class Broken(linear_model.LogisticRegression):
        broken = False

        def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
            if self.broken:
                raise InterruptionError
            super().learn_one(x, y, w)

    inner = Broken()
    models: list[Any] = [
        CalibratedClassifier(inner),
        DecisionClassifier(inner, "f1"),
        PredictionSetClassifier(inner),
        SelectiveClassifier(inner, confidence=0.9),
    ]
    for model in models:
        for i in range(5):
            model.learn_one({"a": i / 5}, i > 2)
    before = [model.to_bytes() for model in models]
    inner.broken = True
    for model in models:
        with pytest.raises(InterruptionError):
            model.learn_one({"a": 0.5}, True)
    model = models[1]
    with pytest.raises(InterruptionError):
        model.learn_batch([{"a": 0.5}, {"a": 0.7}], [True, False])
    assert [model.to_bytes() for model in models] == before


def test_a_tree_that_raises_leaves_votes_as_they_were() -> None:
    class Broken(tree.HoeffdingTreeClassifier):
        broken = False

        def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
            if self.broken:
                raise InterruptionError
            super().learn_one(x, y, **kwargs)

    inner = Broken()
    model = VoteClassifier(inner)
    for i in range(30):
        model.learn_one({"a": i / 30}, "xyz"[i % 3])
    before = seen(None, model)
    inner.broken = True
    with pytest.raises(InterruptionError):
        model.learn_one({"a": 0.5}, "x")
    assert seen(None, model) == before
