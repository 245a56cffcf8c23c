"""The streaming face of the staircase: learn, forget, predict, walk.

The index starts as an owner's header of floats and ends in `META` words of its own; the header
holds what a stream adds to the bare staircase:

* the *prior*, a pseudo-sample of the highest label before all scores and one of the lowest label
  behind them. Pooling a sample in front raises the first blocks to one common value and leaves the
  others alone, so the two are a clip of the staircase to [FLOOR, CEILING]; where that is empty, all
  samples and both pseudo-samples are one block.
* *forgetting*: a sample enters with its weight times GROWTH, which grows by RATE a sample; the
  staircase depends on weight ratios alone. The caller scales everything down when asked to.
* the bounds that labels' statistics must keep, and how many scores may be held.

The kernels that change the state are re-entrant: when one needs more memory or a scaling it says so
(its status), and is called again with the same arguments once that is done. STAGE remembers how far
a sample has come. Bad input is refused before anything changes.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import LARGEST, SMALLEST
from streamcal.kernels import score_index as index
from streamcal.kernels._compile import READ, helper, kernel
from streamcal.kernels.hull import (
    EDGE_S,
    EDGE_W,
    FIRST_SCORE,
    LAST_SCORE,
    SUM,
    WEIGHT,
    edge_behind,
    edges_around,
    fold_chunk,
    has_room,
    pool_back,
    pool_front,
    refresh,
    settle,
    totals,
)
from streamcal.kernels.score_index import (
    CHUNK_HEAD,
    COUNTS,
    N_FREE,
    N_SCORES,
    NEXT,
    NONE,
    PREVIOUS,
    SIZE,
    SLOT,
    Data,
    Links,
)

Queue = NDArray[np.float64]
Bracket = tuple[float, float, float]

# The header, in data.
FLOOR, CEILING = 0, 1  # means are clipped to these: the prior's doing
FLOOR_END, CEILING_START = 2, 3  # last score of the lowest block, first of the highest
PRIOR, LOWEST, HIGHEST = 4, 5, 6  # weight of a pseudo-sample; bounds of the statistic
GROWTH, RATE = 7, 8
N_SAMPLES, MAX_SCORES, WINDOW = 9, 10, 11

# The owner's words, in links.
STAGE, PENDING, STOP, STATUS = 8, 9, 10, 11
QUEUE_START, QUEUE_SIZE = 12, 13

# What `change` is to do.
LEARN, UNLEARN, FINISH = range(3)

# What a kernel answers. From NEED_ROOM on: do as it says and call again.
OK, REFUSED, UNKNOWN, NEED_ROOM, NEED_SCALING, NEED_MERGING, NEED_QUEUE = range(7)

# Growth is scaled down from here; a score of less than VANISHED is then dropped.
LARGEST_GROWTH = 2.0**128
VANISHED = 2.0**-400
# Where less than this share of a removed weight is left in a slot, the rest has lost digits.
CANCELLED = 1e-6


@helper
def bracket(data: Data, links: Links, score: float, step: bool) -> Bracket:
    """Return the means left and right of a score and how far it lies between; NaN if none."""
    if not (-np.inf < score < np.inf) or links[N_SCORES] == 0:
        return np.nan, np.nan, 0.0
    left, right = edges_around(data, links, score)
    if left == NONE:
        left = right
    low = _clipped(data, data[left + EDGE_S] / data[left + EDGE_W])
    if left == right or right == NONE or step:
        return low, low, 0.0
    high = _clipped(data, data[right + EDGE_S] / data[right + EDGE_W])
    start, stop = data[left + LAST_SCORE], data[right + FIRST_SCORE]
    if stop - start == np.inf:  # the distance of two halves is finite
        return low, high, (0.5 * score - 0.5 * start) / (0.5 * stop - 0.5 * start)
    return low, high, (score - start) / (stop - start)


@helper
def _clipped(data: Data, mean: float) -> float:
    return min(max(mean, data[FLOOR]), data[CEILING])


# ------------------------------------------------------------------------------ changing


@helper
def add(data: Data, links: Links, score: float, w: float, s: float) -> None:
    """Add a sample's sums to the slot of its score; folding is left pending if not done at once."""
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if not index.holds(data, links, c, slot, score):
        if not has_room(links, c):
            other = index.make_room(data, links, c, slot, score)
            _leave_pending(links, c, other)
            c = index.find_chunk(data, links, score)
            slot = index.find_slot(data, links, c, score)
        index.open_slot(data, links, c, slot, score)
    alter(data, links, c, slot, w, s, 1)


