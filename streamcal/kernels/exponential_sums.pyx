"""All expected utilities of a metric in one sweep, by sums of exponentials.

A power of a positive count is nearly a short sum, x^-a ≈ Σ_q w_q exp(-t_q x) with w_q > 0
(`streamcal.decision.exponentials` makes them, with a bound on the relative error). The expectation
of exp(-t x) over independent labels is a product over labels, and weighting by it *tilts* each
label to an independent one of another probability. So E[X/D] is Σ_q w_q E[exp(-t_q D)] times the
tilted mean of X, and going from the k likeliest labels to k + 1 changes one factor and one summand
of it: O(nQ) for all k. As all weights are positive, errors stay relative.

    k = 0       part_q = w_q Π_i E[exp(-t_q d_i)], no label chosen
    k → k + 1   part_q times the ratio of label k's two factors; chosen_q plus its tilted hit
    Ψ_k         Σ_q part_q chosen_q

Where a chosen label never adds less to D than one that is not chosen, as for F_β, parts of large
exponents fall fastest. So an exponential whose part is less than `NEGLIGIBLE` of the largest is
dropped for good. Otherwise its part can grow again. Then only those are dropped whose part stays
negligible, and where another one becomes too small for a float, nothing is computed.
"""

from libc.math cimport INFINITY, exp, pow
from libc.stdlib cimport free

cimport streamcal.kernels.any_width
from streamcal.kernels.confusion cimport Formula, formula_of
from streamcal.kernels.memory cimport allocated
from streamcal.kernels.sums cimport dot

import numpy as np

# The inner loops, over exponentials. Each element is the same at any width, and sums keep their
# order.
cdef extern from *:
    """
    #define TINY 1e-300

    /* part times E[exp(-t d)] of a label that is positive with probability eta */
    AT_ANY_WIDTH static void times_label(
        double *__restrict part, const double *__restrict yes, const double *__restrict no,
        double eta, double left, Py_ssize_t m
    ) {
        for (Py_ssize_t q = 0; q < m; q++) part[q] *= eta * yes[q] + left * no[q];
    }

    /* the same where exp(-t d) is 1 for a negative label */
    AT_ANY_WIDTH static void times_event(
        double *__restrict part, const double *__restrict z, double eta, double left, Py_ssize_t m
    ) {
        for (Py_ssize_t q = 0; q < m; q++) part[q] *= eta * z[q] + left;
    }

    /* a label becomes a true or false positive instead of a false or true negative; 0/0 counts as
       0, and TINY changes no other quotient, but where the part is negligible */
    AT_ANY_WIDTH static void choose_label(
        double *__restrict part, double *__restrict chosen,
        const double *__restrict tp, const double *__restrict fp,
        const double *__restrict fn, const double *__restrict tn,
        double for_tp, double for_fp, double eta, double left, Py_ssize_t m
    ) {
        for (Py_ssize_t q = 0; q < m; q++) {
            double a = eta * tp[q], b = left * fp[q], rest = eta * fn[q] + left * tn[q];
            chosen[q] += (for_tp * a + for_fp * b) / (a + b + TINY);
            part[q] *= (a + b) / (rest + TINY);
        }
    }

    /* the same where that multiplies part by `step`, whatever the label: one division less */
    AT_ANY_WIDTH static void choose_label_alike(
        double *__restrict part, double *__restrict chosen,
        const double *__restrict fn, const double *__restrict tn, const double *__restrict step,
        double gain, double eta, double left, Py_ssize_t m
    ) {
        for (Py_ssize_t q = 0; q < m; q++) {
            chosen[q] += gain * fn[q] / (eta * fn[q] + left * tn[q]);
            part[q] *= step[q];
        }
    }

    /* the mean and the variance of a number of hits, with an event more */
    AT_ANY_WIDTH static void count_event(
        double *__restrict mean, double *__restrict variance, const double *__restrict z,
        double eta, double left, Py_ssize_t m
    ) {
        for (Py_ssize_t q = 0; q < m; q++) {
            double share = eta * z[q] / (eta * z[q] + left);
            mean[q] += share;
            variance[q] += share * (1.0 - share);
        }
    }

    /* sum of part z / (left + eta z), in two independent chains */
    AT_ANY_WIDTH static double tilted(
        const double *__restrict part, const double *__restrict z, double eta, double left,
        Py_ssize_t m
    ) {
        double s0 = 0.0, s1 = 0.0;
        Py_ssize_t q = 0;
        for (; q + 3 < m; q += 4) {  /* the quotients of four at once */
            double x[4];
            for (int i = 0; i < 4; i++) x[i] = part[q + i] * z[q + i] / (eta * z[q + i] + left);
            s0 += x[0];
            s1 += x[1];
            s0 += x[2];
            s1 += x[3];
        }
        for (; q + 1 < m; q += 2) {
            s0 += part[q] * z[q] / (eta * z[q] + left);
            s1 += part[q + 1] * z[q + 1] / (eta * z[q + 1] + left);
        }
        if (q < m) s0 += part[q] * z[q] / (eta * z[q] + left);
        return s0 + s1;
    }
    """
    void times_label(
        double *part, const double *yes, const double *no, double eta, double left, Py_ssize_t m
    ) noexcept nogil
    void times_event(
        double *part, const double *z, double eta, double left, Py_ssize_t m
    ) noexcept nogil
    void choose_label(
        double *part, double *chosen, const double *tp, const double *fp, const double *fn,
        const double *tn, double for_tp, double for_fp, double eta, double left, Py_ssize_t m
    ) noexcept nogil
    void choose_label_alike(
        double *part, double *chosen, const double *fn, const double *tn, const double *step,
        double gain, double eta, double left, Py_ssize_t m
    ) noexcept nogil
    void count_event(
        double *mean, double *variance, const double *z, double eta, double left, Py_ssize_t m
    ) noexcept nogil
    double tilted(
        const double *part, const double *z, double eta, double left, Py_ssize_t m
    ) noexcept nogil

