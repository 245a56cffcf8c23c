from libc.stdint cimport int64_t, uint64_t


cdef struct Remainder:
    double score
    int which
    int n
    int room
    double *parts  # floats that share no bits, ascending in size; NULL in a place that is free


cdef class Remainders:
    cdef Remainder *table
    cdef readonly int64_t size  # sums of which something is left out
    cdef int64_t room  # a power of two, or 0

    cdef void clear(self) noexcept nogil
    cdef int add(self, double score, int which, double *sum, double x) except -1 nogil
    cdef int subtract(self, double score, int which, double *sum, double x) except -1 nogil
    cdef int add_to_remainder(self, double score, int which, double x) except -1 nogil
    cdef void forget(self, double score, int which) noexcept nogil
    cdef int shrink(self) except -1 nogil
    cdef size_t bytes_taken(self) noexcept nogil
    cdef Remainder *find(self, double score, int which) noexcept nogil
    cdef Remainder *find_place(self, double score, int which) noexcept nogil
    cdef Remainder *insert_remainder(self, double score, int which) except NULL nogil
    cdef int set_room(self, int64_t room) except -1 nogil
    cdef void remove_remainder(self, Remainder *at) noexcept nogil
