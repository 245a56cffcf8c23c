"""Laws of a number of positives, and expectations under them, on windows.

The number of positives among independent labels with probabilities p_1..p_m has the coefficients of
Π(p_i z + 1 - p_i) for its law. One label more costs one pass over the law. All but a few standard
deviations around the mean holds next to nothing, so end slots below ``tau`` are dropped; what was
dropped is summed up and returned, and that sum is the certificate.

A law is a vector whose slot ``j`` is the probability of the count ``offset + j``, of which the
slots ``low`` to ``high`` are in use.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.confusion import GMEAN, KIND, utility

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Bounds = NDArray[np.int64]


@helper
def _add_label(p: float, law: Vector, low: int, high: int) -> None:
    """Add a label to the law in place; slot ``high + 1`` is written."""
    q = 1.0 - p
    law[high + 1] = p * law[high]
    for j in range(high, low, -1):
        law[j] = q * law[j] + p * law[j - 1]
    law[low] = q * law[low]


@helper
def _trim(law: Vector, low: int, high: int, tau: float) -> tuple[int, int, float]:
    """Return what is in use without the end slots below ``tau``, and the mass these held."""
    lost = 0.0
    while low < high and law[low] < tau:
        lost += law[low]
        law[low] = 0.0
        low += 1
    while high > low and law[high] < tau:
        lost += law[high]
        law[high] = 0.0
        high -= 1
    return low, high, lost


@kernel("float64(float64[::1], float64, float64[::1], int64[::1])")
def extend(p: Vector, tau: float, law: Vector, bounds: Bounds) -> float:
    """Add labels to a law in place; ``bounds`` is (low, high). Return the mass dropped."""
    low, high, lost = bounds[0], bounds[1], 0.0
    for i in range(len(p)):
        _add_label(p[i], law, low, high)
        low, high, dropped = _trim(law, low, high + 1, tau)
        lost += dropped
    bounds[0], bounds[1] = low, high
    return lost


@kernel("float64(float64[::1], float64, float64[:, ::1], int64[:, ::1])")
def extend_rows(p: Vector, tau: float, rows: Matrix, bounds: Bounds) -> float:
    """Add labels one by one, keeping each law: row ``i + 1`` is row ``i`` with label ``i``."""
    lost = 0.0
    for i in range(len(p)):
        low, high = bounds[i, 0], bounds[i, 1]
        for j in range(low, high + 1):
            rows[i + 1, j] = rows[i, j]
        _add_label(p[i], rows[i + 1], low, high)
        low, high, dropped = _trim(rows[i + 1], low, high + 1, tau)
        bounds[i + 1, 0], bounds[i + 1, 1] = low, high
        lost += dropped
    return lost


@helper
def _double_sum(
    spec: Vector, history: Vector, at: Bounds, C: Vector, D: Vector, k: int, slack: float
) -> float:
    """Return E Φ at the labelling ``k``; U has the law C, V the law D.

    ``at`` is (n, offset of C, its low and high, offset of D, its low and high).
    """
    n, u0, v0 = at[0], at[1], at[4]
    total = 0.0
    for i in range(at[2], at[3] + 1):
        u = float(u0 + i)
        tp, fp = history[0] + u, history[1] + k - u
        inner = 0.0
        for j in range(at[5], at[6] + 1):
            v = float(v0 + j)
            inner += D[j] * utility(
                spec, tp, fp - slack, history[2] + v, history[3] + (n - k) - v + slack
            )
        total += C[i] * inner
    return total


@kernel(
    "void(float64[::1], float64[::1], int64[::1], float64[:, ::1], int64[:, ::1],"
    " float64[:, ::1], int64[:, ::1], float64[::1])"
)
def expectations(
    spec: Vector,
    history: Vector,
    place: Bounds,
    C: Matrix,
    C_bounds: Bounds,
    D: Matrix,
    D_bounds: Bounds,
    psi: Vector,
) -> None:
    """Write Ψ of consecutive labellings, of which row r of ``C`` and of ``D`` has the laws.

    ``place`` is (n, first labelling, offset of C's columns, offset of D's).
    """
    at = np.empty(7, np.int64)
    at[0], at[1], at[4] = place[0], place[2], place[3]
    for r in range(len(psi)):
        at[2], at[3], at[5], at[6] = C_bounds[r, 0], C_bounds[r, 1], D_bounds[r, 0], D_bounds[r, 1]
        psi[r] = _double_sum(spec, history, at, C[r], D[r], place[1] + r, 0.0)


@helper
def _chebyshev_points(
    spec: Vector,
    history: Vector,
    at: Bounds,
    k: int,
    slack: float,
    error: float,
    center: float,
    radius: float,
) -> int:
    """Return how many Chebyshev points in V reach ``error`` for every U in its window; 0 if none.

    TPR = T/(T + F + v) and TNR = (c - v)/(N - v). On the Bernstein ellipse, which lies between the
    singularities, |TPR| and |TNR| are at most `a` and `b` and Re TPR is at least `real`.
    """
    n = at[0]
    least, most = history[0] + at[1] + at[2], history[0] + at[1] + at[3]
    c = history[3] + n - k + slack
    total = history[1] + history[3] + n - (at[1] + at[3])
    reach = 0.9 * min(center + least + history[2], c - center, total - center)
    if reach <= 1.1 * radius or least <= 0.0:
        return 0
    z = reach / radius
    rho = z + np.sqrt(z * z - 1.0)
    height = 0.5 * radius * (rho - 1.0 / rho)
    left, right = center - reach, center + reach
    a = most / (least + history[2] + left)
    b = (abs(c - left) + height) / (total - right)
    if int(spec[KIND]) == GMEAN:
        largest = np.sqrt(a * b)
    else:
        real = least * (least + history[2] + left)
        real /= (most + history[2] + right) ** 2 + height**2
        largest = 2.0 * a * b / real
    return int(np.ceil(np.log(4.0 * largest / ((rho - 1.0) * error)) / np.log(rho))) + 1


@helper
def _spread(D: Vector, at: Bounds, nodes: Vector, weights: Vector) -> None:
    """Write the expectation under D of each node's Lagrange polynomial (barycentric formula)."""
    m = len(nodes)
    terms, signs = np.empty(m), np.empty(m)
    for b in range(m):
        sine = np.sin(np.pi * (b + 0.5) / m)
        signs[b] = -sine if b & 1 else sine
    for j in range(at[5], at[6] + 1):
        v, total, hit = float(at[4] + j), 0.0, -1
        for b in range(m):
            distance = v - nodes[b]
            if distance == 0.0:
                hit = b
                break
            terms[b] = signs[b] / distance
            total += terms[b]
        if hit >= 0:
            weights[hit] += D[j]
            continue
        scale = D[j] / total
        for b in range(m):
            weights[b] += scale * terms[b]


