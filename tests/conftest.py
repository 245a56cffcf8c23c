import contextlib
import doctest
import gc
import os
import random
from collections import defaultdict
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

# No deadline: the first example of a test may compile, and shared machines stall. In the gates each
# run has the same examples, so that a change is judged by the change; at the desk they vary.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, database=None, max_examples=25
)
settings.register_profile("long", settings.get_profile("ci"), max_examples=100)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)

# Files whose tests share what takes long to make: a browser, Ray, Spark, a study, a folder.
IN_ONE_PROCESS = {"readme", "report", "sharded", "spark", "study", "tables"}


# What `make test-fast` leaves out: a JVM, a browser, Ray, documents, JAX's compiler, processes that
# are killed, tests with thousands of cases. Naming a file runs it.
SLOW = {
    *("anytime", "anytime_calibrator", "bench_compare", "cli", "convex_losses", "convex_stack"),
    *("cusum_layer", "demo", "docs", "examples", "extras", "files", "hostile_states"),
    *(
        "interruptions",
        "jobs",
        "kafka",
        "out_of_memory",
        "pictures",
        "power",
        "processes",
        "readme",
    ),
    *("report", "report_means", "resume", "sharded", "spark", "store", "study", "threads"),
    *("threshold_classifier", "voting"),
}


# What an extra brings, by the names that it is imported under; every other import is a dependency.
OPTIONAL = {
    *("bokeh", "confluent_kafka", "google", "jax", "jinja2", "markupsafe", "matplotlib"),
    *("onnx", "pandas", "pyarrow", "pyspark", "rich", "sklearn", "typer"),
}


# What only tests use; the group `dev` is without these.
OF_TESTS = {
    *("coverage", "dask", "fastapi", "httpx2", "polars", "prometheus_client", "ray", "uvicorn"),
    *("xgboost", "yaml"),
}
MISSING = {name for name in OPTIONAL | OF_TESTS if find_spec(name) is None}


def reason_to_skip(error: BaseException | None) -> str | None:
    """Return which package of an extra is not installed, if that has raised the error."""
    error = getattr(error, "failures", [error])[0]  # of a doctest
    if isinstance(error, doctest.UnexpectedException):
        error = error.exc_info[1]
    while error is not None and MISSING:
        if isinstance(error, ModuleNotFoundError):
            package = str(error.name).partition(".")[0]
            if package in MISSING:
                return f"{package} is not installed"
        elif isinstance(error, ImportError):  # of this package: "… needs JAX: pip install …"
            needed = str(error).partition(" needs ")[2].partition(":")[0]
            if MISSING & set(needed.lower().split(", ")):
                return str(error)
        error = error.__cause__ or error.__context__
    return None


@contextlib.contextmanager
def skipping() -> Iterator[None]:
    """Skip the test if something inside lacks an extra."""
    try:
        yield
    except Exception as error:
        if reason := reason_to_skip(error):
            pytest.skip(reason)
        raise


class WithoutExtras:
    """Skip a test, or a file of tests, that needs a package of an extra that is not installed."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        with skipping():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        with skipping():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        call: pytest.CallInfo[Any] | None = vars(report).get("call")
        if report.failed and call is not None and call.excinfo is not None:
            if reason := reason_to_skip(call.excinfo.value):
                report.outcome = "skipped"
                report.longrepr = (str(collector.path), 0, f"Skipped: {reason}")
        return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out files that take long (SLOW)")
    parser.addoption(
        "--order",
        metavar="SEED",
        help="shuffle the files, and the tests of each, by a number; 'drawn' draws one, and the"
        " summary says which",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out slow files, unless one is named, and what streams of Spark do."""
    named = {Path(str(each).partition("::")[0]).resolve() for each in config.args}
    if not config.option.fast or collection_path in named:
        return None
    slow = collection_path.stem.removeprefix("test_") in SLOW and "tests" in collection_path.parts
    return slow or collection_path.match("streamcal/spark") or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle files, so that each stays together, and the tests inside them."""
    if config.option.order is None:
        return
    rng, files = random.Random(config.option.order), defaultdict(list)
    for item in items:
        files[item.path].append(item)
    for tests in files.values():
        rng.shuffle(tests)
    paths = list(files)
    rng.shuffle(paths)
    items[:] = [item for path in paths for item in files[path]]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.order is not None:
        terminalreporter.write_line(f"the order of the tests: --order={config.option.order}")


def pytest_configure(config: pytest.Config) -> None:
    """Skip what lacks an extra; keep what JAX compiles and matplotlib finds, for the next run too.

    Compiling takes most of the time of tests that use JAX. ``--cache-clear`` forgets it.
    """
    if config.option.order == "drawn":
        drawn = str(random.SystemRandom().getrandbits(32))
        config.option.order = getattr(config, "workerinput", {}).get("order", drawn)
    # The hooks of a plugin are called for doctests of the package, too; those of this file are not.
    config.pluginmanager.register(WithoutExtras())
    if config.pluginmanager.has_plugin("cacheprovider"):
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": str(config.cache.mkdir("jax")),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "MPLCONFIGDIR": str(config.cache.mkdir("matplotlib")),
        }


def scope_of(nodeid: str) -> str:
    """Return what stays in one process with a test: its file, or nothing but itself."""
    path = nodeid.partition("::")[0]
    return path if Path(path).stem.removeprefix("test_") in IN_ONE_PROCESS else nodeid


class Scheduling(LoadScopeScheduling):
    """A process gets a whole file of `IN_ONE_PROCESS`, these first, or a single test.

    A file that began late would be awaited by the other processes. `--dist loadgroup` would need
    marks instead of names, but pytest 9.2 with xdist 3.8 ignores them without a word.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a process of xdist the number that the first process has drawn."""
    node.workerinput["order"] = node.config.option.order


def pytest_collection_finish() -> None:
    """Exclude what the tests import from garbage collection, with the tests themselves.

    These are most objects of the process, and river's checks collect garbage on purpose.
    """
    gc.collect()
    gc.freeze()
