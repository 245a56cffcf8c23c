"""Checks of the parameters of a hedge, and names for its calibrators."""

import inspect
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import SMALLEST, as_number, as_weight
from streamcal.calibration.base import Calibrator, check_binary, is_calibrator, show_calibrator
from streamcal.calibration.clock import check_span, or_time


def names_of(calibrators: Sequence[Calibrator]) -> tuple[str, ...]:
    """Return a name for each calibrator, all different: its class and changed parameters."""
    names: list[str] = []
    counts: Counter[str] = Counter()
    for calibrator in calibrators:
        defaults = _defaults(type(calibrator)).items()
        values = ((name, getattr(calibrator, name), default) for name, default in defaults)
        changed = [f"{name}={v!r}" for name, v, default in values if v != default]
        name = f"{type(calibrator).__name__}({', '.join(changed)})"
        counts[name] += 1
        names.append(f"{name} #{counts[name]}" if counts[name] > 1 else name)
    return tuple(names)


@cache
def _defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of a class's parameters; cached, as signatures are slow."""
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def as_list(calibrators: Any) -> list[Calibrator]:
    """Return the prototypes of calibrators, or raise."""
    if not isinstance(calibrators, Sequence):  # `clone` can't copy an iterator
        got = show_calibrator(calibrators)
        hint = "; put it into a list" if is_calibrator(calibrators) else ""
        raise TypeError(f"`calibrators` must be a sequence of Calibrators, got {got}{hint}")
    checked = list(calibrators)
    if not checked:
        raise ValueError("`calibrators` must hold at least one Calibrator, got none")
    for at, calibrator in enumerate(checked):
        if not isinstance(calibrator, Calibrator):
            raise TypeError(
                "`calibrators` must hold Calibrators, got"
                f" {show_calibrator(calibrator, f' at position {at}')}"
            )
        if calibrator.fields:
            raise TypeError(
                "`calibrators` must be maps of scores alone, got"
                f" {show_calibrator(calibrator, f' at position {at}')}"
            )
        if calibrator.needs_propensity:
            raise TypeError(
                "`calibrators` must need no propensity, got"
                f" {show_calibrator(calibrator, f' at position {at}')};"
                " write AuditedCalibrator(HedgedCalibrator(calibrators))"
            )
        if calibrator._counts_scores:
            raise TypeError(
                "`calibrators` must need no scores without labels, got"
                f" {show_calibrator(calibrator, f' at position {at}')};"
                " write PriorShiftCalibrator(HedgedCalibrator(calibrators))"
            )
        check_binary(calibrator, "calibrators", f"at position {at} ")
    return checked


def check_prior(prior: Any, n: int) -> NDArray[np.float64]:
    """Return the initial weights of ``n`` calibrators, or raise."""
    if isinstance(prior, str) or not isinstance(prior, Sequence):
        raise TypeError(f"`prior` must be a sequence of weights, got {prior!r}")
    weights = np.array([as_weight(weight, "prior") for weight in prior])
    if len(weights) != n:
        raise ValueError(f"`prior` must have one weight per calibrator ({n}), got {len(weights)}")
    return weights


def check_shares(share: Any) -> tuple[float | timedelta, ...]:
    """Return the shares, or raise."""
    shares = tuple(share) if isinstance(share, tuple | list) else (share,)
    checked = tuple(_check_share(value, share) for value in shares)
    if not checked:
        raise _wrong_share(share)
    if len(set(checked)) < len(checked):
        raise ValueError(f"`share` must not hold a value twice, got {share}")
    return checked


def _check_share(value: Any, share: Any) -> float | timedelta:
    if isinstance(value, timedelta):
        check_span(value, "share")
        return value
    number = or_time(partial(as_number, name="share"), value, "share")
    # A smaller share, multiplied by the smallest prior, could be rounded to 0.
    if number != 0.0 and not SMALLEST <= number < 1.0:
        raise _wrong_share(share)
    return number


def _wrong_share(share: Any) -> ValueError:
    return ValueError(
        f"`share` must be 0, a number in [{SMALLEST:g}, 1) or a timedelta, or several, got {share}"
    )