cdef double NEGLIGIBLE = 1e-40
cdef double LEAST_PART = 1e-290  # of a part that can grow again

cdef enum:
    ROWS = 10  # of buffers, each with a number for each exponential


cdef struct Sweep:
    Py_ssize_t m  # exponentials that still count, those of the smallest exponents
    double *part
    double *chosen  # the tilted mean of what the labels chosen so far add to the numerator
    double *rest  # that of what all others add to it
    double *tp  # exp(-t d) for each cell's d
    double *fp
    double *fn
    double *tn
    double *step  # what a chosen label multiplies its part by, where that is all the same
    double *growth  # a bound on the factor by which the part will grow
    double *fewest  # the least that the part can become


cdef double *set_buffers(Sweep *sweep, Py_ssize_t m) except NULL:
    """Set the buffers of a sweep; return the memory to be freed."""
    cdef double *memory = <double *> allocated(ROWS * m, sizeof(double))
    sweep.m = m
    sweep.part, sweep.chosen, sweep.rest = memory, memory + m, memory + 2 * m
    sweep.tp, sweep.fp = memory + 3 * m, memory + 4 * m
    sweep.fn, sweep.tn = memory + 5 * m, memory + 6 * m
    sweep.step, sweep.growth, sweep.fewest = memory + 7 * m, memory + 8 * m, memory + 9 * m
    return memory


cdef void drop_negligible(Sweep *sweep) noexcept nogil:
    """Update the number of exponentials that are not dropped."""
    cdef double largest = 0.0
    cdef Py_ssize_t q
    for q in range(sweep.m):
        largest = max(largest, sweep.part[q])
    while sweep.m > 1 and sweep.part[sweep.m - 1] < NEGLIGIBLE * largest:
        sweep.m -= 1


# Ratios of linear forms ---------------------------------------------------------------------------


