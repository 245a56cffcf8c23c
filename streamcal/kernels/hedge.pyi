from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.exclusive import Exclusive

Vector = NDArray[np.float64]
Moment = tuple[float, Callable[[float], Any] | None]

NO_MOMENT: Moment

class Hedge(Exclusive):
    experts: tuple[Any, ...]
    n_samples: int
    n_labels: int
    held: list[Any]
    def __init__(
        self,
        experts: list[Any],
        shares: tuple[float, ...],
        prior: Vector,
        clip: float,
        raw: int,
        half_lives: tuple[float, ...] | None = None,
    ) -> None: ...
    def learn(
        self,
        score: float,
        y: float,
        w: float,
        delay: float,
        served: Any = None,
        current: Any = None,
        moment: Moment = ...,
    ) -> None: ...
    def predict_learn(self, score: float, y: float, w: float, moment: Moment = ...) -> float: ...
    def learn_group(
        self,
        scores: list[float],
        y: Vector,
        w: float,
        delay: float,
        served: Vector,
        mixtures: Vector,
        moment: Moment = ...,
    ) -> None: ...
    def predict(self, score: float) -> float | None: ...
    def serve(self, score: float) -> tuple[float, int, tuple[float, ...]] | None: ...
    def run(
        self,
        calibrators: list[Any],
        scores: Vector,
        y: Vector,
        w: Vector,
        delays: Vector,
        times: Vector | None = None,
        make_time: Callable[[float], Any] | None = None,
    ) -> Vector: ...
    def mixture_of(self, answers: Sequence[float]) -> float: ...
    def served_weights(self) -> Vector: ...
    def share_weights(self) -> Vector: ...
    def state(self, take: Callable[[], Any] | None = None) -> tuple[tuple[Any, ...], Any]: ...
    def predict_many(self, calibrators: list[Any], scores: Vector) -> Vector | None: ...
    def rows(self) -> Vector: ...
    def read(self, *state: Any) -> None: ...
    def restore(
        self,
        n_samples: int,
        n_labels: int,
        log_odds: Vector,
        weights: Vector,
        mixed: Vector,
        powers: Vector,
        late: tuple[Vector, ...],
        now: float,
    ) -> None: ...
