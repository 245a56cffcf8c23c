"""Distributions of a number of positives (*laws*), and expectations under them, on windows.

The law of the number of positives among independent labels with probabilities p_1..p_m is given by
the coefficients of Π(p_i z + 1 - p_i). Adding a label takes one pass over it; with .5, .5 and .9:

    count     0     1     2     3
              1
    .5       .5    .5
    .5      .25    .5   .25
    .9     .025  .275  .475  .225

There is almost no mass further than a few standard deviations from the mean, so end slots below
``tau`` are dropped. The dropped mass is summed and returned; it is the certificate of the error.

A law is a pair (offset, mass): ``mass[j]`` is the probability of the count ``offset + j``. Laws are
a triple (offset, rows, bounds): a law in each row, all from the same offset, of which the slots
from ``bounds[r, 0]`` to ``bounds[r, 1]`` are in use.
"""

from libc.math cimport M_PI, ceil, cos, fabs, log, sin, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamcal.kernels.confusion cimport GMEAN, Formula, formula_of, utility
from streamcal.kernels.memory cimport allocated

import numpy as np


cdef struct Law:
    const double *mass
    int64_t offset
    int64_t low, high  # slots in use


cdef struct Window:
    int64_t low, high
    double lost  # the mass of dropped slots


# Laws ---------------------------------------------------------------------------------------------


cdef inline void add_label(
    double p, const double *law, int64_t low, int64_t high, double *out
) noexcept nogil:
    """Write a law with a label more, or in place; slots from ``low`` to ``high + 1`` are written."""
    cdef double q = 1.0 - p
    cdef int64_t j
    out[high + 1] = p * law[high]
    for j in range(high, low, -1):
        out[j] = q * law[j] + p * law[j - 1]
    out[low] = q * law[low]


cdef void trim(double *law, Window *window, double tau) noexcept nogil:
    """Drop the end slots below ``tau``."""
    cdef double lost = 0.0
    while window.low < window.high and law[window.low] < tau:
        lost += law[window.low]
        law[window.low] = 0.0
        window.low += 1
    while window.high > window.low and law[window.high] < tau:
        lost += law[window.high]
        law[window.high] = 0.0
        window.high -= 1
    window.lost += lost


def extend(law, const double[::1] p, double tau):
    """Return the law with more labels, and the mass dropped."""
    offset, before = law
    cdef Py_ssize_t size = len(before), i
    after = np.zeros(size + len(p))
    after[:size] = before
    cdef double[::1] mass = after
    cdef Window window = Window(low=0, high=size - 1, lost=0.0)
    with nogil:
        for i in range(p.shape[0]):
            add_label(p[i], &mass[0], window.low, window.high, &mass[0])
            window.high += 1
            trim(&mass[0], &window, tau)
    return (offset + window.low, after[window.low : window.high + 1].copy()), window.lost


def extend_rows(law, const double[::1] p, double tau):
    """Return the laws while labels are added one by one, and the mass dropped.

    The first has none of the labels.
    """
    offset, before = law
    cdef Py_ssize_t size = len(before), i
    rows, bounds = np.zeros((len(p) + 1, size + len(p))), np.empty((len(p) + 1, 2), np.int64)
    rows[0, :size] = before
    cdef double[:, ::1] mass = rows
    cdef int64_t[:, ::1] used = bounds
    cdef Window window = Window(low=0, high=size - 1, lost=0.0)
    used[0, 0], used[0, 1] = window.low, window.high
    with nogil:
        for i in range(p.shape[0]):
            add_label(p[i], &mass[i, 0], window.low, window.high, &mass[i + 1, 0])
            window.high += 1
            trim(&mass[i + 1, 0], &window, tau)
            used[i + 1, 0], used[i + 1, 1] = window.low, window.high
    return (offset, rows, bounds), window.lost


# Double sums --------------------------------------------------------------------------------------


