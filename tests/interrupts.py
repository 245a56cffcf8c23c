"""Exceptions, or calls, at each point where CPython runs a signal handler, one after the other.

CPython calls signal handlers in the main thread at the beginning of a function, after a call, and
at the jump back of a loop. A trace function is the handler at the k-th of these points within the
package, and within what it calls of NumPy, so nothing depends on time. In between, no handler runs.

What a handler raises after a call comes from this call, but what the trace function raises comes
from the next instruction. If that is in another `with` or `try`, as at the end of a `with` that
returns the result of a call, it is raised at the next point.
"""

import dis
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import streamcal

PACKAGE = str(Path(streamcal.__file__).parent)
NUMPY = str(Path(np.__file__).parent)


class InterruptionError(Exception):
    """Raised by no code of the package, and handled by none."""


class _Tracer:
    """Counts the points in the package, and calls a handler at the k-th.

    If that raises, it is called at the first one from the k-th on at which it may.
    """

    def __init__(self, k: int | None, handler: Callable[[], Any], *, raises: bool = False) -> None:
        self._k = k
        self._handler = handler
        self._raises = raises
        self.is_called = False
        self._before: dict[FrameType, tuple[str, int]] = {}  # the last instruction, and where
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
            self._before[frame] = "", 0
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self._pass_point()
        elif event == "opcode":
            code, here = frame.f_code, frame.f_lasti
            before, there = self._before.get(frame, ("", 0))
            self._before[frame] = dis.opname[code.co_code[here]], here
            if before.startswith("CALL") or before == "JUMP_BACKWARD":
                self._pass_point(_protection(code, there) == _protection(code, here))
        elif event == "return":
            self._before.pop(frame, None)
        return self.trace

    def _pass_point(self, may_raise: bool = True) -> None:
        self.n_points += 1
        if self._k is None or self.is_called or self.n_points <= self._k:
            return
        if may_raise or not self._raises:
            self.is_called = True
            self._handler()


@cache
def _protections(code: CodeType) -> list[tuple[int, int, int]]:
    """Return from where until where a `with` or `try` is around instructions, and its handler."""
    # Nothing public reads this table, and the stubs of `dis` do not have what does.
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return [(entry.start, entry.end, entry.target) for entry in entries]


def _protection(code: CodeType, at: int) -> int | None:
    """Return the handler of what an instruction raises."""
    for start, end, target in _protections(code):
        if start <= at < end:
            return target
    return None


def interrupt(call: Callable[[], Any], k: int, error: BaseException) -> BaseException | None:
    """Raise ``error`` at the k-th point of a call; return what came out.

    It is ``error``, too, if the call had fewer points than that: how often a file is looked at, for
    example, depends on the time.
    """

    def handler() -> None:
        raise error

    tracer = _Tracer(k, handler, raises=True)
    try:
        _traced(call, tracer)
    except BaseException as raised:
        return raised
    return None if tracer.is_called else error


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
