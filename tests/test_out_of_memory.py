"""What is left of an object when memory runs out, in a process of its own with little of it."""

import subprocess
import sys
import textwrap

import pytest

from tests import WITHOUT_BYTE_CODE

resource = pytest.importorskip("resource", reason="Windows has no limit of address space")

LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
import streamcal
from streamcal.decision import EUMThreshold

def learn_until_memory_runs_out(learner, scores):
    ones = np.ones(len(scores))
    if isinstance(learner, streamcal.HedgedCalibrator):
        learn_many, arguments = learn_one_by_one, (learner._mixture.kernel.learn, scores.tolist())
    elif isinstance(learner, streamcal.IsotonicCalibrator):
        learn_many = learner._regression.predict_learn_many
        arguments = scores, ones, ones, False, np.empty((0, 3))
    else:
        learn_many, arguments = learner._index.learn_many, (scores, ones, ones)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
    try:
        learn_many(*arguments)
    except MemoryError:
        return
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    raise AssertionError("memory was enough")

def learn_one_by_one(learn, scores):
    for score in scores:
        learn(score, 1.0, 1.0, 0.0)

def runs_out(call):
    try:
        call()
    except MemoryError:
        return True
    return False

N = 3_000_000
make = {
    "hedge": lambda window: streamcal.HedgedCalibrator(
        [streamcal.PlattCalibrator(), streamcal.IsotonicCalibrator(window=window)]
    ),
    "isotonic": lambda window: streamcal.IsotonicCalibrator(window=window),
    "thresholds": lambda window: streamcal.StreamingThresholds(2, window=window),
    "eum": lambda window: EUMThreshold("f1", window=window),
}[sys.argv[1]]
ask = {
    "hedge": (
        lambda learner: learner.predict_one(0.5),
        lambda learner: learner.serve_one(0.5),
        lambda learner: learner.predict_many([0.5]),
        lambda learner: learner.predict_learn_many([0.5], [1]),
        lambda learner: learner.to_bytes(),
        lambda learner: learner.learn_one(0.5, 1),
    ),
    "isotonic": (
        lambda learner: learner.predict_one(0.5),
        lambda learner: learner.samples(),
        lambda learner: learner.to_bytes(),
        lambda learner: learner.learn_one(0.5, 1),
    ),
    "thresholds": (
        lambda learner: learner.predict_one(0.5),
        lambda learner: learner.thresholds,
        lambda learner: learner.risk,
        lambda learner: learner._index.samples(),
        lambda learner: learner.to_bytes(),
        lambda learner: learner.learn_one(0.5, 1),
        lambda learner: learner.unlearn_one(0.5, 1),
    ),
    "eum": (
        lambda learner: learner.threshold,
        lambda learner: learner.curve(),
        lambda learner: learner.to_bytes(),
        lambda learner: learner.learn_one(0.5, 1),
    ),
}[sys.argv[1]]
"""


def run(learner: str, code: str) -> None:
    if sys.platform != "linux":
        pytest.skip("the limit of address space is Linux's")
    done = subprocess.run(
        [*WITHOUT_BYTE_CODE, "-c", LIMITED + textwrap.dedent(code), learner],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("learner", ["isotonic", "thresholds", "eum"])
def test_a_sample_that_finds_no_place_in_the_window_is_not_learned(learner: str) -> None:
    """One score takes one slot, so that it is the queue which has no room."""
    run(
        learner,
        """
        learner = make(N)
        learn_until_memory_runs_out(learner, np.full(N, 0.5))
        held = learner._index.n_samples if hasattr(learner, "_index") else learner.n_samples
        assert 1000 < held < N, held
        for question in ask:
            question(learner)
        assert len(type(learner).from_bytes(learner.to_bytes()).to_bytes()) > 0
        learner.learn_many(np.linspace(0.0, 1.0, 1000), np.ones(1000))
        assert not runs_out(lambda: ask[0](learner))
        """,
    )


@pytest.mark.parametrize("learner", ["hedge", "isotonic", "thresholds", "eum"])
def test_after_half_a_change_an_object_refuses_everything(learner: str) -> None:
    """Without a window it is a slot which has no room."""
    run(
        learner,
        """
        learner = make(None)
        rng = np.random.default_rng(1)
        learn_until_memory_runs_out(learner, rng.random(N))
        allowed = [i for i, question in enumerate(ask) if not runs_out(lambda: question(learner))]
        assert not allowed, allowed
        """,
    )