cdef double double_sum(
    const Formula *formula, const double *history, int64_t n, int64_t k, const Law *C,
    const Law *D, double slack,
) noexcept nogil:
    """Return E Φ at the labelling ``k``, of ``slack`` more true negatives.

    The positives among the k have the law C, those among the rest the law D.
    """
    cdef double total = 0.0, inner, tp, fp, u, v
    cdef int64_t i, j
    for i in range(C.low, C.high + 1):
        u = <double> (C.offset + i)
        tp, fp = history[0] + u, history[1] + k - u
        inner = 0.0
        for j in range(D.low, D.high + 1):
            v = <double> (D.offset + j)
            inner += D.mass[j] * utility(
                formula, tp, fp - slack, history[2] + v, history[3] + (n - k) - v + slack
            )
        total += C.mass[i] * inner
    return total


def expectation(const double[::1] spec, const double[::1] history, int64_t n, int64_t k, C, D):
    """Return Ψ of one labelling from the two laws."""
    cdef Formula formula = formula_of(spec)
    cdef const double[::1] chosen = C[1], rest = D[1]
    cdef Law c = Law(mass=&chosen[0], offset=C[0], low=0, high=chosen.shape[0] - 1)
    cdef Law d = Law(mass=&rest[0], offset=D[0], low=0, high=rest.shape[0] - 1)
    cdef double value
    with nogil:
        value = double_sum(&formula, &history[0], n, k, &c, &d, 0.0)
    return value


def expectations(
    const double[::1] spec, const double[::1] history, int64_t n, int64_t first, C, D,
    double[::1] psi,
):
    """Write Ψ of consecutive labellings, of which row r of ``C`` and of ``D`` has the laws."""
    cdef Formula formula = formula_of(spec)
    cdef const double[:, ::1] chosen = C[1], rest = D[1]
    cdef const int64_t[:, ::1] chosen_used = C[2], rest_used = D[2]
    cdef Law c = Law(mass=NULL, offset=C[0], low=0, high=0)
    cdef Law d = Law(mass=NULL, offset=D[0], low=0, high=0)
    cdef Py_ssize_t r
    with nogil:
        for r in range(psi.shape[0]):
            c.mass, c.low, c.high = &chosen[r, 0], chosen_used[r, 0], chosen_used[r, 1]
            d.mass, d.low, d.high = &rest[r, 0], rest_used[r, 0], rest_used[r, 1]
            psi[r] = double_sum(&formula, &history[0], n, first + r, &c, &d, 0.0)


def all_expectations(const double[::1] spec, const double[::1] history, const double[::1] p):
    """Return Ψ_0..Ψ_n of a handful of samples, in one call: whole laws and double sums."""
    cdef Formula formula = formula_of(spec)
    cdef int64_t n = p.shape[0], k
    values = np.empty(n + 1)
    cdef double[::1] psi = values
    cdef Law c = Law(mass=NULL, offset=0, low=0, high=0)
    cdef Law d = Law(mass=NULL, offset=0, low=0, high=0)
    # The law at k in row k, for the positives among the first k and, behind, among the others.
    cdef double *chosen = <double *> allocated(2 * (n + 1) * (n + 1), sizeof(double))
    cdef double *rest = chosen + (n + 1) * (n + 1)
    with nogil:
        chosen[0] = rest[n * (n + 1)] = 1.0
        for k in range(n):
            add_label(p[k], chosen + k * (n + 1), 0, k, chosen + (k + 1) * (n + 1))
        for k in range(n - 1, -1, -1):
            add_label(p[k], rest + (k + 1) * (n + 1), 0, n - k - 1, rest + k * (n + 1))
        for k in range(n + 1):
            c.mass, c.high = chosen + k * (n + 1), k
            d.mass, d.high = rest + k * (n + 1), n - k
            psi[k] = double_sum(&formula, &history[0], n, k, &c, &d, 0.0)
    free(chosen)
    return values


# Means of rates -----------------------------------------------------------------------------------