@kernel(
    "float64(float64[::1], float64[::1], int64[::1], float64[::1], float64[::1], int64, float64,"
    " float64)"
)
def expectation_of_rates(
    spec: Vector,
    history: Vector,
    at: Bounds,
    C: Vector,
    D: Vector,
    k: int,
    slack: float,
    error: float,
) -> float:
    """Return E Φ for the geometric or harmonic mean of rates, with ``slack`` more true negatives.

    In V the metric is analytic, so it is interpolated there at as many Chebyshev points as bring
    the error on the window below ``error`` by Bernstein's bound; where these would not be fewer
    than V's slots, the double sum is taken.
    """
    low, high = float(at[4] + at[5]), float(at[4] + at[6])
    center, radius = 0.5 * (low + high), 0.5 * (high - low) + 0.25
    m = _chebyshev_points(spec, history, at, k, slack, error, center, radius)
    if m == 0 or m >= at[6] - at[5]:
        return _double_sum(spec, history, at, C, D, k, slack)
    nodes, weights = np.empty(m), np.zeros(m)
    for b in range(m):
        nodes[b] = center + radius * np.cos(np.pi * (b + 0.5) / m)
    _spread(D, at, nodes, weights)
    n = at[0]
    total = 0.0
    for i in range(at[2], at[3] + 1):
        u = float(at[1] + i)
        tp, fp = history[0] + u, history[1] + k - u
        inner = 0.0
        for b in range(m):
            inner += weights[b] * utility(
                spec, tp, fp - slack, history[2] + nodes[b], history[3] + n - k - nodes[b] + slack
            )
        total += C[i] * inner
    return total


