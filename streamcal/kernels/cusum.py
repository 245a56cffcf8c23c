"""Ordinal learners by cumulative sums: one decoding and one update for all of them.

K ranks have K − 1 boundaries between them, and boundary k has weights w_k. With z_k = w_k · x the
score of rank r is the sum of z_k over the boundaries below it, the decoded rank is the argmax, and
a step moves the boundaries between the true and the decoded rank (*Cumulative Sum Ranking*, arXiv
1911.11255). PRank is the case in which all boundaries share one direction and differ in a bias.

A *model* is one vector: a head of named numbers, the task loss as a K × K table (a row for each
true rank), the bias of each boundary, and a row for each feature. A feature's row holds its weight
at every boundary, or one weight where the direction is shared; so a sample with few features
touches few rows. Row 0 stays zero: it stands for a feature that was never learned. With averaging
every part is followed by as many numbers of its *lag*, see below.

Shrinkage and averages cost nothing per weight. The weights are SCALE times what is stored, and
after sample t they count COUNT_t in their average, so that with V what is stored

    Σ_t COUNT_t · SCALE_t · V_t  =  MASS · V − LAG,     LAG = Σ_t MASS_{t−1} · ΔV_t,

where MASS is the sum of COUNT · SCALE and TOTAL that of COUNT: the average is (MASS · V − LAG) /
TOTAL. Before SCALE is so small that MASS · V and LAG nearly cancel, their difference becomes the
LAG and MASS starts again from 0; before COUNT overflows, which a half-life lets grow, all of them
are scaled down.

A sample is the first two rows of *work*, its values and the rows of its features; the third row is
scratch. *recent* is a ring of the last samples: their margins as they were served, rank and weight.
"""

import math

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Ranks = NDArray[np.int64]

(
    N_LABELS,
    N_ROWS,  # features, and the row of zeros
    SHARED,  # whether all boundaries share their direction
    AVERAGED,
    BIASED,  # whether boundaries have a bias
    LAST,  # whether the last of equal scores is decoded
    WIDE,  # whether boundaries below the rank that are at exactly zero move up: published PRank
    RULE,
    DELTA,  # the margin that a passive-aggressive step attains
    C,  # its aggressiveness
    MARGIN,  # how much of the task loss is added to a score while learning
    KEEP,  # what a sample leaves of the weights: 1 − l2
    GROWTH,  # of COUNT, a sample
    SCALE,
    COUNT,
    MASS,
    TOTAL,
    RANK_LOSS,
    N_SEEN,
    HEAD,
) = range(20)

PERCEPTRON, PA, PA_I, PA_II = range(4)
VALUES, ROWS, SCRATCH = range(3)

REFUSED = -1

SMALLEST, LARGEST = 1e-60, 1e60  # of a weight; LARGEST of a feature, too
_LEAST_SCALE, _MOST_COUNT = 2.0**-10, 2.0**50
_GRID = -30  # margins are multiples of 2**_GRID of the largest number they come from
_LEAST_SQUARES = 1e-120  # of a sample that a passive-aggressive step can be scaled to


@helper
def _bias_at(model: Vector) -> int:
    n_labels = int(model[N_LABELS])
    return HEAD + n_labels * n_labels


@helper
def _finite(values: Matrix, i: int, n: int) -> bool:
    good = True
    for f in range(n):
        good &= abs(values[i, f]) <= LARGEST
    return good


@helper
def _products(model: Vector, values: Matrix, i: int, work: Matrix, n: int) -> None:
    """Put V · x of each boundary into scratch, and LAG · x behind that."""
    bounds = int(model[N_LABELS]) - 1
    parts = 2 if model[AVERAGED] else 1
    at = _bias_at(model)
    for j in range(parts * bounds):
        work[SCRATCH, j] = model[at + j]
    first = at + parts * bounds
    if model[SHARED]:
        stored = lag = 0.0
        for f in range(n):
            at = first + parts * int(work[ROWS, f])
            stored += values[i, f] * model[at]
            lag += values[i, f] * model[at + parts - 1]
        for j in range(bounds):
            work[SCRATCH, j] += stored
        if parts == 2:
            for j in range(bounds, 2 * bounds):
                work[SCRATCH, j] += lag
    else:
        stride = parts * bounds
        for f in range(n):
            x = values[i, f]
            at = first + stride * int(work[ROWS, f])
            for j in range(stride):
                work[SCRATCH, j] += x * model[at + j]


