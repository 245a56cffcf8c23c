"""What the staircase would say if one more sample were learned.

That is the Venn-Abers pair of a score (Vovk, Petej & Fedorova, *Large-Scale Probabilistic
Predictors With and Without Guarantees of Validity*, NIPS 2015): the calibrated value of a score,
had it been learned with the lowest label, and had it been learned with the highest.
"""

import numpy as np

from streamcal.kernels import score_index as index
from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.hull import SUM, WEIGHT
from streamcal.kernels.isotonic import (
    GROWTH,
    HIGHEST,
    LOWEST,
    Queue,
    add,
    alter,
    bracket,
    bring_up_to_date,
    remove,
    settle_pending,
)
from streamcal.kernels.score_index import CHUNK_HEAD, N_FREE, SLOT, Data, Links

# Free chunks that a sample tried out may take: one to enter, three for each time it is folded.
ROOM_TO_TRY = 10


@helper
def _put(data: Data, links: Links, score: float, w: float, s: float, n: int) -> None:
    """Set the sums of a score that is held, change its count by ``n``, and fold."""
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    data[at + WEIGHT], data[at + SUM] = w, s
    alter(data, links, c, slot, 0.0, 0.0, n)
    _fold_all(data, links)


@helper
def _fold_all(data: Data, links: Links) -> None:
    settle_pending(data, links)
    bring_up_to_date(data, links)


@kernel("UniTuple(float64, 2)(float64[::1], int64[::1], float64[:, ::1], float64)")
def what_if(data: Data, links: Links, queue: Queue, score: float) -> tuple[float, float]:
    """Return the means at ``score`` if a sample of the lowest or highest label were learned there.

    NaN where more room is needed first. The sample is put in and taken out again, in three updates
    after which all sums are bit for bit what they were; a full chunk may have been split.
    """
    if links[N_FREE] < ROOM_TO_TRY:
        return np.nan, np.nan
    w = data[GROWTH]
    low, high = w * data[LOWEST], w * data[HIGHEST]
    kept_w, kept_s = 0.0, 0.0
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if index.holds(data, links, c, slot, score):
        at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
        kept_w, kept_s = data[at + WEIGHT], data[at + SUM]
    add(data, links, score, w, low)
    _fold_all(data, links)
    p0 = bracket(data, links, score, True)[0]
    _put(data, links, score, kept_w + w, kept_s + high, 0)
    p1 = bracket(data, links, score, True)[0]
    if kept_w > 0.0:
        _put(data, links, score, kept_w, kept_s, -1)
    else:
        remove(data, links, queue, score, w, high)
        _fold_all(data, links)
    return p0, p1
