"""``AT_ANY_WIDTH``, for functions in C whose loops do better on wide vectors; results are the same.

The baseline of x86-64 has narrow vectors, so GCC makes a second copy of such a function for AVX2,
and the dynamic linker of glibc chooses between the two. Elsewhere there is one.
"""

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) \\
        && !defined(__SANITIZE_ADDRESS__)
    #define AT_ANY_WIDTH __attribute__((target_clones("avx2", "default")))
    #else
    #define AT_ANY_WIDTH
    #endif
    """
