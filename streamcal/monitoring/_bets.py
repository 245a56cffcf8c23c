"""What the tests of calibration have in common: bets against the probabilities."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, Stateful, array_of, as_int, restore
from streamcal._validation import as_within, check_label
from streamcal.kernels.bets import Bets
from streamcal.metrics.base import as_event, is_no_prediction
from streamcal.monitoring._interleaved import Interleaved
from streamcal.monitoring.fixed_bets import leader_in_words, new_bets


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
        return new_bets(spends=self._spends)

    @property
    def n_samples(self) -> int:
        """How many samples have been added."""
        return self._bets.n_samples

    @property
    def in_words(self) -> str:
        """What the probabilities should be, by the bet that has gained most."""
        bets = self._bets
        return leader_in_words(bets.leading() if isinstance(bets, Interleaved) else bets)

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
        stakes = array_of(arrays, "stakes", None, 4, finite=False)
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
