"""What an exported map costs in DuckDB, in SQLite and in onnxruntime.

    python benchmarks/exported_sql.py [--rows 10000000] [--threads 2]

The maps are those of the default hedge, of `IsotonicCalibrator(window=1000)` and of Platt scaling,
after 12,000 samples; of the hedge also with an error of 1e-4. The scores are uniform, in a table of
DuckDB with two columns of numbers. The query is the sum of the calibrated scores, beside the same
query of the raw scores. Each is run three times, in turns, and the least time counts. SQLite has a
tenth of the rows; onnxruntime gets the scores as an array, all rows in one call, with one thread.
"""

import argparse
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import numpy as np
import onnxruntime

from streamcal import Calibrator, HedgedCalibrator, IsotonicCalibrator, PlattCalibrator

RUNS = 3


def calibrators() -> dict[str, Calibrator]:
    """Return calibrators by name, which have learned the same samples."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 1.1, 12_000)
    y = rng.random(len(p)) < p**1.7
    found: dict[str, Calibrator] = {
        "default hedge": HedgedCalibrator(),
        "isotonic": IsotonicCalibrator(window=1_000),
        "Platt": PlattCalibrator(),
    }
    for calibrator in found.values():
        calibrator.learn_many(p, y)
    return found


def least(*functions: Callable[[], object]) -> list[float]:
    """Return the least time of each function in seconds; they run in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(RUNS):
        for function, of in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            of.append(time.perf_counter() - start)
    return [min(of) for of in times]


def total(database: Any, query: str) -> object:
    """Return the answer of a query."""
    return database.execute(query).fetchall()


def main() -> None:
    """Print a line for each map and program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    scores = np.random.default_rng(1).random(given.rows)
    duck = duckdb.connect(config={"threads": given.threads})
    duck.execute(
        f"CREATE TABLE t AS SELECT random() AS score, random() AS other FROM range({given.rows})"
    )
    lite, few = sqlite3.connect(":memory:"), given.rows // 10
    lite.execute("CREATE TABLE t (score REAL, other REAL)")
    lite.executemany("INSERT INTO t VALUES (?, 0.5)", ((x,) for x in scores[:few].tolist()))
    print(f"DuckDB {duckdb.__version__}, {given.threads} threads; SQLite {sqlite3.sqlite_version}")
    made = calibrators()
    for name, options in (
        ("default hedge", {}),
        ("default hedge", {"error": 1e-4}),
        ("isotonic", {}),
        ("Platt", {}),
        ("Platt", {"formula": False}),
    ):
        calibrator: Any = made[name]
        sql = calibrator.export("sql", **options)
        model = calibrator.export("onnx", **options)
        single = onnxruntime.SessionOptions()
        single.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, single)
        n_scores = sql.count("WHEN") - 1
        shown = f"{name}, {'formula' if 'exp(' in sql else f'tree of {n_scores} scores'}"
        query, plain = (f"SELECT sum({what} + other) FROM t" for what in (sql, "score"))
        for program, database, rows in (("DuckDB", duck, given.rows), ("SQLite", lite, few)):
            with_map, without = least(*(partial(total, database, each) for each in (query, plain)))
            print(
                f"{shown}: {program} {with_map:.3f} s, without {without:.3f} s,"
                f" ratio {with_map / without:.1f},"
                f" {(with_map - without) / rows * 1e9:.0f} ns for each row"
            )
        (alone,) = least(partial(session.run, None, {"score": scores}))
        (python,) = least(partial(calibrator.predict_many, scores))
        print(
            f"{shown}: onnxruntime {alone / given.rows * 1e9:.0f} ns for each row,"
            f" `predict_many` {python / given.rows * 1e9:.0f} ns"
        )


if __name__ == "__main__":
    main()