@helper
def _served(model: Vector, work: Matrix, j: int) -> float:
    """Return boundary ``j`` of what is served: the average weights' product, if there is one."""
    if not model[AVERAGED]:
        return model[SCALE] * work[SCRATCH, j]
    if model[TOTAL] == 0.0:
        return 0.0
    bounds = int(model[N_LABELS]) - 1
    lag = work[SCRATCH, bounds + j]
    return (model[MASS] * work[SCRATCH, j] - lag) / model[TOTAL]


@helper
def _decode_served(model: Vector, work: Matrix) -> int:
    score = best = 0.0
    rank = 0
    for j in range(int(model[N_LABELS]) - 1):
        score += _served(model, work, j)
        if score > best or (score == best and model[LAST]):
            rank, best = j + 1, score
    return rank


@helper
def _decode(model: Vector, work: Matrix, margin: float, y: int) -> int:
    """Return argmax_r s(x, r) + margin · loss(r, y) for the weights as they stand."""
    n_labels = int(model[N_LABELS])
    losses = HEAD + n_labels * y
    score = 0.0
    best = margin * model[losses]
    rank = 0
    for r in range(1, n_labels):
        score += model[SCALE] * work[SCRATCH, r - 1]
        value = score + margin * model[losses + r]
        if value > best or (value == best and model[LAST]):
            rank, best = r, value
    return rank


@helper
def _margins(model: Vector, work: Matrix, out: Matrix, i: int) -> None:
    """Put max_{r ≥ k} s(x, r) − max_{r < k} s(x, r) for each boundary k into a row of ``out``."""
    bounds = int(model[N_LABELS]) - 1
    scores = 2 * bounds  # in scratch, behind the products
    score = best = largest = 0.0
    for j in range(bounds):
        out[i, j] = best
        product = _served(model, work, j)
        score += product
        work[SCRATCH, scores + j] = score
        best = max(best, score)
        largest = max(largest, abs(score), abs(product))
    # Samples whose margins agree but for rounding shall have one margin, in whatever order their
    # features were added up.
    grid = math.ldexp(1.0, max(math.frexp(largest)[1], -900) + _GRID)
    above = -np.inf
    for j in range(bounds - 1, -1, -1):
        above = max(above, work[SCRATCH, scores + j])
        out[i, j] = grid * np.rint((above - out[i, j]) / grid)


@helper
def _step_size(
    model: Vector, values: Matrix, i: int, work: Matrix, n: int, y: int, rank: int, w: float
) -> float:
    if model[RULE] == PERCEPTRON:
        return w
    squares = 1.0 if model[BIASED] else 0.0
    for f in range(n):
        squares += values[i, f] * values[i, f]
    squares *= abs(y - rank)
    if squares < _LEAST_SQUARES:
        return 0.0
    ahead = 0.0
    for j in range(min(y, rank), max(y, rank)):
        ahead += model[SCALE] * work[SCRATCH, j]
    if y < rank:
        ahead = -ahead
    missing = model[DELTA] * model[HEAD + int(model[N_LABELS]) * y + rank] - ahead
    if missing <= 0.0:
        return 0.0
    if model[RULE] == PA_II:
        return missing / (squares + 0.5 / (model[C] * w))
    if model[RULE] == PA_I:
        return min(missing / squares, model[C] * w)
    return missing / squares


@helper
def _first_at_zero(model: Vector, work: Matrix, y: int, high: int) -> int:
    """Return where the boundaries at exactly zero begin that end before ``high``, below ``y``."""
    at = HEAD + int(model[N_LABELS]) * y
    low = high
    while low > 0:
        change = model[MARGIN] * (model[at + low] - model[at + low - 1])
        if model[SCALE] * work[SCRATCH, low - 1] + change != 0.0:
            break
        low -= 1
    return low


