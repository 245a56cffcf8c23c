"""The report of a calibrated table: what is computed, and the page made of it."""

import numpy as np

from benchmarks.sizes import sizes


class Report:
    """``n_rows`` rows in memory, as `streamcal report` has them once the file is read."""

    params = sizes(20_000, 200_000)
    param_names = ("n_rows",)
    number = 1
    repeat = (2, 5, 5.0)
    warmup_time = 0.0

    def setup(self, n_rows: int) -> None:
        from streamcal.report.table_sections import Scored

        rng = np.random.default_rng(0)
        p = rng.random(n_rows)
        y = (rng.random(n_rows) < p**2).astype(np.float64)
        self.scored = Scored(p, p**2, y, 1.0 + np.arange(n_rows))
        self.page()

    def page(self) -> str:
        """Return the page."""
        from streamcal.report.content import Report as Content
        from streamcal.report.page import render
        from streamcal.report.table_sections import of_table

        return render(Content("Report", "here", tuple(of_table(self.scored, "raw", "new"))))

    def time_page(self, n_rows: int) -> None:
        self.page()

    def track_megabytes(self, n_rows: int) -> float:
        """Return the size of the page."""
        return len(self.page().encode()) / 1e6
