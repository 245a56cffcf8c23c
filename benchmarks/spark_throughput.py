"""Throughput and recovery of `streamcal.spark.calibrate`.

    python benchmarks/spark_throughput.py [--batches 4] [--events 500000] [--keys 50] [--window 5000]

First a stream in `local[2]`: micro-batches of so many events, each the score of one of the keys with
its label, from Parquet files in two parts, to a sink that keeps nothing. Every other micro-batch has
ten events only: what that takes is the floor, the same for any query that keeps state. Printed are the
times of both and the events a second beyond the floor, medians.

Then the same stream on a standalone master with two workers of one core each on this machine, one of
which is killed in the third micro-batch: how much longer it took than the median of the others, and
whether the calibrators at the end are those of one process, byte for byte (`--no-kill` skips this).
Needs the extra `spark` and Java.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FLOOR_EVENTS = 10


def write_stream(folder: Path, sizes: list[int], n_keys: int) -> None:
    """Write the events of each micro-batch as two files, in the order of their names and times."""
    random = np.random.default_rng(0)
    folder.mkdir()
    now = 1_700_000_000
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
        for part in range(2):
            path = folder / f"{number:03}-{part}.parquet"
            pq.write_table(
                table.slice(part * size // 2, (part + 1) * size // 2 - part * size // 2), path
            )
            os.utime(path, (now + 2 * number + part,) * 2)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=50)
    parser.add_argument("--window", type=int, default=None)
    arguments = parser.parse_args()
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession
    import streamcal
    import streamcal.spark

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = [arguments.events, FLOOR_EVENTS] * (arguments.batches + 1)
        write_stream(folder / "in", sizes, arguments.keys)
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config(
                "spark.sql.streaming.stateStore.providerClass",
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            )
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        df = (
            spark.readStream.schema("id long, key string, score double, label boolean")
            .option("maxFilesPerTrigger", 2)
            .parquet(str(folder / "in"))
        )
        out = streamcal.spark.calibrate(
            df,
            key="key",
            score="score",
            label="label",
            make=streamcal.IsotonicCalibrator(window=arguments.window),
            order="id",
        )
        q = (
            out.writeStream.format("noop")
            .option("checkpointLocation", str(folder / "c"))
            .trigger(availableNow=True)
            .start()
        )
        q.awaitTermination()
        for p in q.recentProgress:
            print(p.numInputRows, p.durationMs)


main()
