"""Use every public name once, where streamcal is installed from its wheel and nothing else is.

``python smoke.py`` fails unless streamcal lies where the interpreter has its packages and each name
of ``streamcal.__all__`` does what it is for, without a file being written.
"""

import os
import sys
import sysconfig
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

written = []  # paths


def note(event, arguments):
    """Note each file that is opened to be written."""
    if event == "open" and isinstance(arguments[0], str) and arguments[2] is not None:
        if arguments[2] & (os.O_WRONLY | os.O_RDWR) and not arguments[0].startswith("/dev/"):
            written.append(arguments[0])


sys.addaudithook(note)

import streamcal  # noqa: E402  (what it opens is noted)

SCORES, LABELS = [0.1, 0.9, 0.4, 0.6], [0, 1, 1, 0]

home = Path(streamcal.__file__).parent
assert home.parent.samefile(sysconfig.get_path("platlib")), home
assert files("streamcal").joinpath("py.typed").is_file()
assert version("streamcal-river") == streamcal.__version__

assert streamcal.isotonic_fit(SCORES, LABELS)(0.5) == 0.5
heavy = {name for name in ("jax", "numba", "river", "scipy") if sys.modules.get(name)}
assert not heavy, f"isotonic_fit loads {heavy}"

# What follows may load river; what stands above must not.
from river.linear_model import LinearRegression, LogisticRegression  # noqa: E402


def calibrates(name, **options):
    """Learn, answer, and answer the same from bytes."""
    calibrator = getattr(streamcal, name)(**options)
    for score, label in zip(SCORES, LABELS, strict=True):
        calibrator.learn_one(score, label)
    answer = calibrator.predict_one(0.5)
    assert 0.0 <= answer <= 1.0
    assert streamcal.Calibrator.from_bytes(calibrator.to_bytes()).predict_one(0.5) == answer


def calibrates_segments():
    """Serve, learn with the ticket, and answer the same from bytes."""
    calibrator, x = streamcal.SegmentCalibrator(["a"]), {"a": "new"}
    answer, ticket = calibrator.serve_one(0.4, x)
    assert isinstance(ticket, streamcal.Ticket)
    calibrator.learn_one(0.4, 1, x=x, ticket=ticket)
    twin = streamcal.SegmentCalibrator.from_bytes(calibrator.to_bytes())
    assert twin.predict_one(0.4, x) == calibrator.predict_one(0.4, x) > answer


def calibrates_jointly(calibrator):
    """Learn and answer for all labels at once."""
    assert isinstance(calibrator, streamcal.JointCalibrator)
    calibrator.learn_one({"a": 0.7, "b": 0.3}, "a")
    assert abs(sum(calibrator.predict_one({"a": 0.6, "b": 0.4}).values()) - 1.0) < 1e-9


def wraps(model, labels=LABELS):
    """Learn and answer around a model of river."""
    for score, label in zip(SCORES, labels, strict=True):
        model.learn_one({"x": score}, label)
    assert model.predict_one({"x": 0.5}) is not None
    return model


def reads():
    """Answer a probability that is a feature."""
    assert streamcal.PrecomputedClassifier("p").predict_one({"p": 0.7})


def serves():
    """Answer a sample whose label comes late."""
    model = wraps(streamcal.CalibratedClassifier(LogisticRegression()))
    served = model.serve_one({"x": 0.5})
    assert isinstance(served, streamcal.Served)


def answers_late():
    """Teach a hedge a label that comes late."""
    hedge = streamcal.HedgedCalibrator()
    _, ticket = hedge.serve_one(0.7)
    assert isinstance(ticket, streamcal.Ticket)
    hedge.learn_one(0.7, 1, ticket=ticket)


def votes():
    """Calibrate the votes of a forest."""
    from river.forest import ARFClassifier

    wraps(streamcal.VoteClassifier(ARFClassifier(n_models=2, seed=1)))


def pushes():
    """Keep the staircase of samples in order."""
    stack = streamcal.PAVStack()
    stack.push_many([1, 2, 3], [1, 3, 2])
    assert stack.predict_one(2.5) == 2.5


def leaves():
    """Write the current map for other programs, and read it again."""
    from streamcal.calibration import read_export

    calibrator = streamcal.PlattCalibrator()
    calibrator.learn_many(SCORES, LABELS)
    read = read_export(calibrator.export("json"))
    assert abs(read.predict_one(0.4) - calibrator.predict_one(0.4)) < 1e-12
    assert "exp(" in calibrator.export("sql")
    assert files("streamcal.export").joinpath("map_schema.json").is_file()


def keys():
    """Keep one calibrator per key."""
    keyed = streamcal.KeyedCalibrator(streamcal.IsotonicCalibrator())
    keyed.learn_many(["a", "b"], [0.3, 0.9], [0, 1])
    assert len(keyed) == 2


