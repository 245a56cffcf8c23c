"""Algorithm 2 of Natarajan et al., corrected: a ratio of linear forms of the counts in O(n²).

With the k likeliest labelled 1, the denominator is α + c V + e (n - k - V), where α collects what
is known of it once U is, and V counts the positives among the rest. b(k, α) = E 1/(α + c V + e
(n-k-V)) obeys b(k - 1, α) = η_k b(k, α + c) + (1 - η_k) b(k, α + e), and for integer coefficients
the values of α lie on a grid. Coefficients by cell of the confusion table are never negative, so
neither is an index; the grid starts at 0, which the printed range leaves out.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import kernel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Integers = NDArray[np.int64]


@kernel(
    "void(float64[::1], int64, float64[:, ::1], int64[:, ::1], int64[::1], float64[::1],"
    " float64[::1], float64[::1], float64[::1])"
)
def algorithm_2(
    p: Vector,
    first: int,
    C: Matrix,
    bounds: NDArray[np.int64],
    den: Integers,
    num: Vector,
    form: Vector,
    grid: Vector,
    psi: Vector,
) -> None:
    """Write Ψ of the labellings ``first`` to ``first + len(C) - 1``, the last one first.

    Row r of ``C`` is the law of U there. The denominator is shift + (den · counts)/scale, the
    numerator carried + num · counts; ``form`` is (shift, scale, carried, mean of V behind this
    block), of which the last is brought up to date. ``grid`` holds b(k, shift + i/scale) for the
    last k of the block, and for the one before ``first`` when done. 0/0 counts as 0, but what is
    folded into the constant is the caller's to take off.
    """
    n = len(p)
    tp, fp, fn, tn = den[0], den[1], den[2], den[3]
    shift, scale, carried = form[0], form[1], form[2]
    # V's part of the numerator is a multiple of the denominator: (num_fn - num_tn) V =
    # fold * (denominator - the rest of it). Where the denominator knows no V, its mean is enough.
    fold = scale * (num[2] - num[3]) / (fn - tn) if fn != tn else 0.0
    for r in range(len(C) - 1, -1, -1):
        k = first + r
        known = carried + num[3] * (n - k) - fold * (shift + tn * (n - k) / scale)
        if fn == tn:
            known += (num[2] - num[3]) * form[3]
        total = 0.0
        for u in range(bounds[r, 0], bounds[r, 1] + 1):
            at = tp * u + fp * (k - u)
            above = known + num[0] * u + num[1] * (k - u) - fold * at / scale
            total += C[r, u] * above * grid[at]
        psi[k] = total + fold
        if k > 0:
            eta, left = p[k - 1], 1.0 - p[k - 1]
            form[3] += eta
            for i in range(max(tp, fp) * (k - 1) + 1):
                grid[i] = eta * grid[i + fn] + left * grid[i + tn]