cdef double chebyshev_points(
    const Formula *formula, const double *history, int64_t n, int64_t k, const Law *C,
    double slack, double error, double center, double radius,
) noexcept nogil:
    """Return how many Chebyshev points in V reach ``error`` for every U in its window; 0 if none.

    TPR = T/(T + F + v) and TNR = (c - v)/(N - v). On the Bernstein ellipse, which lies between the
    singularities, |TPR| and |TNR| are at most `a` and `b` and Re TPR is at least `real`.
    """
    cdef double least = history[0] + C.offset + C.low, most = history[0] + C.offset + C.high
    cdef double c = history[3] + n - k + slack
    cdef double total = history[1] + history[3] + n - (C.offset + C.high)
    cdef double reach = 0.9 * min(min(center + least + history[2], c - center), total - center)
    cdef double z, rho, height, left, right, a, b, real, largest, farthest
    if reach <= 1.1 * radius or least <= 0.0:
        return 0.0
    z = reach / radius
    rho = z + sqrt(z * z - 1.0)
    height = 0.5 * radius * (rho - 1.0 / rho)
    left, right = center - reach, center + reach
    a = most / (least + history[2] + left)
    b = (fabs(c - left) + height) / (total - right)
    if formula.kind == GMEAN:
        largest = sqrt(a * b)
    else:
        farthest = most + history[2] + right
        real = least * (least + history[2] + left)
        real /= farthest * farthest + height * height
        largest = 2.0 * a * b / real
    return ceil(log(4.0 * largest / ((rho - 1.0) * error)) / log(rho)) + 1.0


cdef void write_lagrange_weights(
    const Law *D, int64_t m, const double *nodes, const double *signs, double *terms,
    double *weights,
) noexcept nogil:
    """Write the expectation under D of each node's Lagrange polynomial (barycentric formula)."""
    cdef int64_t b, j, hit
    cdef double v, total, distance, scale
    for b in range(m):
        weights[b] = 0.0
    for j in range(D.low, D.high + 1):
        v, total, hit = <double> (D.offset + j), 0.0, -1
        for b in range(m):
            distance = v - nodes[b]
            if distance == 0.0:
                hit = b
                break
            terms[b] = signs[b] / distance
            total += terms[b]
        if hit >= 0:
            weights[hit] += D.mass[j]
            continue
        scale = D.mass[j] / total
        for b in range(m):
            weights[b] += scale * terms[b]


cdef double interpolated_sum(
    const Formula *formula, const double *history, int64_t n, int64_t k, const Law *C,
    double slack, int64_t m, const double *nodes, const double *weights,
) noexcept nogil:
    """Return E Φ from the weights of some values of V instead of its law."""
    cdef double total = 0.0, inner, tp, fp, u
    cdef int64_t i, b
    for i in range(C.low, C.high + 1):
        u = <double> (C.offset + i)
        tp, fp = history[0] + u, history[1] + k - u
        inner = 0.0
        for b in range(m):
            inner += weights[b] * utility(
                formula,
                tp,
                fp - slack,
                history[2] + nodes[b],
                history[3] + n - k - nodes[b] + slack,
            )
        total += C.mass[i] * inner
    return total


