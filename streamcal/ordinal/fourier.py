"""Random Fourier features: a Gaussian kernel as a fixed number of ordinary features.

Directions ω are drawn from a normal distribution of variance 2 gamma, phases b uniformly from
[0, 2π). The products of the features √(2 / D) cos(ω · x + b) are unbiased estimates of
exp(−gamma ‖x − y‖²), with an error of order 1 / √D. A linear model on them is a kernel model whose
cost does not grow with the stream.

The directions of a feature depend only on its name and the seed, and are the same in every process.
"""

import hashlib
import math
import struct
from typing import Any

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame
from numpy.typing import NDArray
from river import base
from river.base.typing import FeatureName
from river.utils.dataframe import into_frame, to_native_frame

from streamcal._state.clone import Cloned
from streamcal._validation import check_count, check_within
from streamcal.ordinal._ranks import check_features, check_frame
from streamcal.wrappers.routing import Features


class RandomFourierFeatures(Cloned, base.MiniBatchTransformer):
    """Random features whose products estimate a Gaussian kernel.

    Parameters
    ----------
    n_components : int
        D, the number of features returned.
    gamma : float
        Parameter of the kernel exp(−gamma ‖x − y‖²), positive.
    seed : int
        Seed of directions and phases, non-negative.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    Nothing is learned. Features should be scaled. A missing feature counts as 0; a new feature gets
    its directions when it first occurs. O(n_components) for each feature of a sample.

    References
    ----------
    Rahimi & Recht, *Random Features for Large-Scale Kernel Machines*, NIPS 2007, algorithm 1.

    Examples
    --------
    >>> from streamcal.ordinal import RandomFourierFeatures
    >>> features = RandomFourierFeatures(2_000, gamma=0.5, seed=1)
    >>> a = features.transform_one({"x": 1.0, "y": 0.0})
    >>> b = features.transform_one({"x": 0.0, "y": 1.0})
    >>> round(sum(a[i] * b[i] for i in a), 1)  # exp(-0.5 * 2) = 0.37
    0.4
    """

    def __init__(self, n_components: int = 200, *, gamma: float = 1.0, seed: int = 0) -> None:
        check_count(n_components, "n_components")
        check_within(gamma, "gamma", "(0, inf)")
        check_count(seed, "seed", 0)
        self.n_components = n_components
        self.gamma = gamma
        self.seed = seed
        self._reset()

    def _reset(self) -> None:
        """Remove the directions; they are drawn again when needed."""
        self._directions: dict[FeatureName, NDArray[np.float64]] = {}
        self._matrix_features: tuple[FeatureName, ...] = ()
        self._matrix = np.zeros((0, self.n_components))
        self._names = [f"rff{i}" for i in range(self.n_components)]
        self._phases = self._make_generator("phase", "").uniform(0.0, math.tau, self.n_components)
        self._scale = math.sqrt(2.0 / self.n_components)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("n_components", "gamma", "seed")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def _make_generator(self, what: str, name: str) -> np.random.Generator:
        digest = hashlib.blake2b(f"{self.seed}/{what}/{name}".encode(), digest_size=32).digest()
        return np.random.Generator(np.random.PCG64(list(struct.unpack("<4Q", digest))))

    def _directions_of(self, features: tuple[FeatureName, ...]) -> NDArray[np.float64]:
        """Return ω, shape ``(n_features, n_components)``."""
        if features != self._matrix_features:
            for feature in features:
                if feature not in self._directions:
                    draw = self._make_generator("direction", repr(feature))
                    self._directions[feature] = draw.normal(
                        0.0, math.sqrt(2.0 * self.gamma), self.n_components
                    )
            rows = [self._directions[feature] for feature in features]
            self._matrix = np.array(rows).reshape(len(features), self.n_components)
            self._matrix_features = features
        return self._matrix

    def transform_one(self, x: Features) -> dict[FeatureName, float]:
        """Return the features "rff0", "rff1", … of a sample, each within ±√(2 / n_components).

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        values = check_features(x)
        angles = np.array([*values.values()]) @ self._directions_of(tuple(x)) + self._phases
        return dict(zip(self._names, (self._scale * np.cos(angles)).tolist(), strict=True))

    def learn_many(self, X: IntoDataFrame) -> None:
        """Do nothing: there is nothing to learn."""

    def transform_many(self, X: IntoDataFrame) -> IntoDataFrame:
        """Return the features of each row, in a frame of the same library as ``X``."""
        frame, matrix = check_frame(X)
        angles = matrix @ self._directions_of(tuple(frame.columns)) + self._phases
        columns = self._names
        return to_native_frame(self._scale * np.cos(angles), like=into_frame(X), columns=columns)
