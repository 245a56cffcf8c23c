"""Scoring a window again with a regressor that has learned since, in this process or another one.

`Window.rescore` does the work. `Rescorer` decides when it is due and where it runs, and fetches
the result of the background process.
"""

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import base
from river.base.typing import FeatureName

from streamcal._worker import Worker
from streamcal.losses import TaskLoss
from streamcal.ordinal._score_model import ScoreModel
from streamcal.ordinal.thresholds import Thresholds, optimal_thresholds

_RETRY_SAMPLES = 100  # until the next attempt, if the background process is not ready


class Rescored(NamedTuple):
    """The new scores of a window, the model that has learned them, and the solution for them."""

    scores: NDArray[np.float64]
    model: ScoreModel
    solution: Thresholds
    n_samples: int  # learned by the classifier until then


class Window(NamedTuple):
    """The samples to score again, and how to solve."""

    features: Sequence[dict[FeatureName, Any]]
    ranks: NDArray[np.int64]
    w: NDArray[np.float64]
    n_labels: int
    loss: str | TaskLoss
    size: int
    n_jobs: int
    n_samples: int

    def rescore(self, regressor: base.Regressor) -> Rescored:
        """Score the samples and solve.

        Raises
        ------
        ValueError
            If the regressor predicts a value that is not finite.
        """
        scores = np.array([regressor.predict_one(x) for x in self.features], dtype=np.float64)
        if not np.isfinite(scores).all():
            bad = scores[~np.isfinite(scores)][0]
            raise ValueError(f"`regressor` must predict finite numbers, got {bad}")
        solution = optimal_thresholds(
            scores, self.ranks + 1, self.n_labels, loss=self.loss, w=self.w, n_jobs=self.n_jobs
        )
        model = ScoreModel(self.n_labels, self.loss, self.size)
        model.learn_many(scores, self.ranks, self.w)
        return Rescored(scores, model, solution, self.n_samples)


class Rescorer:
    """When a window is scored again, and in which process.

    Parameters
    ----------
    every : int or None
        After how many samples; None: never.
    background : bool
        Whether in another process.

    Attributes
    ----------
    due : int or None
        The number of learned samples at which the next one starts.
    waiting : bool
        Whether the background process has a job.
    worker : Worker or None
        The background process.
    """

    def __init__(self, every: int | None, background: bool) -> None:
        self.due = self._every = every
        self.waiting = False
        self.worker = Worker(_rescore_pickled) if background else None

    def __getstate__(self) -> dict[str, Any]:
        # A copy has no job in the background.
        return {**self.__dict__, "waiting": False}

    def postpone(self, n_samples: int) -> None:
        """Make the next one due ``every`` samples from now."""
        if self._every is not None:
            self.due = n_samples + self._every

    def ready(self, n_samples: int) -> bool:
        """Return whether a window can be taken; if not, the next attempt is due soon."""
        if self.worker is None or (not self.waiting and self.worker.ready()):
            return True
        self.due = n_samples + _RETRY_SAMPLES
        return False

    def start(self, regressor: base.Regressor, window: Window) -> Rescored | None:
        """Rescore a window; return the result, or None if that comes from another process."""
        found = None
        if self.worker is None:
            found = window.rescore(regressor)
        else:
            parts = _pickle_if_possible(regressor), _pickle_if_possible(window)
            self.waiting = self.worker.submit(*parts)
        self.postpone(window.n_samples)
        return found

    def poll(self, n_samples: int) -> Rescored | None:
        """Return the result of the background process if it is ready; else None.

        Raises
        ------
        Exception
            What the job raised, once.
        """
        assert self.worker is not None
        try:
            result = self.worker.poll()
        except Exception:
            self.waiting = False
            raise
        if result is not None:
            self.waiting = False
            rescored: Rescored = pickle.loads(result)
            return rescored
        if n_samples % _RETRY_SAMPLES == 0 and not self.worker.busy:  # it was killed
            self.waiting = False
            self.due = n_samples
        return None


def _pickle_if_possible(thing: Any) -> Any:
    """Return an object as bytes, or itself if pickle can't, such as a pipeline with a lambda.

    The worker then pickles it with dill, which takes far longer.
    """
    try:
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return thing


def _rescore_pickled(*parts: Any) -> bytes:
    """Rescore in the background process what `Rescorer.start` has sent: regressor and window."""
    regressor, window = (pickle.loads(p) if isinstance(p, bytes) else p for p in parts)
    return pickle.dumps(window.rescore(regressor), pickle.HIGHEST_PROTOCOL)
