"""Optimal thresholds of a stream: extrema of prefix sums folded up the tree of a score index.

A slot of `streamcal.kernels.array_index` is here

    score, weight, code

and the code is the label (from 0) that all samples of this score have, or -1 - m where they differ:
then mixed row m has the weight of each label and, behind these, their weighted sum of loss rows.
Summaries do not fit into the index, because their
size depends on the number of labels K, so a matrix ``rows`` goes with it::

    rows = [ K rows: the loss | capacity rows: nodes | capacity rows: chunks | mixed rows ]

Two kinds of summary, told apart by the word KIND.

EXTREMA, for the K - 1 boundaries each alone: the sum over the slots below of the differences
loss(k, y) - loss(k + 1, y), the least sum of their prefixes, and the score that this prefix ends
with. Neighbours combine as in `streamcal.kernels.thresholds`; an update costs O(K log n). A loss
row is the differences of one label. Scores, not ranks, say where a prefix ends, so an insertion
leaves all other summaries alone; the threshold lies between that score and the next one, which is
looked up. With a convex loss the boundaries come out sorted and are optimal (Theorem 2 of Yamasaki
& Tanaka); with any other that is so when they happen to be sorted (Theorem 1).

MIN_PLUS, for any loss and few labels: T[a, b], for a <= b, is the least cost of the slots below
with non-decreasing labels from a to b. T[a, b] = min over c of T'[a, c] + T''[c, b]; K(K + 1)/2
numbers and O(K^3 log n) an update. A loss row is the costs of all answers to one label. Thresholds
are traced down from the root.

Forgetting is as in the staircase: a sample enters with its weight times GROWTH, which grows by RATE
a sample. A kernel that needs more memory or a scaling says so before it changes anything, and is
called again.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import LARGEST, SMALLEST
from streamcal.kernels import array_index as index
from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.array_index import (
    CAPACITY,
    CHUNK_HEAD,
    CLEAN,
    COUNTS,
    DIRTY,
    FIRST,
    LEFT,
    N_FREE,
    NEXT,
    NONE,
    PREVIOUS,
    RIGHT,
    ROOT,
    SIZE,
    SLOT,
    SLOTS,
    Data,
    Links,
)

Rows = NDArray[np.float64]
Queue = NDArray[np.float64]

READ = "Array(float64, 1, 'C', True)"
READ_MATRIX = "Array(float64, 2, 'C', True)"
INDEX = "float64[::1], int64[::1], float64[:, ::1], float64[:, ::1]"

# A slot.
WEIGHT, CODE = 1, 2

# The header, in data.
GROWTH, RATE, N_SAMPLES, WINDOW = range(4)

# The owner's words, in links.
N_LABELS, KIND, FREE_ROW, QUEUE_START, QUEUE_SIZE, N_FREE_ROWS = range(8, 14)
EXTREMA, MIN_PLUS = range(2)

# What `change` is to do, and what kernels answer.
LEARN, UNLEARN = range(2)
OK, REFUSED, UNKNOWN, NEED_ROOM, NEED_SCALING, NEED_QUEUE, NEED_ROWS = range(7)

LARGEST_GROWTH = 2.0**128
VANISHED = 2.0**-400
STEP = 4
# Where less than this share of a removed weight is left, the rest has lost digits.
CANCELLED = 1e-6


@helper
def row_of(links: Links, code: int) -> int:
    """Return the row of a child's summary."""
    if code >= 0:
        return links[N_LABELS] + code
    return links[N_LABELS] + links[CAPACITY] - 1 - code


@helper
def mixed_row(links: Links, m: int) -> int:
    """Return where mixed row ``m`` is."""
    return links[N_LABELS] + 2 * links[CAPACITY] + m


@helper
def packed(n_labels: int, a: int, b: int) -> int:
    """Return where T[a, b] is in a row."""
    return a * n_labels - (a * (a - 1)) // 2 + b - a


# ------------------------------------------------------------------------------ folding


@helper
def _fold_chunk(data: Data, links: Links, rows: Rows, c: int) -> None:
    """Summarise the slots of a chunk and mark its ancestors."""
    if links[KIND] == EXTREMA:
        _fold_extrema(data, links, rows, c)
    else:
        _fold_min_plus(data, links, rows, c)
    index.mark(links, -1 - c)


@helper
def _loss_row(data: Data, links: Links, rows: Rows, at: int) -> tuple[int, int, float]:
    """Return row, column and factor of the loss of the slot that starts at ``at``."""
    code = data[at + CODE]
    if code >= 0.0:
        return int(code), 0, data[at + WEIGHT]
    return mixed_row(links, int(-1.0 - code)), links[N_LABELS], 1.0


