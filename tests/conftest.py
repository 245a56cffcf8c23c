import gc
import os
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


def pytest_configure(config: pytest.Config) -> None:
    """Let JAX keep what it compiles, for all processes of this run and for the next run.

    Compiling takes most of the time of tests that use JAX. ``--cache-clear`` forgets it.
    """
    if config.pluginmanager.has_plugin("cacheprovider"):
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": str(config.cache.mkdir("jax")),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
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


def pytest_collection_finish() -> None:
    """Exclude what the tests import from garbage collection, with the tests themselves.

    These are most objects of the process, and river's checks collect garbage on purpose.
    """
    gc.collect()
    gc.freeze()