@helper
def _update(
    model: Vector, values: Matrix, i: int, work: Matrix, n: int, low: int, high: int, step: float
) -> None:
    """Add ``step`` times the sample to the boundaries from ``low`` to ``high`` − 1."""
    bounds = int(model[N_LABELS]) - 1
    parts = 2 if model[AVERAGED] else 1
    at = _bias_at(model)
    step /= model[SCALE]
    mass = model[MASS]
    if model[BIASED]:
        for j in range(low, high):
            model[at + j] += step
            if parts == 2:
                model[at + bounds + j] += mass * step
    first = at + parts * bounds
    if model[SHARED]:
        step *= high - low
        for f in range(n):
            at = first + parts * int(work[ROWS, f])
            change = step * values[i, f]
            model[at] += change
            if parts == 2:
                model[at + 1] += mass * change
    else:
        for f in range(n):
            at = first + parts * bounds * int(work[ROWS, f])
            change = step * values[i, f]
            for j in range(low, high):
                model[at + j] += change
            if parts == 2:
                for j in range(bounds + low, bounds + high):
                    model[at + j] += mass * change


@helper
def _rescale(model: Vector, at: int, width: int, mass: float, stored: float, lag: float) -> None:
    """Multiply one part and its lag, after taking ``mass`` times the part off the lag."""
    for j in range(at, at + width):
        if model[AVERAGED]:
            model[j + width] = lag * model[j + width] - mass * model[j]
        model[j] *= stored


@helper
def _rescale_all(model: Vector, mass: float, stored: float, lag: float) -> None:
    bounds = int(model[N_LABELS]) - 1
    parts = 2 if model[AVERAGED] else 1
    width = 1 if model[SHARED] else bounds
    at = _bias_at(model)
    _rescale(model, at, bounds, mass, stored, lag)
    at += parts * bounds
    for row in range(int(model[N_ROWS])):
        _rescale(model, at + row * parts * width, width, mass, stored, lag)


@helper
def _keep_in_range(model: Vector) -> None:
    if model[SCALE] < _LEAST_SCALE:
        _rescale_all(model, model[MASS], model[SCALE], 1.0)
        model[MASS] = 0.0
        model[SCALE] = 1.0
    if model[COUNT] > _MOST_COUNT:
        back = 1.0 / model[COUNT]
        _rescale_all(model, 0.0, 1.0, back)
        model[MASS] *= back
        model[TOTAL] *= back
        model[COUNT] = 1.0


@helper
def _learn(
    model: Vector,
    values: Matrix,
    i: int,
    work: Matrix,
    n: int,
    recent: Matrix,
    remember: bool,
    y: int,
    w: float,
    atom: int,
) -> bool:
    """Learn a row of ``values``; return whether it moved the weights.

    The step is a multiple of the sample; or, with an ``atom`` of 0 or more, of the unit vector of
    that feature, which is how a dual learner counts its samples.
    """
    _products(model, values, i, work, n)
    bounds = int(model[N_LABELS]) - 1
    if remember:
        place = int(model[N_SEEN]) % len(recent)
        _margins(model, work, recent, place)
        recent[place, bounds] = y
        recent[place, bounds + 1] = w
    model[N_SEEN] += 1.0

    model[SCALE] *= model[KEEP]
    model[COUNT] *= model[GROWTH]
    rank = _decode(model, work, 0.0, y)
    model[RANK_LOSS] += w * abs(y - rank)
    if model[MARGIN] != 0.0:
        rank = _decode(model, work, model[MARGIN], y)
    if rank != y:
        step = _step_size(model, values, i, work, n, y, rank, w)
        low, high = min(y, rank), max(y, rank)
        if atom >= 0:
            values[i, 0], work[ROWS, 0], n = 1.0, atom, 1
        _update(model, values, i, work, n, low, high, step if y > rank else -step)
        if model[WIDE]:
            high, low = low, _first_at_zero(model, work, y, low)
            _update(model, values, i, work, n, low, high, step)
    count = w * model[COUNT]
    model[TOTAL] += count
    model[MASS] += count * model[SCALE]
    if model[SCALE] < _LEAST_SCALE or model[COUNT] > _MOST_COUNT:
        _keep_in_range(model)
    return rank != y


