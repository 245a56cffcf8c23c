"""Expected calibration error, over bins of equal width or of equal mass."""

import struct
from bisect import bisect_left
from typing import Any, Literal

from river.metrics.base import BinaryMetric

from streamcal._validation import check_choice, check_count
from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.base import ProbabilityMetric, as_event

_TOP = 1 << 64  # above every bit pattern of a float

_Cell = tuple[int, ExactSum, ExactSum]


class ECE(ProbabilityMetric, BinaryMetric):
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
        The positive label. None: the label with the greatest probability, to score the
        "confidence" of multiclass predictions, as Guo et al. do.
    max_scores
        Bounds the memory of ``"mass"``: up to this many distinct predictions the value is exact.
        If there are more, predictions that agree in their leading bits are merged (bits of p, or
        of 1 − p above one half, so that the resolution is relative at both ends). Sums stay exact;
        only the edges of bins become less precise.

    References
    ----------
    .. [1] Naeini, M. P., Cooper, G. F. and Hauskrecht, M. (2015). Obtaining well calibrated
       probabilities using Bayesian binning. AAAI.
    .. [2] Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. Q. (2017). On calibration of modern
       neural networks. ICML, equation 3.

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
    """

    def __init__(
        self,
        n_bins: int = 10,
        strategy: Literal["width", "mass"] = "width",
        pos_val: Any = True,
        max_scores: int = 10_000,
    ) -> None:
        check_choice(strategy, "strategy", ("width", "mass"))
        check_count(n_bins, "n_bins")
        check_count(max_scores, "max_scores", 2)
        self.n_bins = n_bins
        self.strategy = strategy
        self.pos_val = pos_val
        self.max_scores = max_scores
        self._edges = [b / n_bins for b in range(1, n_bins)]
        # By bin ("width") or by prediction ("mass"): number of samples, their weight, Σ w (y − p).
        self._cells: dict[int, _Cell] = {}
        self._dropped_bits = 0

    def get(self) -> float:
        """Return the error, 0 before the first update."""
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
        return min(sum(map(abs, gaps)) / total, 1.0)

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, self.pos_val)
        key, cells, drop = self._key(p), self._cells, 0
        if self.strategy == "mass" and key not in cells and len(cells) >= self.max_scores:
            cells, drop = self._merge_cells(key)
            key = _shorten_key(key, drop)
        count, weight, gap = cells.get(key, _NEW_CELL)
        changed = count + 1, weight.plus(w), gap.plus(w * (happened - p))
        # No call from here on, so that an exception finds all or nothing.
        cells[key] = changed
        self._cells = cells
        self._dropped_bits += drop

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, self.pos_val)
        key = self._key(p)
        cell = self._cells.get(key)
        if cell is None:
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        count, weight, gap = cell
        changed = count - 1, weight.plus(-w), gap.plus(-w * (happened - p))
        if changed[0]:
            self._cells[key] = changed
        else:
            del self._cells[key]

    def _key(self, p: float) -> int:
        """Return the cell of a probability; keys sort as the probabilities do."""
        if self.strategy == "width":
            return bisect_left(self._edges, p)
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