@helper
def _fold_extrema(data: Data, links: Links, rows: Rows, c: int) -> None:
    """Sum up the slots of a chunk, `STEP` at once as in `streamcal.kernels.thresholds`."""
    n = links[N_LABELS] - 1
    row = rows[row_of(links, -1 - c)]
    sums, least, ends = row[:n], row[n : 2 * n], row[2 * n : 3 * n]
    for k in range(n):
        sums[k] = 0.0
        least[k] = np.inf
        ends[k] = 0.0
    at = index.chunk_at(links, c) + CHUNK_HEAD
    size = links[index.chunk_links_at(links, c) + SIZE]
    whole = size // STEP * STEP
    for i in range(0, whole, STEP):
        slot = at + SLOT * i
        r0, o0, w0 = _loss_row(data, links, rows, slot)
        r1, o1, w1 = _loss_row(data, links, rows, slot + SLOT)
        r2, o2, w2 = _loss_row(data, links, rows, slot + 2 * SLOT)
        r3, o3, w3 = _loss_row(data, links, rows, slot + 3 * SLOT)
        d0, d1 = rows[r0][o0 : o0 + n], rows[r1][o1 : o1 + n]
        d2, d3 = rows[r2][o2 : o2 + n], rows[r3][o3 : o3 + n]
        step = float(i)
        for k in range(n):
            s0 = w0 * d0[k]
            s1 = s0 + w1 * d1[k]
            s2 = s1 + w2 * d2[k]
            s3 = s2 + w3 * d3[k]
            end01, end23 = 0.0 if s0 <= s1 else 1.0, 2.0 if s2 <= s3 else 3.0
            lowest01, lowest23 = min(s0, s1), min(s2, s3)
            end = end01 if lowest01 <= lowest23 else end23
            lowest = sums[k] + min(lowest01, lowest23)
            before, before_end = least[k], ends[k]  # read first, or it is not vectorised
            better = lowest < before
            least[k] = lowest if better else before
            ends[k] = step + end if better else before_end
            sums[k] += s3
    for i in range(whole, size):
        r0, o0, w0 = _loss_row(data, links, rows, at + SLOT * i)
        d0 = rows[r0][o0 : o0 + n]
        step = float(i)
        for k in range(n):
            total, before, before_end = sums[k] + w0 * d0[k], least[k], ends[k]
            better = total < before
            least[k] = total if better else before
            ends[k] = step if better else before_end
            sums[k] = total
    for k in range(n):
        ends[k] = data[at + SLOT * int(ends[k])]


@helper
def _cost(data: Data, links: Links, rows: Rows, at: int, k: int) -> float:
    """Return what answering ``k`` costs at the slot that starts at ``at``."""
    row, column, w = _loss_row(data, links, rows, at)
    return w * rows[row, column + k]


