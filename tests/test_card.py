"""What a notebook shows of calibrators and wrappers: well-formed, escaped, light."""

import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from river import linear_model, naive_bayes, preprocessing

import streamcal
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator

HOSTILE = "<script>alert('1')</script>&\"\ud800"


def make(n: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.beta(1.2, 1.2, size=n)
    return p, rng.random(n) < p**2


def parse(thing: Any) -> Any:
    """Return the card as a tree; it must be well-formed, and have neither scripts nor links."""
    html = thing._repr_html_()
    html.encode("utf-8")
    tree = ET.fromstring(html.replace("<details style", "<details a").replace(" open>", ">"))
    names = {element.tag for element in tree.iter()}
    assert not names & {"script", "link", "style", "iframe", "img", "a"}
    for element in tree.iter():
        assert not [name for name in element.attrib if name.startswith("on")]
    return tree


def text(tree: Any) -> Any:
    return " ".join(words.strip() for words in tree.itertext() if words.strip())


def curve(tree: Any) -> tuple[Any, Any]:
    """Return the points of the map of the first drawing, between 0 and 1."""
    points = next(tree.iter("polyline")).attrib["points"].split()
    x, y = np.array([list(map(float, point.split(","))) for point in points]).T / 120.0
    return x, 1.0 - y


def calibrators() -> list[Any]:
    return [
        streamcal.HedgedCalibrator(),
        streamcal.PlattCalibrator(),
        streamcal.BetaCalibrator(),
        streamcal.HistogramCalibrator(),
        streamcal.IdentityCalibrator(),
        streamcal.IsotonicCalibrator(window=100),
        streamcal.AnytimeCalibrator("absolute"),
        streamcal.VennAbersCalibrator(),
    ]


@pytest.mark.parametrize("prototype", calibrators(), ids=lambda each: type(each).__name__)
def test_a_card_shows_class_parameters_and_the_map(prototype: Any) -> None:
    calibrator = prototype.clone()
    x, y = curve(parse(calibrator))
    np.testing.assert_allclose(y, x, atol=0.01)  # cold
    calibrator.learn_many(*make())
    tree = parse(calibrator)
    assert type(calibrator).__name__ in text(tree)
    for name in calibrator._get_params():
        assert name in text(tree)
    x, y = curve(tree)
    near = np.abs(y - calibrator.predict_many(x.clip(0.0, 1.0))) < 0.03
    assert near.mean() > 0.7  # not where it jumps
    assert calibrator._repr_html_() == calibrator.clone(include_attributes=True)._repr_html_()


def test_the_state_is_shown() -> None:
    scores, labels = make()
    platt, hedge, window = (
        streamcal.PlattCalibrator(),
        streamcal.HedgedCalibrator(),
        streamcal.IsotonicCalibrator(window=50),
    )
    for calibrator in (platt, hedge, window):
        calibrator.learn_many(scores, labels)
    assert f"slope {platt.slope:.4g}" in text(parse(platt))
    assert "samples 200" in text(parse(platt))
    assert "samples 50" in text(parse(window))
    shown = text(parse(hedge))
    for name, weight in hedge.weights.items():
        assert f"{name} {weight:.3f}" in shown
    widths = re.findall(r"height:8px;width:([\d.]+)px", hedge._repr_html_())
    expected = [60 * weight for weight in hedge.weights.values()]
    np.testing.assert_allclose([float(width) for width in widths], expected, atol=0.06)


def test_scores_that_are_not_probabilities_have_their_own_range() -> None:
    calibrator = streamcal.IsotonicCalibrator("squared", prior=0.0)
    calibrator.learn_many([-30.0, 0.0, 25.0], [1.0, 2.0, 40.0])
    labels = [element.text for element in parse(calibrator).iter("text")]
    assert labels == ["-30", "25", "score", "1", "40"]
    for narrow in ([5.0], [1e17], [1e17, np.nextafter(1e17, 2e17)], [1.0, np.nextafter(1.0, 2.0)]):
        single = streamcal.IsotonicCalibrator("squared")
        single.learn_many(narrow, narrow)
        parse(single)


def test_joint_calibrators_and_snapshots() -> None:
    top, temperature = streamcal.TopLabelCalibrator(), streamcal.TemperatureCalibrator()
    parse(top)
    for p, y in zip(*make(50), strict=True):
        top.learn_one({HOSTILE: p, "b": 1 - p}, HOSTILE if y else "b")
        temperature.learn_one({True: p, False: 1 - p}, bool(y))
    assert f"temperature {temperature.temperature:.4g}" in text(parse(temperature))
    tree = parse(top)
    assert len(list(tree.iter("svg"))) == 2
    assert "<script>alert('1')</script>&\"" in text(tree)
    assert "n_samples 200" in text(parse(learned(streamcal.VennAbersCalibrator()).snapshot()))


def learned(calibrator: Any) -> Any:
    calibrator.learn_many(*make())
    return calibrator


def test_a_wrapper_shows_each_label() -> None:
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    assert "no calibrator has learned a sample yet" in text(parse(model))
    for i, p in enumerate(make(60)[0]):
        model.learn_one({"x": p}, HOSTILE if i % 3 else "b")
    tree = parse(model)
    labels = ["".join(summary.itertext()) for summary in tree.iter("summary")]
    assert sorted(labels)[0].startswith("<script>alert('1')</script>&\"")
    assert sorted(labels)[1] == "b"
    assert len(list(tree.iter("svg"))) == 2
    assert "GaussianNB" in text(tree)


def test_many_labels_are_counted() -> None:
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    for i in range(40):
        model.learn_one({"x": i}, f"label {i % 10}")
    tree = parse(model)
    assert len(list(tree.iter("summary"))) == 6
    assert "and 4 more labels" in text(tree)
    assert "one-vs-rest" in text(tree)  # a weight of the maps of all labels


def test_other_wrappers() -> None:
    joint = streamcal.CalibratedClassifier(
        naive_bayes.GaussianNB(), streamcal.TemperatureCalibrator()
    )
    pipeline = preprocessing.StandardScaler() | linear_model.LinearRegression()
    regressor = streamcal.CalibratedRegressor(pipeline)
    parse(joint), parse(regressor)
    for i in range(20):
        joint.learn_one({"x": i % 7}, i % 2 == 0)
        regressor.learn_one({"x": i}, 3.0 * i)
    assert "temperature" in text(parse(joint))
    assert "IsotonicCalibrator" in text(parse(regressor))
    keyed = streamcal.KeyedCalibrator(lambda: streamcal.PlattCalibrator())
    keyed.learn_one("key", 0.5, 1)
    assert "live calibrators 1" in text(parse(keyed))
    assert " at 0x" not in keyed._repr_html_()


def test_a_card_loads_no_matplotlib() -> None:
    code = (
        "import sys, streamcal\n"
        "streamcal.HedgedCalibrator()._repr_html_()\n"
        "heavy = ('matplotlib', 'jinja2', 'pandas', 'sklearn')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("kind", [AuditedCalibrator, PriorShiftCalibrator])
def test_a_mixture_of_maps_of_segments_has_no_drawing(kind: Any) -> None:
    calibrator = kind(streamcal.SegmentCalibrator(["shop"]))
    shown = text(parse(calibrator))
    assert kind.__name__ in shown
    assert "samples 0" in shown
    assert "terms 0" in shown
    for name in calibrator.weights:
        assert f"{name} 0.500" in shown
    assert "Snapshot" in text(parse(calibrator.snapshot()))
