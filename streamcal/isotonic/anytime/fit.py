"""Isotonic regression for any convex loss, with bounds that hold whenever one stops.

Where the best value of a block is no mean, blocks cannot be summed up, but derivatives can: the sum
of the derivatives at a number c says where the optimal map crosses c. Asking this for the middle of
an interval that holds all values, then for the middles of both halves, each for the samples that
belong there, bisects the values of all samples at once. A round costs one pass over the samples,
whatever the loss; after k rounds each value is known to within range / 2^(k+1), and the map so far
is monotone (Gokcesu & Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic
Regression under Strictly Convex Losses*, section VI).

Rounds run in one of two places with the same result: on the *host*, where JAX computes the
derivatives and a compiled loop splits the cells (`streamcal.kernels.threshold_decomposition`), or
as one JAX program on a *device* (`streamcal.calibration.anytime_device`). Quantiles are exact, for
their best values are labels, and always found on the host.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._validation import (
    as_number,
    as_vector,
    as_weights,
    check_choice,
    check_same_length,
    check_window,
)
from streamcal.calibration.staircase import INTERPOLATIONS, OUTSIDE, Staircase, frozen
from streamcal.kernels import pav
from streamcal.kernels import threshold_decomposition as kernels

Floats = NDArray[np.float64]

BACKENDS = ("auto", "host", "device")
_RELATIVE = 1e-9  # half-width at which a solve ends where nothing else is said
_INSIDE = 1.0 - 1e-6  # of a half-width, so that rounding does not leave it open
_AROUND = 1e-3  # of the range: how far from a guess its derivatives are asked for at first
_STEPS = 6  # by which a guess is improved at most
_FEW = 32  # the part of the samples that may be left to rounds
_LEAST = 1 << 12  # samples worth going on with fewer


@dataclass(frozen=True, eq=False, repr=False)
class AnytimeStaircase(Staircase):
    """A staircase together with what is known about its values.

    Parameters
    ----------
    floors, ceilings : ndarray of shape (n_blocks,)
        Bounds: there is an optimal map whose value lies between them in each block. ``values`` are
        the middles; where one of the two is infinite, the other.
    rounds : int
        How many rounds have been run.

    The other parameters are those of `Staircase`.
    """

    floors: Floats = field(kw_only=True)
    ceilings: Floats = field(kw_only=True)
    rounds: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("floors", "ceilings"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
            if len(getattr(self, name)) != len(self):
                raise ValueError(f"`{name}` must have one value per block ({len(self)})")

    @property
    def half_width(self) -> float:
        """The greatest distance from a value to its bounds: what is certified for all blocks."""
        return float(np.max(0.5 * self.ceilings - 0.5 * self.floors))

    def __repr__(self) -> str:
        return f"Anytime{super().__repr__()[:-1]}, half_width={self.half_width:.3g})"


def anytime_isotonic(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    loss: str | losses.Loss,
    offset: ArrayLike | None = None,
    lower: float | None = None,
    upper: float | None = None,
    rounds: int | None = None,
    tol: float | None = None,
    deadline: float | None = None,
    start: Staircase | None = None,
    interpolation: str = "linear",
    outside: str = "clip",
    backend: str = "auto",
) -> AnytimeStaircase:
    """Return the non-decreasing map of scores that minimises a convex loss, and bounds on it.

    Samples with equal scores have one value. A solve ends after ``rounds``, at the half-width
    ``tol``, at the ``deadline``, or where doubles end, whichever comes first. If none of these is
    given it ends at a half-width of 1e-9 of the range, or of the value itself where the range is
    infinite. O(n_samples) a round.

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
        What is added to the map's value before the loss is taken: l(z + offset, y). The loss must
        be defined for all values.
    lower, upper : float, optional
        The range of the values; the best map within it is found. By default it is that of the
        labels if the loss is least where value and label agree, else that of the loss. Ends that
        are infinite are found by probes of 0, ±1, ±2, ±4, …
    rounds : int, optional
        How many rounds to run at most.
    tol : float, optional
        The half-width at which to stop, in units of the value; positive.
    deadline : float, optional
        Seconds from now after which no round but the first is begun; positive.
    start : Staircase, optional
        A map that should be close, such as that of most of these samples. Values are then sought
        near its own, in fewer rounds; bounds are as certain as without it. It is improved and
        verified first: four evaluations or more, also beyond a deadline, which are not counted as
        rounds. It is not used on a device, for quantiles or where the range is infinite.
    interpolation, outside : str
        See `Staircase`.
    backend : {"auto", "host", "device"}
        Where to run; "auto" is the host if JAX finds no accelerator.

    Returns
    -------
    staircase : AnytimeStaircase
        Blocks that are not told apart yet are one.

    Raises
    ------
    ValueError
        If there are no samples, lengths differ, an argument is out of its range, or the loss has a
        derivative that is not a number.
    TypeError
        If the input is not numbers, or JAX cannot differentiate the loss.

    Notes
    -----
    Of several best maps the one found depends on the derivative JAX chooses; for `Pinball` and
    `Absolute` it is that of their ``ties``, and weights balance that do so up to a share of 1e-12.

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
    limits = _limits(rounds, tol, deadline)
    run = _begin(
        scores, y, w, loss, offset, (lower, upper), limits, start, interpolation, outside, backend
    )
    while not run.done():
        run.advance(run.at_once())
    return run.staircase()


