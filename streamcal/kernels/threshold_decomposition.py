"""Splitting cells: the compiled half of a round of anytime isotonic regression.

For a number c let d be the weighted derivatives of the losses at c, one per sample in score order,
and G their running sum. Samples up to the greatest G have an optimal value of at most c, those
after it of at least c; between the first and the last place where G is greatest, c is optimal.
Within a run of samples that is known to lie between two numbers, only that run has to be looked at
(Gokcesu & Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under
Strictly Convex Losses*, section VI, whose pairwise joins lead to the same groups).

A *cell* is such a run: a row of numbers, the bounds of its value and its *aim* between them first;
and in ``starts``, which ends with the number of samples, the place of its first one. A cell is
*settled* when its bounds are close enough; nothing is asked about it any more. A round evaluates
all derivatives, each at the aim of its own cell, and splits every cell there into the samples
below, those fixed at it, and those above.

Aims are midpoints, unless derivatives at the bounds are kept as well (``sides``, two rows of them).
Their sums over a cell say where its samples' common value would be, and there it is split or, if it
is one block, closed in on (Dowell & Jarratt, *A Modified Regula Falsi Method*, BIT 1971).

Quantiles need no derivatives, only to be compared with labels: `split_quantiles`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import READ, helper, kernel

PLACES = READ.replace("float64", "int64")
FLAGS = READ.replace("float64", "uint8")

Vector = NDArray[np.float64]
Cells = NDArray[np.float64]
Places = NDArray[np.int64]

LOW, HIGH, AIM, SLOPE_LOW, SLOPE_HIGH, STREAK = range(6)
COLUMNS = 6  # slopes are NaN where not known; STREAK: how often the high (+) or low (-) bound moved

# What is written at each round, for the caller: numbers of cells, and of samples not settled.
N_CELLS, N_OPEN, BAD = range(3)
N_ROUNDS = 2
REPORT = 3

# How a round is run: rules, as floats.
TOLERANCE, RELATIVE = range(2)
RULES = 2
PATIENCE = 3  # moves of the same bound after which the middle is tried
SLACK = 1e-12  # what rounding may add to a sum of weights, of its size


@helper
def is_settled(low: float, high: float, rules: Vector) -> bool:
    """Whether a value is known well enough, or no number lies between its bounds."""
    half = 0.5 * high - 0.5 * low
    if half <= rules[TOLERANCE]:
        return True
    if half < math.inf and half <= rules[RELATIVE] * max(abs(low), abs(high)):
        return True
    middle = midpoint(low, high)
    return not low < middle < high


@helper
def midpoint(low: float, high: float) -> float:
    """Return the middle of two bounds, or the next probe of 0, ±1, ±2, ±4, … towards infinity."""
    if low == -math.inf:
        if high == math.inf:
            return 0.0
        return min(2.0 * high, -1.0) if high <= 0.0 else 0.0
    if high == math.inf:
        return max(2.0 * low, 1.0) if low >= 0.0 else 0.0
    return 0.5 * low + 0.5 * high


@helper
def aim(cell: Vector, begin: int, end: int, rules: Vector, offset: Vector, z: Vector) -> bool:
    """Write where the derivatives of a cell are wanted; return False if it is settled."""
    low, high = cell[LOW], cell[HIGH]
    if is_settled(low, high, rules):
        return False
    at = midpoint(low, high)
    if cell[SLOPE_LOW] < 0.0 and cell[SLOPE_HIGH] > 0.0 and abs(cell[STREAK]) < PATIENCE:
        share = -cell[SLOPE_LOW] / (cell[SLOPE_HIGH] - cell[SLOPE_LOW])
        # One tolerance inside: a value next to a bound is then settled by this round.
        step = max(rules[TOLERANCE], rules[RELATIVE] * max(abs(low), abs(high)))
        crossing = min(max(low + share * (high - low), low + step), high - step)
        if low < crossing < high:
            at = crossing
    cell[AIM] = at
    if len(offset) == 0:
        for i in range(begin, end):
            z[i] = at
    else:
        for i in range(begin, end):
            z[i] = at + offset[i]
    return True


@kernel(f"void(float64[:, ::1], {PLACES}, int64, {READ}, {READ}, float64[::1], int64[::1])")
def aim_all(
    cells: Cells,
    starts: Places,
    n_cells: int,
    rules: Vector,
    offset: Vector,
    z: Vector,
    report: Places,
) -> None:
    """Write where all derivatives are wanted."""
    report[N_CELLS], report[N_OPEN], report[BAD] = n_cells, 0, -1
    for k in range(n_cells):
        begin, end = starts[k], starts[k + 1]
        if aim(cells[k], begin, end, rules, offset, z):
            report[N_OPEN] += end - begin


@kernel(f"void(float64[:, ::1], {READ}, boolean[::1])")
def which_are_open(cells: Cells, rules: Vector, out: NDArray[np.bool_]) -> None:
    """Write of each cell whether it is not settled."""
    for k in range(len(cells)):
        out[k] = not is_settled(cells[k, LOW], cells[k, HIGH], rules)


@helper
def add(total: float, lost: float, x: float) -> tuple[float, float]:
    """Add to a sum, and what rounding loses to what it has lost; infinite sums lose nothing."""
    new = total + x
    part = new - total
    error = (total - (new - part)) + (x - part)
    return new, lost + error if abs(error) < math.inf else lost


@helper
def move_sides(slopes: Vector, moved: Vector, kept: Vector, begin: int, end: int) -> float:
    """Take over the derivatives at the bound that has moved; return the sum at the other one."""
    total = 0.0
    for i in range(begin, end):
        moved[i] = slopes[i]
        total += kept[i]
    return total


@helper
def move_bound(
    cell: Vector, high: bool, slope: float, other: float, whole: bool, streak: float
) -> None:
    """Write a bound that has become the aim, its slope, and that of the other bound.

    Of a cell that is ``whole`` the other bound has stayed again; its slope then counts half, or the
    crossing would creep up to the value from one side.
    """
    sign = 1.0 if high else -1.0
    cell[STREAK] = sign * max(1.0, sign * streak + 1.0) if whole else 0.0
    if abs(cell[STREAK]) > 1.0:
        other *= 0.5
    if high:
        cell[HIGH], cell[SLOPE_HIGH], cell[SLOPE_LOW] = cell[AIM], slope, other
    else:
        cell[LOW], cell[SLOPE_LOW], cell[SLOPE_HIGH] = cell[AIM], slope, other


@kernel(
    f"void(float64[:, ::1], {PLACES}, int64, {READ}, {READ}, {READ}, float64[:, ::1], {FLAGS},"
    " float64[::1], float64[:, ::1], int64[::1], int64[::1])"
)
def split_all(
    cells: Cells,
    starts: Places,
    n_cells: int,
    rules: Vector,
    offset: Vector,
    slopes: Vector,
    sides: Cells,
    ends: NDArray[np.uint8],
    z: Vector,
    out: Cells,
    places: Places,
    report: Places,
) -> None:
    """Split each open cell at its aim, write the cells that result, and aim anew.

    ``slopes`` are the weighted derivatives at ``z``, ``sides`` those at the bounds, or empty;
    ``ends`` marks the last sample of each run of equal scores: only after it a cell may be cut.
    ``out`` and ``places`` have room for three cells for each. A sum that is not a number ends the
    round: BAD is then the first sample of the cell.
    """
    rows, n_open = 0, 0
    informed = sides.shape[1] > 0
    report[BAD] = -1
    for k in range(n_cells):
        begin, end = starts[k], starts[k + 1]
        if is_settled(cells[k, LOW], cells[k, HIGH], rules):
            places[rows], out[rows] = begin, cells[k]
            rows += 1
            continue
        # The sum begins anew at each new best, and what rounding takes from it is kept beside it
        # (Knuth's two-sum), or heavy samples would swallow what light ones after them say.
        best, run, lost, first, last = 0.0, 0.0, 0.0, begin, begin
        own, cuts = slopes[begin:end], ends[begin:end]
        for i in range(len(own)):
            run, lost = add(run, lost, own[i])
            if cuts[i] != 0 and run + lost >= 0.0:
                last = begin + i + 1
                if run + lost > 0.0:
                    best, first = best + (run + lost), last
                run = lost = 0.0
        if not abs(best + run) <= math.inf:
            report[BAD] = begin
            return
        begun, whole, streak, other = (
            rows,
            first == end or last == begin,
            cells[k, STREAK],
            math.nan,
        )
        if first > begin:
            places[rows], out[rows] = begin, cells[k]
            if informed:
                other = move_sides(slopes, sides[1], sides[0], begin, first)
                other = cells[k, SLOPE_LOW] if whole else other
            move_bound(out[rows], True, best, other, whole, streak)
            rows += 1
        if last > first:
            places[rows], out[rows] = first, cells[k]
            out[rows, LOW] = out[rows, HIGH] = cells[k, AIM]
            rows += 1
        if end > last:
            places[rows], out[rows] = last, cells[k]
            if informed:
                other = move_sides(slopes, sides[0], sides[1], last, end)
                other = cells[k, SLOPE_HIGH] if whole else other
            move_bound(out[rows], False, run + lost, other, whole, streak)
            rows += 1
        places[rows] = end
        for row in range(begun, rows):
            if aim(out[row], places[row], places[row + 1], rules, offset, z):
                n_open += places[row + 1] - places[row]
    places[rows] = starts[n_cells]
    report[N_CELLS], report[N_OPEN] = rows, n_open


@kernel(f"int64(float64[:, ::1], int64[::1], int64, float64[:, ::1], {FLAGS})")
def join_all(
    cells: Cells, starts: Places, n_cells: int, sides: Cells, ends: NDArray[np.uint8]
) -> int:
    """Join cells that were guessed wrong with their neighbours; return how many are left.

    Cells whose bounds follow one another hold the values of an optimal map if in each of them no
    sum of derivatives over its first samples is positive at its low bound, and none over its last
    samples negative at its high bound. (Sums over several cells are then of the same sign, because
    derivatives rise.) What is left has to be looked at again, for its bounds have changed.
    """
    rows, held = 0, False  # whether the cell before wants to reach beyond its high bound
    for k in range(n_cells):
        begin, end = starts[k], starts[k + 1]
        low, low_lost, high, high_lost = 0.0, 0.0, 0.0, 0.0
        sinks, most, last = False, 0.0, 0.0
        for i in range(begin, end):
            low, low_lost = add(low, low_lost, sides[0, i])
            high, high_lost = add(high, high_lost, sides[1, i])
            if ends[i] != 0:
                sinks |= low + low_lost > 0.0
                most = max(most, last)
                last = high + high_lost
        low, high = low + low_lost, last
        joined = rows > 0 and (sinks or held)
        held = high < most
        if joined:
            cells[rows - 1, HIGH] = cells[k, HIGH]
            cells[rows - 1, SLOPE_LOW] = cells[rows - 1, SLOPE_HIGH] = math.nan
        else:
            starts[rows], cells[rows] = begin, cells[k]
            cells[rows, SLOPE_LOW], cells[rows, SLOPE_HIGH], cells[rows, STREAK] = low, high, 0.0
            rows += 1
    starts[rows] = starts[n_cells]
    return rows


@helper
def emit_labels(
    y: Vector, begin: int, end: int, low: float, high: float, cells: Cells, starts: Places, row: int
) -> bool:
    """Write a cell whose value is one of its own labels from low to high; return if it is open."""
    lowest, highest = high, low
    for label in y[begin:end]:
        lowest = min(lowest, label if label >= low else high)
        highest = max(highest, label if label <= high else low)
    starts[row], cells[row, LOW], cells[row, HIGH] = begin, lowest, max(lowest, highest)
    return lowest < highest


@kernel(
    f"void({READ}, {READ}, {FLAGS}, float64, boolean, int64,"
    " float64[:, :, ::1], int64[:, ::1], int64[::1])"
)
def split_quantiles(
    y: Vector,
    w: Vector,
    ends: NDArray[np.uint8],
    tau: float,
    greatest: bool,
    n_rounds: int,
    cells: Cells,
    starts: Places,
    report: Places,
) -> None:
    """Run rounds for the pinball loss, whose derivatives are w (1 - tau) above a label and -w tau.

    The value of a cell is one of its own labels, so that bounds are labels and meet in the end.
    Of the two tables of cells the first is read and, after each round, is the new one. ``report``
    has the number of cells and of open ones, in and out, and the number of rounds; these end early
    where the tables have no room for twice the cells.

    Sums that differ by rounding alone are equal. Samples for which both sides of an aim are as good
    go up if the ``greatest`` quantile is meant, else down.
    """
    sums = np.empty(len(y))
    for done in range(n_rounds):
        n_cells = report[N_CELLS]
        if report[N_OPEN] == 0 or 2 * n_cells >= starts.shape[1]:
            return
        old, old_starts = cells[done % 2], starts[done % 2]
        new, new_starts = cells[1 - done % 2], starts[1 - done % 2]
        rows, n_open = 0, 0
        for k in range(n_cells):
            begin, end = old_starts[k], old_starts[k + 1]
            low, high = old[k, LOW], old[k, HIGH]
            if low == high:
                new_starts[rows], new[rows, LOW], new[rows, HIGH] = begin, low, high
                rows += 1
                continue
            at = 0.5 * low + 0.5 * high
            if done % 3 == 2:  # labels may lie on a scale where middles take many rounds
                at = max(low, y[(begin + end) // 2])
            if at >= high:
                at = low
            own, weights, cuts, here = y[begin:end], w[begin:end], ends[begin:end], sums[begin:end]
            # Two sums that are exact where weights are whole numbers, rather than one of shares.
            below, size, best = 0.0, 0.0, 0.0
            for i in range(len(own)):
                below += weights[i] if own[i] <= at else 0.0
                size += weights[i]
                total = below - tau * size if cuts[i] != 0 else -np.inf  # no cut within a tie
                here[i] = total
                best = max(best, total)
            enough = best - SLACK * size
            if greatest:
                place = begin
                if enough > 0.0:
                    while sums[place] < enough:
                        place += 1
                    place += 1
            else:
                place = end
                while place > begin and sums[place - 1] < enough:
                    place -= 1
            if place > begin:
                n_open += emit_labels(y, begin, place, low, at, new, new_starts, rows)
                rows += 1
            if end > place:
                above = np.nextafter(at, high)
                n_open += emit_labels(y, place, end, above, high, new, new_starts, rows)
                rows += 1
        new_starts[rows] = len(y)
        report[N_CELLS], report[N_OPEN], report[N_ROUNDS] = rows, n_open, done + 1


@kernel(f"void({READ}, {READ}, float64, {PLACES}, {READ}, float64[::1])")
def raise_quantiles(
    y: Vector, w: Vector, tau: float, starts: Places, values: Vector, out: Vector
) -> None:
    """Write the greatest value that each block of the least best map could have as a whole.

    That is its upper quantile: the next label in the block where the weight up to its value is a
    share of exactly tau. A block to the right whose own is less holds it down.
    """
    ceiling = math.inf
    for k in range(len(values) - 1, -1, -1):
        upto, total, after = 0.0, 0.0, math.inf
        for i in range(starts[k], starts[k + 1]):
            total += w[i]
            if y[i] <= values[k]:
                upto += w[i]
            else:
                after = min(after, y[i])
        if upto > tau * total + SLACK * total:
            after = values[k]
        ceiling = min(ceiling, after)
        out[k] = ceiling