@helper
def alter(data: Data, links: Links, c: int, slot: int, w: float, s: float, n: int) -> None:
    """Add to the sums and the count of a slot, and fold its chunk unless that is pending anyway."""
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    score = data[at]
    data[at + WEIGHT] += w
    data[at + SUM] += s
    links[index.chunk_links_at(links, c) + COUNTS + slot] += n
    if links[PENDING] == NONE:
        if fold_chunk(data, links, c, score):
            index.mark(links, -1 - c)
        else:
            _leave_pending(links, c, c)


@helper
def _leave_pending(links: Links, c: int, other: int) -> None:
    """Note that two neighbouring chunks, or one, are to be folded from scratch."""
    if links[index.chunk_links_at(links, c) + PREVIOUS] == other:
        c, other = other, c
    links[PENDING] = c
    links[STOP] = links[index.chunk_links_at(links, other) + NEXT]


@helper
def settle_pending(data: Data, links: Links) -> bool:
    """Fold what is pending; False where more memory is needed first."""
    if links[PENDING] != NONE:
        links[PENDING] = settle(data, links, links[PENDING], links[STOP])
    return links[PENDING] == NONE


@helper
def _renew(data: Data, links: Links, queue: Queue, at: int, w: float) -> None:
    """Repair the sums of a slot from which nearly all weight was taken, ``w``, so digits were lost.

    A window still knows the samples that are left. Without one, what is left is kept possible.
    """
    if data[WINDOW] > 0.0:
        data[at + WEIGHT], data[at + SUM] = 0.0, 0.0
        for k in range(links[QUEUE_SIZE]):
            row = (links[QUEUE_START] + k) % queue.shape[0]
            if queue[row, 0] == data[at]:
                data[at + WEIGHT] += queue[row, 1]
                data[at + SUM] += queue[row, 2]
    if data[at + WEIGHT] <= 0.0:
        data[at + WEIGHT] = w * 2.0**-53
    low, high = data[at + WEIGHT] * data[LOWEST], data[at + WEIGHT] * data[HIGHEST]
    data[at + SUM] = min(max(data[at + SUM], low), high)


@helper
def remove(data: Data, links: Links, queue: Queue, score: float, w: float, s: float) -> bool:
    """Take a sample's sums from the slot of its score; False where no slot is that score's."""
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if not index.holds(data, links, c, slot, score):
        return False
    if links[index.chunk_links_at(links, c) + COUNTS + slot] > 1:
        at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
        data[at + WEIGHT] -= w
        data[at + SUM] -= s
        if data[at + WEIGHT] < CANCELLED * w:
            _renew(data, links, queue, at, w)
        alter(data, links, c, slot, 0.0, 0.0, -1)
        return True
    index.close_slot(data, links, c, slot)
    before = links[index.chunk_links_at(links, c) + SIZE]
    joined = index.settle_after_removal(data, links, c)
    if joined == NONE:
        return True
    if joined != c or links[index.chunk_links_at(links, c) + SIZE] != before:
        _leave_pending(links, joined, joined)
    elif fold_chunk(data, links, c, score):
        index.mark(links, -1 - c)
    else:
        _leave_pending(links, c, c)
    return True


@helper
def bring_up_to_date(data: Data, links: Links) -> None:
    """Bring nodes and the prior's clip up to date."""
    refresh(data, links)
    data[FLOOR], data[CEILING] = -np.inf, np.inf
    data[FLOOR_END], data[CEILING_START] = -np.inf, np.inf
    prior = data[PRIOR] * data[GROWTH]
    if prior == 0.0 or links[N_SCORES] == 0:
        return
    low, high = prior * data[LOWEST], prior * data[HIGHEST]
    data[FLOOR], data[FLOOR_END] = pool_front(data, links, prior, high)
    data[CEILING], data[CEILING_START] = pool_back(data, links, prior, low)
    if data[FLOOR] >= data[CEILING]:
        w, s = totals(data, links)
        data[FLOOR] = data[CEILING] = (s + low + high) / (w + 2.0 * prior)
        data[FLOOR_END], data[CEILING_START] = np.inf, -np.inf
    # Off the ends whatever the rounding, so that log loss is finite.
    inside = np.nextafter(data[LOWEST], np.inf), np.nextafter(data[HIGHEST], -np.inf)
    data[FLOOR] = min(max(data[FLOOR], inside[0]), inside[1])
    data[CEILING] = min(max(data[CEILING], inside[0]), inside[1])


@helper
def complete(data: Data, links: Links) -> int:
    """Fold what is left and end the change; return a status."""
    if not settle_pending(data, links):
        return NEED_ROOM
    bring_up_to_date(data, links)
    links[STAGE] = 0
    return OK


@helper
def _refuses(data: Data, score: float, s: float, w: float) -> bool:
    """Return whether a sample is not to be learned (NaN fails every comparison)."""
    return not (
        -np.inf < score < np.inf
        and SMALLEST <= w <= LARGEST
        and data[LOWEST] <= s <= data[HIGHEST]
        and -LARGEST <= s <= LARGEST
    )