def anytime_isotonic_refinements(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    loss: str | losses.Loss,
    offset: ArrayLike | None = None,
    lower: float | None = None,
    upper: float | None = None,
    start: Staircase | None = None,
    interpolation: str = "linear",
    outside: str = "clip",
    backend: str = "auto",
) -> Iterator[AnytimeStaircase]:
    """Yield the map of `anytime_isotonic` after each round, for a caller who stops when it likes.

    The first is what is known before any round; the last, if the caller gets there, is exact up to
    the last double. Parameters and errors are those of `anytime_isotonic`.

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
    run = _begin(
        scores,
        y,
        w,
        loss,
        offset,
        (lower, upper),
        _Limits(None, 0.0, None),
        start,
        interpolation,
        outside,
        backend,
    )
    yield run.staircase()
    while not run.done():
        run.advance(1)
        yield run.staircase()


# ------------------------------------------------------------------------------ input


@dataclass(frozen=True)
class _Limits:
    """When to stop: after so many rounds, at a half-width (None: relative), at a moment."""

    rounds: int | None
    tol: float | None
    until: float | None


def check_limits(rounds: int | None, tol: float | None, deadline: float | None) -> None:
    """Raise ``ValueError`` or ``TypeError`` unless each is positive or None."""
    check_window(rounds, "rounds")
    for name, value in (("tol", tol), ("deadline", deadline)):
        if value is not None and not 0.0 < as_number(value, name) < math.inf:
            raise ValueError(f"`{name}` must be a positive finite number or None, got {value!r}")


def _limits(rounds: int | None, tol: float | None, deadline: float | None) -> _Limits:
    check_limits(rounds, tol, deadline)
    if tol is None and (rounds is not None or deadline is not None):
        tol = 0.0
    return _Limits(rounds, tol, None if deadline is None else time.monotonic() + deadline)


@dataclass(frozen=True)
class Problem:
    """What a backend needs to know: samples in score order, where cells may end, and rules."""

    loss: losses.Loss
    y: Floats
    w: Floats
    offset: Floats | None
    ends: NDArray[np.uint8]  # 1 at the last sample of each score
    low: float
    high: float
    tolerance: float  # the half-width to stop at
    relative: float  # the same, as a share of the value
    start: tuple[NDArray[np.int64], Floats] | None  # blocks of a map that should be close


class Backend(Protocol):
    """Runs rounds on a problem."""

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if nothing is open any more; return how many."""

    def open(self) -> bool:
        """Whether a round would do anything."""

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""