@kernel("int64(float64[::1], float64[:, ::1], float64[:, ::1], int64, int64, float64)")
def learn(model: Vector, work: Matrix, recent: Matrix, n: int, y: int, w: float) -> int:
    """Learn the sample in ``work``, of ``n`` features and rank ``y``; or return REFUSED."""
    if not (SMALLEST <= w <= LARGEST) or not _finite(work, VALUES, n):
        return REFUSED
    _learn(model, work, VALUES, work, n, recent, True, y, w, -1)
    return 0


@kernel("boolean(float64[::1], float64[:, ::1], float64[:, ::1], int64, int64, float64, int64)")
def learn_atom(
    model: Vector, work: Matrix, recent: Matrix, n: int, y: int, w: float, atom: int
) -> bool:
    """Learn a sample given by its products with ``n`` atoms; a mistake adds ``atom`` to them."""
    return _learn(model, work, VALUES, work, n, recent, True, y, w, atom)


@kernel(
    "void(float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1],"
    " float64[::1])"
)
def learn_many(model: Vector, X: Matrix, work: Matrix, recent: Matrix, y: Ranks, w: Vector) -> None:
    """Learn the rows of ``X`` in order; their features' rows are in ``work``."""
    for i in range(len(X)):
        remember = i >= len(X) - len(recent)
        _learn(model, X, i, work, X.shape[1], recent, remember, y[i], w[i], -1)


@kernel("int64(float64[::1], float64[:, ::1], int64)")
def predict(model: Vector, work: Matrix, n: int) -> int:
    """Return the rank of the sample in ``work``; or REFUSED."""
    if model[N_LABELS] == 0.0 or not _finite(work, VALUES, n):
        return REFUSED
    _products(model, work, VALUES, work, n)
    return _decode_served(model, work)


@kernel("void(float64[::1], float64[:, ::1], float64[:, ::1], int64[::1])")
def predict_many(model: Vector, X: Matrix, work: Matrix, ranks: Ranks) -> None:
    """Write the rank of each row of ``X``."""
    for i in range(len(X)):
        _products(model, X, i, work, X.shape[1])
        ranks[i] = _decode_served(model, work)


@kernel("int64(float64[::1], float64[:, ::1], float64[:, ::1], int64, float64[:, ::1])")
def margins(model: Vector, X: Matrix, work: Matrix, n: int, out: Matrix) -> int:
    """Write how far the best rank from k on is ahead of the best below k, or return REFUSED.

    Samples are the first rows of ``X`` and their first ``n`` columns, as many as ``out`` has rows.
    """
    for i in range(len(out)):
        if not _finite(X, i, n):
            return REFUSED
        _products(model, X, i, work, n)
        _margins(model, work, out, i)
    return 0


@kernel("void(float64[:, ::1], float64, float64[:, ::1])")
def class_probabilities(above: Matrix, n_samples: float, out: Matrix) -> None:
    """Turn the probabilities of "rank k or more" into those of each rank, row by row.

    ``above`` has a column for each boundary. Rows that do not fall are made to fall, by the nearest
    such sequence in squares: neighbours that rise are pooled. Then one sample, spread evenly over
    the ranks, is added to the ``n_samples`` behind the probabilities, which keeps them off 0.
    """
    bounds = above.shape[1]
    sizes = np.empty(bounds, np.int64)
    for i in range(len(above)):
        top = 0  # pooled stretches so far; their means lie at the front of the row
        for j in range(bounds):
            mean, size = above[i, j], 1
            while top and above[i, top - 1] <= mean:
                top -= 1
                mean = (mean * size + above[i, top] * sizes[top]) / (size + sizes[top])
                size += sizes[top]
            above[i, top], sizes[top] = mean, size
            top += 1
        previous, at = 1.0, 0
        share = 1.0 / (bounds + 1)
        for b in range(top):
            for _ in range(sizes[b]):
                out[i, at] = ((previous - above[i, b]) * n_samples + share) / (n_samples + 1.0)
                previous = above[i, b]
                at += 1
        out[i, at] = (previous * n_samples + share) / (n_samples + 1.0)
