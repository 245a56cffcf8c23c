from streamcal.kernels.label_index cimport LabelIndex
from streamcal.kernels.score_index cimport Chunk, Node


cdef class MinPlus(LabelIndex):
    cdef void trace(self, Node *node, int a, int b, double *ends) noexcept nogil
    cdef void trace_chunk(self, Chunk *chunk, int a, int b, double *ends) noexcept nogil
