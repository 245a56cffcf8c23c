from streamcal.kernels.label_index cimport LabelIndex


cdef class PrefixExtrema(LabelIndex):
    cdef double end_of(self, int k) noexcept nogil
