from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

State: TypeAlias = tuple[int, int, int]
Rows: TypeAlias = NDArray[np.int64]
Text: TypeAlias = bytes | NDArray[np.uint8]

START: Final[State]

def is_quoted(state: State) -> bool: ...
def find_rows(data: Text, separator: int, state: State) -> tuple[Rows, State]: ...
def take_cells(
    text: Text, rows: Rows, separator: int, columns: NDArray[np.int64]
) -> list[tuple[NDArray[np.uint8], NDArray[np.int32]]]: ...
def join_rows(
    text: Text, rows: Rows, cells: Text, ends: NDArray[np.int32], separator: bytes, line_end: bytes
) -> bytes: ...
