from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.hedge import Hedge

Array = NDArray[np.float64]
Hashes = NDArray[np.uint64]

N_SPEEDS: int
N_MODELS: int

@final
class SegmentTerms:
    fields: tuple[str, ...]
    crossings: tuple[tuple[int, ...], ...]
    n_terms: int
    max_terms: int
    n_samples: int
    n_evicted: int
    def __init__(
        self,
        fields: tuple[str, ...],
        crossings: tuple[tuple[int, ...], ...],
        prior_variances: Array,
        half_life: float,
        max_terms: int,
        timed: bool = False,
    ) -> None: ...
    def read(self, x: Mapping[str, Any]) -> bytes: ...
    def read_columns(self, columns: Sequence[Sequence[Any]], n_samples: int) -> Hashes: ...
    def answers(self, hashes: bytes, base: float) -> list[float]: ...
    def predict(self, hedge: Hedge, x: Mapping[str, Any], base: float) -> float: ...
    def mixture(self, hedge: Hedge) -> float: ...
    def reserve(self, n_samples: int) -> None: ...
    def learn(
        self, hashes: bytes, base: float, y: float, w: float, t: float = ...
    ) -> list[float]: ...
    def learn_and_weigh(
        self,
        hedge: Hedge,
        hashes: bytes,
        base: float,
        y: float,
        w: float,
        delay: float,
        t: float = ...,
    ) -> None: ...
    def predict_learn_many(
        self,
        hedge: Hedge,
        hashes: Hashes,
        bases: Array,
        y: Array,
        w: Array,
        delays: Array,
        times: Array | None = None,
    ) -> Array: ...
    def effects(self, hashes: bytes) -> Array: ...
    @property
    def learned_variances(self) -> Array: ...
    @property
    def memory_usage(self) -> int: ...
    def state(self) -> tuple[Any, ...]: ...
    def restore(
        self,
        numbers: Sequence[float],
        squares: Array,
        effective: Array,
        keys: Any,
        groups: Any,
        learned: Array,
        precisions: Array,
        pulls: Array,
        priors: Array,
    ) -> None: ...