@helper
def _fold_min_plus(data: Data, links: Links, rows: Rows, c: int) -> None:
    n_labels = links[N_LABELS]
    row = rows[row_of(links, -1 - c)]
    for j in range(n_labels * (n_labels + 1) // 2):
        row[j] = 0.0
    at = index.chunk_at(links, c) + CHUNK_HEAD
    costs = np.empty(n_labels)
    for i in range(links[index.chunk_links_at(links, c) + SIZE]):
        for k in range(n_labels):
            costs[k] = _cost(data, links, rows, at + SLOT * i, k)
        j = 0
        for a in range(n_labels):
            least = np.inf
            for b in range(a, n_labels):
                total = row[j] + costs[b]
                least = total if total < least else least
                row[j] = least
                j += 1


@helper
def _fold_node(links: Links, rows: Rows, i: int) -> None:
    """Combine the summaries of a node's children."""
    own = index.node_links_at(i)
    left = rows[row_of(links, links[own + LEFT])]
    right = rows[row_of(links, links[own + RIGHT])]
    row = rows[row_of(links, i)]
    n_labels = links[N_LABELS]
    if links[KIND] == EXTREMA:
        n = n_labels - 1
        for k in range(n):
            earlier, later = left[n + k], left[k] + right[n + k]
            end, later_end = left[2 * n + k], right[2 * n + k]
            row[n + k] = later if later < earlier else earlier
            row[2 * n + k] = later_end if later < earlier else end
            row[k] = left[k] + right[k]
        return
    for a in range(n_labels):
        for b in range(a, n_labels):
            least = np.inf
            for c in range(a, b + 1):
                total = left[packed(n_labels, a, c)] + right[packed(n_labels, c, b)]
                least = total if total < least else least
            row[packed(n_labels, a, b)] = least


@helper
def _refresh(links: Links, rows: Rows) -> None:
    """Fold all dirty nodes, children first."""
    i = links[ROOT]
    if i < 0 or links[index.node_links_at(i) + DIRTY] == CLEAN:
        return
    while i != NONE:
        i = index.next_dirty(links, i)
        _fold_node(links, rows, i)
        links[index.node_links_at(i) + DIRTY] = CLEAN
        i = links[index.parent_at(links, i)]


@kernel(f"void({INDEX})")
def fold_all(data: Data, links: Links, queue: Queue, rows: Rows) -> None:
    """Summarise everything anew."""
    c = links[FIRST]
    while c != NONE:
        _fold_chunk(data, links, rows, c)
        c = links[index.chunk_links_at(links, c) + NEXT]
    _refresh(links, rows)


@kernel("void(int64[::1], float64[:, ::1], int64, int64)")
def release_rows(links: Links, rows: Rows, first: int, stop: int) -> None:
    """Put mixed rows on the free list; the first column chains them."""
    for m in range(stop - 1, first - 1, -1):
        rows[mixed_row(links, m), 0] = links[FREE_ROW]
        links[FREE_ROW] = m
    links[N_FREE_ROWS] += stop - first


# ------------------------------------------------------------------------------ changing


@helper
def _mix(data: Data, links: Links, rows: Rows, at: int) -> None:
    """Give a slot whose samples had one label a mixed row."""
    m = links[FREE_ROW]
    row = rows[mixed_row(links, m)]
    links[FREE_ROW] = int(row[0])
    links[N_FREE_ROWS] -= 1
    for y in range(links[N_LABELS]):
        row[y] = 0.0
    row[int(data[at + CODE])] = data[at + WEIGHT]
    data[at + CODE] = -1.0 - m


@helper
def _sum_losses(links: Links, rows: Rows, m: int) -> None:
    """Renew what a mixed row, which is row ``m``, has behind the weights of labels."""
    n_labels = links[N_LABELS]
    width = n_labels if links[KIND] == MIN_PLUS else n_labels - 1
    for k in range(width):
        rows[m, n_labels + k] = 0.0
    for y in range(n_labels):
        w = rows[m, y]
        if w > 0.0:
            for k in range(width):
                rows[m, n_labels + k] += w * rows[y, k]


@helper
def _insert(
    data: Data, links: Links, rows: Rows, score: float, y: int, w: float, fold: bool
) -> None:
    """Add a sample to the slot of its score."""
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if not index.holds(data, links, c, slot, score):
        if links[index.chunk_links_at(links, c) + SIZE] == SLOTS:
            other = index.make_room(data, links, c, slot, score)
            if fold:
                _fold_chunk(data, links, rows, c)
                _fold_chunk(data, links, rows, other)
            c = index.find_chunk(data, links, score)
            slot = index.find_slot(data, links, c, score)
        index.open_slot(data, links, c, slot, score)
        data[index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot + CODE] = y
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    if data[at + CODE] >= 0.0 and data[at + CODE] != y:
        _mix(data, links, rows, at)
    if data[at + CODE] < 0.0:
        m = mixed_row(links, int(-1.0 - data[at + CODE]))
        rows[m, y] += w
        _sum_losses(links, rows, m)
    data[at + WEIGHT] += w
    links[index.chunk_links_at(links, c) + COUNTS + slot] += 1
    if fold:
        _fold_chunk(data, links, rows, c)


@helper
def _take(data: Data, links: Links, queue: Queue, rows: Rows, at: int, y: int, w: float) -> None:
    """Take a weight from a slot that keeps others."""
    score, mixed = data[at], data[at + CODE] < 0.0
    data[at + WEIGHT] -= w
    left = data[at + WEIGHT]
    m = 0
    if mixed:
        m = mixed_row(links, int(-1.0 - data[at + CODE]))
        rows[m, y] -= w
        left = min(left, rows[m, y])
    # Nearly all was taken, so digits were lost. A window still knows the samples that are left.
    if left < CANCELLED * w and data[WINDOW] > 0.0:
        total, of_label = 0.0, 0.0
        for k in range(links[QUEUE_SIZE]):
            i = (links[QUEUE_START] + k) % queue.shape[0]
            if queue[i, 0] == score:
                total += queue[i, 1]
                if queue[i, 2] == y:
                    of_label += queue[i, 1]
        data[at + WEIGHT] = total
        if mixed:
            rows[m, y] = of_label
    data[at + WEIGHT] = max(data[at + WEIGHT], 0.0)
    if mixed:
        rows[m, y] = max(rows[m, y], 0.0)
        _sum_losses(links, rows, m)


@helper
def _remove(
    data: Data, links: Links, queue: Queue, rows: Rows, score: float, y: int, w: float, fold: bool
) -> None:
    """Take a sample from the slot of its score, if there is one."""
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if not index.holds(data, links, c, slot, score):
        return
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    count = index.chunk_links_at(links, c) + COUNTS + slot
    if links[count] > 1:
        links[count] -= 1
        _take(data, links, queue, rows, at, y, w)
    else:
        if data[at + CODE] < 0.0:
            m = int(-1.0 - data[at + CODE])
            rows[mixed_row(links, m), 0] = links[FREE_ROW]
            links[FREE_ROW] = m
            links[N_FREE_ROWS] += 1
        index.close_slot(data, links, c, slot)
        c = index.settle_after_removal(data, links, c)
    if fold and c != NONE:
        _fold_chunk(data, links, rows, c)


@helper
def _refuses(links: Links, score: float, y: float, w: float) -> bool:
    """Return whether a sample is not to be learned (NaN fails every comparison)."""
    return not (
        -np.inf < score < np.inf
        and SMALLEST <= w <= LARGEST
        and 0.0 <= y < links[N_LABELS]
        and y == np.floor(y)
    )


@helper
def _learn(
    data: Data,
    links: Links,
    queue: Queue,
    rows: Rows,
    score: float,
    y: float,
    w: float,
    fold: bool,
) -> int:
    """Learn one sample, and forget the one that leaves the window; return a status."""
    windowed = data[WINDOW] > 0.0
    if _refuses(links, score, y, w):
        return REFUSED
    if links[N_FREE] == 0:
        return NEED_ROOM
    if links[N_FREE_ROWS] == 0:
        return NEED_ROWS
    growth = data[GROWTH] * data[RATE]
    if growth > LARGEST_GROWTH:
        return NEED_SCALING
    if windowed and links[QUEUE_SIZE] == queue.shape[0] and queue.shape[0] <= data[WINDOW]:
        return NEED_QUEUE
    data[GROWTH] = growth
    w *= growth
    _insert(data, links, rows, score, int(y), w, fold)
    data[N_SAMPLES] += 1.0
    if windowed:
        at = (links[QUEUE_START] + links[QUEUE_SIZE]) % queue.shape[0]
        queue[at, 0], queue[at, 1], queue[at, 2] = score, w, y
        links[QUEUE_SIZE] += 1
        if links[QUEUE_SIZE] > data[WINDOW]:
            at = links[QUEUE_START]
            links[QUEUE_START] = (at + 1) % queue.shape[0]
            links[QUEUE_SIZE] -= 1
            # A weight of 0 marks a sample that was taken back, or lost all weight, before.
            if queue[at, 1] > 0.0:
                old, label = queue[at, 0], int(queue[at, 2])
                _remove(data, links, queue, rows, old, label, queue[at, 1], fold)
                data[N_SAMPLES] -= 1.0
    return OK


@helper
def _unlearn(
    data: Data, links: Links, queue: Queue, rows: Rows, score: float, y: float, w: float
) -> int:
    """Take one sample back: UNKNOWN, and no change, where it cannot have been learned."""
    if _refuses(links, score, y, w):
        return REFUSED
    w *= data[GROWTH]
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if not index.holds(data, links, c, slot, score):
        return UNKNOWN
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    total = data[at + WEIGHT]
    held, code = total, data[at + CODE]
    if code < 0.0:
        held = rows[mixed_row(links, int(-1.0 - code)), int(y)]
    elif code != y:
        return UNKNOWN
    last = links[index.chunk_links_at(links, c) + COUNTS + slot] == 1
    slack = 1e-9 * total
    if held < w - slack or (last and total > w + slack):
        return UNKNOWN
    if data[WINDOW] > 0.0:
        found = NONE
        for k in range(links[QUEUE_SIZE] - 1, -1, -1):
            i = (links[QUEUE_START] + k) % queue.shape[0]
            same = queue[i, 0] == score and queue[i, 2] == y
            if same and abs(queue[i, 1] - w) <= 1e-9 * w:
                found = i
                break
        if found == NONE:
            return UNKNOWN
        queue[found, 1] = 0.0
    _remove(data, links, queue, rows, score, int(y), w, True)
    data[N_SAMPLES] -= 1.0
    return OK


@kernel(f"int64({INDEX}, int64, float64, float64, float64)")
def change(
    data: Data,
    links: Links,
    queue: Queue,
    rows: Rows,
    what: int,
    score: float,
    y: float,
    w: float,
) -> int:
    """LEARN or UNLEARN a sample of label ``y`` (from 0); return a status."""
    if what == LEARN:
        status = _learn(data, links, queue, rows, score, y, w, True)
    else:
        status = _unlearn(data, links, queue, rows, score, y, w)
    if status == OK:
        _refresh(links, rows)
    return status


@kernel(f"UniTuple(int64, 2)({INDEX}, {READ}, {READ}, {READ}, int64)")
def learn_many(
    data: Data,
    links: Links,
    queue: Queue,
    rows: Rows,
    scores: Data,
    y: Data,
    w: Data,
    start: int,
) -> tuple[int, int]:
    """Learn samples from ``start`` on; return how many are learned and a status.

    Summaries are left as they are: `fold_all` has to follow.
    """
    for i in range(start, len(scores)):
        status = _learn(data, links, queue, rows, scores[i], y[i], w[i], False)
        if status != OK:
            return i, status
    return len(scores), OK


# ------------------------------------------------------------------------------ asking


@helper
def _threshold(data: Data, links: Links, below: float) -> float:
    """Return the threshold right above a score that is held: halfway to the next one, or inf."""
    if below == -np.inf:
        return below
    c = index.find_chunk(data, links, below)
    slot = index.find_slot(data, links, c, below) + 1
    own = index.chunk_links_at(links, c)
    if slot == links[own + SIZE]:
        c, slot = links[own + NEXT], 0
        if c == NONE:
            return np.inf
    above = data[index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot]
    middle = 0.5 * below + 0.5 * above
    return middle if below < middle < above else above


@helper
def _end(links: Links, rows: Rows, k: int) -> float:
    """Return the last score below boundary ``k``, alone; -inf if that is below all."""
    n = links[N_LABELS] - 1
    row = rows[row_of(links, links[ROOT])]
    return row[2 * n + k] if row[n + k] < 0.0 else -np.inf


@helper
def _trace_chunk(data: Data, links: Links, rows: Rows, c: int, a: int, b: int, out: Data) -> None:
    """Trace the boundaries from ``a`` to ``b - 1``, which end within chunk ``c`` or before it."""
    at, own = index.chunk_at(links, c) + CHUNK_HEAD, index.chunk_links_at(links, c)
    size = links[own + SIZE]
    stays = np.zeros((SLOTS + 1, links[N_LABELS]), np.bool_)
    total = np.zeros(links[N_LABELS])
    for i in range(size + 1):
        least = np.inf
        for k in range(a, b + 1):
            stays[i, k] = total[k] <= least
            least = min(total[k], least)
            total[k] = least
            if i < size:
                total[k] += _cost(data, links, rows, at + SLOT * i, k)
    k = b
    for i in range(size, -1, -1):
        while k > a and not stays[i, k]:
            k -= 1
            out[k] = data[at + SLOT * (i - 1)]
    before = links[own + PREVIOUS]
    while k > a:
        k -= 1
        out[k] = -np.inf
        if before != NONE:
            last = links[index.chunk_links_at(links, before) + SIZE] - 1
            out[k] = data[index.chunk_at(links, before) + CHUNK_HEAD + SLOT * last]


@helper
def _trace(data: Data, links: Links, rows: Rows, out: Data) -> None:
    """Write the last score below each boundary, by what MIN_PLUS summaries are made of."""
    n_labels = links[N_LABELS]
    todo = np.empty((128, 3), np.int64)
    todo[0, 0], todo[0, 1], todo[0, 2] = links[ROOT], 0, n_labels - 1
    n = 1
    while n > 0:
        n -= 1
        code, a, b = todo[n, 0], todo[n, 1], todo[n, 2]
        if a == b:
            continue
        if code < 0:
            _trace_chunk(data, links, rows, -1 - code, a, b, out)
            continue
        own = index.node_links_at(code)
        left = rows[row_of(links, links[own + LEFT])]
        right = rows[row_of(links, links[own + RIGHT])]
        best, least = a, np.inf
        for c in range(a, b + 1):
            total = left[packed(n_labels, a, c)] + right[packed(n_labels, c, b)]
            if total < least:
                best, least = c, total
        todo[n, 0], todo[n, 1], todo[n, 2] = links[own + LEFT], a, best
        todo[n + 1, 0], todo[n + 1, 1], todo[n + 1, 2] = links[own + RIGHT], best, b
        n += 2


@kernel(f"boolean({INDEX}, float64[::1])")
def read(data: Data, links: Links, queue: Queue, rows: Rows, out: Data) -> bool:
    """Write the thresholds to ``out``; return whether they are sorted, so optimal. O(K log n)."""
    n = links[N_LABELS] - 1
    if links[KIND] == MIN_PLUS:
        _trace(data, links, rows, out)
    else:
        for k in range(n):
            out[k] = _end(links, rows, k)
    for k in range(1, n):
        if out[k] < out[k - 1]:
            return False
    below, threshold = np.nan, np.nan
    for k in range(n):
        if out[k] != below:
            below = out[k]
            threshold = _threshold(data, links, below)
        out[k] = threshold
    return True


@kernel(f"int64({INDEX}, float64)")
def label_of(data: Data, links: Links, queue: Queue, rows: Rows, score: float) -> int:
    """Return the label (from 0) of a score by EXTREMA, NONE if unsorted; O(K + log K log n)."""
    low, high = 0, links[N_LABELS] - 1
    for k in range(1, high):
        if _end(links, rows, k) < _end(links, rows, k - 1):
            return NONE
    while low < high:
        k = (low + high) >> 1
        below = _end(links, rows, k)
        if score > below and score >= _threshold(data, links, below):
            low = k + 1
        else:
            high = k
    return low


@kernel(f"float64({INDEX}, {READ}, {READ_MATRIX})")
def risk(
    data: Data, links: Links, queue: Queue, rows: Rows, thresholds: Data, costs: Rows
) -> float:
    """Return the summed cost of the samples, ``costs`` by label and answer; O(n)."""
    n_labels = links[N_LABELS]
    total = 0.0
    k = 0
    c = links[FIRST]
    while c != NONE:
        at, own = index.chunk_at(links, c) + CHUNK_HEAD, index.chunk_links_at(links, c)
        for i in range(links[own + SIZE]):
            slot = at + SLOT * i
            while k < n_labels - 1 and data[slot] >= thresholds[k]:
                k += 1
            code = data[slot + CODE]
            if code >= 0.0:
                total += data[slot + WEIGHT] * costs[int(code), k]
            else:
                weights = rows[mixed_row(links, int(-1.0 - code))]
                for y in range(n_labels):
                    total += weights[y] * costs[y, k]
        c = links[own + NEXT]
    return total / data[GROWTH]


@kernel(f"int64({INDEX}, float64[:, ::1])")
def dump(data: Data, links: Links, queue: Queue, rows: Rows, out: Rows) -> int:
    """Write the slots in order, (score, count, weight of each label) a row, as far as they fit."""
    n = 0
    c = links[FIRST]
    while c != NONE:
        at, own = index.chunk_at(links, c) + CHUNK_HEAD, index.chunk_links_at(links, c)
        for i in range(links[own + SIZE]):
            slot = at + SLOT * i
            out[n, 0], out[n, 1] = data[slot], links[own + COUNTS + i]
            code = data[slot + CODE]
            for y in range(links[N_LABELS]):
                out[n, 2 + y] = 0.0
                if code < 0.0:
                    out[n, 2 + y] = rows[mixed_row(links, int(-1.0 - code)), y]
            if code >= 0.0:
                out[n, 2 + int(code)] = data[slot + WEIGHT]
            n += 1
        c = links[own + NEXT]
    return n


@kernel(f"void({INDEX}, {READ}, int64[::1], float64[:, ::1])")
def fill(
    data: Data,
    links: Links,
    queue: Queue,
    rows: Rows,
    scores: Data,
    counts: NDArray[np.int64],
    weights: Rows,
) -> None:
    """Append slots, in order, to a cleared index that has room for them; `fold_all` follows."""
    for i in range(len(scores)):
        first = True
        for y in range(links[N_LABELS]):
            if weights[i, y] > 0.0:
                _insert(data, links, rows, scores[i], y, weights[i, y], False)
                first = False
        if first:
            _insert(data, links, rows, scores[i], 0, 0.0, False)
        c = index.find_chunk(data, links, scores[i])
        slot = index.find_slot(data, links, c, scores[i])
        links[index.chunk_links_at(links, c) + COUNTS + slot] = counts[i]
