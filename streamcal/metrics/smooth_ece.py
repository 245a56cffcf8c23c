"""Smooth calibration error: residuals averaged by a kernel whose width is the error itself.

Binned errors jump when a prediction crosses the edge of a bin, and depend on the bins. Here the
residuals y − p are spread along the predictions by a Gaussian of width σ that is reflected at 0 and
1, and the absolute value of what remains is integrated:

    smECE_σ = ∫₀¹ |Σ_i w_i K_σ(t, p_i) (y_i − p_i)| dt / Σ_i w_i.

The wider the kernel the smaller this is, so smECE_σ = σ has one solution σ*, and that is the smooth
ECE: resolution and error agree, and there is nothing to choose.

The reflected Gaussian is the heat kernel of an interval with insulated ends: cosines are its
eigenfunctions, so that a width is tried by one cosine transform. Residuals are kept on n_cells + 1
equidistant nodes, each sample split between two such that mass and mean stay. With h = 1 / n_cells
and R the mean |y − p|, splitting and the trapezoidal rule together change smECE_σ, and thereby σ*,
by at most h² R / (2 σ²) in second order: 7e-7 at h = 1/4096, σ = .1, R = .25, 4e-4 at σ = .004.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river.metrics.base import BinaryMetric
from scipy.fft import dct, idct
from scipy.optimize import brentq

from streamcal._exact_sum import ExactSum
from streamcal._validation import as_weights
from streamcal.metrics._base import ProbabilityMetric, as_event, as_events, check_int

_CELLS = 4096


class SmoothECE(ProbabilityMetric, BinaryMetric):
    """Smooth expected calibration error [1]_, between 0 and 1, smaller is better.

    Consistent, without bins, and continuous: it moves little where predictions do. Memory is that
    of the grid, whatever the stream; `update` is O(1) and `get` takes some twenty cosine transforms
    of it (a millisecond or so).

    Parameters
    ----------
    pos_val
        The positive label. None: the label the model puts first, so that the "confidence" of
        multiclass predictions is scored.
    n_cells
        Cells of the grid on [0, 1], at least 2. The error falls with their square; see this
        module's text.

    References
    ----------
    .. [1] Błasiok, J. and Nakkiran, P. (2024). Smooth ECE: Principled reliability diagrams via
       kernel smoothing. ICLR, definition 1 and section 3 (arXiv 2309.12236).

    Examples
    --------
    >>> from streamcal.metrics import SmoothECE
    >>> metric = SmoothECE()
    >>> for yt, yp in zip([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]):
    ...     metric.update(yt, yp)
    >>> metric
    SmoothECE: 0.14103
    """

    def __init__(self, pos_val: Any = True, n_cells: int = _CELLS) -> None:
        check_int("n_cells", n_cells, 2)
        self.pos_val = pos_val
        self.n_cells = n_cells
        self._n_samples = 0
        self._counts = np.zeros(n_cells + 1, dtype=np.int64)
        self._masses: dict[int, ExactSum] = {}  # of the nodes that have any
        self._weight = ExactSum()

    def get(self) -> float:
        """Return the error, 0 before the first update."""
        return min(_fixed_point(self._shares()), 1.0) if self._n_samples else 0.0

    def at_bandwidth(self, sigma: float) -> float:
        """Return smECE_σ for a kernel of width ``sigma`` > 0, 0 before the first update."""
        _check_bandwidth(sigma)
        if not self._n_samples:
            return 0.0
        return _smoothed(_spectrum(self._shares()), sigma)

    def _shares(self) -> NDArray[np.float64]:
        """Return the residuals on the nodes, shape ``(n_cells + 1,)``, of a weight of 1 in all."""
        weight, shares = self._weight.value, np.zeros(self.n_cells + 1)
        for node, mass in self._masses.items():
            shares[node] = mass.value / weight
        return shares

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, self.pos_val)
        self._n_samples += 1
        self._weight.add(w)
        self._put(p, w * (happened - p), 1)

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, self.pos_val)
        if not self._counts[int(p * self.n_cells)]:
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        self._n_samples -= 1
        self._weight.add(-w)
        self._put(p, w * (p - happened), -1)

    def _put(self, p: float, mass: float, count: int) -> None:
        place = p * self.n_cells
        cell = int(place)
        self._counts[cell] += count
        share = place - cell
        self._masses.setdefault(cell, ExactSum()).add((1.0 - share) * mass)
        if share:
            self._masses.setdefault(cell + 1, ExactSum()).add(share * mass)


def smooth_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    w: ArrayLike | None = None,
    pos_val: Any = True,
    bandwidth: float | None = None,
    n_cells: int = _CELLS,
) -> float:
    """Return the smooth ECE of a batch; see `SmoothECE`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        The labels that came true, at most two different ones.
    y_prob : array-like of shape (n_samples,)
        The predicted probability of the positive label, in [0, 1].
    w : array-like of shape (n_samples,), optional
        Weights.
    pos_val
        The positive label.
    bandwidth : float, optional
        A width σ > 0 for smECE_σ; by default the one that equals its error.
    n_cells
        Cells of the grid; O(n_samples + n_cells log n_cells).

    Raises
    ------
    ValueError
        If the arrays are empty, differ in length, or hold what is no probability or label.

    Examples
    --------
    >>> from streamcal.metrics import smooth_ece
    >>> smooth_ece([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9])
    0.14103
    """
    check_int("n_cells", n_cells, 2)
    happened, p = as_events(y_true, y_prob, pos_val)
    weights = as_weights(w, len(p))
    cell = (p * n_cells).astype(np.intp)
    share = p * n_cells - cell
    residuals = weights * (happened - p) / weights.sum()
    masses = np.zeros(n_cells + 2)
    np.add.at(masses, cell, (1.0 - share) * residuals)
    np.add.at(masses, cell + 1, share * residuals)
    if bandwidth is None:
        return _fixed_point(masses[:-1])
    _check_bandwidth(bandwidth)
    return _smoothed(_spectrum(masses[:-1]), bandwidth)


def _check_bandwidth(sigma: float) -> None:
    if not 0.0 < sigma < math.inf:
        raise ValueError(f"`bandwidth` must be a positive finite number, got {sigma!r}")


def _spectrum(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine coefficients of masses on the nodes, taken as a density."""
    density = masses * (len(masses) - 1)
    density[[0, -1]] *= 2.0  # the nodes at the ends have half a cell
    return np.asarray(dct(density, type=1))


def _smoothed(spectrum: NDArray[np.float64], sigma: float) -> float:
    """Return smECE_σ: damp the cosines as heat does, integrate the absolute value."""
    frequency = np.pi * np.arange(len(spectrum))
    density = np.abs(idct(spectrum * np.exp(-0.5 * (sigma * frequency) ** 2), type=1))
    return float((density.sum() - 0.5 * (density[0] + density[-1])) / (len(spectrum) - 1))


def _fixed_point(masses: NDArray[np.float64]) -> float:
    """Return σ with smECE_σ = σ."""
    spectrum = _spectrum(masses)
    most = float(np.abs(masses).sum())  # at σ = 0; the error falls from there
    if most == 0.0 or _smoothed(spectrum, most) >= most:  # residuals of one sign stay as they are
        return most
    return float(brentq(lambda sigma: _smoothed(spectrum, sigma) - sigma, 0.0, most, xtol=1e-12))
