"""Many keys on Spark: `streamcal.spark.calibrate`, and what Spark takes to count rows by key.

    python -m benchmarks.spark_keys [--keys 1000 10000 100000 1000000] [--rows 3] [--rounds 2]
    python -m benchmarks.spark_keys --known 1000000
    python -m benchmarks.spark_keys --skewed 300000

In `local[2]`, from Parquet files to a sink that keeps nothing. A query has a micro-batch of ten
keys, which starts all processes; then one that makes the state of each key, and one that reads and
writes it, with so many rows of each key in each. It keeps

* a `PlattCalibrator` for each key,
* a number for each key, by `groupBy().count()`, which runs in Java only (floor),
* a number for each key, by `transformWithState` in Python, which passes keys one by one (the way of
  a stream without buckets); only up to 10⁵ keys.

With ``--known`` a query has states of 200 samples for so many keys, of `IsotonicCalibrator`, made
in micro-batches of 10⁵ keys; then three micro-batches of 1,000 rows of random keys. With
``--skewed`` micro-batches have so many rows: of 1,000 equal keys; a third of them of one key; keys
by Zipf's law (1.2); and a new key in each row. Needs the extra `spark` and Java.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

import streamcal
import streamcal.spark
from benchmarks.spark_throughput import N_FILES, seconds
from tests.spark_cluster import session

NUMBER = StructType([StructField("n", LongType())])
MOST_ONE_BY_ONE = 100_000  # keys; a minute
PART = 100_000  # keys of a micro-batch that makes states
N_SAMPLES = 200


class Count(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self.count = handle.getValueState("count", NUMBER)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Count the rows of a key in a micro-batch."""
        stored = self.count.get()
        n = sum(1 for _ in rows) + (stored[0] if stored else 0)
        self.count.update((n,))
        yield Row(n=n)

    def close(self) -> None:
        """Nothing is open."""


def calibrated(events: DataFrame, calibrator: Any = streamcal.PlattCalibrator) -> DataFrame:
    """Return the calibrated stream."""
    return streamcal.spark.calibrate(
        events, key="key", score="score", label="label", calibrator=calibrator
    )


def counted(events: DataFrame) -> DataFrame:
    """Return the number of rows of each key."""
    return events.groupBy("key").count()


def counted_in_python(events: DataFrame) -> DataFrame:
    """Return the number of rows of each key, counted in Python."""
    return events.groupBy("key").transformWithState(
        Count(), outputStructType=NUMBER, outputMode="Update", timeMode="None"
    )


def full() -> streamcal.IsotonicCalibrator:
    """Return a calibrator that has learned as many samples as it keeps."""
    random = np.random.default_rng(0)
    score = random.random(N_SAMPLES)
    calibrator = streamcal.IsotonicCalibrator(window=N_SAMPLES)
    calibrator.learn_many(score, random.random(N_SAMPLES) < score)
    return calibrator


class Filled:
    """Makes calibrators that have learned as many samples as they keep."""

    def __init__(self) -> None:
        self.state = full().to_bytes()

    def __call__(self) -> streamcal.IsotonicCalibrator:
        """Return a calibrator."""
        return streamcal.IsotonicCalibrator.from_bytes(self.state)


def write_stream(folder: Path, batches: list[np.ndarray]) -> None:
    """Write a micro-batch for each array of keys, a row for each."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for number, keys in enumerate(batches):
        keys = random.permutation(keys)
        score = random.random(len(keys))
        table = pa.table(
            {
                "key": [f"campaign {key}" for key in keys.tolist()],
                "score": score,
                "label": random.random(len(keys)) < score**2,
            }
        )
        for part in range(N_FILES):
            rows = table.slice(part * len(keys) // N_FILES, len(keys) // N_FILES)
            pq.write_table(rows, folder / f"{number:03}-{part}.parquet")


def run(
    spark: Any, folder: Path, checkpoint: Path, process: Callable[[DataFrame], DataFrame]
) -> list[float]:
    """Run the stream; return how long each micro-batch took, without the first."""
    events = spark.readStream.schema("key string, score double, label boolean")
    processed = process(events.option("maxFilesPerTrigger", N_FILES).parquet(str(folder)))
    mode = "append" if process not in (counted, counted_in_python) else "update"
    writer = processed.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return seconds([batch for batch in query.recentProgress if batch.numInputRows])[1:]


def all_keys(spark: Any, n_keys: int, n_rows: int, n_rounds: int) -> None:
    """Print how long a micro-batch of all keys takes."""
    modes = [calibrated, counted, counted_in_python][: 3 if n_keys <= MOST_ONE_BY_ONE else 2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        all_rows = np.repeat(np.arange(n_keys), n_rows)
        write_stream(folder / "in", [np.arange(10), all_rows, all_rows])
        for turn in range(n_rounds):
            for mode in modes:
                new, known = run(spark, folder / "in", folder / f"{mode.__name__} {turn}", mode)
                print(
                    f"{n_keys:9,} keys, {mode.__name__:17}: new keys {new:6.2f} s,"
                    f" known keys {known:6.2f} s",
                    flush=True,
                )


def few_of_many(spark: Any, n_keys: int) -> None:
    """Print how long a micro-batch of 1,000 rows takes if a large number of keys are known."""
    random = np.random.default_rng(1)
    parts = [np.arange(at, min(at + PART, n_keys)) for at in range(0, n_keys, PART)]
    few = [random.integers(0, n_keys, 1_000) for _ in range(3)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_stream(folder / "in", [np.arange(10), *parts, *few])
        times = run(
            spark, folder / "in", folder / "checkpoint", lambda events: calibrated(events, Filled())
        )
    print(f"{n_keys:,} new keys of {len(Filled().state):,} bytes: {sum(times[:-3]):.1f} s")
    print("1,000 rows of them (s)", *(f"{time:.2f}" for time in times[-3:]), flush=True)


def skewed(spark: Any, n_rows: int, n_rounds: int) -> None:
    """Print how long micro-batches of as many rows take, by how their keys are drawn."""
    random = np.random.default_rng(2)

    def equal() -> np.ndarray:
        return random.integers(1_000, size=n_rows)

    streams = {
        "equal": [equal() for _ in range(3)],
        "hot": [np.where(random.random(n_rows) < 1 / 3, -1, equal()) for _ in range(3)],
        "zipf": [np.minimum(random.zipf(1.2, n_rows), 10**6) for _ in range(3)],
        "once": [np.arange(at * n_rows, (at + 1) * n_rows) for at in range(3)],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for how, batches in streams.items():
            write_stream(folder / how, [np.arange(10), *batches])
            for turn in range(n_rounds):
                times = run(spark, folder / how, folder / f"{how} {turn}", calibrated)
                n_keys = [len(np.unique(keys)) for keys in batches]
                shown = ", ".join(
                    f"{time:.2f} s ({n:,} keys)" for time, n in zip(times, n_keys, strict=True)
                )
                print(f"{n_rows:,} rows, {how:5}: {shown}", flush=True)


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rows", type=int, default=3, help="of a key in a micro-batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--known", type=int, help="keys of which some occur; in place of --keys")
    parser.add_argument("--skewed", type=int, help="rows of a micro-batch; in place of --keys")
    arguments = parser.parse_args()
    spark = session(java_options="")
    if arguments.known is not None:
        few_of_many(spark, arguments.known)
    elif arguments.skewed is not None:
        skewed(spark, arguments.skewed, arguments.rounds)
    else:
        for n_keys in arguments.keys:
            all_keys(spark, n_keys, arguments.rows, arguments.rounds)
    spark.stop()


if __name__ == "__main__":
    main()
