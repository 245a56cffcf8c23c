"""Exceptions, or calls, at each point where CPython runs a signal handler, one after the other.

CPython calls signal handlers in the main thread at the beginning of a function, after a call, and
at the jump back of a loop. A trace function is the handler at the k-th of these points within the
package, and within what it calls of NumPy, so nothing depends on time. In between, no handler runs.
"""

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import streamcal

PACKAGE = str(Path(streamcal.__file__).parent)
NUMPY = str(Path(np.__file__).parent)


class InterruptionError(Exception):
    """Raised by no code of the package, and handled by none."""


class _Tracer:
    """Counts the points in the package, and calls a handler at the k-th."""

    def __init__(self, k: int | None, handler: Callable[[], Any]) -> None:
        self._k = k
        self._handler = handler
        self._before: dict[FrameType, str] = {}
        self.n_points = 0
        self.begins: list[int] = []  # the first points of calls from outside of the package

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            name = frame.f_code.co_filename
            # Kernels call NumPy; some of its functions have no file: "<__array_function__ ...>".
            is_called = self._before and (name.startswith((NUMPY, "<__array_function__")))
            if not is_called and not name.startswith(PACKAGE):
                return None
            if not self._before:
                self.begins.append(self.n_points)
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
        self.n_points += 1
        if self.n_points - 1 == self._k:
            self._handler()


def interrupt(call: Callable[[], Any], k: int, error: BaseException) -> BaseException | None:
    """Raise ``error`` at the k-th point of a call; return what came out.

    It is ``error``, too, if the call had fewer points than that: how often a file is looked at, for
    example, depends on the time.
    """

    def handler() -> None:
        raise error

    tracer = _Tracer(k, handler)
    try:
        _traced(call, tracer)
    except BaseException as raised:
        return raised
    return None if tracer.n_points > k else error


def call_inside(call: Callable[[], Any], k: int, handler: Callable[[], Any]) -> Any:
    """Call a handler at the k-th point of a call, and return what the call returns."""
    return _traced(call, _Tracer(k, handler))


def points_of(call: Callable[[], Any]) -> tuple[int, list[int]]:
    """Make a call; return how many points it has, and which begin a call into the package."""
    tracer = _Tracer(None, int)
    _traced(call, tracer)
    return tracer.n_points, tracer.begins


def _traced(call: Callable[[], Any], tracer: _Tracer) -> Any:
    before = sys.gettrace()
    sys.settrace(tracer.trace)
    try:
        return call()
    finally:
        sys.settrace(before)