def expectation_of_rates(
    const double[::1] spec, const double[::1] history, int64_t n, int64_t k, C, D, double slack,
    double error,
):
    """Return E Φ for the geometric or harmonic mean of rates, with ``slack`` more true negatives.

    In V the metric is analytic, so it is interpolated there at as many Chebyshev points as bring
    the error on the window below ``error`` by Bernstein's bound; where these would not be fewer
    than V's slots, the double sum is taken.
    """
    cdef Formula formula = formula_of(spec)
    cdef const double[::1] chosen = C[1], rest = D[1]
    cdef Law c = Law(mass=&chosen[0], offset=C[0], low=0, high=chosen.shape[0] - 1)
    cdef Law d = Law(mass=&rest[0], offset=D[0], low=0, high=rest.shape[0] - 1)
    cdef double low = <double> d.offset, high = <double> (d.offset + d.high), value
    cdef double center = 0.5 * (low + high), radius = 0.5 * (high - low) + 0.25
    cdef double points = chebyshev_points(
        &formula, &history[0], n, k, &c, slack, error, center, radius
    )
    cdef int64_t m, b
    cdef double *nodes
    if not 0.0 < points < <double> d.high:
        with nogil:
            value = double_sum(&formula, &history[0], n, k, &c, &d, slack)
        return value
    m = <int64_t> points
    nodes = <double *> allocated(4 * m, sizeof(double))
    cdef double *signs = nodes + m
    cdef double *terms = nodes + 2 * m
    cdef double *weights = nodes + 3 * m
    with nogil:
        for b in range(m):
            nodes[b] = center + radius * cos(M_PI * (b + 0.5) / m)
            signs[b] = sin(M_PI * (b + 0.5) / m)
            if b & 1:
                signs[b] = -signs[b]
        write_lagrange_weights(&d, m, nodes, signs, terms, weights)
        value = interpolated_sum(&formula, &history[0], n, k, &c, slack, m, nodes, weights)
    free(nodes)
    return value


# Linear in tp -------------------------------------------------------------------------------------


def linear_expectations(
    const double[::1] spec, const double[::1] history, const double[::1] p, law
):
    """Return Ψ_0..Ψ_n of a metric that is linear in tp once v = tp + fp and p = tp + fn are known.

    ``law`` is that of the number S of positives among all labels. The line is the one through the
    least and the most tp that v and p allow, so that besides the law Ψ takes E[U; S = s], where U
    counts the positives among the labels up to k. The rows of the answer are Ψ and the largest
    absolute factors of the law and of E[U; S = s] in it.
    """
    cdef Formula formula = formula_of(spec)
    cdef const double[::1] mass = law[1]
    cdef int64_t n = p.shape[0], m = mass.shape[0], k
    cdef double offset = law[0]
    sums, out = np.zeros(m), np.empty((3, n + 1))
    cdef double[::1] moments = sums
    cdef double[:, ::1] rows = out
    with nogil:
        for k in range(n + 1):
            if k > 0:
                take_out(p[k - 1], m, &mass[0], &moments[0])
            on_lines(
                &formula, &history[0], n, k, offset, m, &mass[0], &moments[0],
                &rows[0, k], &rows[1, k], &rows[2, k],
            )
    return out


cdef void take_out(double chance, int64_t m, const double *law, double *moments) noexcept nogil:
    """Add E[y; S = s] of a label y to ``moments``, by taking it out of the law of S.

    It is p P(S without y = s - 1). Dividing by a label's polynomial is stable from the end where it
    damps errors.
    """
    cdef double rest = 1.0 - chance, before = 0.0, after = 0.0
    cdef int64_t s
    if chance <= 0.5:
        for s in range(m):
            moments[s] += chance * before
            before = (law[s] - chance * before) / rest
    else:
        for s in range(m - 1, -1, -1):
            after = (law[s] - rest * after) / chance
            moments[s] += chance * after


cdef void on_lines(
    const Formula *formula, const double *history, int64_t n, int64_t k, double offset, int64_t m,
    const double *law, const double *moments, double *psi, double *level, double *steepest,
) noexcept nogil:
    """Write Ψ_k and the largest factors of the law and of the moments in it."""
    cdef double size = history[0] + history[1] + history[2] + history[3] + n
    cdef double v = history[0] + history[1] + k, p, least, most, base, slope, high
    cdef int64_t j
    psi[0] = level[0] = steepest[0] = 0.0
    for j in range(m):
        p = history[0] + history[2] + offset + j
        least, most = max(0.0, v + p - size), min(v, p)
        base = utility(formula, least, v - least, p - least, size - v - p + least)
        slope = 0.0
        if most > least:
            high = utility(formula, most, v - most, p - most, size - v - p + most)
            slope = (high - base) / (most - least)
            base += slope * (history[0] - least)
        psi[0] += base * law[j] + slope * moments[j]
        level[0], steepest[0] = max(level[0], fabs(base)), max(steepest[0], fabs(slope))
