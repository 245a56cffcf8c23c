"""The summary of a command: skipped rows, and mean losses before and after."""

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import count_rows, say
from streamcal.metrics.log_loss import LEAST, RULE, RULE_OF_MEANS, log_losses

if TYPE_CHECKING:
    from streamcal.cli.rows import RowReader
    from streamcal.losses import MeanLoss


class Summary:
    """The summary of a command on standard error: text, one line of JSON, or nothing.

    A context manager: the line of JSON is printed when the block ends, if there is anything in it.

    Raises
    ------
    ValueError
        If both are asked for, nothing and JSON.
    """

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        if quiet and as_json:
            raise ValueError("--quiet prints no summary, so it can't be used with --json")
        self.quiet = quiet
        self._as_json = as_json
        self._values: dict[str, Any] = {}

    def add(self, *lines: str, **values: Any) -> None:
        """Add lines of text, which are printed now, and what the JSON has in their place."""
        self._values |= values
        if not self.quiet and not self._as_json:
            for line in lines:
                say(line)

    def add_skipped(self, reader: "RowReader") -> None:
        """Add how many rows were skipped, by reason."""
        self.add(*_skipped_lines(reader), skipped=dict(reader.skipped))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._as_json and self._values:
            say(json.dumps(_plain(self._values), allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: infinite numbers as the words "inf" and "-inf"."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def print_skipped(reader: "RowReader") -> None:
    """Print how many rows were skipped, and for each reason the first of them."""
    for line in _skipped_lines(reader):
        say(line)


def _skipped_lines(reader: "RowReader") -> Iterator[str]:
    if reader.skipped:
        yield f"{count_rows(reader.skipped.total())} skipped"
    for reason, count in reader.skipped.most_common():
        yield f"  {count:,} where {reason}, first {reader.examples[reason]}"


class Totals:
    """Counts of rows, and the losses of raw scores and calibrated values over labelled rows.

    Attributes
    ----------
    n_written : int
        The rows in the output.
    n_labelled : int
        Those of them that have a label.
    binary : bool
        Whether all labels so far are 0 or 1.
    probabilities : bool
        Whether all raw scores so far lie in [0, 1].
    """

    def __init__(self, loss: "MeanLoss") -> None:
        from streamcal.losses import Poisson, Tweedie

        self.loss = loss
        self._is_clipped = isinstance(loss, Poisson | Tweedie)  # a predicted 0 costs inf
        self.n_written = self.n_labelled = 0
        self.binary = True
        self.probabilities = True
        self._in_range = True
        self._weight = 0.0
        self._log_sums, self._brier_sums, self._loss_sums = np.zeros(2), np.zeros(2), np.zeros(2)

    def add(self, scored: NDArray[np.float64]) -> None:
        """Add labelled rows of (raw, calibrated, label, weight), shape ``(n_rows, 4)``."""
        if not len(scored):
            return
        raw, _, y, w = scored.T
        self.n_labelled += len(scored)
        self.binary = self.binary and bool(np.isin(y, (0.0, 1.0)).all())
        self.probabilities = self.probabilities and bool(((raw >= 0.0) & (raw <= 1.0)).all())
        self._in_range = self._in_range and self.loss.z_range.contains_all(raw)
        self._weight += float(w.sum())
        for k, z in enumerate(scored.T[:2]):
            if self.binary and (k or self.probabilities):
                self._log_sums[k] += np.sum(w * log_losses(y, z))
                self._brier_sums[k] += np.sum(w * np.square(z - y))
            if not self.binary and (k or self._in_range):
                means = np.maximum(z, LEAST) if self._is_clipped else z
                self._loss_sums[k] += np.sum(w * self.loss(means, y))

    def add_to(self, summary: Summary) -> None:
        """Add each mean loss that is defined for these labels, before and after."""
        if not self.n_labelled:
            return
        if self.binary:
            self._add_mean(summary, "log loss", self._log_sums, self.probabilities, f"  ({RULE})")
            self._add_mean(summary, "Brier score", self._brier_sums, self.probabilities)
        else:
            name, rule = f"{self.loss.name} loss", f"  ({RULE_OF_MEANS})" * self._is_clipped
            self._add_mean(summary, name, self._loss_sums, self._in_range, rule)

    def _add_mean(
        self,
        summary: Summary,
        name: str,
        sums: NDArray[np.float64],
        comparable: bool,
        remark: str = "",
    ) -> None:
        raw, calibrated = (sums / self._weight).tolist()
        before = f"{raw:.4f}" if comparable else "(raw scores out of range)"
        means = {"before": raw if comparable else None, "after": calibrated}
        summary.add(
            f"  {name:<12} {before} -> {calibrated:.4f}{remark}",
            **{name.lower().replace(" ", "_"): means},
        )

    def as_json(self) -> dict[str, Any]:
        """Return all counts and sums."""
        flags = [self.binary, self.probabilities, self._in_range]
        losses = [sums.tolist() for sums in (self._log_sums, self._brier_sums, self._loss_sums)]
        counts = [self.n_written, self.n_labelled]
        return {"counts": counts, "flags": flags, "weight": self._weight, "losses": losses}

    def restore(self, sums: dict[str, Any]) -> None:
        """Continue from what `as_json` returned."""
        self.n_written, self.n_labelled = sums["counts"]
        self.binary, self.probabilities, self._in_range = sums["flags"]
        self._weight = sums["weight"]
        self._log_sums, self._brier_sums, self._loss_sums = (
            np.array(pair, float) for pair in sums["losses"]
        )