def _begin(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None,
    loss: str | losses.Loss,
    offset: ArrayLike | None,
    ends: tuple[float | None, float | None],
    limits: _Limits,
    start: Staircase | None,
    interpolation: str,
    outside: str,
    backend: str,
) -> "_Run":
    """Check the input, sort it, and make what runs."""
    found = losses.get(loss)
    check_choice(interpolation, "interpolation", INTERPOLATIONS)
    check_choice(outside, "outside", OUTSIDE)
    check_choice(backend, "backend", BACKENDS)
    if start is not None and not isinstance(start, Staircase):
        raise TypeError(f"`start` must be a Staircase or None, got {start!r}")
    x = as_vector(scores, "scores", finite=False)
    labels = as_vector(y, "y")
    check_same_length(labels, len(x), "y")
    found.check_labels(labels)
    weights = as_weights(w, len(x))
    shifts = None if offset is None else as_vector(offset, "offset")
    if shifts is not None:
        check_same_length(shifts, len(x), "offset")
    if not len(x):
        raise ValueError("`scores` must hold at least one score, got none")
    if shifts is not None:
        if not math.isinf(found.z_range.low) or not math.isinf(found.z_range.high):
            raise ValueError(
                f"`offset` needs a loss that is defined for all values, got {found.name}, whose"
                f" values lie in {found.z_range}"
            )
        if isinstance(found, losses.Pinball | losses.Absolute):  # l(z + o, y) is l(z, y - o)
            labels, shifts = as_vector(labels - shifts, "y"), None
    low, high = _range(found, labels if shifts is None else labels - shifts, *ends)

    order = pav.order_of(x)
    if order == pav.UNSORTED:
        by_score = np.argsort(as_vector(x, "scores"), kind="stable")
        x, labels, weights = x[by_score], labels[by_score], weights[by_score]
        shifts = None if shifts is None else shifts[by_score]
    last = np.ones(len(x), np.uint8)
    if order != pav.INCREASING:
        np.not_equal(x[:-1], x[1:], out=last[:-1])

    tolerance, relative = limits.tol or 0.0, 0.0
    if limits.tol is None and math.isinf(high - low):
        relative = _RELATIVE
    elif limits.tol is None:
        tolerance = _RELATIVE * (high - low)
    blocks = None
    if start is not None and high - low < math.inf:
        blocks = _blocks_at(start, x)
    rules = tolerance, relative
    problem = Problem(found, labels, weights, shifts, last, low, high, *rules, blocks)
    return _Run(_backend(backend, problem), x, weights, limits, interpolation, outside)


