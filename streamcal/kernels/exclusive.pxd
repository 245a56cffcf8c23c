cimport cython


cdef class Exclusive:
    cdef cython.pymutex lock
    cdef unsigned long owner  # the thread that has the lock, 0 if none

    cdef int acquire(self) except -1
    cdef void release(self) noexcept
