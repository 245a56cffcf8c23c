"""A quantile sketch that carries labels: sorted cells of scores, merged when they grow too many.

A cell stands at a score and holds the weight of its samples and their weighted sums of labels and
of scores. A new score gets its own cell. When all cells are used, the two neighbours with the least
total weight are merged at their mean score (Ben-Haim & Tom-Tov, *A Streaming Parallel
Decision Tree Algorithm*, JMLR 11, 2010, section 2.1, with weights instead of distances, so that
cells tend to equal mass). With three cells:

    score    .1   .3   .6              .1   .3   .4   .6            .1    .35   .6
    weight    2    1    3   learn .4    2    1    1    3   merge     2     2     3

The rank of a score is then known up to the weight of its cell. Bins are runs of cells: a cell
belongs to the bin that contains the middle of its mass.

With a half-life, old weights are not reduced at each sample. Instead the weights of new samples
grow, and all weights are divided by the growth before it becomes too large. With a half-life in
seconds they grow by what has passed since the sample before.
"""

cimport cython
from libc.math cimport INFINITY, NAN, exp2
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove

from streamcal.kernels.clock cimport Clock, half_life_of, new_clock, now_of, passed_until, set_now
from streamcal.kernels.expert cimport Expert
from streamcal.kernels.memory cimport resize

import numpy as np

from streamcal.kernels.exclusive import no_collection
from streamcal.kernels.expert import restored

CELLS_PER_BIN = 16
LARGEST_GROWTH = 2.0**128

cdef double largest_growth = LARGEST_GROWTH
cdef double MOST_HALVES = 256.0  # by which weights grow at once
cdef Py_ssize_t FIRST_CELLS = 8


cdef struct Cell:
    double score  # its position
    double weight, labels, scores  # Σ w, Σ w · label and Σ w · score