def fractions(
    const double[::1] p, const double[::1] spec, const double[::1] history,
    const double[:, ::1] sums, double least,
):
    """Return Ψ_0..Ψ_n of a ratio of linear forms of the counts; 0/0 counts as 0.

    ``sums`` has the rows t and w for 1/x on x >= 1; the denominator, where positive, is at least
    ``least``. Returns None where parts that grow again are too small for floats.
    """
    cdef Formula formula = formula_of(spec)
    cdef Py_ssize_t n = p.shape[0], k
    values = np.empty(n + 1)
    cdef double[::1] psi = values
    cdef Sweep sweep
    cdef double *memory = set_buffers(&sweep, sums.shape[1])
    cdef bint scores_rest = formula.above[2] != 0.0 or formula.above[3] != 0.0
    # For F_β a label costs the denominator the same whether or not it is positive.
    cdef bint alike = (
        formula.above[1] == 0.0
        and formula.below[0] - formula.below[2] == formula.below[1] - formula.below[3]
    )
    cdef bint falls = formula.below[0] >= formula.below[2] and formula.below[1] >= formula.below[3]
    cdef bint in_reach = True
    with nogil:
        fill_buffers(&sweep, &formula, &history[0], &sums[0, 0], &sums[1, 0], least)
        for k in range(n):
            if falls and k & 15 == 0:
                drop_negligible(&sweep)
            add_unchosen(&sweep, &formula, p[k], scores_rest)
            if not falls:
                bound_growth(&sweep, p[k])
        for k in range(n + 1):
            if not falls:
                in_reach = drop_if_small_for_good(&sweep)
            elif k & 15 == 0:
                drop_negligible(&sweep)
            psi[k] = ratio(&sweep, scores_rest)
            if k == n or not in_reach:
                break
            add_chosen(&sweep, &formula, p[k], alike)
            if not falls:
                release_growth(&sweep, p[k])
            if scores_rest:
                remove_unchosen(&sweep, &formula, p[k])
    free(memory)
    return values if in_reach else None


cdef void bound_growth(Sweep *sweep, double eta) noexcept nogil:
    """Update the bounds of the parts with a label that is not chosen yet."""
    cdef double left = 1.0 - eta, chosen, rest
    cdef Py_ssize_t q
    for q in range(sweep.m):
        chosen = eta * sweep.tp[q] + left * sweep.fp[q]
        rest = eta * sweep.fn[q] + left * sweep.tn[q]
        sweep.growth[q] *= growth_of(chosen, rest)
        sweep.fewest[q] *= min(chosen, rest)


cdef void release_growth(Sweep *sweep, double eta) noexcept nogil:
    """Update the bounds of the parts after a label was chosen."""
    cdef double left = 1.0 - eta
    cdef Py_ssize_t q
    for q in range(sweep.m):
        sweep.growth[q] /= growth_of(
            eta * sweep.tp[q] + left * sweep.fp[q], eta * sweep.fn[q] + left * sweep.tn[q]
        )


cdef inline double growth_of(double chosen, double rest) noexcept nogil:
    """Return how much a label can increase a part when it is chosen."""
    if chosen <= rest:
        return 1.0
    return chosen / rest if rest > 0.0 else INFINITY


cdef bint drop_if_small_for_good(Sweep *sweep) noexcept nogil:
    """Drop the exponentials that stay negligible; return whether the others are exact."""
    cdef double largest = 0.0
    cdef Py_ssize_t q
    for q in range(sweep.m):
        largest = max(largest, sweep.fewest[q])
    largest *= NEGLIGIBLE
    q = sweep.m - 1
    while sweep.m > 1 and max(sweep.part[q], LEAST_PART) * sweep.growth[q] < largest:
        sweep.m -= 1
        q -= 1
    for q in range(sweep.m):
        if sweep.part[q] < LEAST_PART and not LEAST_PART * sweep.growth[q] < largest:
            return False
    return True


cdef void fill_buffers(
    Sweep *sweep, const Formula *formula, const double *history, const double *t,
    const double *w, double least,
) noexcept nogil:
    """Fill the buffers with the carried counts; no label has been added."""
    cdef double carried = 0.0, shift = 0.0, rate
    cdef const double *d = formula.below
    cdef Py_ssize_t q
    cdef int j
    for j in range(4):
        carried += formula.above[j] * history[j]
        shift += d[j] * history[j]
    for q in range(sweep.m):
        rate = t[q] / least
        sweep.tp[q], sweep.fp[q] = exp(-rate * d[0]), exp(-rate * d[1])
        sweep.fn[q], sweep.tn[q] = exp(-rate * d[2]), exp(-rate * d[3])
        sweep.step[q] = exp(-rate * (d[1] - d[3]))
        sweep.part[q] = w[q] / least * exp(-rate * shift)
        sweep.growth[q], sweep.fewest[q] = 1.0, sweep.part[q]
        sweep.chosen[q], sweep.rest[q] = carried, 0.0


