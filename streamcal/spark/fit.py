"""An isotonic fit of a frame that is too large for one machine, exactly.

Spark sorts the samples into ranges of scores; a worker fits each range, and the driver pools the
blocks of all ranges, which are few. `streamcal.isotonic.blocks` explains why this is exact, and
why the parts must be ranges.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamcal import losses
from streamcal._validation import check_choice, check_count
from streamcal.isotonic.blocks import BLOCK_COLUMNS, blocks_of, fit_blocks
from streamcal.isotonic.staircase import INTERPOLATIONS, OUTSIDE, Interpolation, Outside, Staircase
from streamcal.losses.names import get_mean
from streamcal.spark.columns import check_frame, check_samples


def isotonic_fit(
    df: DataFrame,
    *,
    score: str,
    label: str,
    weight: str | None = None,
    loss: losses.MeanLossName | losses.Loss = "squared",
    interpolation: Interpolation = "linear",
    outside: Outside = "clip",
    n_ranges: int | None = None,
) -> Staircase:
    """Return the non-decreasing map of scores that minimises the total loss over a frame.

    It is the result of `streamcal.isotonic_fit` on all rows, up to rounding. If sums are exact
    (labels 0 and 1, integer weights), only the centers of blocks may differ in rounding.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A batch frame. Rows with a missing score, label or weight (null or NaN) are left out.
    score, label, weight : str
        Names of columns of numbers; labels may be booleans. By default all weights are 1.
    loss, interpolation, outside
        As for `streamcal.isotonic_fit`.
    n_ranges : int, optional
        The number of ranges of scores, by default ``spark.sql.shuffle.partitions``. The samples of
        a range must fit into the memory of a worker, at about 100 bytes each.

    Returns
    -------
    staircase : streamcal.Staircase

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or there are no samples.
    pyspark.errors.PythonException
        If a sample is not valid; it contains the message of `streamcal.isotonic_fit`.
    """
    check_frame(df, "df")
    if df.isStreaming:
        raise ValueError(
            "`df` must be a batch frame, got a stream; see `streamcal.spark.calibrate`"
        )
    check_samples(df.schema, score, label, weight)
    check_count(n_ranges, "n_ranges", optional=True)
    check_choice(interpolation, "interpolation", INTERPOLATIONS)
    check_choice(outside, "outside", OUTSIDE)
    mean_loss = get_mean(loss)
    columns = {"score": score, "label": label} | ({} if weight is None else {"weight": weight})
    samples = df.select(
        [sql.col(_quoted(name)).cast("double").alias(alias) for alias, name in columns.items()]
    ).dropna()
    if n_ranges is None:
        ranges = samples.repartitionByRange("score")
    else:
        ranges = samples.repartitionByRange(n_ranges, "score")
    schema = ", ".join(f"{name} double" for name in BLOCK_COLUMNS)
    found = ranges.mapInPandas(_fit_range(mean_loss), schema).toArrow()
    if not len(found):
        raise ValueError("`df` must hold at least one row with a score, a label and a weight")
    blocks = np.column_stack([found[name].to_numpy() for name in BLOCK_COLUMNS])
    return fit_blocks(blocks, loss=mean_loss, interpolation=interpolation, outside=outside)


def _quoted(name: str) -> str:
    """Return the name of a column in quotes: dots in it would mean fields."""
    return "`" + name.replace("`", "``") + "`"


def _fit_range(loss: losses.MeanLoss) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that fits the samples of a range and returns blocks."""

    def fit(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        parts = list(frames)
        if not parts:
            return
        samples = pd.concat(parts)
        blocks = blocks_of(samples["score"], samples["label"], samples.get("weight"), loss=loss)
        yield pd.DataFrame(blocks, columns=BLOCK_COLUMNS)

    return fit
