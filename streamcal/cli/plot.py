"""``streamcal plot``: a reliability diagram of columns of probabilities."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import count_rows, data_errors, progress, usage_errors
from streamcal.cli.files import check_files
from streamcal.cli.image_files import picture
from streamcal.cli.label_columns import (
    check_alone,
    columns_of_labels,
    name_of_column,
    reader_columns,
)
from streamcal.cli.options import (
    AnyLabelOption,
    FormatOption,
    JsonOption,
    MeansLoss,
    MeansLossOption,
    OnError,
    OnErrorOption,
    QuietOption,
    TableArgument,
    column_option,
    out_option,
)
from streamcal.cli.rows import RowReader, columns_of_values, probability_column
from streamcal.cli.sample import UniformSample
from streamcal.cli.summary import Summary

EXAMPLES = (
    "streamcal plot scores.csv --prob p --label y",
    "streamcal plot c.csv --prob p --prob calibrated --label y --out reliability.png",
    "streamcal plot animals.csv --prob cat,dog,bird --label animal",
    "streamcal plot claims.csv --prob expected --label n --loss poisson",
)


def plot(
    table: TableArgument,
    prob: Annotated[
        list[str],
        column_option(
            "A probability of the label 1; give it once for each curve. Or the columns of several"
            " labels, as in a,b,c or p_a=a,p_b=b: how often the predicted label is right; once for"
            " each model. With --loss a predicted mean."
        ),
    ],
    label: AnyLabelOption,
    loss: MeansLossOption = None,
    out: Annotated[Path, out_option("IMAGE", "The picture (png, pdf, svg).")] = Path(
        "reliability.png"
    ),
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Draw the reliability diagram of one or more columns of probabilities, or of means.

    All rows have weight 1; rows without a label are left out. If there are more than a million
    rows, a uniform sample of them is drawn.
    """
    names = list(dict.fromkeys(prob))
    with usage_errors():
        check_files(table, picture=out)
        summary = Summary(quiet=quiet, as_json=json)
        models = _models(names)
        check_alone(columns_of_labels(names[0]), loss=loss)
    from streamcal.tables.base import TableError
    from streamcal.tables.open import format_of

    with usage_errors():
        kind = format_of(table, given=file_format)
    if models is None:
        names = list(map(name_of_column, names))
        columns = columns_of_values(names, label, loss)
    else:
        first, *others = models.values()
        columns = [probability_column(each) for other in others for each in other.values()]
        columns += reader_columns({name: label for label, name in first.items()}, label)
    reader = RowReader(columns, on_error)
    with data_errors(table), summary:
        sample = read_sample(table, kind, reader, hidden=quiet)
        if not sample.n_rows:
            raise TableError("has no labelled rows: there is nothing to draw")
        summary.add_skipped(reader)
        *curves, labels = sample.rows().T
        if models is not None:
            n = len(first)  # the columns of the first model are the last ones
            parts = [curves[i : i + n] for i in range(0, len(curves), n)]
            ordered = dict(zip(models, [parts[-1], *parts[:-1]], strict=True))
            draw_top_label(out, list(first), ordered, labels, sample.n_rows, summary)
            return
        named = dict(zip(names, curves, strict=True))
        draw_reliability(out, labels, named, sample.n_rows, summary, loss)


def _models(names: list[str]) -> dict[str, dict[str, str]] | None:
    """Return the column of each label by the name of the model; None if there is one label.

    Raises
    ------
    ValueError
        If the models have not the same labels.
    """
    found = [columns_of_labels(name) for name in names]
    several = [columns for columns in found if columns is not None]
    if len(several) < len(names):
        return None
    labels = list(several[0].values())
    models = {}
    for columns, name in zip(several, names, strict=True):
        if set(columns.values()) != set(labels):
            raise ValueError(
                f"--prob must name columns of the same labels each time, here {', '.join(labels)},"
                f" got {name!r}"
            )
        places = {label: column for column, label in columns.items()}
        models[f"{next(iter(columns))}, …"] = {label: places[label] for label in labels}
    if len(models) < len(names):
        raise ValueError(f"--prob must begin with another column each time, got {names[-1]!r}")
    return models


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
    loss: MeansLoss | None = None,
    title: str = "Reliability",
) -> None:
    """Draw a reliability diagram with one curve for each column; all rows have weight 1.

    The rows are a sample of ``n_rows`` rows. With a ``loss``, columns have means.
    """
    from streamcal.losses.deviance import get_deviance
    from streamcal.metrics.log_loss import LEAST
    from streamcal.plot import ReliabilityDisplay

    happened = labels == 1.0 if loss is None else labels
    given: Any = {} if loss is None else {"loss": loss.value}
    if loss is not None and get_deviance(loss.value).may_be_zero:  # as a report does
        curves = {name: np.maximum(values, LEAST) for name, values in curves.items()}
    with picture(path, 5.6, 6.5, title) as ax:
        if len(curves) == 1:
            ((name, values),) = curves.items()
            ReliabilityDisplay.from_predictions(happened, values, name=name, ax=ax, **given)
        else:
            models = {name: (happened, values) for name, values in curves.items()}
            ReliabilityDisplay.from_models(models, ax=ax, **given)
    _add_drawn(summary, path, len(labels), n_rows)


def draw_top_label(
    path: Path,
    names: list[str],
    models: dict[str, list[NDArray[np.float64]]],
    places: NDArray[np.float64],
    n_rows: int,
    summary: Summary,
) -> None:
    """Draw how often the predicted one of several labels is right.

    ``places`` are those of the true labels in ``names``; ``models`` have these' probabilities.
    """
    from streamcal.plot import ReliabilityDisplay

    true = [names[place] for place in places.astype(np.int64).tolist()]
    told = {
        model: (true, dict(zip(names, columns, strict=True))) for model, columns in models.items()
    }
    with picture(path, 5.6, 6.5, "Reliability of the predicted label") as ax:
        if len(told) > 1:
            ReliabilityDisplay.from_models(told, multiclass="top-label", ax=ax)
        else:
            (alone,) = told.values()
            ReliabilityDisplay.from_predictions(*alone, multiclass="top-label", ax=ax)
    _add_drawn(summary, path, len(places), n_rows)


def _add_drawn(summary: Summary, path: Path, n_drawn: int, n_rows: int) -> None:
    """Add the picture, and how many of the rows are in it."""
    drawn = count_rows(n_rows)
    if n_rows > n_drawn:
        drawn = f"a uniform sample of {n_drawn:,} of {drawn}"
    summary.add(f"{path}: drawn from {drawn}", picture=str(path), drawn=n_drawn)