cdef void add_unchosen(
    Sweep *sweep, const Formula *formula, double eta, bint scores_rest
) noexcept nogil:
    """Add a label that is not chosen: it is a false or a true negative."""
    cdef double left = 1.0 - eta, a, b
    cdef Py_ssize_t q
    times_label(sweep.part, sweep.fn, sweep.tn, eta, left, sweep.m)
    if scores_rest:
        for q in range(sweep.m):
            a, b = eta * sweep.fn[q], left * sweep.tn[q]
            if a + b > 0.0:
                sweep.rest[q] += (formula.above[2] * a + formula.above[3] * b) / (a + b)


cdef void remove_unchosen(Sweep *sweep, const Formula *formula, double eta) noexcept nogil:
    """Remove a label from the sum over the labels that are not chosen."""
    cdef double left = 1.0 - eta, a, b
    cdef double fn = formula.above[2], tn = formula.above[3]
    cdef Py_ssize_t q
    for q in range(sweep.m):
        a, b = eta * sweep.fn[q], left * sweep.tn[q]
        if a + b > 0.0:
            sweep.rest[q] -= (fn * a + tn * b) / (a + b)


cdef void add_chosen(Sweep *sweep, const Formula *formula, double eta, bint alike) noexcept nogil:
    """Choose a label: it becomes a true or a false positive."""
    if alike:
        choose_label_alike(
            sweep.part, sweep.chosen, sweep.fn, sweep.tn, sweep.step,
            formula.above[0] * eta, eta, 1.0 - eta, sweep.m,
        )
    else:
        choose_label(
            sweep.part, sweep.chosen, sweep.tp, sweep.fp, sweep.fn, sweep.tn,
            formula.above[0], formula.above[1], eta, 1.0 - eta, sweep.m,
        )


cdef double ratio(const Sweep *sweep, bint scores_rest) noexcept nogil:
    """Return E[X/D] of the labels chosen so far."""
    cdef double total = 0.0
    cdef Py_ssize_t q
    if not scores_rest:
        return dot(sweep.part, sweep.chosen, sweep.m)
    for q in range(sweep.m):
        total += sweep.part[q] * (sweep.chosen[q] + sweep.rest[q])
    return total


# Moments of a share -------------------------------------------------------------------------------


def moments(
    const double[::1] p, const double[:, ::1] sums, double power, double least, double carried,
    double all_carried, int degree,
):
    """Return E[(X_0 + X_k)^degree / (S_0 + S)^power] for k = 0..n; 0/0 counts as 0.

    X_k is the number of hits among the first ``k`` events, S among all of them; ``carried`` is X_0,
    ``all_carried`` S_0, and S_0 + S, where positive, is at least ``least``. ``sums`` is for
    x^-power.
    """
    cdef Py_ssize_t n = p.shape[0], k, q
    values = np.empty(n + 1)
    cdef double[::1] out = values
    cdef Sweep sweep
    cdef double *memory = set_buffers(&sweep, sums.shape[1])
    # Per event and exponential: exp(-t), and the tilted mean and variance of X_k.
    cdef double *z = sweep.tp
    cdef double *mean = sweep.chosen
    cdef double *variance = sweep.rest
    cdef double rate, total = 0.0
    with nogil:
        for q in range(sweep.m):
            rate = sums[0, q] / least
            z[q] = exp(-rate)
            sweep.part[q] = sums[1, q] * pow(least, -power) * exp(-rate * all_carried)
            mean[q], variance[q] = carried, 0.0
        for k in range(n):
            if k & 15 == 0:
                drop_negligible(&sweep)
            times_event(sweep.part, z, p[k], 1.0 - p[k], sweep.m)
        drop_negligible(&sweep)
        if degree == 1:
            for q in range(sweep.m):
                total += sweep.part[q] * carried
            out[0] = total
            for k in range(n):
                if p[k] > 0.0:
                    total += p[k] * tilted(sweep.part, z, p[k], 1.0 - p[k], sweep.m)
                out[k + 1] = total
        else:
            for k in range(n):
                out[k] = second_moment(&sweep)
                count_event(mean, variance, z, p[k], 1.0 - p[k], sweep.m)
            out[n] = second_moment(&sweep)
    free(memory)
    return values


cdef double second_moment(const Sweep *sweep) noexcept nogil:
    """Return Σ_q part_q (mean_q² + variance_q)."""
    cdef double total = 0.0
    cdef double *mean = sweep.chosen
    cdef Py_ssize_t q
    for q in range(sweep.m):
        total += sweep.part[q] * (mean[q] * mean[q] + sweep.rest[q])
    return total
