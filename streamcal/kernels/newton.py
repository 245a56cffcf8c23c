"""Online Newton steps on one to three parameters, for maps that are linear in their parameters.

A state is one vector: the parameters θ, the curvature A (row by row), and the settings. A is the
sum of weighted outer products of gradients plus prior · I; with FADE < 1 what was added to the
prior fades by that factor a sample, so that old samples lose their hold.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

State = NDArray[np.float64]

# The settings, at the front of a state; then θ and A.
N_LEARNED, GAMMA, PRIOR, FADE, CLIP, SIZE = range(6)
THETA = 6


@helper
def newton_step(state: State, gradient: State, w: float) -> None:
    """Add a gradient to the curvature and go against it: θ ← θ − A⁻¹ · w · gradient / γ."""
    d = len(gradient)
    at = THETA + d
    prior = state[PRIOR]
    for i in range(d):
        for j in range(d):
            base = prior if i == j else 0.0
            cell = at + d * i + j
            state[cell] = base + state[FADE] * (state[cell] - base)
            state[cell] += w * gradient[i] * gradient[j]
    # A = L Lᵀ; rounding may not push a pivot below the prior, which is its least value.
    lower, x = np.zeros((d, d)), np.empty(d)
    for i in range(d):
        for j in range(i + 1):
            rest = state[at + d * i + j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(max(rest, prior)) if i == j else rest / lower[j, j]
    for i in range(d):
        x[i] = w * gradient[i] / state[GAMMA]
        for k in range(i):
            x[i] -= lower[i, k] * x[k]
        x[i] /= lower[i, i]
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            x[i] -= lower[k, i] * x[k]
        x[i] /= lower[i, i]
    for i in range(d):
        state[THETA + i] -= x[i]
    state[N_LEARNED] += 1.0


# ------------------------------------------------------------------------------ beta maps


@helper
def _beta_features(state: State, p: float) -> tuple[float, float]:
    p = min(max(p, state[CLIP]), 1.0 - state[CLIP])
    return np.log(p), -np.log1p(-p)


@helper
def _sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(-z)) in the open interval (0, 1)."""
    return 1.0 / (1.0 + np.exp(-min(max(z, -34.0), 34.0)))


@helper
def _beta_answer(state: State, p: float) -> float:
    if state[N_LEARNED] == 0.0:
        return p
    u, v = _beta_features(state, p)
    return _sigmoid(state[THETA] * u + state[THETA + 1] * v + state[THETA + 2])


@helper
def _beta_step(state: State, p: float, y: float, w: float) -> None:
    u, v = _beta_features(state, p)
    error = _sigmoid(state[THETA] * u + state[THETA + 1] * v + state[THETA + 2]) - y
    newton_step(state, error * np.array([u, v, 1.0]), w)
    for i in range(3):  # non-decreasing, and nowhere beyond what a float can tell
        low = 0.0 if i < 2 else -state[SIZE]
        state[THETA + i] = min(max(state[THETA + i], low), state[SIZE])


@kernel("float64(float64[::1], float64)")
def beta_predict(state: State, p: float) -> float:
    """Return the calibrated probability of ``p``, itself before anything is learned."""
    return _beta_answer(state, p)


@kernel("void(float64[::1], float64, float64, float64)")
def beta_learn(state: State, p: float, y: float, w: float) -> None:
    """Take one step towards the label ``y`` of ``p``."""
    _beta_step(state, p, y, w)


# ------------------------------------------------------------------------------ temperatures


@kernel("void(float64[::1], float64[::1], float64[::1])")
def temperature_predict(state: State, raw: State, out: State) -> None:
    """Write the probabilities proportional to raw ** θ."""
    top = -np.inf
    for k in range(len(raw)):
        out[k] = state[THETA] * np.log(max(raw[k], state[CLIP]))
        top = max(top, out[k])
    total = 0.0
    for k in range(len(raw)):
        out[k] = np.exp(out[k] - top)
        total += out[k]
    for k in range(len(raw)):
        out[k] /= total


@kernel("void(float64[::1], float64[::1], int64, float64)")
def temperature_learn(state: State, raw: State, y: int, w: float) -> None:
    """Take one step of θ towards the label in place ``y``."""
    top, mean, total = -np.inf, 0.0, 0.0
    for k in range(len(raw)):
        top = max(top, state[THETA] * np.log(max(raw[k], state[CLIP])))
    for k in range(len(raw)):
        z = np.log(max(raw[k], state[CLIP]))
        e = np.exp(state[THETA] * z - top)
        mean += e * z
        total += e
    gradient = mean / total - np.log(max(raw[y], state[CLIP]))
    newton_step(state, np.array([gradient]), w)
    state[THETA] = min(max(state[THETA], 1.0 / state[SIZE]), state[SIZE])
