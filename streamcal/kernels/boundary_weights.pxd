cdef struct Layout:  # memory whose size depends on the number of labels
    Py_ssize_t n_labels
    Py_ssize_t bounds  # n_labels − 1, or 0
    Py_ssize_t parts  # 2 with averaging: weights and their lag
    Py_ssize_t width  # weights of a row
    Py_ssize_t stride  # parts · width
    double *costs  # the task loss, a row for each true rank
    double *bias  # parts · bounds
    double *rows  # stride each
    double *recent  # the ring; each bounds margins, rank and weight
    double *products  # scratch: parts · bounds
    double *scores  # scratch: n_labels, and so the others
    double *margins
    Py_ssize_t *sizes


cdef int extend(double **rows, Py_ssize_t width, Py_ssize_t n, Py_ssize_t room) except -1
cdef void free_layout(Layout *own) noexcept
cdef void rescale(
    double *row, Py_ssize_t width, Py_ssize_t parts, double mass, double stored, double lag
) noexcept nogil
cdef void split(
    const double *old, Py_ssize_t bounds, double *new, Py_ssize_t n_new, Py_ssize_t rank,
    bint repeat,
) noexcept nogil
cdef void split_margins(
    const double *old, Py_ssize_t bounds, double *new, Py_ssize_t n_new, Py_ssize_t rank
) noexcept nogil
