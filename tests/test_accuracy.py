"""`make accuracy-compare`: what is measured, and what counts as a regression."""

import importlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")  # of the study
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
accuracy = importlib.import_module("accuracy")

PLATT, RAW = ("a stream", 0, "Platt"), ("a stream", 0, "raw")


@pytest.fixture
def small(monkeypatch):
    """Take short streams and no model."""
    monkeypatch.setattr(accuracy, "N", 200)
    monkeypatch.setattr(accuracy, "SHIPPED", ())
    monkeypatch.setattr(accuracy, "DELAYS", (0,))


def test_two_runs_have_the_same_losses(small, tmp_path):
    for name in ("one", "two"):
        accuracy.measure(tmp_path / name)
    one, two = (
        {tuple(key): loss for key, loss in json.loads((tmp_path / name).read_text())}
        for name in ("one", "two")
    )
    assert ("generated, abrupt", 0, importlib.import_module("study").DEFAULT) in one
    assert all(0.0 < loss < 2.0 for loss in one.values())
    assert accuracy.changes(one, two) == []


def test_a_method_that_fails_has_no_loss(small, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("no loss")

    monkeypatch.setattr(accuracy, "runs", lambda: [(RAW, lambda: 0.5), (PLATT, fail)])
    accuracy.measure(tmp_path / "losses")
    assert json.loads((tmp_path / "losses").read_text()) == [[list(RAW), 0.5], [list(PLATT), None]]
    assert "no loss" in capsys.readouterr().err


def test_changes_are_listed_with_the_worst_first():
    keys = [("a stream", 0, name) for name in ("same", "better", "worse", "fails", "new")]
    base = dict(zip(keys, [0.5, 0.5, 0.5, 0.5], strict=False))
    tree = dict(zip(keys, [0.5, 0.4, 0.6, None, 0.3], strict=True))
    rows = accuracy.changes(base, tree)
    assert [key[2] for key, *_ in rows] == ["fails", "worse", "new", "better"]
    lines = accuracy.table(rows).splitlines()
    assert lines[3] == "| a stream | 0 | worse | 0.500000 | 0.600000 | +1.00e-01 |"
    assert lines[4] == "| a stream | 0 | new | – | 0.300000 | – |"


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (0.5, 0.502, True),
        (0.5, 0.5005, False),
        (0.5, 0.4, False),
        (0.5, None, True),
        (None, 0.5, False),
        (None, None, False),
    ],
)
def test_what_is_worse_exceeds_the_tolerance(before, now, worse):
    assert accuracy.is_worse(before, now, 1e-3) == worse


def test_an_unknown_revision_is_named(capsys):
    assert accuracy.main(["no-such-revision"]) == 2
    assert "no such revision: no-such-revision" in capsys.readouterr().err
