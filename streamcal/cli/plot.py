"""``streamcal plot``: a reliability diagram of columns of probabilities."""

from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import count_rows, data_errors, progress, say, usage_errors
from streamcal.cli.files import check_distinct, check_drawable, check_exists
from streamcal.cli.options import (
    BinaryLabelOption,
    FormatOption,
    OnError,
    OnErrorOption,
    TableArgument,
    column_option,
    out_option,
)
from streamcal.cli.picture import picture
from streamcal.cli.rows import RowReader, binary_label_column, probability_column
from streamcal.cli.sample import UniformSample
from streamcal.cli.summary import print_skipped

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
) -> None:
    """Draw the reliability diagram of one or more columns of probabilities.

    All rows have weight 1; rows without a label are left out. If there are more than a million
    rows, a uniform sample of them is drawn.
    """
    from streamcal import tables

    names = list(dict.fromkeys(prob))
    with usage_errors():
        check_exists(table)
        kind = tables.format_of(table, given=file_format)
        check_drawable(out)
        check_distinct(table, picture=out)
    reader = RowReader([*map(probability_column, names), binary_label_column(label)], on_error)
    sample = UniformSample(len(names) + 1)
    with data_errors(table):
        with (
            tables.open_table(table, reader.names, format=kind) as source,
            progress(source, "reading") as show,
        ):
            for rows in reader.iterate(source):
                known = ~np.isnan(rows.values[-1])
                sample.add(np.column_stack(rows.values)[known])
                show()
        if not sample.n_rows:
            raise tables.TableError("has no labelled rows: there is nothing to draw")
        print_skipped(reader)
        *curves, labels = sample.rows().T
        draw_reliability(out, labels, dict(zip(names, curves, strict=True)), sample.n_rows)


def draw_reliability(
    path: Path, labels: NDArray[np.float64], curves: dict[str, NDArray[np.float64]], n_rows: int
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
    say(f"{path}: drawn from {drawn}")
