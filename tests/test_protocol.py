"""A calibrator of the user's own, with fields and tickets, works wherever a calibrator is taken."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import CalibratedClassifier, HedgedCalibrator, KeyedCalibrator, SegmentCalibrator
from streamcal.calibration.base import Calibrator
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.durable import Event, LabelJoin, Store, run
from streamcal.report.store_sections import of_store
from tests.fixed_model import FixedModel


class Shops(Calibrator):
    """The mean of the label in each shop; a late label is learned if its shop's mean was served."""

    fields = ("shop",)
    makes_tickets = True

    def __init__(self) -> None:
        self.counts: dict[Any, list[float]] = {}
        self.served: list[float | None] = []

    @property
    def n_samples(self) -> int:
        return len(self.served)

    def predict_one(self, score: float, x: Mapping[str, Any] | None = None) -> float:
        ones, n = self.counts.get((x or {})["shop"], (score, 1.0))
        return ones / n

    def serve_one(self, score: float, x: Mapping[str, Any] | None = None) -> Prediction:
        value = self.predict_one(score, x)
        return Prediction(value, Ticket((value,)))

    def learn_one(
        self, score: float, y: float, w: float = 1.0, *, x: Any = None, ticket: Any = None
    ) -> None:
        ones, n = self.counts.get(x["shop"], (score, 1.0))
        self.counts[x["shop"]] = [ones + w * y, n + w]
        self.served.append(None if ticket is None else ticket[0])

    def _check_labels(self, y: Any) -> Any:
        return np.asarray(y, dtype=float)

    def _freeze(self) -> Any:
        return {"counts": [[*each, *both] for each, both in self.counts.items()]}, {}

    def _thaw(self, fields: Any, arrays: Any) -> None:
        self.counts = {shop: [ones, n] for shop, ones, n in fields["counts"]}


A, B = {"shop": "a"}, {"shop": "b"}


class Even(FixedModel):
    """Answers the same probability for all labels."""

    def __init__(self, labels: tuple[Any, ...]) -> None:
        self.labels = labels

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return dict.fromkeys(self.labels, 1.0 / len(self.labels))


def test_alone() -> None:
    shops = Shops()
    value, ticket = shops.serve_one(0.5, A)
    shops.learn_one(0.5, 1, x=A, ticket=Ticket.from_json(json.loads(json.dumps(ticket.to_json()))))
    assert (value, shops.predict_one(0.5, A), shops.predict_one(0.5, B)) == (0.5, 0.75, 0.5)
    columns = {"shop": ["a", "b", "a"]}
    assert shops.predict_many([0.5] * 3, columns).tolist() == [0.75, 0.5, 0.75]
    assert shops.predict_learn_many([0.5] * 3, [1, 0, 1], x=columns).tolist() == [
        0.75,
        0.5,
        2.5 / 3,
    ]
    shops.learn_group([0.5, 0.5], [0, 0], x=[B, B], tickets=[ticket, None])
    assert shops.predict_one(0.5, B) == 0.5 / 3
    snapshot = shops.snapshot()
    assert (
        snapshot.predict_one(0.5, B) == snapshot.predict_many([0.5], {"shop": ["b"]})[0] == 0.5 / 3
    )
    assert Calibrator.from_bytes(shops.to_bytes()).predict_one(0.5, A) == shops.predict_one(0.5, A)


@pytest.mark.parametrize("where", [HedgedCalibrator, SegmentCalibrator])
def test_what_maps_scores_alone_refuses_it(where: Any) -> None:
    make = {
        HedgedCalibrator: lambda: HedgedCalibrator([Shops()]),
        SegmentCalibrator: lambda: SegmentCalibrator(["a"], base=Shops()),
    }[where]
    with pytest.raises(TypeError, match=r"must be (a map|maps) of scores alone"):
        make()


@pytest.mark.parametrize("labels", [(False, True), ("a", "b", "c")])
def test_in_a_wrapper(labels: Any) -> None:
    """The tickets of late labels arrive, from the memory and with ``served``."""
    model, y = CalibratedClassifier(Even(labels), Shops()), labels[-1]
    served = model.serve_one(A)
    model.predict_proba_one(A)
    for _ in range(3):
        model.learn_one(B, y)
    model.learn_one(A, y)
    kept = type(served).from_dict(json.loads(json.dumps(served.to_dict())))
    model.learn_one(A, y, served=kept)
    model.learn_group([A, A], [y, y], served=[served, None])
    own: Any = model.calibrators[y]
    first = 1.0 / len(labels)
    assert own.served[:6] == [None, None, None, first, first, first]
    assert model.predict_proba_one(A)[y] > first
    restored = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Even(labels))
    assert restored.predict_proba_one(A) == model.predict_proba_one(A)


def test_by_key_in_a_store_in_the_engine_and_in_a_report(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        keyed = KeyedCalibrator(Shops(), store=store)
        assert keyed.fields == ("shop",)
        events = [
            Event(0.5, key="k", id=1, x=A),
            Event(0.5, 1, key="k", x=A),
            Event(float("nan"), 1, key="k", id=1),
        ]
        answers: list[float] = []
        run(events, keyed, lambda _, values: answers.extend(values), store, join=LabelJoin(10))
        assert answers[:2] == [0.5, 0.5]
        with pytest.raises(TypeError, match="the values of the fields 'shop', got None"):
            keyed.learn_one("k", 0.5, 1)
        again = KeyedCalibrator(Shops(), store=store)
        assert again.predict_one("k", 0.5, A) == keyed.predict_one("k", 0.5, A) == 2.5 / 3
        assert any("Shops" in str(section) for section in of_store(store))


def test_in_a_stream_of_spark() -> None:
    pytest.importorskip("pyspark")
    import pyarrow as pa

    from streamcal.spark.samples import Columns, Samples
    from streamcal.spark.stream import _maker

    make = _maker(Shops())
    table = pa.table({"score": [0.5] * 3, "label": [1.0, None, 1.0], "shop": ["a", "a", "a"]})
    samples = Samples([table], Columns(None, "score", "label", None, None), make())
    assert samples.learn(0, make())
    assert samples.values().tolist() == [0.5, 0.75, 0.75]