@cython.final
cdef class Histogram(Expert):
    """The cells of some samples, 16 for each of ``n_bins`` bins.

    ``rate`` is the factor from the weight of a sample to that of the next one. Each bin has a
    pseudo-sample of weight ``prior`` whose label is the mean score of the bin.
    """

    cdef Cell *cells
    cdef Py_ssize_t size, room, most
    cdef int n_bins
    cdef double rate, prior, growth
    cdef Clock *clock

    def __cinit__(self, int n_bins, double rate, double prior, double half_life=INFINITY):
        if n_bins < 1:
            raise ValueError(f"there must be at least one bin, got {n_bins}")
        self.most = CELLS_PER_BIN * <Py_ssize_t> n_bins
        self.n_bins, self.rate, self.prior, self.growth = n_bins, rate, prior, 1.0
        self.clock = new_clock(half_life)
        self.make_room(min(FIRST_CELLS, self.most))

    def __dealloc__(self):
        free(self.cells)
        free(self.clock)

    def state(self):
        """Return what `restore` takes; a row is (score, Σ w, Σ w · label, Σ w · score)."""
        cdef double[:, ::1] out
        with no_collection, self.lock:
            rows = np.empty((self.size, 4))
            out = rows
            if self.size:
                memcpy(&out[0, 0], self.cells, self.size * sizeof(Cell))
            return rows, self.growth, now_of(self.clock)

    def restore(self, const double[:, ::1] rows, double growth, double now=NAN):
        """Set the state to what `state` returned; there may not be more cells than fit."""
        if rows.shape[1] != 4:
            raise ValueError(f"a cell must be four numbers, got {rows.shape[1]}")
        if len(rows) > self.most:
            raise ValueError(f"there must be {self.most} cells at most, got {len(rows)}")
        self.make_room(len(rows))
        if len(rows):
            memcpy(self.cells, &rows[0, 0], len(rows) * sizeof(Cell))
        self.size, self.growth = len(rows), growth
        set_now(self.clock, now)

    def __sizeof__(self):
        cdef size_t of_clock = sizeof(Clock) if self.clock != NULL else 0
        return object.__sizeof__(self) + (self.room + 1) * sizeof(Cell) + of_clock

    def __reduce__(self):
        settings = self.n_bins, self.rate, self.prior, half_life_of(self.clock)
        return restored, (Histogram, settings, self.state())

    cdef double answer(self, double score) except? -1.0 nogil:
        """Return the mean label in the bin of a score; before the first sample it is the score.

        O(n_cells).
        """
        cdef Py_ssize_t i, own
        cdef int place = -1
        cdef double total = 0.0, below = 0.0, w = 0.0, hits = 0.0, mean = 0.0
        cdef double prior = self.prior * self.growth
        cdef Cell *cell
        if not self.size:
            return score
        for i in range(self.size):
            total += self.cells[i].weight
        own = max(self.n_up_to(score) - 1, 0)
        for i in range(own + 1):
            place = self.bin_of(&self.cells[i], below, total)
            below += self.cells[i].weight
        below = 0.0
        for i in range(self.size):
            cell = &self.cells[i]
            if self.bin_of(cell, below, total) == place:
                w += cell.weight
                hits += cell.labels
                mean += cell.scores
            below += cell.weight
        return (hits + prior * min(max(mean / w, 0.0), 1.0)) / (w + prior)

    cdef int teach(self, double score, double y, double w, double t) except -1 nogil:
        """Add a sample; O(n_cells)."""
        cdef Py_ssize_t at
        cdef double halves
        cdef Cell *cell
        if self.size == self.room and self.room < self.most:
            self.make_room(min(2 * self.room, self.most))  # the statements below cannot fail
        self.growth *= self.rate
        halves = passed_until(self.clock, t) / half_life_of(self.clock)
        while halves > MOST_HALVES and self.size > 0:  # until nothing is left
            self.growth *= exp2(MOST_HALVES)
            self.shrink()
            halves -= MOST_HALVES
        if self.size > 0 and halves > 0.0:
            self.growth *= exp2(halves)
        if self.growth > largest_growth:
            self.shrink()
        w *= self.growth
        at = self.n_up_to(score) - 1
        if at < 0 or self.cells[at].score != score:
            at += 1
            memmove(&self.cells[at + 1], &self.cells[at], (self.size - at) * sizeof(Cell))
            self.cells[at] = Cell(score=score, weight=0.0, labels=0.0, scores=0.0)
            self.size += 1
        cell = &self.cells[at]
        cell.weight += w
        cell.labels += w * y
        cell.scores += w * score
        if self.size > self.most:
            self.merge_lightest()
        assert all_rise(self.cells, self.size)
        return 0

    cdef int make_room(self, Py_ssize_t room) except -1 nogil:
        """Allocate room for this many cells, and for one more until two are merged."""
        if room > self.room:
            resize(<void **> &self.cells, room + 1, sizeof(Cell))
            self.room = room
        return 0

    cdef Py_ssize_t n_up_to(self, double score) noexcept nogil:
        """Return how many cells are at a score or below it."""
        cdef Py_ssize_t low = 0, high = self.size, middle
        while low < high:
            middle = (low + high) // 2
            if self.cells[middle].score <= score:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int bin_of(self, const Cell *cell, double below, double total) noexcept nogil:
        """Return the bin of the middle of a cell's mass, from the weight below the cell."""
        return <int> (self.n_bins * ((below + 0.5 * cell.weight) / total))

    cdef void merge_lightest(self) noexcept nogil:
        """Merge the two neighbours with the least total weight."""
        cdef Py_ssize_t i, lightest = 0
        cdef double weight, least = self.cells[0].weight + self.cells[1].weight
        cdef Cell *low
        cdef Cell *high
        for i in range(1, self.size - 1):
            weight = self.cells[i].weight + self.cells[i + 1].weight
            if weight < least:
                lightest, least = i, weight
        low, high = &self.cells[lightest], &self.cells[lightest + 1]
        low.weight += high.weight
        low.labels += high.labels
        low.scores += high.scores
        low.score = min(max(low.scores / low.weight, low.score), high.score)
        self.size -= 1
        memmove(high, high + 1, (self.size - lightest - 1) * sizeof(Cell))

    cdef void shrink(self) noexcept nogil:
        """Divide all weights by the growth; remove cells whose weight becomes 0."""
        cdef Py_ssize_t i, size = 0
        cdef Cell cell
        for i in range(self.size):
            cell = self.cells[i]
            cell.weight /= self.growth
            cell.labels /= self.growth
            cell.scores /= self.growth
            if cell.weight > 0.0:
                self.cells[size] = cell
                size += 1
        self.size, self.growth = size, 1.0


cdef bint all_rise(const Cell *cells, Py_ssize_t size) noexcept nogil:
    """Return whether the scores of cells increase and all have weights."""
    cdef Py_ssize_t i
    for i in range(size):
        if not cells[i].weight > 0.0 or (i and not cells[i - 1].score < cells[i].score):
            return False
    return True
