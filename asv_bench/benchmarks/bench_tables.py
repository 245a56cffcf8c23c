"""Reading and writing alone: a CSV file of six columns copied with one column of numbers more.

The peers do the same work in the way their users would write it, a chunk at a time, on one thread.
"""

import csv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.sizes import size, sizes


def write_scores(path: Path, n_rows: int) -> None:
    """Write a file of scores, about 65 bytes a row."""
    rng = np.random.default_rng(0)
    scores = rng.random(n_rows)
    labels = (rng.random(n_rows) < scores).astype(int)
    with path.open("w") as file:
        file.write("id,user,score,label,segment,when\n")
        for i, (score, label) in enumerate(zip(scores.tolist(), labels.tolist(), strict=True)):
            file.write(f"{i},user-{i % 997},{score!r},{label},north east,2024-05-01T12:00:00\n")


def copy_streamcal(source: Path, target: Path) -> None:
    """Read the numbers of two columns; the cells themselves stay text."""
    from streamcal.tables.numbers import as_numbers
    from streamcal.tables.open import open_table
    from streamcal.tables.output import Output

    with (
        open_table(source, ["score", "label"], new_column="calibrated") as table,
        Output(target) as output,
        table.writer(output) as writer,
    ):
        for chunk in table:
            scores, _ = as_numbers(chunk.columns["score"])
            as_numbers(chunk.columns["label"], booleans=True)
            writer.write(chunk, scores)


def copy_pandas(source: Path, target: Path) -> None:
    """Read and write frames of inferred types."""
    import pandas as pd

    with target.open("w") as file:
        for i, frame in enumerate(pd.read_csv(source, chunksize=65_536)):
            frame["calibrated"] = frame["score"]
            frame.to_csv(file, index=False, header=i == 0)


def copy_csv_module(source: Path, target: Path) -> None:
    """Read and write rows of text."""
    with source.open(newline="") as reading, target.open("w", newline="") as writing:
        rows = csv.reader(reading)
        writer = csv.writer(writing, lineterminator="\n")
        header = next(rows)
        score, label = header.index("score"), header.index("label")
        writer.writerow([*header, "calibrated"])
        for row in rows:
            float(row[label])
            writer.writerow([*row, float(row[score])])


class Copy:
    """CSV to CSV."""

    number = 1
    repeat = (2, 5, 5.0)
    n_rows = size(100_000)

    def setup(self) -> None:
        self.folder = TemporaryDirectory()
        self.source = Path(self.folder.name, "scores.csv")
        self.target = Path(self.folder.name, "out.csv")
        write_scores(self.source, self.n_rows)

    def teardown(self) -> None:
        self.folder.cleanup()

    def time_streamcal(self) -> None:
        copy_streamcal(self.source, self.target)

    def time_pandas(self) -> None:
        copy_pandas(self.source, self.target)

    def time_csv_module(self) -> None:
        copy_csv_module(self.source, self.target)


class Memory:
    """What pyarrow holds at most while a file is read, which must not grow with the file."""

    params = sizes(1_000_000, 2_000_000)
    param_names = ("n_rows",)

    def setup(self, n_rows: int) -> None:
        import pyarrow as pa

        from streamcal.tables.open import open_table

        self.folder = TemporaryDirectory()
        self.source = Path(self.folder.name, "scores.csv")
        self.open_table: Any = open_table
        self.allocated: Any = pa.total_allocated_bytes
        n_written = size(100_000)
        write_scores(self.source, n_written)
        header, _, rows = self.source.read_bytes().partition(b"\n")
        self.source.write_bytes(header + b"\n" + rows * (n_rows // n_written))

    def teardown(self, n_rows: int) -> None:
        self.folder.cleanup()

    def track_held(self, n_rows: int) -> int:
        before: int = self.allocated()
        with self.open_table(self.source, ["score", "label"], new_column="calibrated") as table:
            return max(self.allocated() - before for _ in table)

    track_held.unit = "bytes"  # type: ignore[attr-defined]
