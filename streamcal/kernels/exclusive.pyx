"""The lock of objects that run Python code while they hold it.

A label's ``__eq__``, a calibrator of a hedge, or a signal handler may call the same object again in
the middle of a call, in the same thread. With a lock alone that call would wait for itself. Here it
raises::

    thread 1   learn: | acquire ... __eq__ -> predict: RuntimeError ... release |
    thread 2   predict: waits .................................................. | acquire ...

Objects whose calls run no Python code have a bare ``cython.pymutex`` instead. A call that makes
Python objects while it holds such a lock must begin with ``with no_collection, self.lock``: making
them may start the garbage collector, which calls finalizers, and a finalizer that calls the same
object would wait for ever.
"""

from cpython.pythread cimport PyThread_get_thread_ident

cdef extern from *:
    """
    /* From CPython 3.12 on, the garbage collector only runs between bytecodes. */
    #if PY_VERSION_HEX < 0x030C0000
    #define STREAMCAL_DISABLE_GC() PyGC_Disable()
    #define STREAMCAL_ENABLE_GC() PyGC_Enable()
    #else
    #define STREAMCAL_DISABLE_GC() 0
    #define STREAMCAL_ENABLE_GC() 0
    #endif
    """
    bint disable_gc "STREAMCAL_DISABLE_GC"()
    bint enable_gc "STREAMCAL_ENABLE_GC"()


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


cdef class NoCollection:
    """A context in which no garbage is collected; several threads may be in it at a time."""

    cdef Py_ssize_t n_inside
    cdef bint was_enabled

    def __enter__(self):
        if self.n_inside == 0:
            self.was_enabled = disable_gc()
        self.n_inside += 1

    def __exit__(self, kind, error, traceback):
        self.n_inside -= 1
        if self.n_inside == 0 and self.was_enabled:
            enable_gc()


no_collection = NoCollection()
