from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

def join(start: bytes, head: bytes, fields: bytes, arrays: Arrays) -> bytes: ...
def split(data: bytes, start: int) -> tuple[bytes, bytes, Arrays]: ...
def array_of(
    arrays: Arrays, name: str, *shape: int | None, dtype: Any = np.float64, finite: bool = True
) -> NDArray[Any]: ...
