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


cdef class NoFork:
    cdef dict depths  # how often each thread is inside
    cdef set forking  # threads

    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef bint may_enter(self, unsigned long thread) except -1
    cdef bint must_wait(self, unsigned long thread) except -1
