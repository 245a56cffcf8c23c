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
the thread that forks. A call with many samples is inside ``with no_fork``, and a fork waits for it.
So is each call of SQLite, which has locks of its own that no child can free::

    thread 1   with no_fork: | nogil ... loop ... | done
    thread 2   fork: waits ......................... | fork

While a fork waits, no further thread goes inside, with one exception: a thread inside may wait for
a `Mutex` of the one that comes, which must go on to release it::

    thread 1   with no_fork: | mutex: waits ................... | mutex ... | done
    thread 2   fork: waits .................................................... | fork
    thread 3   mutex ............. with no_fork: | goes on | .. |
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


cdef str called_inside(str name):
    """Return what to say to who calls an object in the middle of one of its calls."""
    return (
        f"{name} must not be called while the same thread is inside one of its calls, for"
        " example in a signal handler or by its own calibrators, features or labels"
    )


cdef class Exclusive(Shared):
    """An object that one thread uses at a time."""

    cdef int acquire(self) except -1:
        """Acquire the lock; raise if this thread has it already."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        if self.owner == thread:
            raise RuntimeError(called_inside("an object"))
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


cdef dict waiting = {}  # the mutex that a thread waits for, by thread


@cython.final
cdef class Mutex(Shared):
    """A lock for the calls of objects of several parts, and for blocks of calls.

    A thread that is inside a call can't begin another: it would find parts that are not of one
    instant, or change them, and the first call would go on with what it has read before. A thread
    that has the lock for a `Block` may begin calls, one after the other, and further blocks.

    Signal handlers run while a thread waits for it. In a forked process it is free, unless the
    thread that forked has it.

    Parameters
    ----------
    name : str
        What the error calls the object: its class.

    Examples
    --------
    >>> mutex = Mutex("Sums")
    >>> with mutex.block(), mutex.block() as acquired, mutex:
    ...     acquired
    True
    >>> with mutex, mutex:
    ...     pass
    Traceback (most recent call last):
        ...
    RuntimeError: Sums must not be called while the same thread is inside one of its calls, ...
    """

    cdef object reentrant
    cdef str name
    cdef unsigned long owner  # the thread that has it, 0 if none
    cdef Py_ssize_t depth  # how often that has acquired it
    cdef bint is_inside  # whether that is inside a call

    def __cinit__(self, str name):
        self.reentrant, self.name = RLock(), name

    cdef int acquire(self) except -1:
        """Acquire the lock; raise if this thread is inside a call."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        if self.is_inside and self.owner == thread:
            raise RuntimeError(called_inside(self.name))
        if not self.reentrant.acquire(False):
            outer = waiting.get(thread)  # a signal handler waits inside of another wait
            waiting[thread] = self
            try:
                self.reentrant.acquire()
            finally:
                if outer is None:
                    waiting.pop(thread, None)
                else:
                    waiting[thread] = outer
        self.owner = thread
        self.depth += 1
        return 0

    cdef int release(self) except -1:
        self.depth -= 1
        if self.depth == 0:
            self.owner = 0
        self.reentrant.release()
        return 0

    def __enter__(self):
        self.acquire()
        self.is_inside = True
        return True

    def __exit__(self, kind, error, traceback):
        self.is_inside = False
        self.release()

    def block(self):
        """Return a context in which this thread may make calls, and other threads wait."""
        return Block(self)

    cdef void renew(self) noexcept:
        if self.reentrant is None:  # it is being made
            return
        if self.owner != PyThread_get_thread_ident():
            self.owner = self.depth = self.is_inside = 0
            self.reentrant._at_fork_reinit()


@cython.final
cdef class Block:
    """A context of calls of one thread, see `Mutex`."""

    cdef Mutex mutex

    def __cinit__(self, Mutex mutex):
        self.mutex = mutex

    def __enter__(self):
        self.mutex.acquire()
        return True

    def __exit__(self, kind, error, traceback):
        self.mutex.release()


cdef bint waits_for(unsigned long thread, unsigned long other) except -1:
    """Return whether a thread waits for a mutex of another, or of one that waits for that."""
    for _ in range(len(waiting)):  # there may be a circle
        mutex = waiting.get(thread)
        if mutex is None:
            return False
        thread = (<Mutex> mutex).owner
        if thread == other:
            return True
    return False


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

    def __cinit__(self):
        self.depths, self.forking = {}, set()

    def __enter__(self):
        self.enter()

    def __exit__(self, kind, error, traceback):
        self.leave()

    cdef int enter(self) except -1:
        """Go inside, at once or after a fork."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        depth = self.depths.get(thread, 0) if self.depths else 0
        while depth == 0 and self.forking and not self.may_enter(thread):
            with nogil:
                wait_a_little()
        self.depths[thread] = depth + 1
        return 0

    cdef void leave(self) noexcept:
        """Go out as often as `enter` has come in."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        depth = self.depths.pop(thread)
        if depth > 1:
            self.depths[thread] = depth - 1

    cdef bint may_enter(self, unsigned long thread) except -1:
        """Return whether a thread may go inside though another one forks."""
        if thread in self.forking:
            return True
        for inside in self.depths:
            if waits_for(inside, thread):
                return True
        return False

    def begin_fork(self):
        """Wait until no other thread is inside; none enters until `end_fork`."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        self.forking.add(thread)
        while self.must_wait(thread):
            with nogil:
                wait_a_little()

    cdef bint must_wait(self, unsigned long thread) except -1:
        """Return whether a thread that forks must wait for one that is inside."""
        for inside in self.depths:
            # A thread that forks inside waits here, too. One that waits for a mutex of this thread,
            # which forks while it has that, would wait for ever.
            if inside != thread and inside not in self.forking and not waits_for(inside, thread):
                return True
        return False

    def end_fork(self):
        """Let other threads enter again."""
        self.forking.discard(PyThread_get_thread_ident())

    def leave_to_parent(self):
        """In a forked process: forget the threads of the parent, and free their locks."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef void *at = newest
        self.forking = set()
        self.depths = {own: depth for own, depth in self.depths.items() if own == thread}
        for other in [other for other in waiting if other != thread]:
            del waiting[other]
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
