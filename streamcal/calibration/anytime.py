"""Calibration for any convex loss: the best map of the last samples, solved at intervals.

If the block minimiser is not a mean, there are no sums that can be updated sample by sample. So the
window is solved again at intervals (`streamcal.isotonic.anytime`), with the previous map as a warm
start; the previous map is served until the new one is ready. A solve runs between two samples,
within a deadline if there is one, or in its own process, so that no sample waits.
"""

import warnings
from datetime import timedelta
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._extras import check_jax
from streamcal._frames import like_given
from streamcal._locked import Locked
from streamcal._processes import Worker
from streamcal._state import Arrays, Fields, array_of, as_int, require
from streamcal._validation import (
    as_number,
    as_score,
    as_vector,
    as_weight,
    check_bool,
    check_choice,
    check_count,
)
from streamcal._whole import do_all
from streamcal.calibration._ring import SampleRing, TimedSamples
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time, check_span, in_seconds, or_time
from streamcal.calibration.context import FieldValues
from streamcal.calibration.tickets import Ticket
from streamcal.export.curve import linear, steps
from streamcal.export.description import Description, unlearned
from streamcal.isotonic.anytime.fit import anytime_isotonic, check_limits
from streamcal.isotonic.anytime.staircase import AnytimeStaircase, freeze_blocks, thaw_blocks
from streamcal.isotonic.staircase import INTERPOLATIONS, Interpolation
from streamcal.kernels import pav
from streamcal.kernels.score_index import check_held_times
from streamcal.notebook.shape import Shape

Floats = NDArray[np.float64]

_EARLY = 4  # while the window fills, it is solved again when it has grown by one part in so many


