cimport cython


cdef class Shared:
    cdef cython.pymutex lock
    cdef void *older  # a `Shared` that was made before, and lives
    cdef void *newer

    cdef void renew(self) noexcept


cdef class Exclusive(Shared):
    cdef unsigned long owner  # the thread that has the lock, 0 if none

    cdef int acquire(self) except -1
    cdef void release(self) noexcept
