cdef int check_numbers(int d, const double[::1] numbers) except -1
