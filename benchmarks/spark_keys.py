"""Many keys in a micro-batch of Spark: rows or pandas between Spark and `streamcal.spark`.

    python -m benchmarks.spark_keys [--keys 1000 10000 100000] [--rows 3] [--rounds 2]

`streamcal.spark.calibrate` gets the rows of a key one by one (`transformWithState`). Spark can also
pass them as frames of pandas (`transformWithStateInPandas`). Both run the same learner here, in
`local[2]`: a `PlattCalibrator` for each key, from Parquet files to a sink that keeps nothing, in
turns. A query has a micro-batch of ten keys, which starts all processes; then one that makes the
state of each key, and one that reads and writes it. Needs the extra `spark` and Java.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StructField, StructType

import streamcal
import streamcal.spark
from benchmarks.spark_throughput import N_FILES, seconds
from streamcal.spark import bundles
from streamcal.spark.stream import _Learner
from tests.spark_cluster import session


class PandasLearner(_Learner):
    """The learner of `streamcal.spark.calibrate`, with frames instead of rows."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Predict and learn the rows of one key in a micro-batch."""
        found = (row for frame in rows for row in frame.itertuples(index=False))
        calibrated = super().handleInputRows(key, found, timerValues)
        yield pd.DataFrame({"rows": [row.rows for row in calibrated]})


def by_rows(events: DataFrame) -> DataFrame:
    """Return the calibrated stream."""
    return streamcal.spark.calibrate(
        events, key="key", score="score", label="label", calibrator=streamcal.PlattCalibrator()
    )


def by_pandas(events: DataFrame) -> DataFrame:
    """Return the same with frames of pandas."""
    make = streamcal.PlattCalibrator().clone
    bundler = bundles.Bundler(events.schema.names, "key")
    learned = (
        events.mapInArrow(bundler, bundles.SCHEMA)
        .groupBy("key")
        .transformWithStateInPandas(
            PandasLearner(make, "key", "score", "label", None, None, "calibrated"),
            outputStructType=StructType([bundles.SCHEMA["rows"]]),
            outputMode="Append",
            timeMode="None",
        )
    )
    columns = StructType([*events.schema.fields, StructField("calibrated", DoubleType())])
    return learned.mapInArrow(bundles.unbundle, columns)


def write_stream(folder: Path, sizes: list[int], n_rows: int) -> None:
    """Write a micro-batch for each size, a number of keys; each key has so many rows."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for number, n_keys in enumerate(sizes):
        keys = np.repeat(np.arange(n_keys), n_rows)
        random.shuffle(keys)
        score = random.random(len(keys))
        table = pa.table(
            {
                "key": [f"campaign {key}" for key in keys],
                "score": score,
                "label": random.random(len(keys)) < score**2,
            }
        )
        for part in range(N_FILES):
            rows = table.slice(part * len(keys) // N_FILES, len(keys) // N_FILES)
            pq.write_table(rows, folder / f"{number:03}-{part}.parquet")


def run(spark: Any, folder: Path, checkpoint: Path, calibrate: Any) -> list[float]:
    """Run the stream; return how long each micro-batch took, without the first."""
    events = spark.readStream.schema("key string, score double, label boolean")
    calibrated = calibrate(events.option("maxFilesPerTrigger", N_FILES).parquet(str(folder)))
    writer = calibrated.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return seconds([batch for batch in query.recentProgress if batch.numInputRows])[1:]


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rows", type=int, default=3, help="of a key in a micro-batch")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    spark = session(java_options="")
    for n_keys in arguments.keys:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_stream(folder / "in", [10, n_keys, n_keys], arguments.rows)
            for turn in range(arguments.rounds):
                for mode in (by_rows, by_pandas):
                    checkpoint = folder / f"{mode.__name__} {turn}"
                    new, known = run(spark, folder / "in", checkpoint, mode)
                    print(
                        f"{n_keys:7,} keys, {mode.__name__:9}: new keys {new:6.1f} s,"
                        f" known keys {known:6.1f} s",
                        flush=True,
                    )
    spark.stop()


if __name__ == "__main__":
    main()
