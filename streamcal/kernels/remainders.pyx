"""What rounding leaves out of sums that terms enter and leave.

A window adds the weight of each new sample to a sum and takes that of the oldest one away again. In
floats alone digits are lost for good: a 1 vanishes beside 1e30, and is still missing when 1e30 has
left. So what rounding leaves out of a sum is kept aside, as floats that share no bits (Shewchuk,
*Adaptive Precision Floating-Point Arithmetic*, Discrete & Computational Geometry 18, 1997):

                  sum     left out
    add 1e30      1e30
    add 1         1e30    1
    add 1e-20     1e30    1e-20, 1
    take 1e30     1       1e-20

Most sums are exact and have nothing left out. So remainders do not stand with the sums but in a
hash table, by the score that a sum belongs to and by ``which`` of the sums of that score it is.
"""

from libc.math cimport fabs
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from streamcal.kernels.score_index cimport out_of_memory

cdef enum:
    FIRST_ROOM = 16  # places in a table
    FIRST_PARTS = 4


cdef class Remainders:
    """Remainders of sums. The owner holds a lock while it calls."""

    def __dealloc__(self):
        self.clear()

    # ------------------------------------------------------------------ sums

    cdef int add(self, double score, int which, double *sum, double x) except -1 nogil:
        """Add ``x`` to a sum, rounded as floats are; what that leaves out is kept."""
        cdef double total = sum[0] + x
        cdef double lost = two_sum_error(sum[0], x, total)
        if lost != 0.0:
            self.leave_out(score, which, lost)
        sum[0] = total
        return 0

    cdef int take(self, double score, int which, double *sum, double x) except -1 nogil:
        """Take ``x`` from a sum; what is left is that of the terms left, rounded once.

        It is not less than 0, as sums of weights are.
        """
        cdef Remainder *at = self.find(score, which)
        cdef double rest
        if at == NULL and x <= sum[0]:
            return self.add(score, which, sum, -x)
        if at == NULL:
            at = self.open(score, which)
        reserve(at, at.n + 3)
        grow(at, sum[0])
        grow(at, -x)
        rest = max(0.0, rounded(at))
        grow(at, -rest)
        if at.n == 0:
            self.close(at)
        sum[0] = rest
        return 0

    cdef int leave_out(self, double score, int which, double x) except -1 nogil:
        """Add ``x`` to what is left out of a sum."""
        cdef Remainder *at = self.find(score, which)
        if at == NULL:
            at = self.open(score, which)
        reserve(at, at.n + 1)
        grow(at, x)
        if at.n == 0:
            self.close(at)
        return 0

    cdef void forget(self, double score, int which) noexcept nogil:
        """Drop what is left out of a sum."""
        cdef Remainder *at = self.find(score, which)
        if at != NULL:
            self.close(at)

    # ------------------------------------------------------------------ the table

    cdef Remainder *find(self, double score, int which) noexcept nogil:
        """Return the remainder of a sum, NULL where nothing is left out of it."""
        cdef Remainder *at
        if self.size == 0:
            return NULL
        at = self.place(score, which)
        return at if at.parts != NULL else NULL

    cdef Remainder *place(self, double score, int which) noexcept nogil:
        """Return where in the table, which has a free place, a sum stands or would stand."""
        cdef int64_t i = home(score, which, self.room)
        while self.table[i].parts != NULL and (
            self.table[i].score != score or self.table[i].which != which
        ):
            i = (i + 1) & (self.room - 1)
        return &self.table[i]

    cdef Remainder *open(self, double score, int which) except NULL nogil:
        """Return an empty remainder for a sum that has none."""
        cdef Remainder *at
        cdef double *parts
        if 2 * (self.size + 1) > self.room:
            self.set_room(max(<int64_t> FIRST_ROOM, 2 * self.room))
        parts = <double *> calloc(FIRST_PARTS, sizeof(double))
        if parts == NULL:
            out_of_memory()
            return NULL
        at = self.place(score, which)
        at.score, at.which, at.n, at.room, at.parts = score, which, 0, FIRST_PARTS, parts
        self.size += 1
        return at

    cdef void close(self, Remainder *at) noexcept nogil:
        """Free a place; those behind it that would be found no longer move up."""
        cdef int64_t hole = at - self.table, i = hole, wanted, last = self.room - 1
        free(at.parts)
        self.size -= 1
        while True:
            i = (i + 1) & last
            if self.table[i].parts == NULL:
                break
            wanted = home(self.table[i].score, self.table[i].which, self.room)
            if ((i - wanted) & last) >= ((i - hole) & last):
                self.table[hole] = self.table[i]
                hole = i
        memset(&self.table[hole], 0, sizeof(Remainder))

    cdef int set_room(self, int64_t room) except -1 nogil:
        """Give the table so many places, a power of two and more than are taken."""
        cdef Remainder *before = self.table
        cdef int64_t n = self.room, i
        cdef Remainder *table = <Remainder *> calloc(room, sizeof(Remainder))
        if table == NULL:
            return out_of_memory()
        self.table, self.room = table, room
        for i in range(n):
            if before[i].parts != NULL:
                self.place(before[i].score, before[i].which)[0] = before[i]
        free(before)
        return 0

    cdef int fit(self) except -1 nogil:
        """Shrink the table to what is in it."""
        cdef int64_t room = FIRST_ROOM
        while room < 2 * (self.size + 1):
            room *= 2
        if self.size == 0:
            self.clear()
        elif room < self.room:
            self.set_room(room)
        return 0

    cdef void clear(self) noexcept nogil:
        """Have nothing left out of any sum."""
        cdef int64_t i
        for i in range(self.room):
            free(self.table[i].parts)
        free(self.table)
        self.table = NULL
        self.size = self.room = 0

    cdef size_t bytes_taken(self) noexcept nogil:
        """Return how many bytes the table and all its parts take."""
        cdef size_t n = self.room * sizeof(Remainder)
        cdef int64_t i
        for i in range(self.room):
            n += self.table[i].room * sizeof(double)
        return n


