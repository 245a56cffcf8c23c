"""Exceptions at each point where CPython runs a signal handler, one after the other.

CPython calls signal handlers in the main thread at the beginning of a function, after a call, and at
the jump back of a loop. A trace function raises at the k-th of these points within the package, so
nothing depends on time. In between, no handler runs.
"""

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import streamcal

PACKAGE = str(Path(streamcal.__file__).parent)


class Interruption(Exception):
    """Raised by no code of the package, and handled by none."""


class _Tracer:
    """Raises an exception at the k-th point in the package."""

    def __init__(self, k: int, error: BaseException) -> None:
        self._left = k
        self._error = error
        self._before: dict[FrameType, str] = {}
        self._n_calls = 0
        self.raised_in: int | None = None

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            self._n_calls += self._before == {}
            self._before[frame] = ""
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self._pass_point()
        elif event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith("CALL") or before == "JUMP_BACKWARD":
                self._pass_point()
        elif event == "return":
            self._before.pop(frame, None)
        return self.trace

    def _pass_point(self) -> None:
        self._left -= 1
        if self._left < 0 and self.raised_in is None:
            self.raised_in = self._n_calls
            raise self._error


def interrupt(
    call: Callable[[], Any], k: int, error: BaseException
) -> tuple[int | None, BaseException | None]:
    """Raise ``error`` at the k-th point of a call.

    Return in the how manieth call into the package it was raised, None if there are fewer points;
    and what came out.
    """
    tracer = _Tracer(k, error)
    before = sys.gettrace()
    sys.settrace(tracer.trace)
    try:
        call()
    except BaseException as raised:
        return tracer.raised_in, raised
    finally:
        sys.settrace(before)
    return tracer.raised_in, None
