"""Memory of the C library: what is not there raises ``MemoryError``, and nothing has changed."""

from libc.stdlib cimport calloc, malloc, realloc


cdef inline void *allocated(Py_ssize_t n, size_t size) except NULL nogil:
    """Return memory for ``n`` items of a size, at least for one."""
    cdef void *memory = malloc(max(n, 1) * size)
    if memory == NULL:
        with gil:
            raise MemoryError
    return memory


cdef inline void *zeros(Py_ssize_t n, size_t size) except NULL nogil:
    """Return memory for ``n`` items of a size, at least for one, in which all bytes are 0."""
    cdef void *memory = calloc(max(n, 1), size)
    if memory == NULL:
        with gil:
            raise MemoryError
    return memory


cdef inline int resize(void **memory, Py_ssize_t n, size_t size) except -1 nogil:
    """Reallocate memory for ``n`` items of a size, at least for one; what fits of it is kept."""
    cdef void *found = realloc(memory[0], max(n, 1) * size)
    if found == NULL:
        raise MemoryError
    memory[0] = found
    return 0
