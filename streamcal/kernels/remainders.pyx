"""Rounding errors of sums to which terms are added and from which they are removed.

A window adds the weight of each new sample to a sum and subtracts that of the oldest one. With
floats alone digits are lost: 1e30 + 1 is rounded to 1e30, and after 1e30 is subtracted the 1 is
missing. So the rounding error of a sum is stored, as floats that share no bits (Shewchuk,
*Adaptive Precision Floating-Point Arithmetic*, Discrete & Computational Geometry 18, 1997):

                     sum     remainder
    add 1e30         1e30
    add 1            1e30    1
    add 1e-20        1e30    1e-20, 1
    subtract 1e30    1       1e-20

Most sums are exact and have no remainder. So remainders are not stored beside the sums but in a
hash table. The key of a sum is its score and ``which`` of the sums of this score it is.
"""

from libc.math cimport fabs
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from streamcal.kernels.memory cimport resize, zeros
from streamcal.kernels.sums cimport two_sum_error


cdef enum:
    FIRST_ROOM = 16  # places in a table
    FIRST_PARTS = 4


cdef class Remainders:
    """Remainders of sums. The owner holds a lock while it calls."""

    def __dealloc__(self):
        self.clear()

    # Sums -----------------------------------------------------------------------------------------

    cdef int add(self, double score, int which, double *sum, double x) except -1 nogil:
        """Add ``x`` to a sum, rounded as floats are; store the rounding error."""
        cdef double total = sum[0] + x
        cdef double lost = two_sum_error(sum[0], x, total)
        if lost != 0.0:
            self.add_to_remainder(score, which, lost)
        sum[0] = total
        return 0

    cdef int subtract(self, double score, int which, double *sum, double x) except -1 nogil:
        """Subtract ``x`` from a sum; the result is the exact sum of the other terms, rounded once.

        It is at least 0, as a sum of weights must be.
        """
        cdef Remainder *at = self.find(score, which)
        cdef double rest
        if at == NULL and x <= sum[0]:
            return self.add(score, which, sum, -x)
        if at == NULL:
            at = self.insert_remainder(score, which)
        reserve(at, at.n + 3)
        grow(at, sum[0])
        grow(at, -x)
        rest = max(0.0, rounded(at))
        grow(at, -rest)
        if at.n == 0:
            self.remove_remainder(at)
        sum[0] = rest
        return 0

    cdef int add_to_remainder(self, double score, int which, double x) except -1 nogil:
        """Add ``x`` to the remainder of a sum."""
        cdef Remainder *at = self.find(score, which)
        if at == NULL:
            at = self.insert_remainder(score, which)
        reserve(at, at.n + 1)
        grow(at, x)
        if at.n == 0:
            self.remove_remainder(at)
        return 0

    cdef void forget(self, double score, int which) noexcept nogil:
        """Drop the remainder of a sum."""
        cdef Remainder *at = self.find(score, which)
        if at != NULL:
            self.remove_remainder(at)

    # The table ------------------------------------------------------------------------------------

    cdef Remainder *find(self, double score, int which) noexcept nogil:
        """Return the remainder of a sum, NULL if there is none."""
        cdef Remainder *at
        if self.size == 0:
            return NULL
        at = self.find_place(score, which)
        return at if at.parts != NULL else NULL

    cdef Remainder *find_place(self, double score, int which) noexcept nogil:
        """Return the place of a sum in the table, or the free place where it would be stored."""
        cdef int64_t i = hashed_place(score, which, self.room)
        while self.table[i].parts != NULL and (
            self.table[i].score != score or self.table[i].which != which
        ):
            i = (i + 1) & (self.room - 1)
        return &self.table[i]

    cdef Remainder *insert_remainder(self, double score, int which) except NULL nogil:
        """Return an empty remainder for a sum that has none."""
        cdef Remainder *at
        cdef double *parts
        if 2 * (self.size + 1) > self.room:
            self.set_room(max(<int64_t> FIRST_ROOM, 2 * self.room))
        parts = <double *> zeros(FIRST_PARTS, sizeof(double))
        at = self.find_place(score, which)
        at.score, at.which, at.n, at.room, at.parts = score, which, 0, FIRST_PARTS, parts
        self.size += 1
        return at

    cdef void remove_remainder(self, Remainder *at) noexcept nogil:
        """Free a place; move up the entries after it that would not be found any more."""
        cdef int64_t hole = at - self.table, i = hole, wanted, last = self.room - 1
        free(at.parts)
        self.size -= 1
        while True:
            i = (i + 1) & last
            if self.table[i].parts == NULL:
                break
            wanted = hashed_place(self.table[i].score, self.table[i].which, self.room)
            if ((i - wanted) & last) >= ((i - hole) & last):
                self.table[hole] = self.table[i]
                hole = i
        memset(&self.table[hole], 0, sizeof(Remainder))

    cdef int set_room(self, int64_t room) except -1 nogil:
        """Set the number of places, a power of two and more than are used."""
        cdef Remainder *before = self.table
        cdef int64_t n = self.room, i
        cdef Remainder *table = <Remainder *> zeros(room, sizeof(Remainder))
        self.table, self.room = table, room
        for i in range(n):
            if before[i].parts != NULL:
                self.find_place(before[i].score, before[i].which)[0] = before[i]
        free(before)
        return 0

    cdef int shrink(self) except -1 nogil:
        """Shrink the table to the number of its entries."""
        cdef int64_t room = FIRST_ROOM
        while room < 2 * (self.size + 1):
            room *= 2
        if self.size == 0:
            self.clear()
        elif room < self.room:
            self.set_room(room)
        return 0

    cdef void clear(self) noexcept nogil:
        """Remove all remainders."""
        cdef int64_t i
        for i in range(self.room):
            free(self.table[i].parts)
        free(self.table)
        self.table = NULL
        self.size = self.room = 0

    cdef size_t bytes_taken(self) noexcept nogil:
        """Return the bytes of memory of the table and of all parts."""
        cdef size_t n = self.room * sizeof(Remainder)
        cdef int64_t i
        for i in range(self.room):
            n += self.table[i].room * sizeof(double)
        return n


cdef inline int64_t hashed_place(double score, int which, int64_t room) noexcept nogil:
    """Return the place of a sum in a table without collisions."""
    cdef uint64_t bits
    score += 0.0  # -0 is the same score as 0
    memcpy(&bits, &score, sizeof(bits))
    bits = (bits ^ (bits >> 32) ^ <uint64_t> which) * <uint64_t> 0x9E3779B97F4A7C15
    return <int64_t> ((bits >> 32) & <uint64_t> (room - 1))


cdef int reserve(Remainder *at, int room) except -1 nogil:
    """Make sure that there is room for this many parts."""
    if room > at.room:
        resize(<void **> &at.parts, 2 * room, sizeof(double))
        at.room = 2 * room
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
    # In a half-way case the lower parts decide.
    if i > 0 and (
        (lost < 0.0 and at.parts[i - 1] < 0.0) or (lost > 0.0 and at.parts[i - 1] > 0.0)
    ):
        twice = 2.0 * lost
        before = total + twice
        if before - total == twice:
            total = before
    return total
