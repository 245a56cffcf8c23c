"""The sink of ``streamcal calibrate``: values as a new column of a table, and their losses."""

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import count_rows
from streamcal.cli.summary import Summary, Totals
from streamcal.cli.table_source import TableSource

if TYPE_CHECKING:
    from streamcal.cli.sample import UniformSample
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.tables.base import Writer


class TableSink:
    """Writes the rows of a `TableSource` with their values, and adds them to `Totals`.

    Attributes
    ----------
    is_complete : bool
        Whether all rows are written, and what follows the last one.
    """

    def __init__(
        self,
        source: TableSource,
        writer: "Writer",
        totals: Totals,
        sample: "UniformSample | None" = None,
    ) -> None:
        self.source, self.totals = source, totals
        self._writer, self._sample = writer, sample
        self.is_complete = self._is_closed = False

    def __call__(self, offset: int, values: NDArray[np.float64]) -> None:
        """Write the rows of the source's batch, which begins at an offset."""
        from streamcal.calibration.sampling import undo_sampling

        batch, columns = self.source.batch, self.source.columns
        assert batch is not None
        written = values
        if columns.sampling_rate is not None:
            written = undo_sampling(values, columns.rates(batch.rows))
        self._writer.write(batch.chunk, written, batch.rows.keep)
        self.totals.n_written += len(values)
        samples = batch.samples
        weights, propensities = samples.w, columns.propensities(batch.rows)
        if propensities is not None:
            weights = weights / propensities  # losses of all rows, labelled or not
        scored = np.column_stack([samples.scores, values, samples.y, weights])
        scored = scored[~np.isnan(samples.y)]
        self.totals.add(scored)
        if self._sample is not None:
            self._sample.add(scored[:, :3])

    def end(self) -> None:
        """Write what follows the last row."""
        self._is_closed = True
        self._writer.close()
        self.is_complete = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_closed:
            self._writer.close(complete=False)

    def summarize(self, summary: Summary, keyed: "KeyedCalibrator") -> None:
        """Add how many rows were calibrated, and the mean losses before and after."""
        columns, n_unlabelled = self.source.columns, self.source.n_unlabelled
        parts = [f"{count_rows(self.totals.n_written)} calibrated"]
        if n_unlabelled:
            parts.append(f"{n_unlabelled:,} of them without a label")
        n_keys = None if columns.key is None else len(keyed)
        if n_keys is not None:
            parts.append(f"{n_keys:,} keys")
        counts = {"rows": self.totals.n_written, "unlabelled": n_unlabelled, "keys": n_keys}
        summary.add(", ".join(parts), **counts)
        summary.add_skipped(self.source.reader)
        n_waiting = self.source.n_waiting
        if n_waiting == self.totals.n_labelled > 0:
            rest = "" if keyed.store is None else f"; they wait in {keyed.store.path}"
            line = f"  no label was learned: each becomes known after the last row{rest}"
            summary.add(line, waiting=n_waiting)
        if columns.sampling_rate is not None:
            line = "  losses are of the kept rows, before --sampling-rate is undone"
            summary.add(line, losses_among="kept rows")
        if columns.propensity is not None:
            rows = "all rows" if columns.sampling_rate is None else "kept rows"
            line = (
                f"  losses are estimates for {rows}: a labelled row counts 1 / --propensity times"
            )
            summary.add(line, losses_among=rows)
        self.totals.add_to(summary)
