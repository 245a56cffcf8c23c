from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])

LATEST: float

def read_moment(moment: type[_Tuple], t: Any) -> _Tuple | None: ...
def read_moments(times: list[Any], seconds: NDArray[np.float64]) -> str | None: ...
