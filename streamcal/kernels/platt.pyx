"""Online Platt scaling: two parameters, their curvature, and the bins of calibeating.

The curvature Σ w · gradient · gradientᵀ + prior · I is a symmetric matrix [aa ab; ab bb]; the sum
is multiplied by ``fade`` at each sample, or by 2^(−seconds / half-life). Each sample takes one Newton step. If that leaves the disc
of the parameters, it ends at the nearest point of the disc in the metric of the curvature (Gupta &
Ramdas, *Online Platt Scaling with Calibeating*, ICML 2023, Algorithm 1).
"""

from libc.math cimport INFINITY, hypot
from libc.stdlib cimport free

from streamcal.kernels.clock cimport (
    Clock, half_life_of, kept_until, new_clock, now_of, set_now
)
from streamcal.kernels.expert cimport Expert
from streamcal.kernels.logistic cimport clipped, logit, open_sigmoid
from streamcal.kernels.memory cimport zeros
from streamcal.kernels.newton cimport check_numbers
from streamcal.kernels.state_bytes cimport require

import numpy as np

from streamcal.kernels.expert import restored

cdef double LARGEST_ANSWER = 1.0 - 2.0**-53


cdef struct Bin:
    double weight  # of the samples whose answer was in the bin
    double sum  # of their weighted labels


cdef class Platt(Expert):
    """A logistic map of the log odds, learned sample by sample."""

    cdef readonly double slope, intercept
    cdef double aa, ab, bb  # the curvature, a symmetric matrix
    cdef double n_samples, gamma, prior, limit, clip, fade
    cdef int n_bins
    cdef Bin *bins
    cdef Clock *clock

    def __cinit__(self, gamma, prior, limit, clip, fade, n_bins, half_life=INFINITY):
        self.gamma, self.prior, self.limit = gamma, prior, limit
        self.clip, self.fade = clip, fade
        self.clock = new_clock(half_life)
        self.slope, self.intercept = 1.0, 0.0
        self.aa = self.bb = prior
        self.n_bins = n_bins
        if n_bins:
            self.bins = <Bin *> zeros(n_bins, sizeof(Bin))

    def __dealloc__(self):
        free(self.bins)
        free(self.clock)

    def __sizeof__(self):
        cdef size_t of_clock = sizeof(Clock) if self.clock != NULL else 0
        return object.__sizeof__(self) + self.n_bins * sizeof(Bin) + of_clock

    def state(self):
        """Return what `restore` takes: numbers, the bins' weights and sums as two rows, the time."""
        cdef int i
        cdef double now
        numbers, bins = np.empty(7), np.empty((2, self.n_bins))
        cdef double[::1] out = numbers
        cdef double[:, ::1] rows = bins
        with self.lock:  # no object is made under the lock: a signal handler may run then
            out[0], out[1], out[2], out[3] = self.slope, self.intercept, self.aa, self.ab
            out[4], out[5], out[6] = self.ab, self.bb, self.n_samples
            for i in range(self.n_bins):
                rows[0, i], rows[1, i] = self.bins[i].weight, self.bins[i].sum
            now = now_of(self.clock)
        return numbers, bins, now

    def restore(
        self, const double[::1] numbers, const double[:, ::1] bins, double now
    ):
        """Set the state to what `state` returned."""
        cdef int i
        self.slope, self.intercept = numbers[0], numbers[1]
        self.aa, self.ab = numbers[2], numbers[3]
        self.bb, self.n_samples = numbers[5], numbers[6]
        for i in range(self.n_bins):
            self.bins[i].weight, self.bins[i].sum = bins[0, i], bins[1, i]
        set_now(self.clock, now)

    def read(self, const double[::1] numbers, const double[:, ::1] bins, double now):
        """Set the state to what bytes hold, or raise ``ValueError``."""
        cdef int i
        check_numbers(2, numbers)
        require(
            hypot(numbers[0], numbers[1]) <= self.limit * (1.0 + 1e-9),
            "the parameters must be within the limit",
        )
        require(
            bins.shape[0] == 2 and bins.shape[1] == self.n_bins,
            "the number of bins must be `calibeating`",
        )
        for i in range(self.n_bins):
            require(0.0 <= bins[1, i] <= bins[0, i] < INFINITY, "labels must be in [0, 1]")
        self.restore(numbers, bins, now)

    def __reduce__(self):
        settings = self.gamma, self.prior, self.limit, self.clip, self.fade, self.n_bins
        return restored, (Platt, (*settings, half_life_of(self.clock)), self.state())

    cdef inline Bin *bin_of(self, double q) noexcept nogil:
        return &self.bins[min(<int> (q * self.n_bins), self.n_bins - 1) if q > 0.0 else 0]

    cdef double answer(self, double score) except? -1.0 nogil:
        cdef double q
        cdef Bin *bin
        if self.n_samples == 0.0:
            return score
        q = open_sigmoid(self.slope * logit(clipped(score, self.clip)) + self.intercept)
        if self.n_bins == 0:
            return q
        bin = self.bin_of(q)
        # Below 1 in spite of rounding, so that log loss is finite.
        return min((bin.sum + q) / (bin.weight + 1.0), LARGEST_ANSWER)

    cdef int teach(self, double score, double y, double w, double t) except -1 nogil:
        """Take one Newton step towards the label ``y`` of a score."""
        cdef double s = logit(clipped(score, self.clip))
        cdef double q = open_sigmoid(self.slope * s + self.intercept)
        cdef double error = q - y, curvature = w * error * error, det, size
        cdef double fade = self.fade * kept_until(self.clock, t)
        cdef Bin *bin
        cdef int i
        if self.n_bins > 0:
            for i in range(self.n_bins):
                self.bins[i].weight *= fade
                self.bins[i].sum *= fade
            bin = self.bin_of(q)
            bin.weight += w
            bin.sum += w * y
        self.aa = self.prior + fade * (self.aa - self.prior) + curvature * s * s
        self.ab = fade * self.ab + curvature * s
        self.bb = self.prior + fade * (self.bb - self.prior) + curvature
        # det A ≥ prior · (trace A − prior), also after rounding where one score dominates.
        det = max(
            self.aa * self.bb - self.ab * self.ab,
            self.prior * (self.aa + self.bb - self.prior),
        )
        # Newton's direction is A⁻¹ · (s, 1), times the weighted error.
        size = w * error / (self.gamma * det)
        self.slope -= size * (self.bb * s - self.ab)
        self.intercept -= size * (self.aa - self.ab * s)
        if self.slope * self.slope + self.intercept * self.intercept > self.limit * self.limit:
            move_inside(&self.slope, &self.intercept, self.aa, self.ab, self.bb, det, self.limit)
        self.n_samples += 1.0
        return 0


