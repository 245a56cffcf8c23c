"""``streamcal plot``: a reliability diagram of columns of probabilities."""

from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import count_rows, data_errors, progress, usage_errors
from streamcal.cli.files import check_files
from streamcal.cli.image_files import picture
from streamcal.cli.options import (
    BinaryLabelOption,
    FormatOption,
    JsonOption,
    OnError,
    OnErrorOption,
    QuietOption,
    TableArgument,
    column_option,
    out_option,
)
from streamcal.cli.rows import RowReader, binary_label_column, probability_column
from streamcal.cli.sample import UniformSample
from streamcal.cli.summary import Summary

EXAMPLES = (
    "streamcal plot scores.csv --prob p --label y",
    "streamcal plot c.csv --prob p --prob calibrated --label y --out reliability.png",
)


def plot(
    table: TableArgument,
    prob: Annotated[
        list[str], column_option("A probability of the label 1; give it once for each curve.")
    ],
    label: BinaryLabelOption,
    out: Annotated[Path, out_option("IMAGE", "The picture (png, pdf, svg).")] = Path(
        "reliability.png"
    ),
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Draw the reliability diagram of one or more columns of probabilities.

    All rows have weight 1; rows without a label are left out. If there are more than a million
    rows, a uniform sample of them is drawn.
    """
    names = list(dict.fromkeys(prob))
    with usage_errors():
        check_files(table, picture=out)
        summary = Summary(quiet=quiet, as_json=json)
    from streamcal.tables.base import TableError
    from streamcal.tables.open import format_of

    with usage_errors():
        kind = format_of(table, given=file_format)
    reader = RowReader([*map(probability_column, names), binary_label_column(label)], on_error)
    with data_errors(table), summary:
        sample = read_sample(table, kind, reader, hidden=quiet)
        if not sample.n_rows:
            raise TableError("has no labelled rows: there is nothing to draw")
        summary.add_skipped(reader)
        *curves, labels = sample.rows().T
        named = dict(zip(names, curves, strict=True))
        draw_reliability(out, labels, named, sample.n_rows, summary)


def read_sample(table: Path, kind: str, reader: RowReader, *, hidden: bool = True) -> UniformSample:
    """Return a sample of the labelled rows of a table; the label is the last column."""
    from streamcal.tables.open import open_table

    sample = UniformSample(len(reader.columns))
    with (
        open_table(table, reader.names, format=kind) as source,
        progress(source, "reading", hidden=hidden) as show,
    ):
        for rows in reader.iterate(source):
            known = ~np.isnan(rows.values[-1])
            sample.add(np.column_stack(rows.values)[known])
            show()
    return sample


def draw_reliability(
    path: Path,
    labels: NDArray[np.float64],
    curves: dict[str, NDArray[np.float64]],
    n_rows: int,
    summary: Summary,
) -> None:
    """Draw a reliability diagram with one curve for each column; all rows have weight 1.

    The rows are a sample of ``n_rows`` rows.
    """
    from streamcal.plot import ReliabilityDisplay

    happened = labels == 1.0
    with picture(path, 5.6, 6.2) as ax:
        if len(curves) == 1:
            ((name, values),) = curves.items()
            ReliabilityDisplay.from_predictions(happened, values, name=name, ax=ax)
        else:
            models = {name: (happened, values) for name, values in curves.items()}
            ReliabilityDisplay.from_models(models, ax=ax)
    drawn = count_rows(n_rows)
    if n_rows > len(labels):
        drawn = f"a uniform sample of {len(labels):,} of {drawn}"
    summary.add(f"{path}: drawn from {drawn}", picture=str(path), drawn=len(labels))
