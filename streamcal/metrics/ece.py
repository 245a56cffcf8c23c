"""Expected calibration error, over bins of equal width or of equal mass."""

import struct
from bisect import bisect_left
from functools import partial
from typing import Any, Literal

from river.metrics.base import BinaryMetric

from streamcal._validation import check_choice, check_count
from streamcal._whole import Step, do_all
from streamcal.losses import Tweedie
from streamcal.losses.deviance import DevianceName
from streamcal.metrics._each_label import EachLabel
from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.base import MeanMetric, Multiclass, check_multiclass, find_deviance

_TOP = 1 << 64  # above every bit pattern of a float

_Cell = tuple[int, ExactSum, ExactSum]


class ECE(MeanMetric, BinaryMetric):
    """Expected calibration error: how far predicted probabilities are from observed frequencies.

    Predictions fall into bins; in each bin the mean prediction is compared with the frequency of
    the positive label, and the absolute differences are averaged with the bins' weights [1]_ [2]_:
    ECE = Σ_b |Σ_{i in b} w_i (y_i − p_i)| / Σ_i w_i, a number in [0, 1]. It depends on the bins, so
    compare only what was measured with the same ones; `CORP` measures miscalibration without any.

    Parameters
    ----------
    n_bins
        The number of bins, positive.
    strategy
        ``"width"``: bins of equal width, (b/n, (b+1)/n], the first one closed; O(n_bins) memory.
        ``"mass"``: bins of equal weight. The predictions so far are sorted and a prediction belongs
        to the bin that contains the middle of its weight, so equal predictions share a bin. `get`
        costs O(m log m) for m distinct predictions.
    pos_val
        The positive label. None means ``multiclass="top-label"``.
    max_scores
        Bounds the memory of ``"mass"``: up to this many distinct predictions the value is exact.
        If there are more, predictions that agree in their leading bits are merged (bits of p, or
        of 1 − p above one half, so that the resolution is relative at both ends). Sums stay exact;
        only the edges of bins become less precise.
    multiclass
        For predictions of more than two labels, which are dicts. ``"top-label"``: the probability
        of the predicted label, the one with the greatest, against whether it is right; this is the
        ECE of Guo et al. ``"classwise"``: the mean over labels of their ECE, each label against all
        others [3]_. A label counts if it is true or in a prediction; where a prediction lacks it,
        its probability is 0. An update takes O(labels) then. None: the label ``pos_val``.
    loss
        For predicted means of counts or amounts, as in `CORP`: it says which labels and
        predictions there may be. The error is then the mean gap of means, in units of the label,
        and may exceed 1. It needs ``strategy="mass"``, for means have no range to cut into widths;
        ``pos_val`` and ``multiclass`` must be left out.

    References
    ----------
    .. [1] Naeini, M. P., Cooper, G. F. and Hauskrecht, M. (2015). Obtaining well calibrated
       probabilities using Bayesian binning. AAAI.
    .. [2] Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern
       neural networks. ICML, equation 3.
    .. [3] Kull, M., Perelló-Nieto, M., Kängsepp, M. and others (2019). Beyond temperature scaling:
       obtaining well-calibrated multiclass probabilities with Dirichlet calibration. NeurIPS,
       equation 3.

    Examples
    --------
    >>> from streamcal.metrics import ECE
    >>> y_true = [0, 0, 1, 1, 1, 1]
    >>> y_pred = [0.125, 0.25, 0.5, 0.625, 0.75, 0.875]
    >>> metric = ECE(n_bins=2)
    >>> for yt, yp in zip(y_true, y_pred):
    ...     metric.update(yt, yp)
    >>> metric
    ECE: 0.145833

    >>> metric = ECE(n_bins=3, strategy="mass")
    >>> for yt, yp in zip(y_true, y_pred):
    ...     metric.update(yt, yp)
    >>> metric
    ECE: 0.270833

    >>> metric = ECE(multiclass="classwise")
    >>> metric.update("a", {"a": 0.5, "b": 0.25, "c": 0.25})
    >>> metric.update("b", {"a": 0.25, "b": 0.25, "c": 0.5})
    >>> metric
    ECE: 0.333333
    >>> metric.by_label
    {'a': 0.375, 'b': 0.25, 'c': 0.375}

    >>> metric = ECE(n_bins=2, strategy="mass", loss="poisson")
    >>> for yt, yp in [(0, 1.0), (3, 1.5), (1, 2.0), (7, 4.0)]:
    ...     metric.update(yt, yp)
    >>> metric
    ECE: 0.625
    """

    def __init__(
        self,
        n_bins: int = 10,
        strategy: Literal["width", "mass"] = "width",
        pos_val: Any = True,
        max_scores: int = 10_000,
        multiclass: Multiclass | None = None,
        loss: DevianceName | Tweedie | None = None,
    ) -> None:
        check_choice(strategy, "strategy", ("width", "mass"))
        check_count(n_bins, "n_bins")
        check_count(max_scores, "max_scores", 2)
        check_multiclass(multiclass, pos_val)
        self._deviance = find_deviance(loss, pos_val=pos_val is not True, multiclass=multiclass)
        if loss is not None and strategy != "mass":
            raise ValueError(
                f"`strategy` must be 'mass' where `loss` is given, got {strategy!r}: means have no"
                " range to cut into equal widths"
            )
        self.loss = loss
        self.n_bins = n_bins
        self.strategy = strategy
        self.pos_val = pos_val
        self.max_scores = max_scores
        self.multiclass = multiclass
        self._event = None if multiclass else pos_val
        self._edges = [b / n_bins for b in range(1, n_bins)]
        # By bin ("width") or by prediction ("mass"): number of samples, their weight, Σ w (y − p).
        self._cells: dict[int, _Cell] = {}
        self._dropped_bits = 0
        self._each: EachLabel[ECE] | None = None  # only for "classwise"
        if multiclass == "classwise":
            self._each = EachLabel(ECE(n_bins, strategy, max_scores=max_scores))

    @property
    def by_label(self) -> dict[Any, float]:
        """The error of each label if ``multiclass`` is "classwise", else empty."""
        metrics = {} if self._each is None else self._each.metrics
        return {label: metric.get() for label, metric in metrics.items()}

    def get(self) -> float:
        """Return the error, 0 before the first update."""
        if errors := self.by_label:
            return sum(errors.values()) / len(errors)
        if not self._cells:
            return 0.0
        cells = [(weight.value, gap.value) for _, (_, weight, gap) in sorted(self._cells.items())]
        total = sum(weight for weight, _ in cells)
        if self.strategy == "width":
            gaps = [gap for _, gap in cells]
        else:
            gaps = [0.0] * self.n_bins
            before = 0.0
            for weight, gap in cells:
                b = int(self.n_bins * ((before + 0.5 * weight) / total))
                gaps[min(b, self.n_bins - 1)] += gap
                before += weight
        error = sum(map(abs, gaps)) / total
        return min(error, 1.0) if self._deviance is None else error

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        if self._each is not None:
            self._each.add(y_true, y_pred, w)
        else:
            do_all(*self._adding(*self._pair_of(y_true, y_pred), w))

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        if self._each is not None:
            self._each.remove(y_true, y_pred, w)
        else:
            do_all(*self._removing(*self._pair_of(y_true, y_pred), w, y_pred))

    def _adding(self, p: float, happened: float, w: float) -> tuple[Step]:
        """Return the step that adds a sample; all that may fail is computed now."""
        key, cells, drop = self._key(p), self._cells, 0
        if self.strategy == "mass" and key not in cells and len(cells) >= self.max_scores:
            cells, drop = self._merge_cells(key)
            key = _shorten_key(key, drop)
        count, weight, gap = cells.get(key, _NEW_CELL)
        changed = count + 1, weight.plus(w), gap.plus(w * (happened - p))
        if not drop:
            return (partial(cells.__setitem__, key, changed),)
        cells[key] = changed  # these cells are new
        state = {"_cells": cells, "_dropped_bits": self._dropped_bits + drop}
        return (partial(vars(self).update, state),)

    def _removing(self, p: float, happened: float, w: float, y_pred: Any) -> tuple[Step]:
        """Return the step that removes a sample, or raise if it has not been added."""
        key = self._key(p)
        cell = self._cells.get(key)
        if cell is None:
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        count, weight, gap = cell
        if count == 1:
            return (partial(self._cells.pop, key),)
        changed = count - 1, weight.plus(-w), gap.plus(-w * (happened - p))
        return (partial(self._cells.__setitem__, key, changed),)

    def _key(self, p: float) -> int:
        """Return the cell of a probability; keys sort as the probabilities do."""
        if self.strategy == "width":
            return bisect_left(self._edges, p)
        if self._deviance is not None:
            pattern = _bit_pattern(abs(p)) >> self._dropped_bits
            return pattern if p >= 0.0 else ~pattern  # ~ mirrors negative ones below 0
        # Bit patterns of positive floats sort as the floats do, with relative resolution near 0.
        # 1 − p is exact for p ≥ ½; ~ mirrors that half above the other.
        if p < 0.5:
            return _bit_pattern(p) >> self._dropped_bits
        return _TOP + ~(_bit_pattern(1.0 - p) >> self._dropped_bits)

    def _merge_cells(self, *new: int) -> tuple[dict[int, _Cell], int]:
        """Return cells merged by dropping bits of their keys, and how many bits.

        At most half as many are left, with those whose keys are ``new``.
        """
        # Half of the limit, so that the cost is spread over as many new cells. The number of bits
        # is searched for, since most of the first 52 merge few cells.
        most = max(self.max_scores // 2, 2)
        drop = 1 + bisect_left(
            range(1, 64),
            True,
            key=lambda bits: len({_shorten_key(key, bits) for key in (*self._cells, *new)}) <= most,
        )
        cells: dict[int, _Cell] = {}
        for key, (n, more, further) in self._cells.items():
            short = _shorten_key(key, drop)
            count, weight, gap = cells.get(short, _NEW_CELL)
            cells[short] = count + n, weight.plus_all(more), gap.plus_all(further)
        return cells, drop


_NEW_CELL: _Cell = 0, ExactSum(), ExactSum()


def _shorten_key(key: int, bits: int) -> int:
    """Return the key of the cell that ``key`` falls into when ``bits`` more bits are dropped."""
    # Keys of the upper half are _TOP + ~pattern, and ~pattern >> bits == ~(pattern >> bits).
    return key >> bits if key < _TOP // 2 else _TOP + ((key - _TOP) >> bits)


def _bit_pattern(x: float) -> int:
    """Return the bit pattern of a float ≥ 0 as an int."""
    pattern: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return pattern
