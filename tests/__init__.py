import re
from typing import Any


def named(value: Any) -> str:
    """Return what a parameter is called: the same in all processes that share the tests."""
    return re.sub(r" at 0x\w+", "", str(value))
