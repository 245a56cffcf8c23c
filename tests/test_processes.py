"""Objects in a process that is forked, also while other threads use them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import HedgedCalibrator, IsotonicCalibrator

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


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


def run(*arguments: Any) -> str:
    """Run a case of `tests.forks` in a process of its own; a hang ends it after minutes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.forks", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parent.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.parametrize("calls", ["one", "many"])
def test_every_learner_goes_on_after_a_fork_while_threads_use_it(calls: str) -> None:
    run(calls)


def test_locks_that_other_threads_hold_are_free_in_the_child() -> None:
    run("locks")


def test_a_fork_lets_a_thread_go_on_that_another_one_waits_for() -> None:
    run("needed")


def test_a_fork_does_not_wait_for_a_thread_that_waits_for_its_lock() -> None:
    run("held")


def test_a_fork_inside_a_statement_does_not_wait_for_itself(tmp_path: Path) -> None:
    run("inside", tmp_path)


def test_a_child_opens_a_store_though_threads_of_the_parent_were_saving(tmp_path: Path) -> None:
    run("stores", tmp_path)


def test_a_child_exports_though_a_thread_of_the_parent_was_importing_what_that_needs() -> None:
    run("export")


def test_a_child_names_shared_memory_though_a_thread_of_the_parent_was_doing_so() -> None:
    run("memory")


@pytest.mark.parametrize("end", ["exit", "_exit"])
def test_parent_and_child_solve_by_jobs(end: str) -> None:
    run("jobs", end)
