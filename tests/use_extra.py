"""Use what an extra is for: ``python use_extra.py plot`` in an empty folder.

It needs only the package, neither pytest nor these tests. All extras are installed here, so
`test_extras.py` runs it under `only_extra.py`; ``.ci/long`` runs it in separate environments.
"""

import importlib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SCORES = [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0), (0.4, 0), (0.8, 1)] * 20


def nothing() -> None:
    """Calibrate, serve and store; check the errors of pictures, tables and the command line."""
    import streamcal
    from streamcal import decision, durable, metrics, ordinal, voting  # noqa: F401

    for name in streamcal.__all__:
        getattr(streamcal, name)
    calibrator = streamcal.HedgedCalibrator()
    calibrator.learn_many(*zip(*SCORES, strict=True))
    assert calibrator.predict_one(0.2) < 0.3 < 0.7 < calibrator.predict_one(0.9)
    with durable.Store("states.db") as kept:
        kept.save({"one": calibrator}, 120)
    events = [durable.Event(score, y, key="a") for score, y in SCORES]
    with durable.Store("run.db") as kept:
        durable.run(events, streamcal.IsotonicCalibrator(), lambda offset, values: None, kept)
        assert kept.offset == len(events)
    curve = streamcal.plot.ReliabilityCurve.from_predictions(
        [y == 1 for _, y in SCORES], [score for score, _ in SCORES]
    )
    assert curve.decomposition.mcb >= 0.0
    assert "CASE" in calibrator.export("sql")

    from streamcal import losses

    median = streamcal.AnytimeCalibrator("absolute")
    median.learn_many(*zip(*SCORES, strict=True))
    assert median.predict_one(0.9) == 1.0
    stack = streamcal.PAVStack(losses.Huber(delta=1.0))
    for use in (
        lambda: streamcal.AnytimeCalibrator("log-cosh"),
        lambda: stack.push_many([0.1, 0.2, 0.3], [1.0, 0.0, 0.5]),
        lambda: streamcal.anytime_isotonic([0.1, 0.2], [1.0, 0.0], loss="log-cosh"),
    ):
        try:
            use()
        except ImportError as error:
            message = str(error)
        else:
            message = "JAX was found"
        assert "needs JAX: pip install '.[jax]'" in message, message
    assert not len(stack)


def plot() -> None:
    """Draw."""
    import streamcal

    display = streamcal.plot.ReliabilityDisplay.from_predictions(
        [y == 1 for _, y in SCORES], [score for score, _ in SCORES]
    )
    for name in ("picture.png", "picture.svg"):
        display.figure_.savefig(name)
        assert Path(name).stat().st_size > 1000


def jax() -> None:
    """Solve for a loss that needs derivatives."""
    import streamcal
    from streamcal.ordinal import cusum_layer

    calibrator = streamcal.AnytimeCalibrator("log-cosh")
    calibrator.learn_many(*zip(*SCORES, strict=True))
    assert calibrator.predict_one(0.2) < calibrator.predict_one(0.9)
    assert int(cusum_layer.predict([2.0, -1.0])) == 1


def cli() -> None:
    """Run the commands except `demo`, which takes minutes, and `watch`, which never ends."""
    from typer.testing import CliRunner

    from streamcal.cli.app import app

    Path("in.csv").write_text("p,y\n" + "".join(f"{p},{y}\n" for p, y in SCORES))
    Path("stars.csv").write_text("s,stars\n" + "".join(f"{p},{1 + y}\n" for p, y in SCORES))
    columns = ["--score", "p", "--label", "y"]
    for command in (
        ["calibrate", "in.csv", *columns, "--out", "out.csv", "--plot", "out.png"],
        ["calibrate", "in.csv", *columns, "--out", "kept.csv", "--store", "kept.db"],
        ["decide", "out.csv", "--prob", "calibrated", "--metric", "f1", "--out", "decided.csv"],
        ["plot", "out.csv", "--prob", "p", "--label", "y", "--out", "plot.svg"],
        ["report", "out.csv", *columns, "--out", "table.html"],
        ["report", "kept.db", "--out", "store.html"],
        ["thresholds", "stars.csv", "--score", "s", "--label", "stars", "--plot", "cuts.png"],
    ):
        result = CliRunner().invoke(app, command, catch_exceptions=False)
        assert result.exit_code == 0, (command, result.output)
    for name in ("out.png", "kept.csv", "decided.csv", "plot.svg", "table.html", "store.html"):
        assert Path(name).stat().st_size > 0
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"p": [0.1, 0.9], "y": [0, 1]}), "in.parquet")
    command = ["calibrate", "in.parquet", *columns, "--out", "out.parquet"]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0


def docs() -> None:
    """Do nothing: the gate `docs` builds the site with only this extra."""
    for name in ("sphinx", "furo", "myst_parser", "sphinx_gallery"):
        importlib.import_module(name)


def sklearn() -> None:
    """Calibrate a classifier of scikit-learn."""
    from sklearn.naive_bayes import GaussianNB

    from streamcal.sklearn import OnlineCalibratedClassifier

    scores, labels = zip(*SCORES, strict=True)
    model = OnlineCalibratedClassifier(GaussianNB()).fit([[score] for score in scores], labels)
    assert model.predict_proba([[0.9]])[0, 1] > 0.5


def kafka() -> None:
    """Calibrate a topic, on the cluster that librdkafka has for tests."""
    from confluent_kafka import Producer

    import streamcal
    from streamcal import durable

    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    for score, y in SCORES:
        cluster.produce("scores", f"{score} {y}", partition=0)
    assert cluster.flush(10) == 0
    config = {"bootstrap.servers": f"{broker.host}:{broker.port}"}
    with (
        durable.Store("kafka.db") as kept,
        durable.KafkaSource(
            config, "scores", lambda m: tuple(map(float, m.value().split())), partition=0
        ) as source,
    ):
        calibrator = streamcal.IsotonicCalibrator()
        assert durable.run(source, calibrator, lambda offset, values: None, kept) == len(SCORES)


def onnx() -> None:
    """Export a map as a model of ONNX."""
    from onnx import checker, load_from_string

    import streamcal

    calibrator = streamcal.HedgedCalibrator()
    calibrator.learn_many(*zip(*SCORES, strict=True))
    checker.check_model(load_from_string(calibrator.export("onnx")))


USES: dict[str, Any] = {
    "": nothing,
    "plot": plot,
    "jax": jax,
    "kafka": kafka,
    "onnx": onnx,
    "sklearn": sklearn,
    "cli": cli,
    "docs": docs,
}
# A package that an extra adds, and the extras that have it, too.
BRINGS = {
    "plot": ("matplotlib", {"cli", "docs"}),
    "jax": ("jax", {"docs"}),
    "kafka": ("confluent_kafka", set[str]()),
    "onnx": ("onnx", set[str]()),
    "sklearn": ("sklearn", {"docs"}),
    "cli": ("typer", {"docs"}),
    "docs": ("sphinx", set[str]()),
}

if __name__ == "__main__":
    extra = sys.argv[1]
    USES[extra]()
    for other, (module, others) in BRINGS.items():
        assert (find_spec(module) is not None) == (extra in {other, *others}), (extra, module)
    if find_spec("typer") is None:
        from streamcal.cli.main import main

        status = None
        try:
            main()
        except SystemExit as end:
            status = end.code
        assert status == 1
    print(f"extra {extra or 'none'}: works")
