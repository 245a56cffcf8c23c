"""Metrics of a confusion table, of which goals are made, from a function.

A metric is a function of the counts (tp, fp, fn, tn). It must not fall as tp grows with tp + fp and
tp + fn fixed: then moving the label 1 to a likelier sample never lowers it, and the best of all 2^n
labellings labels the k likeliest samples 1, for some k (the *probability ranking principle*;
Natarajan et al. [1]_, Theorem 6). All metrics here have that property; a metric from a function or
from coefficients is checked for it.

``zero_division`` is the value of 0/0. ``"present"`` leaves a class that does not occur out of a
mean over the two classes, as in balanced accuracy of scikit-learn and river; elsewhere it means 0.

References
----------
.. [1] Natarajan, N., Koyejo, O., Ravikumar, P. and Dhillon, I. S. Optimal Decision-Theoretic
   Classification Using Non-Decomposable Performance Metrics, section 3.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields, Stateful

Vector = NDArray[np.float64]
ZeroDivision = float | Literal["present"]

ROUNDING = 1e-12
_MAX_CHECKED_SIZE = 8  # a function is checked on all tables of up to this many samples


class Metric(Stateful):
    """A metric from a function of the counts, such as ``lambda tp, fp, fn, tn: tp - 2 * fp``.

    Parameters
    ----------
    phi : callable
        Called with four float arrays of one shape (tp, fp, fn, tn); returns values of that shape,
        NaN where it is undefined. It is pickled with the metric.
    zero_division : {0, 1, "present"}
        The value in place of NaN; "present" means 0 here.
    monotone : bool
        Whether the metric never falls as tp grows with tp + fp and tp + fn fixed. This is checked
        on all tables of up to 8 samples. If False there are utilities and curves, but no
        `maximize`: the best labelling may not be that of the k likeliest samples.

    Raises
    ------
    TypeError
        If ``phi`` is not callable or does not return one number for each table.
    ValueError
        If ``zero_division`` is another value, or the metric is not monotone.

    Examples
    --------
    >>> profit = Metric(lambda tp, fp, fn, tn: 5.0 * tp - fp)
    >>> profit(3, 2, 0, 4)
    13.0
    """

    spec: Vector | None = None
    """The formula for kernels, coded as numbers; None if it is a Python function."""
    largest: float | None = None
    """A bound on the absolute value; None if unknown."""
    _hash: int | None = None

    def __init__(
        self, phi: Callable[..., Any], *, zero_division: ZeroDivision = 0, monotone: bool = True
    ) -> None:
        if not callable(phi):
            raise TypeError(f"`phi` must be callable, got {phi!r}")
        check_zero_division(zero_division)
        self.phi = phi
        self.zero_division = zero_division
        self.monotone: bool = bool(monotone)
        _check_monotone(self)

    def __call__(self, tp: ArrayLike, fp: ArrayLike, fn: ArrayLike, tn: ArrayLike) -> Any:
        """Return the metric of one table as a float, or of arrays of tables as an array."""
        tables = np.broadcast_arrays(
            *(np.asarray(cell, dtype=np.float64) for cell in (tp, fp, fn, tn))
        )
        values = self._values(np.array([cell.ravel() for cell in tables]))
        return values.reshape(tables[0].shape) if tables[0].ndim else float(values[0])

    def _values(self, tables: Vector) -> Vector:
        """Return the metric of tables, shape ``(4, n_tables)``."""
        with np.errstate(all="ignore"):
            try:
                values = np.array(self.phi(*tables), dtype=np.float64)
            except TypeError as error:
                raise TypeError(f"`phi` must take and return arrays: {error}") from None
        if values.shape != tables.shape[1:]:
            try:
                values = np.array(np.broadcast_to(values, tables.shape[1:]))
            except ValueError:
                raise TypeError(
                    f"`phi` must return one number per table, {tables.shape[1]} of them, "
                    f"got shape {values.shape}"
                ) from None
        values[np.isnan(values)] = 1.0 if self.zero_division == 1 else 0.0
        return values

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor; ``monotone`` only if it is False."""
        arguments: dict[str, Any] = {"phi": self.phi, "zero_division": self.zero_division}
        return arguments if self.monotone else {**arguments, "monotone": False}

    def _parameters(self) -> Fields:
        return dict(self._arguments())

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        pass  # there is no state beyond the parameters

    def __repr__(self) -> str:
        given = dict(self._arguments())
        if given.get("zero_division") == 0:
            del given["zero_division"]
        inside = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._arguments() == self._arguments()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((type(self), tuple(self._arguments().values())))
        return self._hash


def check_zero_division(value: Any) -> None:
    """Raise unless ``value`` may stand for 0/0."""
    # True == 1, so exclude it.
    if isinstance(value, bool) or value not in (0, 1, "present"):
        raise ValueError(f"`zero_division` must be 0, 1 or 'present', got {value!r}")


def _check_monotone(metric: Metric) -> None:
    """Evaluate a metric on all small tables; raise if it must be monotone and is not."""
    for n in range(1, _MAX_CHECKED_SIZE + 1):
        v, p = (side.ravel() for side in np.mgrid[0 : n + 1, 0 : n + 1])
        least, most = np.maximum(0, v + p - n), np.minimum(v, p)
        before = None
        for step in range(n + 1):
            tp = np.minimum(least + step, most).astype(np.float64)
            tables = np.array([tp, v - tp, p - tp, n - v - p + tp])
            values = metric._values(tables)
            if before is not None and metric.monotone:
                falls = values < before - ROUNDING * (np.abs(values) + np.abs(before))
                if falls.any():
                    at = int(np.argmax(falls))
                    raise _fall_error(tables[:, at], values[at], before[at])
            before = values


def _fall_error(table: Vector, value: float, before: float) -> ValueError:
    cells = zip(("tp", "fp", "fn", "tn"), table, strict=True)
    shown = ", ".join(f"{name}={cell:g}" for name, cell in cells)
    return ValueError(
        "`phi` must not fall as tp grows with tp + fp and tp + fn fixed (or pass"
        f" `monotone=False`), got {value:g} at {shown}, {before:g} with one true positive fewer"
    )
