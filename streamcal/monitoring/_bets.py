"""The bets of the tests of calibration: maps of a probability, fixed before the first sample.

They cover what calibration is usually lost by: a shift of the log odds (another base rate), another
slope (scores that are too extreme or not extreme enough), a curve, and all combinations of these;
and a shift in a part of the scores alone. A test over many bets loses at most the logarithm of
their number, here 4.4, against the best of them: bets that are nearer to each other would gain less
than that. Samples cost O(number of bets).
"""

from collections.abc import Hashable
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, Stateful, array_of, as_int, restore
from streamcal._validation import as_within, check_label
from streamcal.kernels.bets import Bets
from streamcal.metrics.base import as_event, is_no_prediction
from streamcal.monitoring._interleaved import Interleaved

SHIFTS = (-0.8, -0.3, 0.0, 0.3, 0.8)
SLOPES = (0.55, 0.8, 1.0, 1.25, 1.8)
CURVES = (-0.12, 0.0, 0.12)
ENDS = (-np.inf, -2.0, -0.5, 0.5, 2.0, np.inf)  # log odds between which a local bet shifts
LOCAL_SHIFTS = (-0.7, 0.7)


@cache
def _all_bets() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bets, shape ``(n_bets, 5)``, and the share of each; see `Bets`."""
    bets = [
        (shift, slope, curve, -np.inf, np.inf)
        for shift, slope, curve in product(SHIFTS, SLOPES, CURVES)
        if (shift, slope, curve) != (0.0, 1.0, 0.0)
    ]
    bets += [(shift, 1.0, 0.0, low, high) for low, high in pairwise(ENDS) for shift in LOCAL_SHIFTS]
    return np.array(bets), np.full(len(bets), 1.0 / len(bets))


class Betting(Stateful):
    """What the tests of calibration have in common: bets on labels, against the probabilities.

    Parameters
    ----------
    pos_val
        The label whose probability is tested. None: the label with the greatest probability.
    """

    def __init__(self, pos_val: Any, *, spends: bool) -> None:
        if pos_val is not None:
            check_label(pos_val, "pos_val")
        if not isinstance(pos_val, Hashable):
            raise TypeError(f"`pos_val` must be a label or None, got {pos_val!r}")
        self.pos_val = pos_val
        self._spends = spends
        self._begin()

    def _begin(self) -> None:
        """Take fresh stakes, as before the first sample."""
        self._bets: Bets | Interleaved = self._fresh()

    def _fresh(self) -> Bets:
        return Bets(*_all_bets(), self._spends)

    @property
    def n_samples(self) -> int:
        """How many samples have been added."""
        return self._bets.n_samples

    def _add(self, y_true: Any, y_pred: Any, w: Any) -> None:
        """Add a sample; nothing if there is no prediction."""
        check_label(y_true, "y_true")
        if is_no_prediction(y_pred):
            return
        p, happened = as_event(y_true, y_pred, self.pos_val)
        self._bets.update(p, happened, 1.0 if w == 1.0 else as_within(w, "w", "(0, 1]"))

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        if isinstance(self._bets, Interleaved):
            return self._bets.freeze()
        stakes, others = self._bets.state()
        return {"n_samples": self.n_samples}, {"stakes": stakes, "others": others}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        if isinstance(self._bets, Interleaved):
            self._bets.thaw(fields, arrays)
            return
        stakes = array_of(arrays, "stakes", None, 3, finite=False)
        others = array_of(arrays, "others", 4, finite=False)
        self._bets.restore(as_int(fields["n_samples"], "n_samples"), stakes, others)


def as_weights_of_evidence(w: Any, n: int) -> NDArray[np.float64]:
    """Return weights in (0, 1], shape ``(n,)``, or raise; None: all are 1."""
    if w is None:
        return np.ones(n)
    weights = np.array(w, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"`w` must have one weight per label ({n}), got shape {weights.shape}")
    for at in np.flatnonzero(~((weights > 0.0) & (weights <= 1.0)))[:1]:
        raise ValueError(f"`w` must lie in (0, 1], got {weights[at]} at position {at}")
    return weights
