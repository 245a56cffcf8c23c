"""Throughput and recovery of `streamcal.spark.calibrate`; needs the extra `spark` and Java.

    python -m benchmarks.spark_throughput [--batches 5] [--events 500000] [--keys 50] [--window N]

Throughput, in `local[2]`: micro-batches of so many events, scores of one of the keys with labels,
from Parquet files to a sink that keeps nothing. Every other micro-batch has ten events only. What
takes is the minimum for a query with state. The result is events per second of the time beyond it.

Recovery: the same on a standalone master with two workers of one core, all of them on this machine.
One worker is killed in the middle of a micro-batch. How long did that micro-batch take, how long do
the others, and is the state at the end that of one process, byte for byte?
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamcal
import streamcal.spark
from tests.spark_cluster import cluster_session, session, states, wait_for

FLOOR_EVENTS = 10
N_FILES = 2  # to a micro-batch, one for each core


def write_stream(folder: Path, sizes: list[int], n_keys: int) -> None:
    """Write the events of the micro-batches, in order."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for number, size in enumerate(sizes):
        score = random.random(size)
        table = pa.table(
            {
                "id": np.arange(size) + (number << 32),
                "key": [f"campaign {k}" for k in random.integers(0, n_keys, size)],
                "score": score,
                "label": random.random(size) < score**2,
            }
        )
        for part in range(N_FILES):
            rows = table.slice(part * size // N_FILES, size // N_FILES)
            pq.write_table(rows, folder / f"{number:03}-{part}.parquet")


def run(spark: Any, folder: Path, make: Any, meanwhile: Callable[[Any], object]) -> list[Any]:
    """Run the stream to its end; return Spark's account of each micro-batch."""
    events = spark.readStream.schema("id long, key string, score double, label boolean")
    calibrated = streamcal.spark.calibrate(
        events.option("maxFilesPerTrigger", N_FILES).parquet(str(folder / "in")),
        key="key",
        score="score",
        label="label",
        order="id",
        calibrator=make,
    )
    writer = calibrated.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    meanwhile(query)
    query.awaitTermination()
    return [batch for batch in query.recentProgress if batch.numInputRows]


def seconds(batches: list[Any]) -> list[float]:
    """Return how long micro-batches took."""
    return [batch.durationMs["triggerExecution"] / 1000 for batch in batches]


def throughput(folder: Path, arguments: argparse.Namespace) -> None:
    """Print events a second in `local[2]`."""
    sizes = [arguments.events, FLOOR_EVENTS] * (arguments.batches + 1)
    write_stream(folder / "in", sizes, arguments.keys)
    spark = session(java_options="")
    make = streamcal.IsotonicCalibrator(window=arguments.window)
    batches = run(spark, folder, make, lambda query: None)[2:]  # the first starts all processes
    full = seconds([batch for batch in batches if batch.numInputRows > FLOOR_EVENTS])
    floor = seconds([batch for batch in batches if batch.numInputRows == FLOOR_EVENTS])
    print("full micro-batches (s)", *(f"{value:.2f}" for value in full))
    print("floor (s)", *(f"{value:.2f}" for value in floor))
    for what, time in (("median", median(full) - median(floor)), ("best", min(full) - min(floor))):
        print(f"events a second beyond the floor, {what}: {arguments.events / time:,.0f}")
    print(f"events a second with it, median: {arguments.events / median(full):,.0f}")
    spark.stop()


def recovery(folder: Path, arguments: argparse.Namespace) -> None:
    """Print the time lost by a killed worker."""
    folder.mkdir()
    sizes = [arguments.events] * (2 * arguments.batches)
    write_stream(folder / "in", sizes, arguments.keys)
    make = streamcal.IsotonicCalibrator(window=arguments.window)
    with cluster_session(folder, java_options="") as (cluster, spark):
        killed_in = []

        def kill(query: Any) -> None:
            wait_for(
                lambda: query.lastProgress and query.lastProgress.batchId == arguments.batches - 1,
                "the first half",
                600,
            )
            wait_for(spark.sparkContext.statusTracker().getActiveStageIds, "the next micro-batch")
            cluster.kill_worker()
            killed_in.append(query.lastProgress.batchId + 1)

        batches = run(spark, folder, make, kill)
        found = states(spark, folder / "checkpoint")
    took = dict(zip([batch.batchId for batch in batches], seconds(batches), strict=True))
    before = [took[number] for number in took if 0 < number < killed_in[0]]
    after = [took[number] for number in took if number > killed_in[0]]
    print(f"micro-batch, median with two workers: {median(before):.2f} s")
    print(f"the one in which a worker was killed: {took[killed_in[0]]:.2f} s")
    print(f"micro-batch, median with one worker: {median(after):.2f} s")
    calibrators: dict[str, Any] = {}
    for number in range(len(sizes)):
        paths = sorted((folder / "in").glob(f"{number:03}-*.parquet"))
        rows = pa.concat_tables([pq.read_table(path) for path in paths]).to_pandas()
        for key, events in rows.groupby("key"):
            calibrator = calibrators.setdefault(key, make.clone())
            calibrator.learn_many(events["score"], events["label"])
    exact = found == {key: calibrator.to_bytes() for key, calibrator in calibrators.items()}
    print("the state is that of one process:", exact)


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=5, help="that are measured")
    parser.add_argument("--events", type=int, default=500_000, help="to a micro-batch")
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--window", type=int, help="of a calibrator; none by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        throughput(Path(name), arguments)
        recovery(Path(name, "recovery"), arguments)


if __name__ == "__main__":
    main()