@helper
def _learn(data: Data, links: Links, queue: Queue, score: float, s: float, w: float) -> int:
    """Learn one sample; the re-entrant heart of all learning kernels."""
    windowed = data[WINDOW] > 0.0
    if links[STAGE] == 0:
        if _refuses(data, score, s, w):
            return REFUSED
        if links[N_FREE] == 0:
            return NEED_ROOM
        growth = data[GROWTH] * data[RATE]
        if growth > LARGEST_GROWTH:
            return NEED_SCALING
        if links[N_SCORES] >= data[MAX_SCORES]:
            c = index.find_chunk(data, links, score)
            slot = index.find_slot(data, links, c, score)
            if not index.holds(data, links, c, slot, score):
                return NEED_MERGING
        if windowed and links[QUEUE_SIZE] == queue.shape[0] and queue.shape[0] <= data[WINDOW]:
            return NEED_QUEUE
        data[GROWTH] = growth
        w *= growth
        s *= w
        add(data, links, score, w, s)
        data[N_SAMPLES] += 1.0
        if windowed:
            at = (links[QUEUE_START] + links[QUEUE_SIZE]) % queue.shape[0]
            queue[at, 0], queue[at, 1], queue[at, 2] = score, w, s
            links[QUEUE_SIZE] += 1
        links[STAGE] = 1
    if links[STAGE] == 1:
        if not settle_pending(data, links):
            return NEED_ROOM
        if windowed and links[QUEUE_SIZE] > data[WINDOW]:
            at = links[QUEUE_START]
            links[QUEUE_START] = (at + 1) % queue.shape[0]
            links[QUEUE_SIZE] -= 1
            # A weight of 0 marks a sample that was taken back, or lost all weight, before.
            if queue[at, 1] > 0.0:
                remove(data, links, queue, queue[at, 0], queue[at, 1], queue[at, 2])
                data[N_SAMPLES] -= 1.0
        links[STAGE] = 2
    return complete(data, links)


@helper
def _leaves_possible(data: Data, sums: tuple[float, float], w: float, s: float, n: int) -> bool:
    """Return whether taking (w, s) from a slot's sums can leave those of ``n`` samples."""
    rest_w, rest_s = sums[0] - w, sums[1] - s
    slack = 1e-9 * (w + sums[0])
    slack_s = 1e-9 * (abs(s) + abs(sums[1])) + slack
    if n == 0:
        return abs(rest_w) <= slack and abs(rest_s) <= slack_s
    low, high = data[LOWEST], data[HIGHEST]
    if low > -np.inf and rest_s < low * rest_w - slack_s:
        return False
    if high < np.inf and rest_s > high * rest_w + slack_s:
        return False
    return rest_w > -slack


@helper
def _find_queued(links: Links, queue: Queue, score: float, w: float, s: float) -> int:
    """Return where the newest such sample waits in the window's queue, or NONE."""
    for k in range(links[QUEUE_SIZE] - 1, -1, -1):
        at = (links[QUEUE_START] + k) % queue.shape[0]
        same_weight = abs(queue[at, 1] - w) <= 1e-9 * w
        if queue[at, 0] == score and same_weight and abs(queue[at, 2] - s) <= 1e-9 * (abs(s) + w):
            return at
    return NONE


@helper
def _unlearn(data: Data, links: Links, queue: Queue, score: float, s: float, w: float) -> int:
    """Take one sample back: UNKNOWN, and no change, where it cannot have been learned."""
    if links[STAGE] == 0:
        if _refuses(data, score, s, w):
            return REFUSED
        w *= data[GROWTH]
        s *= w
        c = index.find_chunk(data, links, score)
        slot = index.find_slot(data, links, c, score)
        if not index.holds(data, links, c, slot, score):
            return UNKNOWN
        at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
        n = links[index.chunk_links_at(links, c) + COUNTS + slot]
        if not _leaves_possible(data, (data[at + WEIGHT], data[at + SUM]), w, s, n - 1):
            return UNKNOWN
        if data[WINDOW] > 0.0:
            at = _find_queued(links, queue, score, w, s)
            if at == NONE:
                return UNKNOWN
            queue[at, 1], queue[at, 2] = 0.0, 0.0
        remove(data, links, queue, score, w, s)
        data[N_SAMPLES] -= 1.0
        links[STAGE] = 2
    return complete(data, links)


