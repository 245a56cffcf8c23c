"""Online Platt scaling over one vector of state: the two parameters, their curvature, the settings.

The curvature Σ w · gradient · gradientᵀ + prior · I is a symmetric matrix [aa ab; ab bb]; what was
added to the prior fades by FADE a sample. Behind the settings stand the bins of calibeating, where
there are any: the weights of the samples whose answer was in each, then their sums of labels.
"""

from math import exp, hypot, log

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import READ, helper, kernel

State = NDArray[np.float64]

SLOPE, INTERCEPT, AA, AB, BB, N_LEARNED, GAMMA, PRIOR, RADIUS, CLIP, FADE = range(11)
SIZE = 11
STEEPEST = 34.0  # sigmoid(±34) is the last value a float still tells from 0 and 1


@helper
def sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(-z)) in the open interval (0, 1)."""
    return 1.0 / (1.0 + exp(-min(max(z, -STEEPEST), STEEPEST)))


@helper
def log_odds(p: float, clip: float) -> float:
    """Return the log odds of a probability that is clipped to [clip, 1 − clip]."""
    p = min(max(p, clip), 1.0 - clip)
    return log(p / (1.0 - p))


@helper
def answer(state: State, p: float) -> float:
    """Return the calibrated probability of ``p``, itself before anything is learned."""
    if state[N_LEARNED] == 0.0:
        return p
    q = sigmoid(state[SLOPE] * log_odds(p, state[CLIP]) + state[INTERCEPT])
    n_bins = (len(state) - SIZE) // 2
    if n_bins == 0:
        return q
    at = SIZE + min(int(q * n_bins), n_bins - 1)
    return (state[at + n_bins] + q) / (state[at] + 1.0)


@helper
def step(state: State, p: float, y: float, w: float) -> None:
    """Take one Newton step towards the label ``y`` of ``p``."""
    s = log_odds(p, state[CLIP])
    slope, intercept = state[SLOPE], state[INTERCEPT]
    q = sigmoid(slope * s + intercept)
    n_bins = (len(state) - SIZE) // 2
    if n_bins > 0:
        at = SIZE + min(int(q * n_bins), n_bins - 1)
        for i in range(SIZE, len(state)):
            state[i] *= state[FADE]
        state[at] += w
        state[at + n_bins] += w * y
    error = q - y
    curvature = w * error * error
    prior = state[PRIOR]
    state[AA] = prior + state[FADE] * (state[AA] - prior) + curvature * s * s
    state[AB] = state[FADE] * state[AB] + curvature * s
    state[BB] = prior + state[FADE] * (state[BB] - prior) + curvature
    aa, ab, bb = state[AA], state[AB], state[BB]
    # det A ≥ prior · (trace A − prior); rounding may say less where one score dominates.
    det = max(aa * bb - ab * ab, prior * (aa + bb - prior))
    # Newton's direction is A⁻¹ · (s, 1), up to the factor that comes with the weighted error.
    size = w * error / (state[GAMMA] * det)
    slope -= size * (bb * s - ab)
    intercept -= size * (aa - ab * s)
    if slope * slope + intercept * intercept > state[RADIUS] * state[RADIUS]:
        slope, intercept = project(slope, intercept, aa, ab, bb, det, state[RADIUS])
    state[SLOPE], state[INTERCEPT] = slope, intercept
    state[N_LEARNED] += 1.0


@helper
def project(
    a: float, b: float, aa: float, ab: float, bb: float, det: float, radius: float
) -> tuple[float, float]:
    """Return the point of the disc that is nearest to (a, b) in the metric of A = [aa ab; ab bb].

    It is (A + λI)⁻¹ A (a, b) for the λ > 0 that puts it on the circle; its norm falls in λ. The
    determinant of A is given, since rounding may make 0 of it.
    """
    u, v = aa * a + ab * b, ab * a + bb * b
    low, high = 0.0, hypot(u, v) / radius  # at `high` the norm is below the radius
    for _ in range(100):
        middle = 0.5 * (low + high)
        if hypot(*_shifted(u, v, aa, ab, bb, det, middle)) > radius:
            low = middle
        else:
            high = middle
    x, y = _shifted(u, v, aa, ab, bb, det, high)
    shrink = min(1.0, radius / hypot(x, y))  # where rounding has put it outside
    return shrink * x, shrink * y


@helper
def _shifted(
    u: float, v: float, aa: float, ab: float, bb: float, det: float, shift: float
) -> tuple[float, float]:
    """Solve (A + shift · I) x = (u, v)."""
    det += shift * (aa + bb) + shift * shift
    return ((bb + shift) * u - ab * v) / det, ((aa + shift) * v - ab * u) / det


@kernel("float64(float64[::1], float64)")
def predict(state: State, p: float) -> float:
    """Return the calibrated probability of ``p``."""
    return answer(state, p)


@kernel("void(float64[::1], float64, float64, float64)")
def learn(state: State, p: float, y: float, w: float) -> None:
    """Learn one sample."""
    step(state, p, y, w)


@kernel(f"void(float64[::1], {READ}, float64[::1])")
def predict_many(state: State, scores: State, out: State) -> None:
    """Write the calibrated probabilities of ``scores``."""
    for i in range(len(scores)):
        out[i] = answer(state, scores[i])


@kernel(f"void(float64[::1], {READ}, {READ}, {READ}, float64[::1])")
def predict_learn_many(state: State, scores: State, y: State, w: State, out: State) -> None:
    """Predict, then learn each sample."""
    for i in range(len(scores)):
        out[i] = answer(state, scores[i])
        step(state, scores[i], y[i], w[i])