def _blocks_at(start: Staircase, x: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return where the steps of a staircase begin among sorted scores, and their values."""
    begins = np.append(0, np.searchsorted(x, start.lower[1:]))
    used = np.diff(begins, append=len(x)) > 0
    return begins[used], start.values[used]


def _range(
    loss: losses.Loss, minimizers: Floats, lower: float | None, upper: float | None
) -> tuple[float, float]:
    """Return the range of the values: what was asked for, or what is known of the loss."""
    low, high = loss.z_range.low, loss.z_range.high
    for name, value in (("lower", lower), ("upper", upper)):
        if value is not None and not low <= as_number(value, name) <= high:
            raise ValueError(
                f"`{name}` must lie in {loss.z_range} for the {loss.name} loss, got {value!r}"
            )
    if lower == math.inf or upper == -math.inf:
        raise ValueError(
            "`lower` and `upper` must leave finite values between them,"
            f" got {lower!r} and {upper!r}"
        )
    if lower is not None and upper is not None and not lower < upper:
        raise ValueError(f"`lower` must be less than `upper`, got {lower!r} and {upper!r}")
    if loss.minimized_by_label:
        low, high = float(minimizers.min()), float(minimizers.max())
    low = low if lower is None else float(lower)
    high = high if upper is None else float(upper)
    if low > high:  # all of the labels lie beyond the one bound that was given
        low = high = low if lower is not None else high
    return low, high


def _backend(name: str, problem: Problem) -> Backend:
    if isinstance(problem.loss, losses.Pinball | losses.Absolute):
        return Quantiles(problem)
    if name == "auto":
        import jax

        name = "host" if jax.default_backend() == "cpu" else "device"
    if name == "host":
        return Host(problem)
    from streamcal.calibration.anytime_device import Device

    return Device(problem)


# ------------------------------------------------------------------------------ rounds


class Host:
    """Rounds by derivatives of JAX's and one compiled pass over all samples."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self._samples = np.arange(len(problem.y))  # those at hand: all, later those of open cells
        self._slopes = np.empty(len(problem.y))
        self._derivatives = _Derivatives(problem.loss, problem.y, problem.w)
        self._n_rounds = 0
        if problem.start is None:
            ends = problem.low, problem.high, problem.tolerance, problem.relative
            self._cells = kernels.Cells(problem.ends, problem.offset, *ends)
        else:
            self._cells = self._verified(problem.start)
            self._put_aside()

    def _verified(self, start: tuple[NDArray[np.int64], Floats]) -> kernels.Cells:
        """Return cells around the values of a map that is improved and verified first."""
        problem = self._problem
        low, high = problem.low, problem.high
        near = max(_INSIDE * problem.tolerance, _INSIDE * _RELATIVE * (high - low))
        far = max(near, _AROUND * (high - low))
        guess = kernels.Guess(*start, problem.ends, problem.offset, low, high, far)
        self._derivatives(guess.z, guess.sides)
        for _ in range(_STEPS):
            if not guess.improve(near):
                break
            self._derivatives(guess.z, guess.sides)
            if guess.n_wrong() * _FEW <= len(problem.y):
                break
        while len(again := guess.join()):
            z, sides = kernels.padded(guess.z[:, again]), np.empty((2, len(again)))
            _Derivatives(problem.loss, problem.y[again], problem.w[again])(z, sides)
            guess.sides[:, again] = sides
        return guess.cells(problem.tolerance, problem.relative)

    def open(self) -> bool:
        """Whether a round would do anything."""
        return self._cells.n_open > 0

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if nothing is open any more; return how many."""
        before = self._n_rounds
        while self.open() and self._n_rounds < before + n_rounds:
            self._round()
        return self._n_rounds - before

    def _round(self) -> None:
        z, slopes = self._cells.aims(), self._slopes
        self._derivatives(z, slopes[None])
        if (bad := self._cells.split(slopes)) >= 0:
            y, w = self._problem.y[self._samples], self._problem.w[self._samples]
            raise not_a_number(self._problem.loss, slopes, z[0], y, w, bad)
        self._n_rounds += 1
        self._put_aside()

    def _put_aside(self) -> None:
        """Go on with the samples of open cells alone, where that saves work."""
        n = len(self._samples)
        if 0 < self._cells.n_open < n // 4 and n >= _LEAST:
            self._samples = again = self._cells.put_aside()
            self._slopes = np.empty(len(again))
            problem = self._problem
            self._derivatives = _Derivatives(problem.loss, problem.y[again], problem.w[again])

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""
        return self._cells.bounds()


class _Derivatives:
    """The weighted derivatives of samples, whose labels and weights stay on JAX's side."""

    def __init__(self, loss: losses.Loss, y: Floats, w: Floats):
        import jax

        from streamcal.losses._derivative import weighted_derivative

        self._program = weighted_derivative(loss)
        room = kernels.room_for(len(y))
        begins = range(0, room, kernels.CHUNK)
        self._chunks = [slice(begin, min(begin + kernels.CHUNK, room)) for begin in begins]
        with jax.enable_x64(True):
            columns = kernels.padded((y, w))
            self._columns = [jax.device_put([c[part] for part in self._chunks]) for c in columns]

    def __call__(self, z: Floats, out: Floats) -> None:
        """Write the derivatives at each row of ``z``, which is padded, to that of ``out``."""
        import jax

        with jax.enable_x64(True):  # all are under way before the first is waited for
            found = [
                [self._program(row[chunk], y, w) for chunk, y, w in self._samples()] for row in z
            ]
        for parts, row in zip(found, out, strict=True):
            for part, chunk in zip(parts, self._chunks, strict=True):
                own = row[chunk]
                own[:] = np.asarray(part)[: len(own)]

    def _samples(self) -> Iterator[tuple[slice, Any, Any]]:
        return zip(self._chunks, *self._columns, strict=True)


def not_a_number(
    loss: losses.Loss, slopes: Floats, z: Floats, y: Floats, w: Floats, begin: int
) -> ValueError:
    """Return the error for a derivative that is NaN, or for infinite ones that cancel."""
    nan = np.isnan(slopes[begin:])
    at = begin + int(np.argmax(nan if nan.any() else np.isinf(slopes[begin:])))
    return ValueError(
        f"`loss` must have a derivative that is a number, got {slopes[at]} from the {loss.name}"
        f" loss at z = {z[at]}, y = {y[at]}, w = {w[at]}"
    )


class Quantiles:
    """Rounds for a quantile: compiled passes that compare labels, without derivatives."""

    def __init__(self, problem: Problem):
        assert isinstance(problem.loss, losses.Pinball | losses.Absolute)
        self._problem = problem
        self._ties = problem.loss.ties
        self._tau = getattr(problem.loss, "tau", 0.5)
        greatest = self._ties == "upper"
        self._cells = kernels.Quantiles(problem.y, problem.w, problem.ends, self._tau, greatest)

    def open(self) -> bool:
        """Whether a round would do anything."""
        return self._cells.n_open > 0

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if nothing is open any more; return how many."""
        return self._cells.run(n_rounds)

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""
        problem = self._problem
        starts, low, high = self._cells.bounds()
        if self._ties == "midpoint" and not self.open():
            high = kernels.greatest_quantiles(problem.y, problem.w, self._tau, starts, low)
            low = high = 0.5 * low + 0.5 * high
        ends = problem.low, problem.high
        return starts, low.clip(*ends), high.clip(*ends)


def _values(low: Floats, high: Floats) -> Floats:
    """Return the middles of bounds; where one is infinite the other, where both are 0."""
    low, high = (
        np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0)),
        np.where(np.isfinite(high), high, np.where(np.isfinite(low), low, 0.0)),
    )
    return np.asarray(0.5 * low + 0.5 * high)


class _Run:
    """A backend at work, when it is to stop, and how its answer is to be shown."""

    def __init__(
        self,
        backend: Backend,
        x: Floats,
        w: Floats,
        limits: _Limits,
        interpolation: str,
        outside: str,
    ):
        self._backend = backend
        self._x = x
        self._w = w
        self._limits = limits
        self._interpolation = interpolation
        self._outside = outside
        self._n_rounds = 0

    def done(self) -> bool:
        limits = self._limits
        if not self._backend.open() or self._n_rounds == limits.rounds:
            return True
        if limits.until is not None and self._n_rounds and time.monotonic() >= limits.until:
            return True
        if limits.tol and isinstance(self._backend, Quantiles):
            _, low, high = self._backend.cells()
            return bool(np.max(high - low) <= 2.0 * limits.tol)
        return False

    def at_once(self) -> int:
        """Return how many rounds may be run without looking up."""
        limits = self._limits
        if limits.until is not None or (limits.tol and isinstance(self._backend, Quantiles)):
            return 1
        return 64 if limits.rounds is None else limits.rounds - self._n_rounds

    def advance(self, n_rounds: int) -> None:
        self._n_rounds += self._backend.advance(n_rounds)

    def staircase(self) -> AnytimeStaircase:
        starts, low, high = self._backend.cells()
        values = _values(low, high)
        fresh = np.ones(len(starts), np.bool_)
        fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        starts, low, high, values = starts[fresh], low[fresh], high[fresh], values[fresh]
        weights = np.add.reduceat(self._w, starts)
        lower, upper = self._x[starts], self._x[np.append(starts[1:], len(self._x)) - 1]
        with np.errstate(over="ignore", invalid="ignore"):
            centers = np.add.reduceat(self._w * self._x, starts) / weights
        centers = np.where(np.isfinite(centers), centers, 0.5 * lower + 0.5 * upper)
        return AnytimeStaircase(
            lower,
            upper,
            values,
            weights,
            centers.clip(lower, upper),
            self._interpolation,
            self._outside,
            floors=low,
            ceilings=high,
            rounds=self._n_rounds,
        )
