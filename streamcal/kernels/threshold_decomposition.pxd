ctypedef const unsigned char[::1] Flags


cdef struct Bounds:
    Py_ssize_t begin
    double low, high
