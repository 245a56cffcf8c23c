"""The functions that solve: `anytime_isotonic`, and its maps after each round."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from streamcal import losses
from streamcal._extras import check_jax
from streamcal._validation import check_choice, check_count, check_within
from streamcal.isotonic.anytime.host import Host
from streamcal.isotonic.anytime.problem import Backend, Problem, make_problem
from streamcal.isotonic.anytime.quantiles import Quantiles
from streamcal.isotonic.anytime.staircase import AnytimeStaircase, from_cells
from streamcal.isotonic.staircase import INTERPOLATIONS, OUTSIDE, Interpolation, Outside, Staircase

BackendName = Literal["auto", "host", "device"]
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
_MOST_ROUNDS_AT_ONCE = 64


def anytime_isotonic(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    loss: losses.LossName | losses.Loss,
    offset: ArrayLike | None = None,
    y_min: float | None = None,
    y_max: float | None = None,
    rounds: int | None = None,
    tol: float | None = None,
    deadline: float | None = None,
    start: Staircase | None = None,
    interpolation: Interpolation = "linear",
    outside: Outside = "clip",
    backend: BackendName = "auto",
) -> AnytimeStaircase:
    """Return the non-decreasing map of scores that minimises a convex loss, and bounds on it.

    Samples with equal scores have one value. A solve ends after ``rounds``, at the half-width
    ``tol``, at the ``deadline``, or when bounds are adjacent floats, whichever comes first. If none
    of these is given, it ends at a half-width of 1e-9 of the range, or of the value itself if the
    range is infinite. Each round is O(n_samples).

    Parameters
    ----------
    scores : array_like of shape (n_samples,)
        Finite, in any order.
    y : array_like of shape (n_samples,)
        Labels, in the range of the loss.
    w : array_like of shape (n_samples,), optional
        Weights from 1e-60 to 1e60; ones by default.
    loss : str or Loss
        What to minimise. JAX must be able to differentiate it.
    offset : array_like of shape (n_samples,), optional
        Added to the map's value in the loss: l(z + offset, y). The loss must be defined for all
        values.
    y_min, y_max : float, optional
        The range of the values; the result is the best map in this range. By default it is the
        range of the labels if the loss is least where value and label agree, else that of the loss.
        Infinite ends are replaced by a search over 0, ±1, ±2, ±4, …
    rounds : int, optional
        The greatest number of rounds.
    tol : float, optional
        The half-width at which to stop, in units of the value; positive.
    deadline : float, optional
        Seconds from now after which no round is started, except for the first; positive.
    start : Staircase, optional
        A warm start: a map that should be close, such as that of most of these samples. The search
        starts near its values and needs fewer rounds; the bounds are certified as without it. It is
        improved and verified first, by four evaluations or more, which are not counted as rounds
        and may exceed a deadline. It is not used on a device, for quantiles, or if the range is
        infinite.
    interpolation, outside : str
        See `Staircase`.
    backend : {"auto", "host", "device"}
        Where to run; "auto" is the host if JAX finds no accelerator.

    Returns
    -------
    staircase : AnytimeStaircase
        Blocks whose bounds are still equal are one block.

    Raises
    ------
    ValueError
        If there are no samples, lengths differ, an argument is out of its range, or the loss has a
        derivative that is not a number.
    TypeError
        If the input is not numbers, or JAX cannot differentiate the loss.

    Notes
    -----
    If several maps are best, the result depends on the derivative that JAX chooses; for `Pinball`
    and `Absolute` it is defined by their ``ties``. Sums of weights that differ by a share of 1e-12
    count as equal there.

    Examples
    --------
    >>> from streamcal import losses
    >>> stairs = anytime_isotonic(range(7), [8, 4, 8, 2, 2, 0, 8], loss=losses.Expectile(tau=0.8))
    >>> stairs
    AnytimeStaircase(n_blocks=2, range=[6.00000000..., 7.99999999...], half_width=7.45e-09)
    >>> rough = anytime_isotonic(range(7), [8, 4, 8, 2, 2, 0, 8], loss="log-cosh", rounds=3)
    >>> rough.floors, rough.ceilings
    (array([3., 7.]), array([4., 8.]))
    """
    limits = _make_limits(rounds, tol, deadline)
    _check_choices(interpolation, outside, backend)
    problem = make_problem(
        scores, y, w, loss, offset=offset, y_min=y_min, y_max=y_max, start=start, tol=limits.tol
    )
    solve = _Solve(problem, backend, limits, interpolation, outside)
    while not solve.done():
        solve.advance(solve.n_rounds_at_once())
    return solve.staircase()


def anytime_isotonic_refinements(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    loss: losses.LossName | losses.Loss,
    offset: ArrayLike | None = None,
    y_min: float | None = None,
    y_max: float | None = None,
    start: Staircase | None = None,
    interpolation: Interpolation = "linear",
    outside: Outside = "clip",
    backend: BackendName = "auto",
) -> Iterator[AnytimeStaircase]:
    """Yield the map of `anytime_isotonic` after each round, so that the caller can stop early.

    The first map has the bounds before any round; the last one, if the caller continues that far,
    is exact up to adjacent floats. Parameters and errors are those of `anytime_isotonic`.

    Examples
    --------
    >>> for stairs in anytime_isotonic_refinements([1, 2], [0.0, 1.0], loss="squared"):
    ...     print(stairs.floors, stairs.ceilings)
    ...     if stairs.half_width < 0.2:
    ...         break
    [0.] [1.]
    [0.  0.5] [0.5 1. ]
    [0.   0.75] [0.25 1.  ]
    """
    _check_choices(interpolation, outside, backend)
    problem = make_problem(
        scores, y, w, loss, offset=offset, y_min=y_min, y_max=y_max, start=start, tol=0.0
    )
    solve = _Solve(problem, backend, _Limits(None, 0.0, None), interpolation, outside)
    yield solve.staircase()
    while not solve.done():
        solve.advance(1)
        yield solve.staircase()


@dataclass(frozen=True)
class _Limits:
    """When to stop: a number of rounds, a half-width (None: the default), a point in time."""

    rounds: int | None
    tol: float | None
    until: float | None


def check_limits(rounds: int | None, tol: float | None, deadline: float | None) -> None:
    """Raise ``ValueError`` or ``TypeError`` unless each is positive or None."""
    check_count(rounds, "rounds", optional=True)
    for name, value in (("tol", tol), ("deadline", deadline)):
        check_within(value, name, "(0, inf) or None")


def _make_limits(rounds: int | None, tol: float | None, deadline: float | None) -> _Limits:
    check_limits(rounds, tol, deadline)
    if tol is None and (rounds is not None or deadline is not None):
        tol = 0.0
    return _Limits(rounds, tol, None if deadline is None else time.monotonic() + deadline)


def _check_choices(interpolation: Interpolation, outside: Outside, backend: BackendName) -> None:
    check_choice(interpolation, "interpolation", INTERPOLATIONS)
    check_choice(outside, "outside", OUTSIDE)
    check_choice(backend, "backend", BACKENDS)


def _make_backend(name: str, problem: Problem) -> Backend:
    """Return what runs the rounds; JAX is imported only where it is needed."""
    if isinstance(problem.loss, losses.Pinball | losses.Absolute):
        return Quantiles(problem)
    check_jax(f"the loss {problem.loss!r}")
    if name == "auto":
        from streamcal._extras import jax

        name = "host" if jax.default_backend() == "cpu" else "device"
    if name == "host":
        return Host(problem)
    from streamcal.isotonic.anytime.device import Device

    return Device(problem)


class _Solve:
    """A running backend, and its limits."""

    def __init__(
        self,
        problem: Problem,
        backend: BackendName,
        limits: _Limits,
        interpolation: Interpolation,
        outside: Outside,
    ):
        self._problem = problem
        self._backend = _make_backend(backend, problem)
        self._limits = limits
        self._options = {"interpolation": interpolation, "outside": outside}
        self._n_rounds = 0
        # The rounds of the other backends close cells that are narrow enough.
        self._check_width = bool(limits.tol) and isinstance(self._backend, Quantiles)

    def done(self) -> bool:
        limits = self._limits
        if not self._backend.is_open() or self._n_rounds == limits.rounds:
            return True
        if limits.until is not None and self._n_rounds and time.monotonic() >= limits.until:
            return True
        if self._check_width:
            _, low, high = self._backend.cells()
            return bool(np.max(high - low) <= 2.0 * (limits.tol or 0.0))
        return False

    def n_rounds_at_once(self) -> int:
        """Return how many rounds may be run before the limits are checked again."""
        if self._limits.until is not None or self._check_width:
            return 1
        rounds = self._limits.rounds
        return _MOST_ROUNDS_AT_ONCE if rounds is None else rounds - self._n_rounds

    def advance(self, n_rounds: int) -> None:
        self._n_rounds += self._backend.advance(n_rounds)

    def staircase(self) -> AnytimeStaircase:
        cells = self._backend.cells()
        return from_cells(self._problem, cells, rounds=self._n_rounds, **self._options)
