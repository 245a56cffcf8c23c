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
_PARTS = 32  # cells that a guess is cut into at first
_LEAST = 1 << 12  # samples worth going on with fewer
_CHUNK = 1 << 16  # samples in one call of a derivative: its arrays stay in cache


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
        near its own, in fewer rounds; bounds are as certain as without it, for it is verified first
        (two evaluations or more, also beyond a deadline). It is not used on a device, for quantiles
        or where the range is infinite.
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
    offset: Floats  # or empty
    ends: NDArray[np.uint8]  # 1 at the last sample of each score
    low: float
    high: float
    rules: Floats
    guess: Floats  # or empty


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
    shifts = np.empty(0) if offset is None else as_vector(offset, "offset")
    if offset is not None:
        check_same_length(shifts, len(x), "offset")
    if not len(x):
        raise ValueError("`scores` must hold at least one score, got none")
    if len(shifts):
        if not math.isinf(found.z_range.low) or not math.isinf(found.z_range.high):
            raise ValueError(
                f"`offset` needs a loss that is defined for all values, got {found.name}, whose"
                f" values lie in {found.z_range}"
            )
        if isinstance(found, losses.Pinball | losses.Absolute):  # l(z + o, y) is l(z, y - o)
            labels, shifts = as_vector(labels - shifts, "y"), shifts[:0]
    low, high = _range(found, labels - shifts if len(shifts) else labels, *ends)

    order = pav.order_of(x)
    if order == pav.UNSORTED:
        by_score = np.argsort(as_vector(x, "scores"), kind="stable")
        x, labels, weights = x[by_score], labels[by_score], weights[by_score]
        shifts = shifts[by_score] if len(shifts) else shifts
    last = np.ones(len(x), np.uint8)
    if order != pav.INCREASING:
        np.not_equal(x[:-1], x[1:], out=last[:-1])

    rules = np.zeros(kernels.RULES)
    if limits.tol is not None:
        rules[kernels.TOLERANCE] = limits.tol
    elif math.isinf(high - low):
        rules[kernels.RELATIVE] = _RELATIVE
    else:
        rules[kernels.TOLERANCE] = _RELATIVE * (high - low)
    guess = np.empty(0)
    if start is not None:
        guess = start(x, interpolation="step", outside="clip")
    problem = Problem(found, labels, weights, shifts, last, low, high, rules, guess)
    return _Run(_backend(backend, problem), x, weights, limits, interpolation, outside)


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
    """Rounds by one derivative call per 65,536 samples and one compiled pass over all of them."""

    def __init__(self, problem: Problem):
        from streamcal.losses._derivative import weighted_derivative

        self._problem = problem
        self._program = weighted_derivative(problem.loss)
        self._n_rounds = 0
        self._load(np.arange(len(problem.y)))
        self._starts = np.array([0, len(problem.y)])
        self._cells = np.full((1, kernels.COLUMNS), np.nan)
        self._cells[0, : kernels.HIGH + 1] = problem.low, problem.high
        self._sides = np.empty((2, 0))
        # Settled cells that have been put aside: first samples, and rows of two bounds.
        self._aside: list[tuple[NDArray[np.int64], Floats]] = []
        if len(problem.guess) and problem.high - problem.low < math.inf:
            self._adopt(problem.guess)
        self._report = np.zeros(kernels.REPORT, np.int64)
        self._aim()

    def _load(self, samples: NDArray[np.int64]) -> None:
        """Take up samples: all of the problem at first, later those of cells that are open."""
        import jax

        from streamcal.losses._derivative import padded

        problem, n = self._problem, len(samples)
        whole = n == len(problem.y)
        y, w, self._offset = (
            part if whole or not len(part) else part[samples]
            for part in (problem.y, problem.w, problem.offset)
        )
        self._ends = problem.ends if whole else problem.ends[samples]
        self._samples = samples
        self._slopes = np.empty(n)
        room = n // _CHUNK * _CHUNK + (padded(n % _CHUNK) if n % _CHUNK else 0)
        self._z = np.zeros(room)
        self._chunks: list[tuple[slice, slice, Any, Any]] = []
        with jax.enable_x64(True):
            for begin in range(0, n, _CHUNK):
                stop, end = min(begin + _CHUNK, n), min(begin + _CHUNK, room)
                pad = (0, end - stop)
                columns = (
                    jax.device_put(np.pad(part[begin:stop], pad, mode="edge")) for part in (y, w)
                )
                self._chunks.append((slice(begin, stop), slice(begin, end), *columns))

    def _adopt(self, guess: Floats) -> None:
        """Begin with cells cut where a guess rises, as far as derivatives at their bounds allow."""
        guess = guess.clip(self._problem.low, self._problem.high)
        rises = np.diff(guess)  # within equal scores it does not
        firsts = np.unique(np.linspace(0, len(rises), _PARTS + 1).astype(np.int64)[:-1])
        parts = np.split(rises, firsts[1:]) if len(rises) else []
        cuts = np.array(
            [first + part.argmax() for first, part in zip(firsts, parts, strict=False)], np.int64
        )
        values = 0.5 * guess[cuts] + 0.5 * guess[cuts + 1]
        good = (rises[cuts] > 0.0) & (self._problem.low < values) & (values < self._problem.high)
        cuts, values = cuts[good], values[good]
        self._starts = np.r_[0, cuts + 1, len(guess)]
        self._cells = np.full((len(cuts) + 1, kernels.COLUMNS), np.nan)
        self._cells[:, kernels.LOW] = np.r_[self._problem.low, values]
        self._cells[:, kernels.HIGH] = np.r_[values, self._problem.high]
        self._sides = np.empty((2, len(guess)))
        while True:
            n_cells = len(self._cells)
            for side, bound in zip(self._sides, (kernels.LOW, kernels.HIGH), strict=True):
                z = np.repeat(self._cells[:, bound], np.diff(self._starts))
                self._z[: len(z)] = z + self._offset if len(self._offset) else z
                self._evaluate(side)
            left = kernels.join_all(self._cells, self._starts, n_cells, self._sides, self._ends)
            self._cells, self._starts = self._cells[:left], self._starts[: left + 1]
            if left == n_cells:
                return

    def open(self) -> bool:
        """Whether a round would do anything."""
        return bool(self._report[kernels.N_OPEN])

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if nothing is open any more; return how many."""
        before = self._n_rounds
        while self.open() and self._n_rounds < before + n_rounds:
            self._round()
        return self._n_rounds - before

    def _aim(self) -> None:
        kernels.aim_all(
            self._cells,
            self._starts,
            len(self._cells),
            self._problem.rules,
            self._offset,
            self._z,
            self._report,
        )

    def _evaluate(self, out: Floats) -> None:
        """Write the weighted derivatives at all of ``z``."""
        import jax

        with jax.enable_x64(True):
            parts = [self._program(self._z[wide], y, w) for _, wide, y, w in self._chunks]
        for (narrow, _, _, _), part in zip(self._chunks, parts, strict=True):
            out[narrow] = np.asarray(part)[: narrow.stop - narrow.start]

    def _round(self) -> None:
        self._evaluate(self._slopes)
        n_cells = len(self._cells)
        room = min(3 * n_cells, len(self._slopes))
        cells, starts = np.empty((room, kernels.COLUMNS)), np.empty(room + 1, np.int64)
        kernels.split_all(
            self._cells,
            self._starts,
            n_cells,
            self._problem.rules,
            self._offset,
            self._slopes,
            self._sides,
            self._ends,
            self._z,
            cells,
            starts,
            self._report,
        )
        if (bad := int(self._report[kernels.BAD])) >= 0:
            y, w = self._problem.y[self._samples], self._problem.w[self._samples]
            raise not_a_number(self._problem.loss, self._slopes, self._z, y, w, bad)
        n_cells = int(self._report[kernels.N_CELLS])
        self._cells, self._starts = cells[:n_cells], starts[: n_cells + 1]
        self._n_rounds += 1
        if 0 < self._report[kernels.N_OPEN] < len(self._slopes) // 4 >= _LEAST // 4:
            self._put_aside()

    def _put_aside(self) -> None:
        """Go on with the samples of open cells alone."""
        open_cells = np.empty(len(self._cells), np.bool_)
        counts = np.diff(self._starts)
        kernels.which_are_open(self._cells, self._problem.rules, open_cells)
        self._aside.append(
            (
                self._samples[self._starts[:-1][~open_cells]],
                self._cells[~open_cells, : kernels.HIGH + 1],
            )
        )
        stay = np.repeat(open_cells, counts)
        if self._sides.shape[1]:
            self._sides = np.ascontiguousarray(self._sides[:, stay])
        self._load(self._samples[stay])
        self._cells = np.ascontiguousarray(self._cells[open_cells])
        self._starts = np.append(0, np.cumsum(counts[open_cells]))
        self._aim()

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""
        here = self._samples[self._starts[:-1]], self._cells[:, : kernels.HIGH + 1]
        starts, bounds = zip(*self._aside, here, strict=True)
        first, rows = np.concatenate(starts), np.concatenate(bounds)
        order = np.argsort(first)
        low, high = np.ascontiguousarray(rows[order].T)
        return first[order], low, high


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
        low, high = float(problem.y.min()), float(problem.y.max())
        self._bounds, self._starts = np.array([[low, high]]), np.array([0, len(problem.y)])
        self._report = np.array([1, low < high, 0])

    def open(self) -> bool:
        """Whether a round would do anything."""
        return bool(self._report[kernels.N_OPEN])

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if nothing is open any more; return how many."""
        done = 0
        while self.open() and done < n_rounds:
            n_cells = len(self._bounds)
            room = max(64, 8 * n_cells)
            cells, starts = np.empty((2, room, 2)), np.empty((2, room + 1), np.int64)
            cells[0, :n_cells], starts[0, : n_cells + 1] = self._bounds, self._starts
            kernels.split_quantiles(
                self._problem.y,
                self._problem.w,
                self._problem.ends,
                self._tau,
                self._ties == "upper",
                n_rounds - done,
                cells,
                starts,
                self._report,
            )
            n_cells, run = int(self._report[kernels.N_CELLS]), int(self._report[kernels.N_ROUNDS])
            self._bounds = cells[run % 2, :n_cells]
            self._starts = starts[run % 2, : n_cells + 1]
            done += run
        return done

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""
        problem = self._problem
        low, high = np.ascontiguousarray(self._bounds.T)
        if self._ties == "midpoint" and not self.open():
            kernels.raise_quantiles(problem.y, problem.w, self._tau, self._starts, low, high)
            low = high = 0.5 * low + 0.5 * high
        ends = problem.low, problem.high
        return self._starts[:-1], low.clip(*ends), high.clip(*ends)


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