@kernel("int64(float64[::1], int32[::1], float64[:, ::1], int64, float64, float64, float64)")
def change(
    data: Data, links: Links, queue: Queue, what: int, score: float, s: float, w: float
) -> int:
    """LEARN or UNLEARN a sample of statistic ``s``, or FINISH what is pending; return a status.

    One kernel, since every kernel that holds all of the above takes seconds to compile.
    """
    if what == LEARN:
        return _learn(data, links, queue, score, s, w)
    if what == UNLEARN:
        return _unlearn(data, links, queue, score, s, w)
    return complete(data, links)


@kernel(
    "int64(float64[::1], int32[::1], float64[:, ::1],"
    f" {READ}, {READ}, {READ}, boolean, float64[:, ::1], int64)"
)
def predict_learn_many(
    data: Data,
    links: Links,
    queue: Queue,
    scores: Data,
    s: Data,
    w: Data,
    step: bool,
    out: NDArray[np.float64],
    start: int,
) -> int:
    """Predict, then learn each sample from ``start`` on; return how many are learned.

    The status is in links. Without rows in ``out`` nothing is predicted.
    """
    resumed = links[STATUS] != OK  # the first sample was predicted before its learning stalled
    for i in range(start, len(scores)):
        if i < out.shape[0] and not (resumed and i == start):
            out[i, 0], out[i, 1], out[i, 2] = bracket(data, links, scores[i], step)
        links[STATUS] = _learn(data, links, queue, scores[i], s[i], w[i])
        if links[STATUS] != OK:
            return i
    return len(scores)


# ------------------------------------------------------------------------------ predicting


@kernel("float64(float64[::1], int32[::1], float64, boolean)")
def predict(data: Data, links: Links, score: float, step: bool) -> float:
    """Return the mean at a score, linear between blocks unless ``step``; NaN if there is none."""
    low, high, t = bracket(data, links, score, step)
    return low + t * (high - low)


@kernel(f"void(float64[::1], int32[::1], {READ}, boolean, float64[:, ::1])")
def bracket_many(
    data: Data, links: Links, scores: Data, step: bool, out: NDArray[np.float64]
) -> None:
    """Write the bracket of each score (means left and right, share of the way) to ``out``."""
    for i in range(len(scores)):
        out[i, 0], out[i, 1], out[i, 2] = bracket(data, links, scores[i], step)


# ------------------------------------------------------------------------------ the whole


@kernel("int64(float64[::1], int32[::1], boolean, float64[:, ::1])")
def walk(data: Data, links: Links, anchored: bool, out: NDArray[np.float64]) -> int:
    """Write the blocks in order, (first score, last score, W, S, center) a row; return how many.

    If ``anchored``, the prior's weight is in W and S of the outermost blocks, whose outer ends are
    then infinite; else there is no prior. Writes what ``out`` has room for.
    """
    n = 0
    first, last, w, s = np.nan, -np.inf, 0.0, 0.0
    prior, floor_end, ceiling_start = 0.0, -np.inf, np.inf
    if anchored:
        prior = data[PRIOR] * data[GROWTH]
        floor_end, ceiling_start = data[FLOOR_END], data[CEILING_START]
    if links[N_SCORES] == 0:
        return 0
    edge = edge_behind(data, links, last)
    while edge != NONE:
        if n > 0 and (
            data[edge + LAST_SCORE] <= floor_end
            or data[edge + FIRST_SCORE] > ceiling_start
            or data[edge + EDGE_S] * w <= s * data[edge + EDGE_W]
        ):
            w += data[edge + EDGE_W]
            s += data[edge + EDGE_S]
            n -= 1
        else:
            first, w, s = (
                data[edge + FIRST_SCORE],
                data[edge + EDGE_W],
                data[edge + EDGE_S],
            )
            if n == 0 and prior > 0.0:
                w += prior
                s += prior * data[HIGHEST]
        last = data[edge + LAST_SCORE]
        edge = edge_behind(data, links, last)
        if edge == NONE and prior > 0.0:
            w += prior
            s += prior * data[LOWEST]
        if n < out.shape[0]:
            out[n, 0], out[n, 1], out[n, 2], out[n, 3] = first, last, w, s
        n += 1
    n_stored = min(n, out.shape[0])
    c, i = links[index.FIRST], 0
    for k in range(n_stored):
        w, x = 0.0, 0.0
        while c != NONE:
            if i == links[index.chunk_links_at(links, c) + SIZE]:
                c, i = links[index.chunk_links_at(links, c) + NEXT], 0
                continue
            at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * i
            if data[at] > out[k, 1]:
                break
            w += data[at + WEIGHT]
            x += data[at + WEIGHT] * data[at]
            i += 1
        out[k, 4] = min(max(x / w, out[k, 0]), out[k, 1])
    if prior > 0.0 and n_stored > 0:
        out[0, 0] = -np.inf
        if n_stored == n:
            out[n - 1, 1] = np.inf
    return n
