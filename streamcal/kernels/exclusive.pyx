"""Locks: of all compiled objects, and of those that run Python code while they hold it.

A label's ``__eq__``, a calibrator of a hedge, or a signal handler may call the same object again in
the middle of a call, in the same thread. With a lock alone that call would wait for itself. Here it
raises::

    thread 1   learn: | acquire ... __eq__ -> predict: RuntimeError ... release |
    thread 2   predict: waits .................................................. | acquire ...

Objects whose calls run no Python code have a bare ``cython.pymutex`` instead. A call that makes
Python objects while it holds such a lock must begin with ``with no_collection, self.lock``: making
them may start the garbage collector, which calls finalizers, and a finalizer that calls the same
object would wait for ever.

*Forks.* In a forked process only the thread that forked goes on. A lock that another thread had is
free there: all objects with a lock are linked, and the child renews them. Nothing may be half done
then. A call with one sample holds the interpreter's lock while it changes an object, and so does
the thread that forks. A call with many samples is inside ``with no_fork``, and a fork waits for it::

    thread 1   with no_fork: | nogil ... loop ... | done
    thread 2   fork: waits ......................... | fork
"""

cimport cython
from cpython.pythread cimport PyThread_get_thread_ident

import os
from threading import RLock

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

cdef extern from *:
    """
    /* Not `time.sleep`, which runs signal handlers: an exception in a fork would be lost. */
    #ifdef _WIN32
    #include <windows.h>
    #define STREAMCAL_WAIT() Sleep(1)
    #else
    #include <time.h>
    static void STREAMCAL_WAIT(void) {
        struct timespec moment = {0, 100000};
        nanosleep(&moment, NULL);
    }
    #endif
    """
    void wait_a_little "STREAMCAL_WAIT"() noexcept nogil


cdef void *newest = NULL  # the object with a lock that was made last


cdef class Shared:
    """An object with a lock, which is free in a forked process."""

    def __cinit__(self):
        global newest
        self.older, self.newer = newest, NULL
        if newest != NULL:
            (<Shared> newest).newer = <void *> self
        newest = <void *> self

    def __dealloc__(self):
        global newest
        if self.newer == NULL:
            newest = self.older
        else:
            (<Shared> self.newer).older = self.older
        if self.older != NULL:
            (<Shared> self.older).newer = self.newer

    cdef void renew(self) noexcept:
        """Free the lock if a thread had it that does not exist in this process."""
        if self.lock.locked():
            self.lock.release()


cdef class Exclusive(Shared):
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

    cdef void renew(self) noexcept:
        if self.owner != PyThread_get_thread_ident():  # else this thread forks in one of its calls
            self.owner = 0
            if self.lock.locked():
                self.lock.release()


@cython.final
cdef class Mutex(Shared):
    """A lock for objects of several parts, which a thread may acquire again.

    Signal handlers run while a thread waits for it. In a forked process it is free, unless the
    thread that forked has it.

    Examples
    --------
    >>> mutex = Mutex()
    >>> with mutex, mutex as acquired:
    ...     acquired
    True
    """

    cdef object reentrant

    def __cinit__(self):
        self.reentrant = RLock()

    def __enter__(self):
        return self.reentrant.acquire()

    def __exit__(self, kind, error, traceback):
        self.reentrant.release()

    cdef void renew(self) noexcept:
        if not self.reentrant._is_owned():
            self.reentrant._at_fork_reinit()


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


cdef class NoFork:
    """A context that a fork by another thread waits for; it may be entered again inside."""

    cdef dict depths  # of the threads that are inside
    cdef set forking  # threads

    def __cinit__(self):
        self.depths, self.forking = {}, set()

    def __enter__(self):
        cdef unsigned long thread = PyThread_get_thread_ident()
        depth = self.depths.get(thread, 0)
        while depth == 0 and self.forking and thread not in self.forking:
            with nogil:
                wait_a_little()
        self.depths[thread] = depth + 1

    def __exit__(self, kind, error, traceback):
        cdef unsigned long thread = PyThread_get_thread_ident()
        depth = self.depths.pop(thread)
        if depth > 1:
            self.depths[thread] = depth - 1

    def begin_fork(self):
        """Wait until no other thread is inside; none enters until `end_fork`."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        self.forking.add(thread)
        # A thread that forks inside waits here, too.
        while not self.depths.keys() <= self.forking | {thread}:
            with nogil:
                wait_a_little()

    def end_fork(self):
        """Let other threads enter again."""
        self.forking.discard(PyThread_get_thread_ident())

    def leave_to_parent(self):
        """In a forked process: forget the threads of the parent, and free their locks."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef void *at = newest
        self.forking = set()
        self.depths = {own: depth for own, depth in self.depths.items() if own == thread}
        while at != NULL:
            (<Shared> at).renew()
            at = (<Shared> at).older


no_fork = NoFork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=no_fork.begin_fork,
        after_in_parent=no_fork.end_fork,
        after_in_child=no_fork.leave_to_parent,
    )
