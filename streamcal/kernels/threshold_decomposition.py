"""Splitting cells: the compiled half of a round of anytime isotonic regression.

For a number c let d be the weighted derivatives of the losses at c, one per sample in score order,
and G their running sum. Samples up to the greatest G have an optimal value of at most c, those after
it of at least c; between the first and the last place where G is greatest, c is optimal. Within a run
of samples that is known to lie between two numbers, only that run has to be looked at (Gokcesu &
Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under Strictly
Convex Losses*, section VI, whose pairwise joins lead to the same groups).

A *cell* is such a run: a row of five numbers, the bounds of its value, its *aim* between them, and
the sums of its derivatives at the bounds (NaN where not known); and in ``starts``, which ends with
the number of samples, the place of its first one. A cell is *settled* when its bounds are close
enough; nothing is asked about it any more. A round evaluates all derivatives, each at the aim of its
own cell, and splits every cell there into the samples below, those fixed at it, and those above.

Quantiles need no derivatives, only to be compared with labels: `split_quantiles`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.pav import READ

Vector = NDArray[np.float64]
Cells = NDArray[np.float64]
Places = NDArray[np.int64]

LOW, HIGH, AIM, SLOPE_LOW, SLOPE_HIGH = range(5)
COLUMNS = 5

# What is written at each round, for the caller: numbers of cells, and of samples not settled.
N_CELLS, N_OPEN, BAD = range(3)
N_ROUNDS = 2
REPORT = 3

# How a round is run: rules, as floats.
TOLERANCE, RELATIVE, GUESSED, BISECT = range(4)
RULES = 4
NEAR = 1.0 / 16.0  # how far from a guess the first bound on its other side is tried
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
def informed(cell: Vector, guess: Vector, begin: int, end: int, rules: Vector) -> float:
    """Return an aim for a cell that should take few rounds to settle.

    Where derivatives at both bounds are known it lies where the line between them crosses 0, which
    splits a cell near the value all of it would have. Otherwise it is what the guess has in the
    middle of the cell, or a number close to the bound that this has become.
    """
    low, high = cell[LOW], cell[HIGH]
    middle = midpoint(low, high)
    if not (low > -math.inf and high < math.inf):
        return middle
    at = middle
    if cell[SLOPE_LOW] < 0.0 and cell[SLOPE_HIGH] > 0.0:
        share = -cell[SLOPE_LOW] / (cell[SLOPE_HIGH] - cell[SLOPE_LOW])
        at = low + share * (high - low)
    else:
        place = (begin + end) // 2
        at = guess[place]
        if place > begin:
            at = 0.5 * (at + guess[place - 1])
        if at <= low:
            at = low + NEAR * (high - low)
        elif at >= high:
            at = high - NEAR * (high - low)
    # One step of the tolerance inside: a value next to a bound is then settled by this round.
    step = max(rules[TOLERANCE], rules[RELATIVE] * max(abs(low), abs(high)))
    at = min(max(at, low + step), high - step)
    return at if low < at < high else middle


@helper
def aim(
    cell: Vector, guess: Vector, begin: int, end: int, rules: Vector, offset: Vector, z: Vector
) -> bool:
    """Write where the derivatives of a cell are wanted; return False if it is settled."""
    low, high = cell[LOW], cell[HIGH]
    if is_settled(low, high, rules):
        return False
    if rules[GUESSED] == 0.0 or rules[BISECT] != 0.0:
        at = midpoint(low, high)
    else:
        at = informed(cell, guess, begin, end, rules)
    cell[AIM] = at
    if len(offset) == 0:
        for i in range(begin, end):
            z[i] = at
    else:
        for i in range(begin, end):
            z[i] = at + offset[i]
    return True


@kernel(
    f"void(float64[:, ::1], {READ.replace('float64', 'int64')}, int64, {READ}, {READ}, {READ},"
    " float64[::1], int64[::1])"
)
def aim_all(
    cells: Cells,
    starts: Places,
    n_cells: int,
    rules: Vector,
    guess: Vector,
    offset: Vector,
    z: Vector,
    report: Places,
) -> None:
    """Write where all derivatives are wanted."""
    report[N_CELLS], report[N_OPEN], report[BAD] = n_cells, 0, -1
    for k in range(n_cells):
        begin, end = starts[k], starts[k + 1]
        if aim(cells[k], guess, begin, end, rules, offset, z):
            report[N_OPEN] += end - begin


@helper
def emit(
    out: Cells,
    places: Places,
    at: int,
    begin: int,
    low: float,
    high: float,
    slope_low: float,
    slope_high: float,
) -> int:
    """Write a cell; return the row after it."""
    places[at] = begin
    out[at, LOW], out[at, HIGH] = low, high
    out[at, SLOPE_LOW], out[at, SLOPE_HIGH] = slope_low, slope_high
    return at + 1


@kernel(
    f"void(float64[:, ::1], {READ.replace('float64', 'int64')}, int64, {READ}, {READ}, {READ},"
    f" {READ}, {READ.replace('float64', 'uint8')}, float64[::1], float64[:, ::1], int64[::1],"
    " int64[::1])"
)
def split_all(
    cells: Cells,
    starts: Places,
    n_cells: int,
    rules: Vector,
    guess: Vector,
    offset: Vector,
    slopes: Vector,
    ends: NDArray[np.uint8],
    z: Vector,
    out: Cells,
    places: Places,
    report: Places,
) -> None:
    """Split each open cell at its aim, write the cells that result, and aim anew.

    ``slopes`` are the weighted derivatives at ``z``, ``ends`` marks the last sample of each run of
    equal scores: only after it a cell may be cut. ``out`` and ``places`` have room for three cells
    for each. A sum that is not a number ends the round: BAD is then the first sample of the cell.
    """
    rows, n_open = 0, 0
    report[BAD] = -1
    for k in range(n_cells):
        begin, end = starts[k], starts[k + 1]
        low, high = cells[k, LOW], cells[k, HIGH]
        slope_low, slope_high = cells[k, SLOPE_LOW], cells[k, SLOPE_HIGH]
        if is_settled(low, high, rules):
            rows = emit(out, places, rows, begin, low, high, slope_low, slope_high)
            continue
        at = cells[k, AIM]
        total, best, first, last = 0.0, 0.0, begin, begin
        own, cuts = slopes[begin:end], ends[begin:end]
        for i in range(len(own)):
            total += own[i]
            if cuts[i] != 0 and total >= best:
                last = begin + i + 1
                if total > best:
                    best, first = total, last
        if not abs(total) <= math.inf:
            report[BAD] = begin
            return
        begun = rows
        if first > begin:
            # Bounds that stay where they are lose half their weight (the Illinois rule), or the
            # crossing of the line would creep up to the value from one side.
            kept = 0.5 * slope_low if first == end else math.nan
            rows = emit(out, places, rows, begin, low, at, kept, best)
        if last > first:
            rows = emit(out, places, rows, first, at, at, 0.0, 0.0)
        if end > last:
            kept = 0.5 * slope_high if last == begin else math.nan
            rows = emit(out, places, rows, last, at, high, total - best, kept)
        places[rows] = end
        for row in range(begun, rows):
            if aim(out[row], guess, places[row], places[row + 1], rules, offset, z):
                n_open += places[row + 1] - places[row]
    places[rows] = starts[n_cells]
    report[N_CELLS], report[N_OPEN] = rows, n_open


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
    f"void({READ}, {READ}, {READ.replace('float64', 'uint8')}, float64, boolean, int64,"
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
                total = below - tau * size if cuts[i] != 0 else -1.0
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


@kernel(
    f"void({READ}, {READ}, float64, {READ.replace('float64', 'int64')}, {READ}, float64[::1])"
)
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
