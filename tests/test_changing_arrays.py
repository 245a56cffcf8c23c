"""Arrays that another thread writes to after they were checked: what is not a sample is left out.

Compiled loops get the arrays as they are after such a write, so no thread is needed.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamcal import (
    BetaCalibrator,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    StreamingThresholds,
)
from streamcal.calibration.context import Contexts
from streamcal.ordinal import CuSumRank
from tests import named

N = 40
BAD = slice(10, 20)


def compiled(calibrator: Any) -> Callable[..., None]:
    return lambda s, y, w: calibrator._kernel.predict_learn_many(s, y, w)


def hedge(calibrator: Any) -> Callable[..., None]:
    learners = [each._batch_kernel() for each in calibrator._calibrators]
    return lambda s, y, w: calibrator._kernel.run(learners, s, y, w, np.zeros(len(s)))


def segments(calibrator: Any) -> Callable[..., None]:
    def learn(s: Any, y: Any, w: Any) -> None:
        columns = Contexts({"a": [i % 3 for i in range(N)][: len(s)]})
        hashes = calibrator._read_contexts(columns, len(s))
        calibrator._predict_learn_read(hashes, s, y, w)

    return learn


def isotonic(calibrator: Any) -> Callable[..., None]:
    out = np.empty((0, 3))
    return lambda s, y, w: calibrator._regression.predict_learn_many(s, y, w, False, out)


def index(learner: Any) -> Callable[..., None]:
    return lambda s, y, w: learner._index.learn_many(s, y, w)


def ranks(learner: Any) -> Callable[..., None]:
    return lambda s, y, w: learner._cusum.learn_many(
        ["a"], s.reshape(-1, 1), [1 + i % 2 for i in range(len(s))], w
    )


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 1e300])
@pytest.mark.parametrize("column", [0, 1, 2], ids=["score", "label", "weight"])
@pytest.mark.parametrize(
    ("make", "loop"),
    [
        (PlattCalibrator, compiled),
        (BetaCalibrator, compiled),
        (HistogramCalibrator, compiled),
        (HedgedCalibrator, hedge),
        (lambda: SegmentCalibrator(["a"]), segments),
        (lambda: SegmentCalibrator(["a"], base=PlattCalibrator()), segments),
        (IsotonicCalibrator, isotonic),
        (lambda: StreamingThresholds(2), index),
        (EUMThreshold, index),
        (lambda: CuSumRank(labels=(1, 2)), ranks),
    ],
    ids=named,
)
def test_what_is_no_sample_is_left_out(make: Any, loop: Any, column: int, bad: float) -> None:
    if column == 1 and loop is ranks:
        pytest.skip("labels are objects in a list of its own")
    if column == 0 and loop is segments:
        pytest.skip("scores are copied before they are checked")
    rng = np.random.default_rng(0)
    columns = [rng.random(N), rng.integers(0, 2, N).astype(float), rng.random(N) + 0.5]
    columns[column][BAD] = bad
    if column == 0 and bad == 1e300 and loop in (isotonic, index):
        columns[column][BAD] = math.inf  # such a score is one of theirs
    changed, alone = make(), make()
    loop(changed)(*columns)
    kept = np.r_[0 : BAD.start, BAD.stop : N]
    if loop is ranks:
        kept_columns = [np.ascontiguousarray(each[kept]) for each in columns]
        alone._cusum.learn_many(
            ["a"],
            kept_columns[0].reshape(-1, 1),
            [1 + i % 2 for i in kept.tolist()],
            kept_columns[2],
        )
        assert changed.to_bytes() == alone.to_bytes()
    if loop is not segments:
        type(changed).from_bytes(changed.to_bytes())
        return
    type(changed).from_bytes(changed.to_bytes())
    assert 0.0 <= changed.predict_one(0.4, {"a": 1}) <= 1.0
    assert changed.n_samples == len(kept)
