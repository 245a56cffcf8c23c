"""Maps that are learned by online Newton steps: beta calibration and one temperature.

The parameters θ start at the identity. Each sample adds the outer product of its gradient to a
curvature A, and θ goes against the gradient in the metric of A::

    A ← A + w · g gᵀ,    θ ← θ − A⁻¹ · w · g / γ

A starts at prior · I. The added terms are multiplied by ``fade`` at each sample, or by
2^(−seconds / half-life), so that old samples lose their influence. Then θ is clipped to its range. Gradients are those of log loss:

    beta          sigmoid(a · ln p − b · ln(1 − p) + c)    g = (answer − label) · (ln p, −ln(1−p), 1)
    temperature   p_k ** θ, divided by their sum           g = Σ answer_k · ln p_k − ln p_label

`streamcal.kernels.platt` solves its two equations directly.
"""

cimport cython
from libc.math cimport INFINITY, NAN, exp, fabs, floor, isfinite, log, log1p, sqrt
from libc.stdlib cimport free

from streamcal.kernels.clock cimport (
    Clock, half_life_of, kept_until, new_clock, now_of, set_now
)
from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.expert cimport Expert
from streamcal.kernels.logistic cimport clipped, open_sigmoid, softmax
from streamcal.kernels.state_bytes cimport require

import numpy as np

from streamcal.kernels.expert import restored


cdef struct Newton:
    double theta[3]
    double curvature[3][3]
    double n_samples, gamma, prior, fade
    Clock *clock


cdef void set_up(
    Newton *newton, double gamma, double prior, double fade, double half_life
) except *:
    """Set the parameters to 1 and the curvature to that of the prior."""
    cdef int i, j
    newton.gamma, newton.prior, newton.fade, newton.n_samples = gamma, prior, fade, 0.0
    newton.clock = new_clock(half_life)
    for i in range(3):
        newton.theta[i] = 1.0
        for j in range(3):
            newton.curvature[i][j] = prior if i == j else 0.0


cdef void step(
    Newton *newton, int d, const double *gradient, double w, double t
) noexcept nogil:
    """Add a gradient to the curvature, and take a step against it, in ``d`` dimensions.

    ``t`` is the time of the sample in seconds, or NaN.
    """
    cdef double lower[3][3]
    cdef double x[3]
    cdef double rest, base, prior = newton.prior, fade = newton.fade
    cdef int i, j, k
    fade *= kept_until(newton.clock, t)
    for i in range(d):
        for j in range(d):
            base = prior if i == j else 0.0
            newton.curvature[i][j] = base + fade * (newton.curvature[i][j] - base)
            newton.curvature[i][j] += w * gradient[i] * gradient[j]
    # A = L Lᵀ; a pivot is at least the prior, also after rounding.
    for i in range(d):
        for j in range(i + 1):
            rest = newton.curvature[i][j]
            for k in range(j):
                rest -= lower[i][k] * lower[j][k]
            lower[i][j] = sqrt(max(rest, prior)) if i == j else rest / lower[j][j]
    for i in range(d):  # L, then Lᵀ
        x[i] = w * gradient[i] / newton.gamma
        for k in range(i):
            x[i] -= lower[i][k] * x[k]
        x[i] /= lower[i][i]
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            x[i] -= lower[k][i] * x[k]
        x[i] /= lower[i][i]
    for i in range(d):
        newton.theta[i] -= x[i]
    newton.n_samples += 1.0


cdef state_of(const Newton *newton, int d):
    """Return the parameters, the curvature row by row, and how many samples were learned."""
    cdef int i, j
    numbers = [newton.theta[i] for i in range(d)]
    numbers += [newton.curvature[i][j] for i in range(d) for j in range(d)]
    return np.array([*numbers, newton.n_samples])


cdef int take_over(Newton *newton, int d, const double[::1] numbers, double now) except -1:
    """Set the state to what `state_of` returned."""
    cdef int i, j
    for i in range(d):
        newton.theta[i] = numbers[i]
        for j in range(d):
            newton.curvature[i][j] = numbers[d + d * i + j]
    newton.n_samples = numbers[d + d * d]
    set_now(newton.clock, now)
    return 0


cdef int check_numbers(int d, const double[::1] numbers) except -1:
    """Raise unless these numbers of a state can be those of `state_of`, but for the parameters.

    The curvature is a sum of weighted outer products of gradients, up to rounding.
    """
    cdef int i, j
    cdef double a, b, most
    require(numbers.shape[0] == d + d * d + 1, "there must be parameters, a curvature and a count")
    for i in range(numbers.shape[0]):
        require(isfinite(numbers[i]), "numbers must be finite")
    for i in range(d):
        a = numbers[d + i * (d + 1)]
        require(0.0 < a < 1e120, "curvatures must be positive")
    for i in range(d):
        for j in range(d):
            most = sqrt(numbers[d + i * (d + 1)] * numbers[d + j * (d + 1)])
            a, b = numbers[d + d * i + j], numbers[d + d * j + i]
            require(fabs(a - b) <= 1e-6 * most, "the curvature must be symmetric")
            require(fabs(a) <= (1.0 + 1e-6) * most, "curvatures must be positive definite")
    a = numbers[d + d * d]
    require(a >= 0.0 and floor(a) == a, "the count of samples must be an integer")
    return 0


# Beta maps ----------------------------------------------------------------------------------------


