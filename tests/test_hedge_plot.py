"""The picture of a hedge's weights."""

from datetime import timedelta
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.offsetbox import TextArea

from streamcal import HedgedCalibrator, IsotonicCalibrator, PlattCalibrator
from streamcal.plot import HedgeWeightsDisplay

mpl.use("Agg")


@pytest.fixture
def history() -> Any:
    rng = np.random.default_rng(1)
    hedge, history = HedgedCalibrator(), []
    for score in rng.uniform(size=40):
        hedge.learn_one(score, rng.uniform() < score**2)
        history.append(hedge.weights)
    return history


def test_areas_are_the_weights_from_below(history: Any) -> None:
    display = HedgeWeightsDisplay.from_history(history, ax=Figure().subplots())
    assert len(display.areas_) == len(display.names) == 7
    below = np.zeros(40)
    for area, name in zip(display.areas_, display.names, strict=True):
        top = below + np.array([weights[name] for weights in history])
        drawn = {tuple(point) for point in area.get_paths()[0].vertices.round(9).tolist()}
        assert {(t, y) for t, y in zip(range(1, 41), top.round(9), strict=True)} <= drawn
        below = top
    np.testing.assert_allclose(below, 1.0)
    shown = [area.get_text() for area in display.legend_.findobj(TextArea)]
    assert shown == [
        *("Isotonic, window=10000", "Isotonic, window=1000", "Isotonic, window=200"),
        *("Platt, half_life=100", "Platt, half_life=500", "Platt", "Identity"),
    ]
    assert display.plot(ax=Figure().subplots()) is display
    times = np.arange(40.0) * 100
    assert HedgeWeightsDisplay.from_history(history, times=times).ax_.get_xlim() == (0.0, 3900.0)


def test_bad_history(history: Any) -> None:
    with pytest.raises(ValueError, match="`history` must hold weights, got none"):
        HedgeWeightsDisplay.from_history([])
    with pytest.raises(ValueError, match="`history` must hold weights, got none"):
        HedgeWeightsDisplay.from_history([{}])
    with pytest.raises(ValueError, match="no negative weights and no NaN"):
        HedgeWeightsDisplay.from_history([{"one": float("nan")}])
    with pytest.raises(ValueError, match=r"same calibrators .* at position 2"):
        HedgeWeightsDisplay.from_history([*history[:2], {"other": 1.0}])
    with pytest.raises(ValueError, match=r"`times` must have one value per score \(40\), got 2"):
        HedgeWeightsDisplay.from_history(history, times=[1, 2])
    with pytest.raises(ValueError, match="`times` must ascend"):
        HedgeWeightsDisplay.from_history(history[:2], times=[2, 1])


def test_the_legend_shows_durations_in_words() -> None:
    lengths = [timedelta(days=1), timedelta(hours=36), timedelta(days=1, microseconds=1)]
    mixed = [PlattCalibrator(half_life=length) for length in lengths]
    hedge = HedgedCalibrator([*mixed, IsotonicCalibrator(window=timedelta(days=7))])
    hedge.learn_one(0.5, 1, t=0.0)
    display = HedgeWeightsDisplay.from_history([hedge.weights], ax=Figure().subplots())
    shown = [area.get_text() for area in display.legend_.findobj(TextArea)]
    of_platt = [f"Platt, half_life={words}" for words in ("86400.000001s", "36h", "1d")]
    assert shown == ["Isotonic", *of_platt]
