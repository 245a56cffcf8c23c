"""Reports and pictures of counts and amounts: their numbers, words, and what is refused."""

import csv
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

from streamcal.cli.options import MeansLoss
from streamcal.cli.report_sources import Given, open_subject
from streamcal.losses.deviance import DevianceName, get_deviance
from streamcal.metrics import CORP, ECE
from streamcal.report.page import render
from streamcal.report.prometheus import exposition
from streamcal.report.table_sections import Scored, of_table, verdict_of_table
from streamcal.report.verdict import find_gaps
from tests.runner import run

POISSON = get_deviance("poisson")


def samples(n: int = 4000, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return predictions that are too near to 1, right ones, and counts."""
    rng = np.random.default_rng(seed)
    right = np.exp(rng.normal(0.5, 0.7, n)).round(4)
    return right**0.7, right, rng.poisson(right).astype(float)


def scored(n: int = 4000, **more: Any) -> Scored:
    raw, right, y = samples(n)
    return Scored(raw, right, y, 1.0 + np.arange(n), deviance=POISSON, **more)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    raw, right, y = samples()
    path = tmp_path / "claims.csv"
    rows = [
        f"{a!r},{b!r},{int(c)},{i % 3},{i * 3600}"
        for i, (a, b, c) in enumerate(zip(raw.tolist(), right.tolist(), y, strict=True))
    ]
    path.write_text("\n".join(["model,calibrated,n,shop,at", *rows, ""]))
    return path


def cells(sections: Any, name: str) -> Any:
    (found,) = [t for section in sections for t in section.tables if t.id == name]
    return found


def corp(y: Any, p: Any, loss: Any = "poisson") -> Any:
    metric = CORP(loss=loss)
    for sample in zip(y, p, strict=True):
        metric.update(*sample)
    return metric.split()


def test_scores_are_those_of_the_metric_and_of_scikit_learn() -> None:
    data = scored()
    sections = of_table(data, "model", "calibrated")
    rows = {
        (name, column): numbers for name, column, *numbers in cells(sections, "score-numbers").rows
    }
    for column, p in (("model", data.raw), ("calibrated", data.calibrated)):
        parts = rows["Poisson deviance", column]
        assert parts == pytest.approx(corp(data.labels, p))
        assert parts[0] == pytest.approx(mean_poisson_deviance(data.labels, p))
        assert rows["D²", column][0] == pytest.approx(d2_tweedie_score(data.labels, p, power=1))
        assert rows["Mean", column][0] == pytest.approx(p.mean())
        ece = ECE(strategy="mass", loss="poisson")
        for sample in zip(data.labels, p, strict=True):
            ece.update(*sample)
        assert rows["ECE", column][0] == pytest.approx(ece.get())
    assert rows["ECE", "calibrated"][0] < 0.1 < rows["ECE", "model"][0]
    windows = cells(sections, "over-time-numbers")
    assert windows.header[:3] == ("up to row", "MCB of model", "MCB of calibrated")
    assert windows.header[3:] == ("Poisson deviance of model", "Poisson deviance of calibrated")
    assert windows.rows[0][1] == pytest.approx(corp(data.labels[:200], data.raw[:200]).mcb)
    assert windows.rows[0][3] == pytest.approx(
        mean_poisson_deviance(data.labels[:200], data.raw[:200])
    )


def test_pictures_are_of_means() -> None:
    sections = of_table(scored(), "model", "calibrated")
    charts = {chart.id: chart for section in sections for chart in section.charts}
    assert set(charts) == {"reliability", "histogram", "mcb-over-time", "loss-over-time"}
    reliability = charts["reliability"]
    assert (reliability.x, reliability.y) == ("predicted mean", "observed mean")
    assert reliability.x_range == reliability.y_range
    assert reliability.x_range is not None
    assert reliability.x_range[1] > 5.0
    assert charts["histogram"].x_range == reliability.x_range
    for series in charts["histogram"].series:
        assert series.columns["top"].sum() == pytest.approx(1.0)
    assert charts["loss-over-time"].title == "Poisson deviance over time"


def test_the_verdict_is_in_words() -> None:
    first, raw, right = verdict_of_table(scored(), "model", "calibrated")
    assert re.match(r"Poisson deviance 1\.\d+ → 1\.\d+, lower in all 10 periods", first)
    assert raw.startswith("model is too low above ")
    assert right == "calibrated shows no clear miscalibration over all rows together."
    steep = scored()._replace(raw=scored().calibrated ** 1.5 / 1.6)
    assert (
        "model is too far from the mean of the labels" in verdict_of_table(steep, "model", "c")[1]
    )


@pytest.mark.parametrize(
    ("loss", "draw"),
    [
        ("poisson", lambda rng, p: rng.poisson(p)),
        ("poisson", lambda rng, p: rng.poisson(0.1 * p) * 10.0),
        ("gamma", lambda rng, p: rng.exponential(p)),
        ("tweedie", lambda rng, p: np.where(rng.random(len(p)) < 0.05, 20.0 * p, 0.0)),
        ("squared", lambda rng, p: p + rng.standard_t(3, len(p))),
    ],
)
def test_a_verdict_on_right_means_is_rarely_wrong(loss: Any, draw: Any) -> None:
    """At most 1 % by its promise; rare and heavy labels are the hard ones."""
    rng, n_wrong = np.random.default_rng(5), 0
    for n in (50, 200, 2000):
        for _ in range(60):
            p = np.exp(rng.normal(0.0, 0.7, n))
            n_wrong += bool(find_gaps(p, draw(rng, p).astype(float), 0.01, get_deviance(loss)))
    assert n_wrong <= 4


def test_labels_that_never_happen_are_no_evidence_until_they_should_have() -> None:
    zeros = np.zeros(1000)
    assert not find_gaps(np.full(1000, 0.005), zeros, 0.01, POISSON)
    (gap,) = find_gaps(np.full(1000, 0.1), zeros, 0.01, POISSON)
    assert (gap.where, gap.observed) == ("everywhere", 0.0)
    assert not find_gaps(zeros, zeros, 0.01, POISSON)


def test_predictions_of_zero_do_not_make_all_infinite() -> None:
    data = scored(1000)
    p = data.calibrated.copy()
    p[np.flatnonzero(data.labels)[0]] = 0.0
    sections = of_table(data._replace(calibrated=p), "model", "calibrated")
    rows = cells(sections, "score-numbers").rows
    assert all(np.isfinite(row[2]) for row in rows)
    assert "predictions below 1e-15 count as 1e-15" in sections[0].text


def test_scores_out_of_range_are_not_compared() -> None:
    data = scored()
    sections = of_table(data._replace(raw=data.raw - 3.0), "model", "calibrated")
    assert "model has values outside [0, inf), so it is not compared." in sections[0].text
    assert {row[1] for row in cells(sections, "score-numbers").rows} == {"calibrated"}
    data.raw[0] = 1e61
    assert not data.comparable


@pytest.mark.parametrize("loss", get_args(DevianceName))
def test_a_report_of_a_table(table: Path, loss: str) -> None:
    if loss == "gamma":
        table.write_text(re.sub(r",0,(\d),", r",0.5,\1,", table.read_text()))
    given = Given("model", "n", key="shop", time="at", since="6000000", loss=loss)
    report = open_subject(table, given, quiet=True).report()
    assert ("Loss", loss) in report.facts
    title = get_deviance(loss).title
    assert report.verdict[0].startswith(title[0].upper() + title[1:])
    assert f"{title} before "[1:] in " ".join(report.verdict)
    keys = cells(report.sections, "key-scores")
    assert keys.header[2] == "Mean label"
    with table.open() as file:
        rows = [row for row in csv.DictReader(file) if row["shop"] == keys.rows[0][0]]
    y, p = ([float(row[name]) for row in rows] for name in ("n", "calibrated"))
    assert keys.rows[0][4] == pytest.approx(corp(y, p, loss).mean_score)
    assert keys.rows[0][6] == pytest.approx(corp(y, p, loss).mcb)
    page = render(report)
    assert "log loss of" not in page
    assert f'streamcal_deviance_sum_total{{column="model",loss="{loss}"}}' in exposition(
        report.metrics
    )


def test_commands_take_the_loss(table: Path, tmp_path: Path) -> None:
    columns = ("--label", "n", "--loss", "poisson")
    done = run("report", table, "--score", "model", *columns, "--out", tmp_path / "r.html")
    assert "Poisson deviance" in done.output
    picture = tmp_path / "p.png"
    run("plot", table, "--prob", "model", "--prob", "calibrated", *columns, "--out", picture)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert [each.value for each in MeansLoss] == list(get_args(DevianceName))


def test_what_is_refused_says_what_to_write(table: Path, tmp_path: Path) -> None:
    hint = "for counts or amounts add --loss poisson, gamma, tweedie or squared"
    scores, label = ("--score", "model"), ("--label", "n")
    (small := tmp_path / "small.csv").write_text("model,n\n0.5,1\n0.5,2\n")
    for arguments, status, message in (
        (("report", small, *scores, "--prob", "model", *label), 1, hint),
        (("report", table, *scores, *label), 1, hint),
        (("plot", table, "--prob", "model", *label), 1, hint),
        (("check", table, "--prob", "model", *label), 1, "counts and amounts have no such test"),
        (("report", table, *scores, *label, "--loss", "gamma"), 1, "in (0, inf) for the gamma"),
        (("plot", table, "--prob", "model", *label, "--loss", "gamma"), 1, "for the gamma loss"),
        (("report", table, *scores, *label, "--loss", "log"), 2, "'log' is not one of"),
        (
            ("report", table, *scores, *label, "--loss", "poisson", "--segment", "shop"),
            2,
            "--segment does not go with --loss",
        ),
        (
            ("report", table, "--prob", "model,calibrated", *label, "--loss", "poisson"),
            2,
            "--loss does not go with several columns",
        ),
        (
            ("plot", table, "--prob", "model,calibrated", *label, "--loss", "poisson"),
            2,
            "--loss does not go with several columns",
        ),
        (
            (
                *("calibrate", table, *scores, *label, "--calibrator", "isotonic"),
                "--loss",
                "poisson",
                "--plot",
                tmp_path / "a.png",
                "--out",
                tmp_path / "a.csv",
            ),
            2,
            "`streamcal plot --loss poisson` draws means",
        ),
    ):
        out = () if arguments[0] in ("check", "calibrate") else ("--out", tmp_path / "out.png")
        done = run(*arguments, *out, status=status)
        assert message in " ".join(done.output.replace("│", " ").split()), done.output
    large = tmp_path / "large.csv"
    large.write_text("model,calibrated,n\n1.5,1e61,2\n")
    done = run("plot", large, "--prob", "calibrated", *label, "--loss", "poisson", status=1)
    assert "row 1: `calibrated` must be at most 1e+60 in size" in " ".join(done.output.split())
    bare = tmp_path / "bare.csv"
    bare.write_text("model,n\n1.5,2\n")
    options = ("--loss", "poisson", "--out", tmp_path / "x.html")
    done = run("report", bare, *scores, *label, *options, status=1)
    words = " ".join(done.output.split())
    assert "--calibrator isotonic --loss poisson --out calibrated.csv" in words


def test_a_store_knows_the_loss_of_its_run(table: Path, tmp_path: Path) -> None:
    out, store = tmp_path / "out.csv", tmp_path / "run.db"
    options = ("--calibrator", "isotonic", "--loss", "poisson", "--new-column", "again")
    files = ("--store", store, "--out", out)
    run("calibrate", table, "--score", "model", "--label", "n", *options, *files)
    found = open_subject(store, Given(), quiet=True).report()
    given = Given("model", "n", "again", loss="poisson")
    expected = open_subject(out, given, quiet=True).report()
    assert found.verdict[: len(expected.verdict)] == expected.verdict
    with pytest.raises(ValueError, match="--loss does not apply to a store"):
        open_subject(store, Given(loss="poisson"))
