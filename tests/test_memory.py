"""How much memory calibrators take: small ones, because keys are many; docs/scaling.md says it."""

import functools
import importlib.util
import inspect
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import (
    AnytimeCalibrator,
    BetaCalibrator,
    Calibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    JointCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VennAbersCalibrator,
    calibration,
)
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator
from tests import WITHOUT_BYTE_CODE

PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"
RNG = np.random.default_rng(0)
SCORES = RNG.random(200)
LABELS = (RNG.random(200) < SCORES).astype(np.float64)

MAKERS: dict[str, Callable[[], Any]] = {
    "IdentityCalibrator()": IdentityCalibrator,
    "PlattCalibrator()": PlattCalibrator,
    "BetaCalibrator()": BetaCalibrator,
    "TemperatureCalibrator()": TemperatureCalibrator,
    "HistogramCalibrator()": HistogramCalibrator,
    "IsotonicCalibrator()": IsotonicCalibrator,
    "IsotonicCalibrator(window=200)": lambda: IsotonicCalibrator(window=200),
    "VennAbersCalibrator()": VennAbersCalibrator,
    'AnytimeCalibrator("absolute")': lambda: AnytimeCalibrator("absolute"),
    "HedgedCalibrator()": HedgedCalibrator,
    "TopLabelCalibrator()": TopLabelCalibrator,
    'SegmentCalibrator(["a", "b"])': lambda: SegmentCalibrator(["a", "b"]),
    "AuditedCalibrator()": AuditedCalibrator,
    "PriorShiftCalibrator()": PriorShiftCalibrator,
}
LARGE = ("Hedged", "TopLabel", "Segment", "Audited", "PriorShift")  # they contain a hedge


def taught(calibrator: Any) -> Any:
    """Teach 200 different scores: labels 0 and 1, three labels, or 7 and 40 segments."""
    for i, (score, y) in enumerate(zip(SCORES.tolist(), LABELS.tolist(), strict=True)):
        if isinstance(calibrator, JointCalibrator):
            raw = {"low": 0.5 * score, "mid": 0.5 * score, "top": 1.0 - score}
            calibrator.learn_one(raw, ("low", "mid", "top")[i % 3])
        elif isinstance(calibrator, SegmentCalibrator):
            calibrator.learn_one(score, y, x={"a": i % 7, "b": i % 40})
        elif isinstance(calibrator, AuditedCalibrator):
            calibrator.learn_one(score, y, propensity=0.5)
        else:
            calibrator.learn_one(score, y)
    return calibrator


def stated() -> dict[str, tuple[float, float]]:
    """Return the kilobytes in the table of the page, empty and with 200 samples."""
    rows = re.findall(r"^\| `(\w+\(.*\))` \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.M)
    return {name: (float(empty), float(full)) for name, empty, full in rows}


def test_the_page_lists_all_calibrators() -> None:
    public = [getattr(calibration, name) for name in calibration.__all__]
    kinds = [each for each in public if inspect.isclass(each)]
    concrete = {
        each.__name__
        for each in kinds
        if issubclass(each, Calibrator | JointCalibrator) and not inspect.isabstract(each)
    }
    assert {name.split("(")[0] for name in MAKERS} == concrete
    assert list(stated()) == list(MAKERS)


@functools.cache
def measured() -> dict[str, tuple[int, int]]:
    """Return how many bytes calibrators take, empty and with 200 samples.

    In a new process: in one that has had other objects of the class, Python gives more room to
    their attributes.
    """
    command = [*WITHOUT_BYTE_CODE, "-m", "tests.test_memory"]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


@pytest.mark.parametrize("name", MAKERS)
def test_memory_is_within_bounds_and_as_the_page_says(name: str) -> None:
    if name.startswith("Anytime"):
        pytest.importorskip("jax")
    found = measured()[name]
    if not name.startswith(LARGE):
        assert found[0] <= 1024
        assert found[1] <= 12 * 1024
    for n_bytes, kilobytes in zip(found, stated()[name], strict=True):
        # The objects of another version of Python have other sizes.
        assert n_bytes / 1024 == pytest.approx(kilobytes, rel=0.1, abs=0.1)


def main() -> None:
    """Print what `measured` returns; without JAX, not of the calibrator that needs it."""
    found = {}
    for name, make in MAKERS.items():
        if importlib.util.find_spec("jax") or not name.startswith("Anytime"):
            found[name] = make()._raw_memory_usage, taught(make())._raw_memory_usage
    print(json.dumps(found))


if __name__ == "__main__":
    main()
