"""The base of metrics that have a formula in the kernels."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.decision.metric import Metric, ZeroDivision, check_zero_division
from streamcal.kernels import confusion
from streamcal.kernels.confusion import SPEC, utilities

Vector = NDArray[np.float64]


class CodedMetric(Metric):
    """A metric with a formula in the kernels."""

    spec: Vector
    kind: int
    largest: float | None = 1.0

    def __init__(self, zero_division: ZeroDivision = 0, **parameters: Any) -> None:
        check_zero_division(zero_division)
        self.zero_division = zero_division
        self.monotone = True
        self._own_arguments = parameters
        for name, value in parameters.items():
            setattr(self, name, value)
        self.spec = np.zeros(SPEC)
        self.spec[confusion.KIND] = self.kind
        leaves_out = zero_division == "present" and self.kind <= confusion.QMEAN
        if self.kind == confusion.FRACTION or not leaves_out:
            self.spec[confusion.ZERO] = 1.0 if zero_division == 1 else 0.0
        else:
            self.spec[confusion.ZERO] = math.nan

    def _arguments(self) -> dict[str, Any]:
        return {**self._own_arguments, "zero_division": self.zero_division}

    def _values(self, tables: Vector) -> Vector:
        return utilities(self.spec, np.ascontiguousarray(tables))
