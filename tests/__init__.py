import re
import sys
from typing import Any

# How a process begins that gets little memory, small files or a short life: it writes no byte code,
# since CPython does not notice that a file was cut off, and loads the rest of it ever after.
WITHOUT_BYTE_CODE = [sys.executable, "-B"]


def named(value: Any) -> str:
    """Return what a parameter is called: the same in all processes that share the tests."""
    return re.sub(r" at 0x\w+", "", str(value))
