"""Spark on this machine, with all ports on the loopback interface, for tests and benchmarks."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for the short lives of tests
ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONDONTWRITEBYTECODE": "1",  # workers are killed
    "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
    "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


# When this process ends, the pipe closes, which ends the whole group.
_ENDS_WITH_US = '"$@" </dev/null & read -r _; kill -9 0'


def session(master: str = "local[2]", java_options: str = QUICK_START) -> SparkSession:
    """Return a session with few messages; the active one, if there is one."""
    os.environ |= ENVIRONMENT
    builder = SparkSession.builder.master(master)
    for process in ("driver", "executor"):
        builder = builder.config(f"spark.{process}.extraJavaOptions", java_options)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def wait_for(what: Callable[[], Any], why: str, seconds: float = 300.0) -> Any:
    """Wait until ``what`` returns a true value and return it; raise `TimeoutError` otherwise."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.02)
    raise TimeoutError(f"{why} took more than {seconds:g} s")


class Cluster:
    """A standalone master and workers of one core each."""

    def __init__(self, folder: Path, n_workers: int = 2) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._n_workers = n_workers
        self.url = ""

    def __enter__(self) -> "Cluster":
        try:
            log = self._start("master.Master", "--port", "0")
            self.url = wait_for(
                lambda: "".join(re.findall(r"spark://127\.0\.0\.1:\d+", log.read_text())[:1]),
                "the start of the master",
            )
            for number in range(self._n_workers):
                work = self._folder / f"work-{number}"
                self._start(
                    "worker.Worker", "--cores", "1", "--memory", "2g", "--work-dir", work, self.url
                )
            wait_for(
                lambda: log.read_text().count("Registering worker") == self._n_workers,
                "the start of the workers",
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            self._kill(process)

    def kill_worker(self) -> None:
        """Kill the worker started last, and its executor with it."""
        self._kill(self._processes[-1])

    def _start(self, name: str, *arguments: str | Path) -> Path:
        """Start a process of Spark in a new process group; return the path of its log."""
        log = self._folder / f"{name}-{len(self._processes)}.log"
        command: list[str | Path] = [Path(pyspark.__file__).parent / "bin" / "spark-class"]
        command += [f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0"]
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["sh", "-c", _ENDS_WITH_US, "sh", *command, *arguments],
                env=os.environ | ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    @staticmethod
    def _kill(process: "subprocess.Popen[bytes]") -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def cluster_session(
    folder: Path, java_options: str = QUICK_START
) -> Iterator[tuple[Cluster, SparkSession]]:
    """Yield a cluster of two workers and a session on it; this stops an active session."""
    if active := SparkSession.getActiveSession():
        active.stop()
    with Cluster(folder) as cluster:
        spark = session(cluster.url, java_options)
        try:
            yield cluster, spark
        finally:
            spark.stop()


def states(spark: SparkSession, checkpoint: Path) -> dict[str | None, bytes]:
    """Return the calibrators that a query has committed, as bytes by key."""
    reader = spark.read.format("statestore").option("stateVarName", "calibrators")
    pages = reader.load(str(checkpoint)).selectExpr(
        "explode(split(user_map_value.calibrators, ' ')) entry"
    )
    rows = pages.selectExpr(
        "string(unbase64(nullif(split_part(entry, ':', 1), '-'))) key",
        "unbase64(split_part(entry, ':', 2)) calibrator",
    ).collect()
    found = {row.key: bytes(row.calibrator) for row in rows}
    assert len(found) == len(rows), "a key has two calibrators"
    return found