cdef inline int64_t home(double score, int which, int64_t room) noexcept nogil:
    """Return where in a table a sum stands if nothing is in the way."""
    cdef uint64_t bits
    score += 0.0  # -0 is the same score as 0
    memcpy(&bits, &score, sizeof(bits))
    bits = (bits ^ (bits >> 32) ^ <uint64_t> which) * <uint64_t> 0x9E3779B97F4A7C15
    return <int64_t> ((bits >> 32) & <uint64_t> (room - 1))


cdef inline double two_sum_error(double a, double b, double total) noexcept nogil:
    """Return what is missing of a + b in ``total``, its rounded sum (Knuth)."""
    cdef double part = total - a
    return (a - (total - part)) + (b - part)


cdef int reserve(Remainder *at, int room) except -1 nogil:
    """Make sure that there is room for so many parts."""
    cdef double *parts
    if room > at.room:
        parts = <double *> realloc(at.parts, 2 * room * sizeof(double))
        if parts == NULL:
            return out_of_memory()
        at.parts, at.room = parts, 2 * room
    return 0


cdef void grow(Remainder *at, double x) noexcept nogil:
    """Add a float to the parts, which have room for one more."""
    cdef double part, total, lost
    cdef int kept = 0, i
    for i in range(at.n):
        part = at.parts[i]
        if fabs(x) < fabs(part):
            x, part = part, x
        total = x + part
        lost = part - (total - x)
        if lost != 0.0:
            at.parts[kept] = lost
            kept += 1
        x = total
    if x != 0.0:
        at.parts[kept] = x
        kept += 1
    at.n = kept


cdef double rounded(const Remainder *at) noexcept nogil:
    """Return the sum of the parts, rounded once, as `math.fsum` does."""
    cdef int i = at.n - 1
    cdef double total, before, lost = 0.0, twice
    if i < 0:
        return 0.0
    total = at.parts[i]
    while i > 0:
        i -= 1
        before = total
        total = before + at.parts[i]
        lost = at.parts[i] - (total - before)
        if lost != 0.0:
            break
    # Half-way cases go by what comes below.
    if i > 0 and (
        (lost < 0.0 and at.parts[i - 1] < 0.0) or (lost > 0.0 and at.parts[i - 1] > 0.0)
    ):
        twice = 2.0 * lost
        before = total + twice
        if before - total == twice:
            total = before
    return total
