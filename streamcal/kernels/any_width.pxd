"""``AT_ANY_WIDTH``, for functions in C whose loops want vectors; results are the same at any width.

The baseline of x86-64 has narrow vectors, so GCC makes a second copy of such a function for AVX2,
and the dynamic linker of glibc chooses between the two. By default GCC assumes that comparisons
may trap, and then branches; ``no-trapping-math`` lets it select instead.
"""

cdef extern from *:
    """
    #if !defined(__GNUC__) || defined(__clang__)
    #define AT_ANY_WIDTH
    #elif defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    #define AT_ANY_WIDTH \\
        __attribute__((target_clones("avx2", "default"), optimize("no-trapping-math")))
    #else
    #define AT_ANY_WIDTH __attribute__((optimize("no-trapping-math")))
    #endif
    """
