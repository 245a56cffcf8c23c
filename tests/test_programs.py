"""Random programs over every public class: nothing out of bounds, out of range, or lost in bytes.

`tests.programs` makes them; ``STREAMCAL_SOAK=10000000`` runs them for hours.
"""

import inspect
import math
from typing import Any

import numpy as np
import pytest

from streamcal import IsotonicCalibrator, JointCalibrator
from tests import programs

CLASSES = sorted(programs.cases(), key=lambda kind: kind.__name__)


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(kind).parameters)


def made_with(kind: type, **changed: Any) -> Any:
    """Make an instance as a program would, but for some parameters."""
    instance = programs.cases()[kind].make(programs.Draw(0))
    return kind(**{name: getattr(instance, name) for name in parameters_of(kind)} | changed)


def test_every_public_class_has_programs() -> None:
    assert programs.public_classes() == set(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_random_programs_keep_what_is_promised(kind: type) -> None:
    for seed in range(programs.n_programs(kind)):
        programs.run(kind, seed, 120)


@pytest.mark.parametrize(
    "kind", [kind for kind in CLASSES if "half_life" in parameters_of(kind)], ids=str
)
@pytest.mark.parametrize("half_life", [0, -1, 1e-4, 0.0999, math.nan, math.inf, "1"])
def test_every_half_life_is_checked(kind: type, half_life: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`half_life` must "):
        made_with(kind, half_life=half_life)
    assert made_with(kind, half_life=0.1).half_life == 0.1


@pytest.mark.parametrize(
    "kind", [kind for kind in CLASSES if "window" in parameters_of(kind)], ids=str
)
@pytest.mark.parametrize("window", [0, -1, 2.5, "3", True, 10**400])
def test_every_window_is_checked(kind: type, window: Any) -> None:
    with pytest.raises(ValueError, match="`window` must be"):
        made_with(kind, window=window)
    assert made_with(kind, window=1).window == 1


@pytest.mark.parametrize(
    "kind", [kind for kind in CLASSES if issubclass(kind, JointCalibrator)], ids=str
)
def test_joint_calibrators_say_what_they_want(kind: type) -> None:
    calibrator: Any = kind()
    calibrator.learn_one({"a": 0.2, "b": 0.8}, "a")
    before = calibrator.to_bytes()
    for raw in (0.7, [0.2, 0.8], "ab", None, np.array([0.5])):
        with pytest.raises(TypeError, match="`raw` must be a mapping from labels to prob"):
            calibrator.learn_one(raw, 1)
        with pytest.raises(TypeError, match="`raw` must be a mapping from labels to prob"):
            calibrator.predict_one(raw)
    for y in (None, math.nan):
        with pytest.raises(ValueError, match="`y` must be a label, got"):
            calibrator.learn_one({"a": 0.2, "b": 0.8}, y)
    for p in (1.5, math.nan, "0.5"):
        with pytest.raises((ValueError, TypeError), match="`score`"):
            calibrator.learn_one({"a": p, "b": 0.8}, "a")
    assert calibrator.to_bytes() == before


def test_weighted_labels_near_zero_may_be_rounded_to_zero() -> None:
    """Gamma loss, labels of 5e-324, and weights below 1; values and states stay possible."""
    calibrator = IsotonicCalibrator("gamma", half_life=3.0)
    for weight in (0.3, 0.2, 1e-60):
        calibrator.learn_one(0.1, 5e-324, weight)
    assert calibrator.samples()[2].tolist() == [0.0]
    programs.ask_isotonic(calibrator)
    assert IsotonicCalibrator.from_bytes(calibrator.to_bytes()).predict_one(0.1) == 5e-324
    programs.run(IsotonicCalibrator, 227756761, 300)