cdef class Beta(Expert):
    """A map of a probability with three parameters; a and b are not negative."""

    cdef Newton newton
    cdef double limit, clip

    def __cinit__(self, gamma, prior, limit, clip, fade, half_life=INFINITY):
        set_up(&self.newton, gamma, prior, fade, half_life)
        self.newton.theta[2] = 0.0
        self.limit, self.clip = limit, clip

    def __dealloc__(self):
        free(self.newton.clock)

    @property
    def parameters(self):
        """The current (a, b, c)."""
        cdef Newton newton
        with self.lock:
            newton = self.newton
        return newton.theta[0], newton.theta[1], newton.theta[2]

    def state(self):
        """Return the numbers and the time that `restore` takes."""
        cdef Newton newton
        with self.lock:  # no object is made under the lock: a signal handler may run then
            newton = self.newton
        return state_of(&newton, 3), now_of(newton.clock)

    def restore(self, numbers, double now):
        """Set the state to what `state` returned."""
        take_over(&self.newton, 3, numbers, now)

    def read(self, const double[::1] numbers, double now):
        """Set the state to what bytes hold, or raise ``ValueError``."""
        cdef int i
        check_numbers(3, numbers)
        for i in range(3):
            require(
                (0.0 if i < 2 else -self.limit) <= numbers[i] <= self.limit,
                "the parameters must be within the limit",
            )
        take_over(&self.newton, 3, numbers, now)

    def __reduce__(self):
        newton = self.newton
        settings = newton.gamma, newton.prior, self.limit, self.clip, newton.fade
        return restored, (Beta, (*settings, half_life_of(newton.clock)), self.state())

    cdef inline void features(self, double p, double *x) noexcept nogil:
        p = clipped(p, self.clip)
        x[0], x[1], x[2] = log(p), -log1p(-p), 1.0

    cdef inline double value(self, const double *x) noexcept nogil:
        cdef const double *theta = self.newton.theta
        return open_sigmoid(theta[0] * x[0] + theta[1] * x[1] + theta[2])

    cdef double answer(self, double score) except? -1.0 nogil:
        cdef double x[3]
        if self.newton.n_samples == 0.0:
            return score
        self.features(score, x)
        return self.value(x)

    cdef int teach(self, double score, double y, double w, double t) except -1 nogil:
        """Take one step towards the label ``y`` of a score."""
        cdef double x[3]
        cdef double error, least
        cdef int i
        self.features(score, x)
        error = self.value(x) - y
        for i in range(3):
            x[i] = error * x[i]
        step(&self.newton, 3, x, w, t)
        for i in range(3):  # the map must not decrease, and its parameters are bounded
            least = 0.0 if i < 2 else -self.limit
            self.newton.theta[i] = min(max(self.newton.theta[i], least), self.limit)
        return 0


# Temperatures -------------------------------------------------------------------------------------


@cython.final
cdef class Temperature(Shared):
    """Probabilities of all labels, raised to one power θ and divided by their sum."""

    cdef Newton newton
    cdef double limit, clip

    def __cinit__(self, gamma, prior, limit, clip, fade, half_life=INFINITY):
        set_up(&self.newton, gamma, prior, fade, half_life)
        self.limit, self.clip = limit, clip

    def __dealloc__(self):
        free(self.newton.clock)

    @property
    def exponent(self):
        """The current θ."""
        return self.newton.theta[0]

    @property
    def n_samples(self):
        """How many samples were learned."""
        return self.newton.n_samples

    def predict(self, const double[::1] raw, double[::1] out):
        """Write the probabilities proportional to raw ** θ."""
        cdef Py_ssize_t k
        with self.lock:
            for k in range(raw.shape[0]):
                out[k] = self.newton.theta[0] * self.log_of(raw[k])
        softmax(&out[0], raw.shape[0])

    def learn(self, const double[::1] raw, Py_ssize_t y, double w, double t=NAN):
        """Take one step of θ towards the label at position ``y``."""
        cdef double top = -INFINITY, mean = 0.0, total = 0.0, z, e, gradient
        cdef double *theta = self.newton.theta
        cdef Py_ssize_t k
        with self.lock:
            for k in range(raw.shape[0]):
                top = max(top, theta[0] * self.log_of(raw[k]))
            for k in range(raw.shape[0]):
                z = self.log_of(raw[k])
                e = exp(theta[0] * z - top)
                mean += e * z
                total += e
            gradient = mean / total - self.log_of(raw[y])
            step(&self.newton, 1, &gradient, w, t)
            theta[0] = min(max(theta[0], 1.0 / self.limit), self.limit)

    def state(self):
        """Return the numbers and the time that `restore` takes."""
        cdef Newton newton
        with self.lock:  # no object is made under the lock: a signal handler may run then
            newton = self.newton
        return state_of(&newton, 1), now_of(newton.clock)

    def restore(self, numbers, double now):
        """Set the state to what `state` returned."""
        take_over(&self.newton, 1, numbers, now)

    def read(self, const double[::1] numbers, double now):
        """Set the state to what bytes hold, or raise ``ValueError``."""
        check_numbers(1, numbers)
        require(
            1.0 / self.limit <= numbers[0] <= self.limit, "the parameters must be within the limit"
        )
        take_over(&self.newton, 1, numbers, now)

    def __reduce__(self):
        newton = self.newton
        settings = newton.gamma, newton.prior, self.limit, self.clip, newton.fade
        return restored, (Temperature, (*settings, half_life_of(newton.clock)), self.state())

    cdef inline double log_of(self, double p) noexcept nogil:
        return log(max(p, self.clip))
