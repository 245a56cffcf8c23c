"""A stream that keeps a share of the negatives: its rate, and the answers for all samples."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame
from numpy.typing import NDArray
from river.base.typing import ClfTarget
from river.utils.dataframe import into_frame

from streamcal.calibration.sampling import among_all, among_kept, as_sampling_rate, undo_sampling

SamplingRate = float | str
"""A share, or the name of the feature that holds the share of each sample."""


def check_rate(sampling_rate: Any) -> None:
    """Raise unless this is a share, the name of a feature, or None."""
    if sampling_rate is not None and not isinstance(sampling_rate, str):
        as_sampling_rate(sampling_rate)


def check_two_labels(labels: Iterable[ClfTarget]) -> None:
    """Raise unless all labels are False or True, or 0 or 1."""
    for label in labels:
        if label not in (False, True):
            raise ValueError(
                "`sampling_rate` must be None unless the labels are False and True, or 0 and 1,"
                f" got the label {label!r}"
            )


def rate_of(sampling_rate: SamplingRate, x: Mapping[Any, Any]) -> float:
    """Return the rate of a sample, or raise."""
    if not isinstance(sampling_rate, str):
        return float(sampling_rate)
    if sampling_rate not in x:
        raise ValueError(
            f"`x` must have the feature {sampling_rate!r}, which `sampling_rate` names,"
            f" got the features {list(x)}"
        )
    return as_sampling_rate(x[sampling_rate])


def rates_of(sampling_rate: SamplingRate, X: IntoDataFrame) -> Any:
    """Return the rate of all rows of a frame, or that of each row, or raise."""
    if not isinstance(sampling_rate, str):
        return sampling_rate
    frame = into_frame(X)
    if sampling_rate not in frame.columns:
        raise ValueError(
            f"`X` must have the column {sampling_rate!r}, which `sampling_rate` names,"
            f" got the columns {frame.columns}"
        )
    return frame.get_column(sampling_rate).to_numpy()


def answers_among_all(kept: Mapping[ClfTarget, float], rate: float) -> dict[ClfTarget, float]:
    """Return the probabilities among all samples, for those among the kept ones.

    Examples
    --------
    >>> answers_among_all({False: 0.5, True: 0.5}, 0.25)
    {False: 0.8, True: 0.2}
    """
    return _with_positive(kept, lambda p: among_all(p, rate))


def answers_among_kept(answered: Mapping[ClfTarget, float], rate: float) -> dict[ClfTarget, float]:
    """Return the probabilities among the kept samples, for those among all.

    Examples
    --------
    >>> answers_among_kept({False: 0.8, True: 0.2}, 0.25)
    {False: 0.5, True: 0.5}
    """
    return _with_positive(answered, lambda p: among_kept(p, rate))


def _with_positive(
    probabilities: Mapping[ClfTarget, float], change: Callable[[float], float]
) -> dict[ClfTarget, float]:
    """Return the probabilities with a changed one of True; a single label has 1, which stays."""
    check_two_labels(probabilities)
    changed = dict(probabilities)
    if len(changed) == 2:
        p = change(min(max(changed[True], 0.0), 1.0))
        changed[True], changed[False] = p, 1.0 - p
    return changed


def columns_among_all(
    labels: Iterable[ClfTarget], values: NDArray[np.float64], rates: Any
) -> NDArray[np.float64]:
    """Return the probabilities of a batch among all samples, shape ``(n_labels, n_samples)``."""
    known = list(labels)
    check_two_labels(known)
    if len(known) < 2:
        return values
    p = undo_sampling(values[known.index(True)], rates)
    return np.array([p if label else 1.0 - p for label in known])
