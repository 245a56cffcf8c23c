"""The compiled classes in a process that is forked."""

import os
from pathlib import Path

import numpy as np
import pytest

from streamcal import HedgedCalibrator, IsotonicCalibrator


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", [IsotonicCalibrator, HedgedCalibrator])
def test_a_fork_goes_its_own_way(kind: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.random(600), rng.integers(0, 2, 600).astype(float)
    calibrator, alone = kind(), kind()
    calibrator.learn_many(scores[:300], labels[:300])
    before = calibrator.to_bytes()
    child = os.fork()
    if not child:
        status = 1
        try:
            calibrator.learn_many(scores[300:], labels[300:])
            (tmp_path / "state").write_bytes(calibrator.to_bytes())
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert calibrator.to_bytes() == before
    alone.learn_many(scores[:300], labels[:300])
    alone.learn_many(scores[300:], labels[300:])
    assert (tmp_path / "state").read_bytes() == alone.to_bytes()
