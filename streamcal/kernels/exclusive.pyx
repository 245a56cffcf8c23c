"""The lock of objects that run Python code while they hold it.

A label's ``__eq__``, a calibrator of a hedge, or a signal handler may call the same object again in
the middle of a call, in the same thread. With a lock alone that call would wait for itself. Here it
raises::

    thread 1   learn: | acquire ... __eq__ -> predict: RuntimeError ... release |
    thread 2   predict: waits .................................................. | acquire ...

Objects whose calls run no Python code have a bare ``cython.pymutex`` instead.
"""

from cpython.pythread cimport PyThread_get_thread_ident


cdef class Exclusive:
    """An object that one thread uses at a time."""

    cdef int acquire(self) except -1:
        """Acquire the lock; raise if this thread has it already."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        if self.owner == thread:
            raise RuntimeError(
                "an object must not be called while the same thread is inside one of its calls, for"
                " example in a signal handler or by its own calibrators, features or labels"
            )
        self.lock.acquire()
        self.owner = thread
        return 0

    cdef void release(self) noexcept:
        self.owner = 0
        self.lock.release()