def project(double a, double b, double aa, double ab, double bb, double det, double radius):
    """Return the point of the disc that is nearest to (a, b) in the metric of A = [aa ab; ab bb].

    It is (A + λI)⁻¹ A (a, b) for the λ > 0 that puts it on the circle; its norm falls in λ. The
    determinant of A is an argument, since one computed here could be rounded to 0.
    """
    move_inside(&a, &b, aa, ab, bb, det, radius)
    return a, b


cdef void move_inside(
    double *a, double *b, double aa, double ab, double bb, double det, double radius
) noexcept nogil:
    """Replace (a, b) by what `project` returns."""
    # Scaled, so that neither the curvature of a heavy sample nor a long step overflows.
    cdef double unit = max(aa, bb), far = hypot(a[0], b[0])
    cdef double u, v, x, y, shrink, low = 0.0, high, middle
    cdef int i
    aa, ab, bb, det = aa / unit, ab / unit, bb / unit, det / unit / unit
    a[0], b[0], radius = a[0] / far, b[0] / far, radius / far
    u, v = aa * a[0] + ab * b[0], ab * a[0] + bb * b[0]
    high = hypot(u, v) / radius  # there the norm is below the radius
    for i in range(100):
        middle = 0.5 * (low + high)
        solve(u, v, aa, ab, bb, det, middle, &x, &y)
        if hypot(x, y) > radius:
            low = middle
        else:
            high = middle
    solve(u, v, aa, ab, bb, det, high, &x, &y)
    shrink = far * min(1.0, radius / hypot(x, y))  # inside in spite of rounding
    a[0], b[0] = shrink * x, shrink * y


cdef inline void solve(
    double u, double v, double aa, double ab, double bb, double det, double shift,
    double *x, double *y,
) noexcept nogil:
    """Solve (A + shift · I) (x, y) = (u, v), both sides divided by 1 + shift, which may be large.
    """
    cdef double part = shift / (1.0 + shift)
    det = det / (1.0 + shift) + part * (aa + bb) + shift * part
    aa, ab, bb = aa / (1.0 + shift), ab / (1.0 + shift), bb / (1.0 + shift)
    x[0], y[0] = ((bb + part) * u - ab * v) / det, ((aa + part) * v - ab * u) / det
