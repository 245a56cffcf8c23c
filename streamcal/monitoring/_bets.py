"""What the tests of calibration have in common: bets against the probabilities."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, Stateful, array_of, as_int, restore
from streamcal._validation import as_vector, as_within, check_beside, check_label
from streamcal.kernels.bets import Bets
from streamcal.metrics.base import as_event, is_no_prediction
from streamcal.monitoring._interleaved import Events, Interleaved, Sample
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

    def _add_group(self, y_trues: Sequence[Any], y_preds: Sequence[Any], w: Any) -> None:
        """Add the rows of one sample, each with its label; nothing if there is no prediction."""
        for y_true in y_trues:
            check_label(y_true, "y_true")
        weight = as_within(w, "w", "(0, 1]")
        both = zip(y_trues, y_preds, strict=True)
        rows = [(y, *self._as_row(y_pred)) for y, y_pred in both if not is_no_prediction(y_pred)]
        for y_true, event, _ in rows:
            check_beside(y_true, event)
        if not rows:
            return
        p = tuple(p for _, _, p in rows)
        known = tuple(bool(y_true == event) for y_true, event, _ in rows)
        if isinstance(self._bets, Interleaved):
            events = tuple(event for _, event, _ in rows)
            outcomes = {_happened(events, label) for label in events}
            outcomes.add((False,) * len(rows))  # another label
            self._bets.add(Sample(p, weight), outcomes, known)
        elif len(rows) == 1:
            self._bets.update(p[0], known[0], weight)
        else:
            self._bets.update_group(np.array(p), np.array(known, np.float64), weight)

    def _as_row(self, y_pred: Any) -> tuple[Any, float]:
        """Return the label whose probability is tested, and this probability."""
        event = self.pos_val
        if event is None and isinstance(y_pred, dict):
            event = max(y_pred, key=y_pred.__getitem__)
        p, _ = as_event(event, y_pred, self.pos_val)
        return event, p

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        bets = self._bets  # another thread may put others in their place
        if isinstance(bets, Interleaved):
            return bets.freeze()
        stakes, others = bets.state()
        return {"n_samples": bets.n_samples}, {"stakes": stakes, "others": others}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        if isinstance(self._bets, Interleaved):
            self._bets.thaw(fields, arrays)
            return
        stakes = array_of(arrays, "stakes", None, 4, finite=False)
        others = array_of(arrays, "others", 4, finite=False)
        self._bets.restore(as_int(fields["n_samples"], "n_samples"), stakes, others)


def check_predictions(y_preds: Any) -> None:
    """Raise unless these are the predictions of a group."""
    if isinstance(y_preds, str | bytes | Mapping) or not hasattr(y_preds, "__len__"):
        raise TypeError(f"`y_preds` must be a sequence of predictions, got {y_preds!r}")


def _happened(events: Iterable[Any], y_true: Any) -> Events:
    """Return which of the labels ``events`` is the true one."""
    return tuple(bool(y_true == event) for event in events)


def as_weights_of_evidence(w: Any, n: int) -> NDArray[np.float64]:
    """Return weights in (0, 1], shape ``(n,)``, or raise; None: all are 1."""
    if w is None:
        return np.ones(n)
    weights = np.array(as_vector(w, "w", finite=False)) if np.ndim(w) == 1 else np.asarray(w)
    if weights.shape != (n,):
        raise ValueError(f"`w` must have one weight per label ({n}), got shape {weights.shape}")
    for at in np.flatnonzero(~((weights > 0.0) & (weights <= 1.0)))[:1]:
        raise ValueError(f"`w` must lie in (0, 1], got {weights[at]} at position {at}")
    return weights
