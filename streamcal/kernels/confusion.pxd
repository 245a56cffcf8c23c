from libc.math cimport sqrt

cpdef enum:
    # Where a vector holds which formula, what 0/0 is (NaN where a class that is absent drops out),
    # and the four coefficients (tp, fp, fn, tn) above and below the line.
    KIND = 0
    ZERO = 1
    NUMERATOR = 2
    DENOMINATOR = 6
    SPEC = 10

cpdef enum:
    LONGEST_SUM = 256

cpdef enum:
    FRACTION
    AM
    GMEAN
    HMEAN
    QMEAN
    GTPPR
    MCC
    KAPPA
    SEC


cdef struct Formula:
    int kind
    double zero
    double above[4]
    double below[4]


cdef inline Formula formula_of(const double[::1] spec) noexcept nogil:
    """Return the formula that a vector of `SPEC` numbers codes."""
    cdef Formula formula
    cdef int i
    formula.kind, formula.zero = <int> spec[KIND], spec[ZERO]
    for i in range(4):
        formula.above[i], formula.below[i] = spec[NUMERATOR + i], spec[DENOMINATOR + i]
    return formula


cdef inline double utility(
    const Formula *formula, double tp, double fp, double fn, double tn
) noexcept nogil:
    """Return the metric of one table."""
    cdef double positive, negative, chosen, rest, below
    if formula.kind == FRACTION:
        below = formula.below[0] * tp + formula.below[1] * fp
        below = below + formula.below[2] * fn + formula.below[3] * tn
        if below <= 0.0:
            return formula.zero
        return (
            formula.above[0] * tp + formula.above[1] * fp + formula.above[2] * fn
            + formula.above[3] * tn
        ) / below
    positive, negative = tp + fn, fp + tn
    if formula.kind <= QMEAN:
        return mean_of_rates(formula.kind, formula.zero, tp, positive, tn, negative)
    chosen, rest = tp + fp, fn + tn
    if formula.kind == GTPPR:
        if positive <= 0.0 or chosen <= 0.0:
            return formula.zero
        return tp / (sqrt(positive) * sqrt(chosen))
    if formula.kind == SEC:
        if positive + negative <= 0.0:
            return formula.zero
        return -square((positive - chosen) / (positive + negative))
    if formula.kind == MCC:
        below = sqrt(positive * negative) * sqrt(chosen * rest)
    else:
        below = 0.5 * (chosen * negative + positive * rest)
    if below <= 0.0:
        return formula.zero
    return (tp * tn - fp * fn) / below


cdef inline double mean_of_rates(
    int kind, double zero, double tp, double positive, double tn, double negative
) noexcept nogil:
    """Return the mean of the two classes' rates; a NaN ``zero`` leaves an absent class out."""
    cdef double hit, rejected
    if zero != zero and (positive <= 0.0 or negative <= 0.0):
        if positive <= 0.0 and negative <= 0.0:
            return 0.0
        hit = tn / negative if positive <= 0.0 else tp / positive
        return 1.0 - square(1.0 - hit) if kind == QMEAN else hit
    hit = tp / positive if positive > 0.0 else zero
    rejected = tn / negative if negative > 0.0 else zero
    if kind == AM:
        return 0.5 * (hit + rejected)
    if kind == GMEAN:
        return sqrt(hit * rejected)
    if kind == HMEAN:
        return 2.0 * hit * rejected / (hit + rejected) if hit + rejected > 0.0 else 0.0
    return 1.0 - 0.5 * (square(1.0 - hit) + square(1.0 - rejected))


cdef inline double square(double x) noexcept nogil:
    return x * x
