"""The study adds up: its quick run on generated streams, and the document that was written last."""

import csv
import importlib
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import CalibratedClassifier, HedgedCalibrator, IdentityCalibrator
from streamcal.calibration.hedged import default_calibrators

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))  # experiments are scripts that import each other
peers = importlib.import_module("peers")
study = importlib.import_module("study")
streams = importlib.import_module("streams")


def sections(file: Path) -> dict[str, str]:
    text = file.read_text(encoding="utf-8")
    return {name: body.strip() for _, name, body, _ in study.MARKERS.findall(text)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder like the checkout, with the results of a quick run."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "study.md", folder / "docs")
    shutil.copy(ROOT / "README.md", folder)
    study.main(["--quick", "--root", str(folder)])
    return folder


@pytest.fixture(scope="module")
def rows(root: Any) -> Any:
    return study.read_rows(root / "docs" / "study.csv")


@pytest.fixture(scope="module")
def quick() -> dict[Any, Any]:
    return {stream.name: stream for stream in study.streams(None, quick=True)}


def test_every_method_is_there(rows: Any, quick: Any) -> None:
    done = {(row.stream, row.method, row.delay) for row in rows}
    assert len(done) == len(rows)
    for method in study.methods():
        for stream in quick.values():
            for delay in study.DELAYS if method.late else (0,):
                idle = method.kind == "oracle" and not stream.changes
                assert ((stream.name, method.name, delay) in done) != idle


def test_no_method_knows_a_label_in_advance(rows: Any, quick: Any) -> None:
    """A method that does not know a label in advance rarely beats its true probability.

    The ratio of the likelihoods is a martingale: it exceeds e^12 once in e^12 streams (Ville).
    """
    for row in rows:
        stream = quick[row.stream]
        true = streams.log_loss(stream.p, stream.y)
        assert row.n * (row.log_loss - true) > -12.0, row
        assert row.excess >= 0.0
        assert 0.0 <= row.mcb <= row.log_loss
        assert 0.0 <= row.brier <= 1.0
        assert row.memory > 0


def test_the_true_probabilities_are_those_of_the_labels(quick: Any) -> None:
    for stream in quick.values():
        entropy = study.entropy(stream.p)
        p = stream.p
        sd = math.sqrt(float(np.mean(p * (1.0 - p) * np.log(p / (1.0 - p)) ** 2)) / len(p))
        assert abs(streams.log_loss(p, stream.y) - entropy) < 4.0 * sd, stream.name


def test_the_default_keeps_its_bound(rows: Any, quick: Any) -> None:
    hedge = HedgedCalibrator()
    prior = list(hedge.weights.values())
    shares = math.log(len(hedge.share_weights))
    losses = {(row.stream, row.method): row.log_loss for row in rows if row.delay == 0}
    for stream in quick.values():
        total = len(stream.y) * losses[stream.name, study.DEFAULT]
        for calibrator, weight in zip(default_calibrators(), prior, strict=True):
            single = streams.log_loss(
                calibrator.predict_learn_many(stream.scores, stream.y), stream.y
            )
            assert total <= len(stream.y) * single - math.log(weight) + shares + 1e-3


def test_the_default_is_that_of_the_wrapper(rows: Any, quick: Any) -> None:
    stream = quick["generated, abrupt"]
    model, served = CalibratedClassifier(streams.FixedModel()), []
    for score, label in zip(stream.scores.tolist(), stream.y.tolist(), strict=True):
        x = {False: 1.0 - score, True: score}
        served.append(model.predict_proba_one(x)[True])
        model.learn_one(x, label == 1.0)
    loss = streams.log_loss(np.array(served), stream.y)
    found = [row for row in rows if (row.stream, row.method) == (stream.name, study.DEFAULT)]
    assert loss == pytest.approx(found[0].log_loss, abs=1e-6)


def test_an_oracle_forgets_at_the_changes(quick: Any) -> None:
    stream = quick["generated, abrupt steps"]
    method = next(each for each in study.methods() if each.name == "isotonic, restarted")
    served, _ = method.run(stream, 0)
    assert served[list(stream.changes)].tolist() == stream.scores[list(stream.changes)].tolist()
    assert len(served) == len(stream.y)


@pytest.mark.parametrize("name", ["scikit-learn isotonic 1000", "PyPI streamcal 0.2.0"])
def test_a_peer_knows_the_past_alone(quick: Any, name: str) -> None:
    stream = quick["generated, stationary"]
    method = next(each for each in study.methods() if each.name == name)
    served, _ = method.run(stream, 0)
    other = study.Stream(stream.name, stream.scores, stream.y.copy(), stream.p)
    other.y[500:] = 1.0 - other.y[500:]
    assert method.run(other, 0)[0][:600].tolist() == served[:600].tolist()
    assert served[:100].tolist() == stream.scores[:100].tolist()


def test_tracking_predicts_the_mean_of_earlier_labels_in_a_bin() -> None:
    peer = peers.Tracking()
    labels: list[float] = []
    for t in range(200):
        p, kept = peer.serve(0.32)
        assert p == pytest.approx((0.395 + sum(labels)) / (1 + len(labels)))
        if not 0.3 < peer.platt.predict_one(0.32) <= 0.4:
            break
        labels.append(float(t % 3 == 0))
        peer.learn(kept, labels[-1])
    assert len(labels) > 50


def test_hedging_is_calibrated_where_tracking_is_not() -> None:
    """The labels of one bin: zeros, then ones. The mean of the earlier ones is always late."""
    errors, y = [], np.repeat([0.0, 1.0], 1_000)
    for peer in (peers.Tracking(), peers.Hedging()):
        peer.platt, served = IdentityCalibrator(), []
        for label in y.tolist():
            p, kept = peer.serve(0.45)
            peer.learn(kept, label)
            served.append(p)
        bins = np.array([peers.bin_of(p) for p in served])
        errors.append(sum(abs(np.sum((served - y)[bins == b])) for b in range(10)) / len(y))
    assert errors[0] > 0.3
    assert errors[1] < 0.06  # half an interval, and what is left of the start


def test_the_gradient_step_of_river_is_that_of_the_log_loss() -> None:
    for score, label in ((0.2, 1.0), (0.2, 0.0), (0.9, 1.0), (0.9, 0.0)):
        peer, losses = peers.RiverSGD(), []
        for step in (-1e-6, 0.0, 1e-6):
            peer.intercept = step
            p, kept = peer.serve(score)
            losses.append(-math.log(p if label else 1.0 - p))
        peer.intercept = 0.0
        peer.learn(kept, label)
        slope = (losses[2] - losses[0]) / 2e-6
        assert peer.intercept == pytest.approx(-0.1 * slope, rel=1e-6)
        assert p == pytest.approx(score, abs=1e-6)


def test_tables_are_whole(root: Any) -> None:
    found = sections(root / "docs" / "study.md") | sections(root / "README.md")
    assert set(found) == {
        *("summary", "immediate", "delayed", "drift", "everything", "calibration", "resources"),
        *("multiclass", "corp", "costs", "quote"),
    }
    for name, text in found.items():
        assert text, name
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, name
        assert not any("nan" in line for line in lines), name


def test_differences_are_those_of_the_rows(root: Any) -> None:
    with (root / "docs" / "study.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["delay"] == "0"]
    lines = sections(root / "docs" / "study.md")["immediate"].splitlines()[2:]
    assert lines
    for line in lines:
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        losses = {r["method"]: float(r["log_loss"]) for r in rows if r["stream"] == cells[0]}
        kinds = {r["method"]: r["kind"] for r in rows}
        best = min(v for m, v in losses.items() if kinds[m] in ("calibrator", "peer"))
        assert float(cells[-1].replace("−", "-")) == pytest.approx(
            losses[study.DEFAULT] - best, abs=5.1e-5
        )


def test_parts_are_measured_anew_by_themselves(root: Any, rows: Any) -> None:
    study.main(["--quick", "--parts", "oracle", "--root", str(root)])
    again = study.read_rows(root / "docs" / "study.csv")
    assert [row for row in again if row.kind != "oracle"] == [
        row for row in rows if row.kind != "oracle"
    ]
    oracles = [[row for row in some if row.kind == "oracle"] for some in (again, rows)]
    assert [row.log_loss for row in oracles[0]] == [row.log_loss for row in oracles[1]]


def test_pictures_are_small(root: Any) -> None:
    pictures = list((root / "docs" / "pictures").glob("study-*.svg"))
    assert len(pictures) == 2
    assert sum(picture.stat().st_size for picture in pictures) < 150_000


def test_the_document_is_of_its_rows() -> None:
    rows = study.read_rows(ROOT / "docs" / "study.csv")
    written = sections(ROOT / "docs" / "study.md") | sections(ROOT / "README.md")
    known = [study.Stream(f"generated, {k}", *streams.generated(k)) for k in streams.GENERATED]
    for name, text in study.tables(study.Results(rows), known).items():
        assert text == written[name], name
