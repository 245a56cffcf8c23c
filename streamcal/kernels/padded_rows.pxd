cpdef Py_ssize_t room_for(Py_ssize_t n)
cdef aligned(Py_ssize_t n_rows, Py_ssize_t n)