def cuts():
    """Find thresholds on a stream."""
    thresholds = streamcal.StreamingThresholds(3)
    for score, label in zip(SCORES, [1, 3, 2, 3], strict=True):
        thresholds.learn_one(score, label)
    assert thresholds.predict_one(0.0) == 1


def decides():
    """Find the threshold of a metric on a stream."""
    eum = streamcal.EUMThreshold("f1")
    for score, label in zip(SCORES, LABELS, strict=True):
        eum.learn_one(score, label)
    assert eum.predict_one(0.95)


def refines():
    """Refine a fit round by round; where JAX is missing, the error says so."""
    message = ""
    try:
        list(streamcal.anytime_isotonic_refinements([1, 2], [0.0, 1.0], loss="squared"))
    except ImportError as error:
        message = str(error)
    assert not message or ("needs JAX" in message and find_spec("jax") is None), message


USES = {
    "AnytimeCalibrator": lambda: streamcal.AnytimeCalibrator("absolute").learn_one(0.5, 1.0),
    "AnytimeStaircase": lambda: streamcal.anytime_isotonic([1, 2], [0.0, 1.0], loss="absolute")(1),
    "BetaCalibrator": lambda: calibrates("BetaCalibrator"),
    "CalibratedClassifier": lambda: wraps(streamcal.CalibratedClassifier(LogisticRegression())),
    "CalibratedRegressor": lambda: wraps(streamcal.CalibratedRegressor(LinearRegression())),
    "Calibrator": leaves,
    "DecisionClassifier": lambda: wraps(streamcal.DecisionClassifier(LogisticRegression(), "f1")),
    "EUMThreshold": decides,
    "HedgedCalibrator": lambda: calibrates("HedgedCalibrator"),
    "HistogramCalibrator": lambda: calibrates("HistogramCalibrator"),
    "IdentityCalibrator": lambda: calibrates("IdentityCalibrator"),
    "IsotonicCalibrator": lambda: calibrates("IsotonicCalibrator"),
    "JointCalibrator": lambda: calibrates_jointly(streamcal.TemperatureCalibrator()),
    "KeyedCalibrator": keys,
    "PAVStack": pushes,
    "PlattCalibrator": lambda: calibrates("PlattCalibrator"),
    "PrecomputedClassifier": reads,
    "SegmentCalibrator": calibrates_segments,
    "Served": serves,
    "Staircase": lambda: streamcal.Staircase([1], [2], [0.5], [2.0], [1.5])(9.0),
    "StreamingThresholds": cuts,
    "TemperatureCalibrator": lambda: calibrates_jointly(streamcal.TemperatureCalibrator()),
    "ThresholdClassifier": lambda: wraps(
        streamcal.ThresholdClassifier(LinearRegression(), labels=(1, 2, 3)), [1, 3, 2, 3]
    ),
    "Thresholds": lambda: streamcal.Thresholds(np.array([0.5]), 0.0, "dp", True)(0.7),
    "Ticket": answers_late,
    "TopLabelCalibrator": lambda: calibrates_jointly(streamcal.TopLabelCalibrator()),
    "VennAbersCalibrator": lambda: calibrates("VennAbersCalibrator"),
    "VoteClassifier": votes,
    "anytime_isotonic": lambda: streamcal.anytime_isotonic(SCORES, LABELS, loss="absolute"),
    "anytime_isotonic_refinements": refines,
    "decision": lambda: streamcal.decision.maximize(SCORES, "f2"),
    "durable": lambda: streamcal.durable.LabelJoin,
    "isotonic_fit": lambda: streamcal.isotonic_fit(SCORES, LABELS, [1, 2, 1, 2]),
    "isotonic_fit_sharded": lambda: streamcal.isotonic_fit_sharded([(SCORES, LABELS)] * 2),
    "losses": lambda: streamcal.losses.get("log")(0.8, 1),
    "maximize": lambda: streamcal.maximize(SCORES, "f1").labels,
    "metrics": lambda: streamcal.metrics.ECE().update(1, {True: 0.7, False: 0.3}),
    "monitoring": lambda: streamcal.monitoring.CalibrationTest().update(True, 0.7),
    "optimal_thresholds": lambda: streamcal.optimal_thresholds(SCORES, [1, 3, 2, 3]),
    "ordinal": lambda: wraps(streamcal.ordinal.CuSumRank((1, 2, 3)), [1, 3, 2, 3]),
    "plot": lambda: streamcal.plot.__all__,
    "undo_sampling": lambda: streamcal.undo_sampling([0.5], 0.1),
    "voting": lambda: streamcal.voting.__all__,
}

different = set(streamcal.__all__) ^ set(USES)
assert not different, different
for use in USES.values():
    use()
assert not written, written
print(f"streamcal {streamcal.__version__} works from its wheel: {len(USES)} names")