@kernel("void(float64[::1], float64[::1], float64[::1], float64[:, ::1])")
def leave_one_out(p: Vector, law: Vector, moments: Vector, rows: Matrix) -> None:
    """Write E[U; S = s] for growing sets of labels, by taking each label out of the law of S.

    ``law`` is that of the number S of positives among all labels, ``moments`` the row so far; row i
    is the row with the labels up to ``p[i]``. E[y_i; S = s] = p_i P(S without i = s - 1). Dividing
    by a label's polynomial is stable from the end where it damps errors.
    """
    m = len(law)
    for i in range(len(p)):
        chance, rest = p[i], 1.0 - p[i]
        if chance <= 0.5:
            before = 0.0
            for s in range(m):
                moments[s] += chance * before
                before = (law[s] - chance * before) / rest
        else:
            after = 0.0
            for s in range(m - 1, -1, -1):
                after = (law[s] - rest * after) / chance
                moments[s] += chance * after
        for s in range(m):
            rows[i, s] = moments[s]


@kernel(
    "void(float64[::1], float64[::1], int64[::1], float64[::1], float64[:, ::1], float64[:, ::1])"
)
def linear_expectations(
    spec: Vector, history: Vector, place: Bounds, law: Vector, rows: Matrix, out: Matrix
) -> None:
    """Write Ψ of consecutive labellings for a metric that is linear in tp once v and p are known.

    ``place`` is (n, first labelling, offset of the law); row r of ``rows`` is E[U; S = s] at the
    labelling r. The line is the one through the least and the most tp that v and p allow. The rows
    of ``out`` are Ψ and the largest absolute factors of the law and of E[U; S = s] in it.
    """
    n, first, offset = place[0], place[1], place[2]
    size = history[0] + history[1] + history[2] + history[3] + n
    for r in range(out.shape[1]):
        v = history[0] + history[1] + first + r
        total, level, steepest = 0.0, 0.0, 0.0
        for j in range(len(law)):
            p = history[0] + history[2] + offset + j
            least, most = max(0.0, v + p - size), min(v, p)
            base = utility(spec, least, v - least, p - least, size - v - p + least)
            slope = 0.0
            if most > least:
                high = utility(spec, most, v - most, p - most, size - v - p + most)
                slope = (high - base) / (most - least)
                base += slope * (history[0] - least)
            total += base * law[j] + slope * rows[r, j]
            level, steepest = max(level, abs(base)), max(steepest, abs(slope))
        out[0, r], out[1, r], out[2, r] = total, level, steepest


@kernel("void(float64[::1], float64[::1], float64[::1], float64[::1])")
def few(p: Vector, spec: Vector, history: Vector, psi: Vector) -> None:
    """Write Ψ_0..Ψ_n of a handful of samples, in one call: whole laws and double sums."""
    n = len(p)
    C, D = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    C[0, 0], D[n, 0] = 1.0, 1.0
    for k in range(n):
        for j in range(k + 1):
            C[k + 1, j] = C[k, j]
        _add_label(p[k], C[k + 1], 0, k)
    for k in range(n - 1, -1, -1):
        for j in range(n - k):
            D[k, j] = D[k + 1, j]
        _add_label(p[k], D[k], 0, n - k - 1)
    at = np.zeros(7, np.int64)
    at[0] = n
    for k in range(n + 1):
        at[3], at[6] = k, n - k
        psi[k] = _double_sum(spec, history, at, C[k], D[k], k, 0.0)