class AnytimeCalibrator(Locked, Calibrator):
    """Isotonic calibration of the last samples for any convex loss, solved every so many samples.

    Use it for medians, quantiles, expectiles, robust losses and your own. For a loss whose
    minimiser is a mean, `IsotonicCalibrator` is exact after every sample and cheaper.

    Parameters
    ----------
    loss : str or Loss
        What to minimise. JAX must be able to differentiate it; "absolute" and `Pinball` do not
        need JAX.
    window : int or timedelta
        The number of recent samples that are used. With a timedelta those are used that were
        younger than that when the newest one was learned; each sample then has a time ``t``, as
        for `IsotonicCalibrator`. Between two solves the served map does not change.
    every : int
        The number of samples between two solves. While the window has fewer than 4 ``every``
        samples, it is solved each time it has grown by a quarter.
    tol : float or None
        The half-width at which a solve stops, in units of the value; None: 1e-9 of the range.
    deadline : float or None
        Seconds after which a solve stops with its current bounds.
    background : bool
        Whether solves run in another process. The served map is then somewhat older.
    interpolation : {"linear", "step"}
        The values between blocks; see `Staircase`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or of the wrong kind.
    ImportError
        If the loss needs JAX (the extra ``jax``), which is not installed.

    Notes
    -----
    If a solve fails, because a derivative of the loss is not a number, there is a `RuntimeWarning`,
    and `solve` raises the error. The samples stay learned, and the previous map is still served.

    With ``background`` a process is spawned for the first solve, and again if it has died. It ends
    with `close` or with the calibrator. As with every spawned process, a script must
    keep its work under ``if __name__ == "__main__":``.

    Examples
    --------
    The map to the median of y, which three outliers do not change:

    >>> calibrator = AnytimeCalibrator("absolute", window=100)
    >>> for i in range(100):
    ...     calibrator.learn_one(score=i / 100, y=i if i % 40 else 1e6)
    >>> calibrator.predict_one(0.505)
    50.5
    """

    def __init__(
        self,
        loss: losses.LossName | losses.Loss,
        *,
        window: int | timedelta = 10_000,
        every: int = 1_000,
        tol: float | None = None,
        deadline: float | None = None,
        background: bool = False,
        interpolation: Interpolation = "linear",
    ):
        if isinstance(window, timedelta):
            check_span(window, "window")
        else:
            or_time(partial(check_count, name="window"), window, "window")
        check_count(every, "every")
        check_limits(None, tol, deadline)
        check_bool(background, "background")
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        self.loss = loss
        self.window = window
        self.every = every
        self.tol = tol
        self.deadline = deadline
        self.background = background
        self.interpolation = interpolation

        self._loss = losses.get(loss)
        if not isinstance(self._loss, losses.Absolute | losses.Pinball):
            check_jax(f"the loss {self._loss!r}")
        self.needs_time = isinstance(window, timedelta)
        self._samples: SampleRing | TimedSamples
        if isinstance(window, timedelta):
            self._samples = TimedSamples(in_seconds(window))
        else:
            self._samples = SampleRing(window)
        self._solve_at = 1  # the number of learned samples at which the next solve is due
        self._staircase: AnytimeStaircase | None = None
        self._lookup: tuple[NDArray[np.float64], ...] = ()
        solve = partial(_solve_window, self._loss, interpolation, tol, deadline)
        self._worker = Worker(solve) if background else None

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"loss": "absolute"}

    @property
    def n_samples(self) -> int:
        """How many samples are in the window."""
        return len(self._samples)

    @property
    def half_width(self) -> float:
        """The greatest distance from the served map to the best one; inf before the first solve."""
        return np.inf if self._staircase is None else self._staircase.half_width

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn a sample; O(1), plus a solve if one is due and does not run in the background.

        ``t`` is the time, if ``window`` is a timedelta: a `datetime` or seconds.

        Raises
        ------
        ValueError
            If the score is not finite, the label out of the range of the loss, or the weight not
            from 1e-60 to 1e60; nothing has changed then.
        TypeError
            If an argument is not a number.
        """
        score, y, w = as_score(score), as_number(y, "y"), as_weight(w)
        self._loss.check_labels(y)
        samples = self._samples
        if isinstance(samples, SampleRing):
            with self._mutex:
                samples.add_one(score, y, w)
                self._solve_if_due()
            return
        with self._mutex:
            seconds, kind = self._read_time(t)
            add = samples.adding(np.array([[score, y, w]]), np.array([seconds]))
            do_all(add, *self._kind_steps(kind))
            self._solve_if_due()

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> None:
        """Learn samples in the order given, with solves at the same samples as in `learn_one`."""
        self._learn_samples(scores, y, w, t, predict=False)

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the newest map's value; before the first solve, the score itself, if in range.

        Raises
        ------
        ValueError, TypeError
            If the score is not a finite number.
        """
        return float(self._predict(np.array([as_score(score)]))[0])

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the calibrated values of ``scores``, shape ``(n_samples,)``."""
        return like_given(self._predict(as_vector(scores, "scores")), scores)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in order; see `Calibrator`."""
        return like_given(self._learn_samples(scores, y, w, t, predict=True), scores)

    def _learns_all(self) -> bool:
        return type(self).predict_learn_many is AnytimeCalibrator.predict_learn_many

    def _learns_times(self) -> bool:
        return self._learns_all()

    def staircase(self) -> AnytimeStaircase:
        """Return the map that is served, with its bounds.

        Raises
        ------
        ValueError
            If no window has been solved yet.
        """
        if self._staircase is None:
            raise ValueError("`staircase` needs a solved window, got none yet")
        return self._staircase

    def solve(self) -> AnytimeStaircase:
        """Solve the window now, in this process, and serve the result.

        Raises
        ------
        ValueError
            If nothing has been learned, or as `anytime_isotonic` does.
        """
        if not len(self._samples):
            raise ValueError("`solve` needs at least one learned sample, got none")
        with self._mutex:
            self._solve()
            return self.staircase()

    def _solve(self) -> None:
        """Do what `solve` does; the lock is held."""
        settings = self._loss, self.interpolation, self.tol, self.deadline
        self._solve_at = self._samples.n_learned + self._count_to_next_solve()
        self._serve_map(_solve_window(*settings, self._samples.rows, self._staircase))

    def _describe(self) -> Description:
        stairs = self._staircase
        if stairs is None:
            nearest = self._loss.z_range.clip
            needed = "a solved window (call `solve`)" if len(self._samples) else "a learned sample"
            ends = nearest(-np.inf), nearest(np.inf)
            return unlearned(*ends, of_probabilities=False, needed=needed)
        if self.interpolation == "step":
            curve = steps(self._predict, stairs.lower[1:])
        else:
            curve = linear(self._predict, np.concatenate([stairs.lower, stairs.upper]))
        return Description(curve, None, of_probabilities=False)

    def _facts(self) -> dict[str, float]:
        return {"half-width": self.half_width}

    def _shape(self) -> Shape:
        stairs = self._staircase
        if stairs is None:
            return super()._shape()
        return Shape.of(stairs, n_samples=self.n_samples, staircase=stairs)

    def close(self) -> None:
        """End the background process, if there is one; the next solve starts another."""
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            arrays = {"samples": self._samples.rows.copy()}
            clock: Fields = {}
            if isinstance(self._samples, TimedSamples):
                arrays["times"] = self._samples.times.copy()
                clock = self._freeze_clock(self._samples.now)
            n_learned, due, stairs = self._samples.n_learned, max(self._due, 0), self._staircase
        if stairs is not None:
            arrays |= freeze_blocks(stairs)
        rounds = None if stairs is None else stairs.rounds
        return {"n_learned": n_learned, "due": due, "rounds": rounds, **clock}, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        n_learned = as_int(fields["n_learned"], "n_learned")
        due = as_int(fields["due"], "due", 0, self.every)
        n_held = None if isinstance(self.window, timedelta) else min(n_learned, self.window)
        samples = array_of(arrays, "samples", n_held, 3)
        scores, y, w = samples.T
        self._check_samples(scores, y, w)
        if fields["rounds"] is not None:
            rounds = as_int(fields["rounds"], "rounds")
            self._serve_map(thaw_blocks(arrays, self._loss.z_range, rounds, self.interpolation))
        if isinstance(self._samples, SampleRing):
            self._samples.restore(samples, n_learned)
        else:
            times, now = array_of(arrays, "times", None), self._thaw_clock(fields)
            check_held_times(times, len(samples), now, in_seconds(self.window))
            require(min(n_learned, 1) <= len(samples) <= n_learned, "samples must be those held")
            self._samples.restore(samples, times, n_learned, now)
        self._solve_at = n_learned + due

    def _learn_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Any, predict: bool
    ) -> Floats:
        """Learn samples in order; with ``predict`` return the prediction before each.

        Each step of the loop learns all samples up to the next solve.
        """
        x, labels, weights = self._check_samples(scores, y, w)
        samples = np.column_stack((x, labels, weights))
        times = self._read_times(t, len(x))
        predictions = np.empty(len(x) if predict else 0)
        begin = 0
        with self._mutex:
            while begin < len(x):
                n = min(len(x) - begin, max(self._due, 1))
                part = slice(begin, begin + n)
                if predict:
                    predictions[part] = self._predict(x[part])
                if isinstance(self._samples, SampleRing):
                    self._samples.add_many(samples[part])
                else:
                    assert times is not None
                    add = self._samples.adding(samples[part], times.seconds[part])
                    do_all(add, *self._kind_steps(times.kind))
                begin += n
                self._solve_if_due()
        return predictions

    def _solve_if_due(self) -> None:
        """Serve the map that the background process has found, and begin a solve if one is due."""
        worker = self._worker
        if worker is None:
            if self._due <= 0:
                try:
                    self._solve()
                except (ValueError, ArithmeticError, MemoryError) as error:
                    _warn_of_failure(error)
            return
        if worker.done and (outcome := worker.outcome()) is not None:
            found, failure = outcome
            if failure is None:
                self._serve_map(found)
            else:
                _warn_of_failure(failure)
        if self._due <= 0:
            # If the worker is busy or starting, try again soon, but not at each sample.
            self._solve_at = self._samples.n_learned + max(1, self.every // 16)
            if worker.ready():
                worker.submit(self._samples.rows, self._staircase)
                self._solve_at = self._samples.n_learned + self._count_to_next_solve()

    @property
    def _due(self) -> int:
        """How many samples to learn before the next solve; 0 or less if it is late."""
        return self._solve_at - self._samples.n_learned

    def _count_to_next_solve(self) -> int:
        """Return how many samples to learn before the next solve."""
        return max(1, min(self.every, self.n_samples // _EARLY))

    def _serve_map(self, stairs: AnytimeStaircase) -> None:
        """Use this map for predictions."""
        self._lookup = stairs.lower, stairs.upper, stairs.values
        self._staircase = stairs  # last, so that another thread that finds it finds its lookup

    def _predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._staircase is None:
            return np.array([self._loss.z_range.clip(score) for score in x])
        left, right, values = self._lookup
        return pav.evaluate(left, right, values, self.interpolation != "step", x)

    def _check_labels(self, y: ArrayLike) -> Floats:
        labels = as_vector(y, "y", finite=False)
        self._loss.check_labels(labels)
        return labels


def _warn_of_failure(error: Exception) -> None:
    """Warn that a solve failed: samples stay learned, and the next solve may succeed.

    Ctrl-C or a timeout is no failure: it is raised. The samples stay learned, and the previous map
    is served.
    """
    message = f"a solve failed, and the previous map is still served: {error}"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def _solve_window(
    loss: losses.Loss,
    interpolation: Interpolation,
    tol: float | None,
    deadline: float | None,
    samples: NDArray[np.float64],
    start: AnytimeStaircase | None,
) -> AnytimeStaircase:
    """Return the map of a window; also runs in the background process."""
    scores, y, w = samples.T
    return anytime_isotonic(
        scores,
        y,
        w,
        loss=loss,
        tol=tol,
        deadline=deadline,
        start=start,
        interpolation=interpolation,
    )
