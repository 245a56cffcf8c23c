"""Fetching memory into the cache before it is read."""

cdef extern from *:
    """
    /* Have so many bytes fetched into the cache, a line of 64 at a time. */
    static inline void prefetch(const void *at, size_t n) {
    #if defined(__GNUC__) || defined(__clang__)
        for (size_t i = 0; i < n; i += 64) __builtin_prefetch((const char *) at + i);
    #endif
    }
    """
    void prefetch(const void *at, size_t n) noexcept nogil
