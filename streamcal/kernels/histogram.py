"""A quantile sketch that carries labels: sorted cells of scores, merged when they grow too many.

A cell is a row (score, W, S, X): where it stands, the weight of its samples and their weighted sums
of labels and of scores. A new score opens a cell of its own; when all are taken, the two neighbours
with the least weight between them become one, at their mean score (Ben-Haim & Tom-Tov, *A Streaming
Parallel Decision Tree Algorithm*, JMLR 11, 2010, section 2.1, with weights instead of distances, so
that cells tend to equal mass). The rank of a score is then known to within the weight of its cell.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

Cells = NDArray[np.float64]

SCORE, WEIGHT, LABELS, SCORES = range(4)


@helper
def _find(cells: Cells, n: int, score: float) -> int:
    """Return how many cells lie below a score."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if cells[middle, SCORE] < score:
            low = middle + 1
        else:
            high = middle
    return low


@kernel("int64(float64[:, ::1], int64, float64, float64, float64)")
def add(cells: Cells, n: int, score: float, y: float, w: float) -> int:
    """Add a sample to the first ``n`` cells; return how many there are then.

    There must be one row more than cells are to be kept. Rows behind the cells may hold anything.
    """
    at = _find(cells, n, score)
    if at == n or cells[at, SCORE] != score:
        for i in range(n, at, -1):
            cells[i] = cells[i - 1]
        cells[at] = 0.0
        cells[at, SCORE] = score
        n += 1
    cells[at, WEIGHT] += w
    cells[at, LABELS] += w * y
    cells[at, SCORES] += w * score
    if n < len(cells):
        return n
    lightest, least = 0, np.inf
    for i in range(n - 1):
        if cells[i, WEIGHT] + cells[i + 1, WEIGHT] < least:
            lightest, least = i, cells[i, WEIGHT] + cells[i + 1, WEIGHT]
    low, high = cells[lightest, SCORE], cells[lightest + 1, SCORE]
    cells[lightest] += cells[lightest + 1]
    mean = cells[lightest, SCORES] / cells[lightest, WEIGHT]
    cells[lightest, SCORE] = min(max(mean, low), high)
    for i in range(lightest + 1, n - 1):
        cells[i] = cells[i + 1]
    return n - 1


@kernel("float64(float64[:, ::1], int64, int64, float64, float64)")
def predict(cells: Cells, n: int, n_bins: int, prior: float, score: float) -> float:
    """Return the mean label in the bin of a score, drawn to the bin's mean score by ``prior``."""
    if n == 0:
        return score
    total = 0.0
    for i in range(n):
        total += cells[i, WEIGHT]
    own = max(_find(cells, n, np.nextafter(score, np.inf)) - 1, 0)
    # A cell is in the bin that the middle of its mass is in.
    below, place = 0.0, -1
    for i in range(own + 1):
        place = int(n_bins * ((below + 0.5 * cells[i, WEIGHT]) / total))
        below += cells[i, WEIGHT]
    w, hits, mean, below = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        if int(n_bins * ((below + 0.5 * cells[i, WEIGHT]) / total)) == place:
            w += cells[i, WEIGHT]
            hits += cells[i, LABELS]
            mean += cells[i, SCORES]
        below += cells[i, WEIGHT]
    return (hits + prior * min(max(mean / w, 0.0), 1.0)) / (w + prior)
