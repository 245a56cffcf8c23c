"""Scoring a window again with a regressor that has learned since, in this process or another one.

`Window.rescore` does the work. `Rescorer` decides when it is due and where it runs, and fetches
the result of the background process.
"""

import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river.base.typing import FeatureName

from streamcal._processes import Worker
from streamcal.losses import TaskLoss, TaskLossName
from streamcal.ordinal.streaming import StreamingThresholds
from streamcal.ordinal.thresholds import Thresholds, optimal_thresholds
from streamcal.wrappers.routing import AnyRegressor

_RETRY_SAMPLES = 100  # until the next attempt, if the background process is not ready


class Rescored(NamedTuple):
    """Thresholds that have learned the new scores of a window, and the solution for them."""

    thresholds: StreamingThresholds
    solution: Thresholds
    n_samples: int  # learned by the classifier until then


class Window(NamedTuple):
    """The samples to score again, and how to solve."""

    features: Sequence[dict[FeatureName, Any]]
    ranks: NDArray[np.int64]
    w: NDArray[np.float64]
    times: NDArray[np.float64] | None  # in seconds, if the window is one of time
    n_labels: int
    loss: TaskLossName | TaskLoss
    size: int | timedelta
    n_jobs: int
    n_samples: int

    def rescore(self, regressor: AnyRegressor) -> Rescored | None:
        """Score the samples and solve; leave out samples whose new score is not finite.

        Returns
        -------
        Rescored or None
            None if no new score is finite.
        """
        scores = np.array([regressor.predict_one(x) for x in self.features], dtype=np.float64)
        finite = np.isfinite(scores)
        if not finite.any():
            return None
        scores, labels, w = scores[finite], self.ranks[finite] + 1, self.w[finite]
        solution = optimal_thresholds(
            scores, labels, self.n_labels, loss=self.loss, w=w, n_jobs=self.n_jobs
        )
        thresholds = StreamingThresholds(self.n_labels, self.loss, window=self.size)
        times = None if self.times is None else self.times[finite]
        thresholds.learn_many(scores, labels, w, t=times)
        return Rescored(thresholds, solution, self.n_samples)


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
    worker : Worker or None
        The background process.
    """

    def __init__(self, every: int | None, background: bool) -> None:
        self.due = self._every = every
        self.worker = Worker(_rescore_pickled) if background else None

    def postpone(self, n_samples: int) -> None:
        """Make the next one due ``every`` samples from now."""
        if self._every is not None:
            self.due = n_samples + self._every

    def ready(self, n_samples: int) -> bool:
        """Return whether a window can be taken; if not, the next attempt is due soon.

        A background process that was killed is replaced here, and takes the next window.
        """
        if self.worker is None or self.worker.ready():
            return True
        self.due = n_samples + _RETRY_SAMPLES
        return False

    def start(self, regressor: AnyRegressor, window: Window) -> Rescored | None:
        """Rescore a window; return the result, or None if that comes from another process."""
        self.postpone(window.n_samples)  # first: after an error the next one comes later
        if self.worker is None:
            return window.rescore(regressor)
        self.worker.submit(_pickle_if_possible(regressor), _pickle_if_possible(window))
        return None

    def poll(self) -> Rescored | None:
        """Return the result of the background process if it is ready; else None.

        Raises
        ------
        Exception
            What the job raised, once.
        """
        # Asked at every sample: this reads one byte. `ready` notices that the process has died.
        if self.worker is None or not self.worker.done:
            return None
        result = self.worker.poll()
        return None if result is None else pickle.loads(result)


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
