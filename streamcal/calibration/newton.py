"""A base of calibrators that learn by online Newton steps: parameters and states.

The parameters of the map start at the identity and follow the log loss, one step for each sample
(Hazan, Agarwal & Kale, *Logarithmic Regret Algorithms for Online Convex Optimization*, Machine
Learning 2007).
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, array_of, require
from streamcal._validation import (
    LARGEST,
    as_weight,
    check_half_life,
    check_within,
    decay_per_sample,
)
from streamcal.calibration.probability import check_clip


class NewtonSteps(ABC):
    """A second base class of a calibrator whose ``_kernel`` has ``state`` and ``restore``."""

    _n_parameters: ClassVar[int]
    _kernel: Any
    gamma: float
    prior: float
    limit: float
    half_life: float | None
    clip: float

    @property
    def n_samples(self) -> int:
        """How many samples have been learned."""
        return int(self._kernel.state()[0][-1])

    def _set_up(
        self, gamma: float, prior: float, limit: float, half_life: float | None, clip: float
    ) -> tuple[float, float, float, float, float]:
        """Check and store the parameters; return those of the kernel."""
        as_weight(gamma, "gamma")
        as_weight(prior, "prior")
        check_within(limit, "limit", f"(1, {LARGEST:g}]")
        check_half_life(half_life)
        check_clip(clip)
        self.gamma = gamma
        self.prior = prior
        self.limit = limit
        self.half_life = half_life
        self.clip = clip
        return gamma, prior, limit, clip, decay_per_sample(half_life)

    @abstractmethod
    def _within_limit(self, theta: NDArray[np.float64]) -> bool:
        """Return whether these can be the parameters after a step."""

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {"numbers": self._kernel.state()[0]}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._kernel.restore(*self._read_state(arrays))

    def _read_state(self, arrays: Arrays) -> tuple[NDArray[np.float64], ...]:
        """Return what the kernel's ``restore`` takes, or raise.

        The numbers are the parameters, the curvature row by row and the count of samples.
        """
        d = self._n_parameters
        numbers = array_of(arrays, "numbers", d + d * d + 1)
        theta, n_samples = numbers[:d], float(numbers[-1])
        require(self._within_limit(theta), "the parameters must be within the limit")
        _check_curvature(numbers[d:-1].reshape(d, d))
        require(
            n_samples >= 0.0 and n_samples.is_integer(), "the count of samples must be an integer"
        )
        return (numbers,)


def _check_curvature(matrix: NDArray[np.float64]) -> None:
    """Raise unless a matrix in a state can be a curvature, whose products are finite."""
    diagonal = np.diagonal(matrix)
    require((diagonal > 0.0).all() and (diagonal < 1e120).all(), "curvatures must be positive")
    # Weighted outer products of gradients, up to rounding.
    most = np.sqrt(np.outer(diagonal, diagonal))
    require((np.abs(matrix - matrix.T) <= 1e-6 * most).all(), "the curvature must be symmetric")
    require((np.abs(matrix) <= (1.0 + 1e-6) * most).all(), "curvatures must be positive definite")
