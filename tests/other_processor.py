"""Simulates a processor that rounds differently: ``python -m pytest -p tests.other_processor``.

NumPy, the C library and BLAS choose their code by the processor, and results differ in the last
bit. This plugin changes them on purpose: for about half of the values, the result of a
transcendental function, or of functions such as `numpy.dot`, becomes a neighbouring float, always
the same one for the same result. Integer results such as exp(0) do not change, since all processors
agree on them. A test that fails only with this plugin depends on the last bits of such a function.

Compiled kernels, which are loaded before, and other processes are not changed. ``.ci/long`` runs
the tests with it, and once more with the oldest code in NumPy, the C library and BLAS.
"""

import functools
import math
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.special

import streamcal.kernels

_MATH = "acos asin atan atan2 cbrt cos cosh erf erfc exp exp2 expm1 gamma lgamma log log10 log1p"
_MATH += " log2 pow sin sinh tan tanh"
_NUMPY = "arccos arcsin arctan arctan2 cbrt cos cosh exp exp2 expm1 log log10 log1p log2 logaddexp"
_NUMPY += " power sin sinh tan tanh dot inner vdot"
# These compare with what another process answers.
_ELSEWHERE = ("test_pickle_travels_to_another_process", "test_the_seed_decides")
_SPECIAL = "erf erfc erfinv expit gammaln log_expit log_ndtr logit ndtr ndtri xlog1py xlogy"


def moved(answer: Any) -> Any:
    """Return the results of another processor."""
    if type(answer) is float:
        return float(_moved(np.float64(answer)))
    if type(answer) in (np.float64, np.ndarray) and answer.dtype == np.float64:
        return _moved(answer)
    return answer


def _moved(answer: Any) -> Any:
    values = np.atleast_1d(np.array(answer))
    # A multiplicative hash of the bits says whether it moves, and to which side.
    drawn = (values.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(62)
    whole = ~np.isfinite(values) | (values == np.round(values))
    away = np.nextafter(values, np.where(drawn == 0, -np.inf, np.inf))
    values = np.where(whole | (drawn > 1), values, away)
    return values[0] if np.ndim(answer) == 0 else values.reshape(answer.shape)


class _Moved:
    """A function of NumPy or SciPy with changed results; other attributes are the same."""

    def __init__(self, function: Any) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        answer = self.function(*args, **kwargs)
        if isinstance(out := kwargs.get("out"), np.ndarray) and out.dtype == np.float64:
            out[...] = _moved(out)
            return out
        return moved(answer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


def _moving(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return moved(function(*args))

    return call


def pytest_configure() -> None:
    """Import modules that need the original functions, then replace these."""
    for name in ("jax.numpy", "jax.scipy.special", "matplotlib.pyplot", "sklearn.metrics"):
        try:
            import_module(name)
        except ImportError:
            continue
    for found in pkgutil.iter_modules(streamcal.kernels.__path__):
        import_module(f"streamcal.kernels.{found.name}")
    for name in _NUMPY.split():
        setattr(np, name, _Moved(getattr(np, name)))
    for name in _SPECIAL.split():
        setattr(scipy.special, name, _Moved(getattr(scipy.special, name)))
    for name in _MATH.split():
        setattr(math, name, _moving(getattr(math, name)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that compare with a process without this plugin."""
    left_out = [item for item in items if getattr(item, "originalname", "") in _ELSEWHERE]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
