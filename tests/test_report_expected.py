"""Metrics that are expected before the labels: in reports of tables, stores and runs."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from streamcal import PlattCalibrator
from streamcal.cli.report_sources import Given, open_subject
from streamcal.durable.engine import run as run_stream
from streamcal.durable.labels import Event, LabelJoin
from streamcal.durable.store import Store
from streamcal.durable.timeline import Timeline
from streamcal.metrics import ExpectedMetric
from streamcal.report import page
from tests.runner import run

N = 1_700
NAMES = {
    "Accuracy": "accuracy",
    "Precision": "precision",
    "Recall": "recall",
    "F1": "f1",
    "AUC": "auc",
    "Brier score": "brier",
}
RNG = np.random.default_rng(4)
P = RNG.random(N).round(3)
Y = np.where(
    (np.arange(N) < N - 600) | (RNG.random(N) < 0.2), (RNG.random(N) < P).astype(float), math.nan
)


def expected(p: Any, y: Any, name: Any = "f1", decisions: Any = None) -> tuple[float, ...]:
    """The metric of a window of which labels come at once or never."""
    metric = ExpectedMetric(name)
    for i, (probability, label) in enumerate(zip(p.tolist(), y.tolist(), strict=True)):
        metric.add(i, probability, None if decisions is None else int(decisions[i]))
        if not math.isnan(label):
            metric.add_label(i, int(label))
    return tuple(metric.expected())


def written(path: Path, **columns: Any) -> Path:
    """Write a table of P and Y and these columns."""
    cells = {"p": P.tolist(), "y": ["" if math.isnan(y) else f"{y:g}" for y in Y], **columns}
    rows = [",".join(map(str, row)) for row in zip(*cells.values(), strict=True)]
    text = "\n".join([",".join(cells), *rows, ""])
    if path.suffix == ".csv":
        path.write_text(text)
    elif path.suffix == ".ndjson":
        names = list(cells)
        kept = [dict(zip(names, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    else:
        source = path.with_suffix(".csv")
        source.write_text(text)
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(source), path)
    return path


def report(path: Path, **more: Any) -> Any:
    given = Given(**{"score": "p", "label": "y", "prob": "p", **more})
    return open_subject(path, given, quiet=True).report()


def section(report: Any) -> Any:
    """The section, or None."""
    return next((each for each in report.sections if each.id == "expected"), None)


def numbers(report: Any) -> dict[str, tuple[float, ...]]:
    return {name: tuple(found) for name, *found in section(report).tables[0].rows}


def gauges(report: Any) -> dict[tuple[str, ...], float]:
    names = ("expected", "unlabelled")
    return {
        (metric.name, *labels.values()): value
        for metric in report.metrics
        if metric.name in names
        for labels, value in metric.samples
    }


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_the_last_rows_of_a_table(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path / f"t.{ending}")
    found = report(path)
    assert numbers(found) == {title: expected(P, Y, name) for title, name in NAMES.items()}
    n_known = int((~np.isnan(Y[-1000:])).sum())
    assert section(found).text.startswith(f"Of the last 1,000 rows, {n_known:,} have a label. ")
    assert section(found).text.endswith("The predicted label is 1 where p is at least 0.5.")
    value, low, high = expected(P, Y)
    assert found.verdict[-1].startswith(
        f"Of the last 1,000 rows, {n_known} have a label. Expected for all, with 90 %"
        f" intervals: F1 {value:.3f} ({low:.3f} to {high:.3f}), AUC "
    )
    assert gauges(found)["expected", "f1", "high"] == high
    assert gauges(found)["unlabelled",] == 1000 - n_known
    html = page.render(found)
    assert f'<td data-name="Expected" data-value="{value}">{value:.4f}</td>' in html
    out = tmp_path / "page.html"
    printed = run("report", path, "--score=p", "--prob=p", "--label=y", "--out", out).stderr
    assert found.verdict[-1] in " ".join(printed.split())


def test_labels_before_the_last_rows_say_how_wide_an_interval_is(tmp_path: Path) -> None:
    widths = []
    for bias in (0.0, 0.2):
        path = tmp_path / "t.csv"
        ones = RNG.random(N) < P - bias
        y = np.where(np.arange(N) < N - 1_000, 1.0 * ones, math.nan)
        rows = [
            f"{p},{'' if label != label else int(label)}" for p, label in zip(P, y, strict=True)
        ]
        path.write_text("\n".join(["p,y", *rows, ""]))
        found = numbers(report(path))
        assert found == {title: expected(P, y, name) for title, name in NAMES.items()}
        _, low, high = found["F1"]
        widths.append(high - low)
    assert widths[1] > 2.0 * widths[0]


def test_nothing_is_said_where_all_labels_are_there(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p,y\n0.5,\n" + "0.5,1\n0.5,0\n" * 500)  # the first row left the window
    found = report(path)
    assert section(found) is None
    assert not any("Expected" in sentence for sentence in found.verdict)
    assert gauges(found) == {}
    path.write_text(path.read_text() + "0.5,\n")
    assert section(report(path)) is not None
    counts = open_subject(
        path, Given(score="p", label="y", prob="p", loss="poisson"), quiet=True
    ).report()
    assert section(counts) is None  # means have no such metrics


def test_rows_are_the_last_by_time(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(N)
    found = report(written(tmp_path / "t.csv", at=order.tolist()), time="at")
    rows = np.argsort(order)
    assert numbers(found)["F1"] == expected(P[rows], Y[rows])


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_decisions_are_those_of_the_column(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path / f"t.{ending}", decision=(P >= 0.7).astype(int).tolist())
    found = report(path)
    assert numbers(found)["F1"] == expected(P, Y, "f1", P >= 0.7)
    assert section(found).text.endswith("The predicted label is that of the column decision.")
    keyed = report(path, key="decision")  # it may be read for something else, too
    assert numbers(keyed) == numbers(found)


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_a_column_of_that_name_may_hold_something_else(tmp_path: Path, ending: str) -> None:
    for cells in (["pay"] * N, ["", *[1] * (N - 1)][::-1], [2] * N):
        path = written(tmp_path / f"t.{ending}", decision=cells)
        assert numbers(report(path))["F1"] == expected(P, Y)
    others = {"decision": ["" if math.isnan(y) else int(y) for y in Y], "y": [1] * N}
    found = report(written(tmp_path / f"t.{ending}", **others), label="decision")
    assert numbers(found)["F1"] == expected(P, Y)


def test_the_predicted_one_of_several_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    p = rng.dirichlet([1.0, 1.0, 1.0], N).round(4)
    y = (rng.random((N, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    known = np.where(np.isnan(Y), math.nan, y)
    path, at = tmp_path / "t.csv", np.random.default_rng(1).permutation(N)
    lines = [
        f"{a},{b},{c},{'' if math.isnan(code) else 'abc'[int(code)]},{time}"
        for (a, b, c), code, time in zip(p.tolist(), known.tolist(), at.tolist(), strict=True)
    ]
    path.write_text("\n".join(["a,b,c,y,at", *lines, ""]))
    right = np.where(np.isnan(known), math.nan, p.argmax(axis=1) == known)
    ones = np.ones(N)
    for rows, more in ((np.arange(N), {}), (np.argsort(at), {"time": "at"})):
        found = open_subject(path, Given(label="y", prob="a,b,c", **more), quiet=True).report()
        wanted = expected(p.max(axis=1)[rows], right[rows], "accuracy", ones)
        assert numbers(found) == {"Accuracy": wanted}
        assert gauges(found)["expected", "accuracy", "mean"] == wanted[0]
        assert f"90 % intervals: Accuracy {wanted[0]:.3f} (" in " ".join(found.verdict)


def test_a_store_shows_its_output(tmp_path: Path) -> None:
    table, store = written(tmp_path / "t.csv"), tmp_path / "run.db"
    out = tmp_path / "out.csv"
    run("calibrate", table, "--score=p", "--label=y", "--out", out, "--store", store)
    found = open_subject(store, Given(), quiet=True).report()
    assert numbers(found) == numbers(report(out, prob="calibrated"))


def test_a_run_shows_its_last_decisions(tmp_path: Path) -> None:
    events = [Event(p, id=i) for i, p in enumerate(P.tolist())]
    labels = [Event(math.nan, y, id=i) for i, y in enumerate(Y.tolist()) if not math.isnan(y)]
    served: list[float] = []
    path = tmp_path / "run.db"

    def go_on(events: Any) -> Any:
        with Store(path) as store:
            run_stream(
                events, PlattCalibrator(), lambda _, p: served.extend(p), store, join=LabelJoin()
            )
        return open_subject(path, Given(), quiet=True).report()

    before = go_on(events)
    # Without any label, there is nothing to widen the interval by.
    unknown = np.full(N, math.nan)
    assert numbers(before)["F1"] == expected(np.array(served), unknown)
    after = go_on([*events, *labels])
    assert numbers(after) == {
        title: expected(np.array(served[:N]), Y, name) for title, name in NAMES.items()
    }
    assert after.verdict[-1].startswith("Of the last 1,000 decisions, ")
    assert gauges(after)["unlabelled",] == np.isnan(Y[-1000:]).sum()
    assert page.structure(before) != page.structure(after)  # which has labels, and their charts


@pytest.mark.parametrize(("scale", "label"), [(5.0, 1.0), (1.0, 0.5)])
def test_a_run_of_something_else(tmp_path: Path, scale: float, label: float) -> None:
    """Values that are no probabilities, or labels that are not 0 or 1."""
    path = tmp_path / "run.db"
    with Store(path) as store:
        y, timeline = np.where(np.arange(N) % 2, label, math.nan), Timeline()
        timeline.serve(np.column_stack([1.0 + np.arange(N), scale * P, y]), np.empty((0, 2)))
        store.save({"timeline": timeline}, N)
    assert section(open_subject(path, Given(), quiet=True).report()) is None


def test_a_run_whose_labels_never_wait(tmp_path: Path) -> None:
    """Without a join, an event without a label never gets one."""
    path = tmp_path / "run.db"
    events = [Event(p, 1.0) for p in P.tolist()]
    for more, shown in (([], False), ([Event(0.5)], True)):
        with Store(path) as store:
            run_stream([*events, *more], PlattCalibrator(), lambda *_: None, store)
        assert (section(open_subject(path, Given(), quiet=True).report()) is not None) == shown
