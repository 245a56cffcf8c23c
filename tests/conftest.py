import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# No deadline: the first example of a test may compile, and shared machines stall. In the gates each
# run has the same examples, so that a change is judged by the change; at the desk they vary.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, database=None, max_examples=50
)
settings.register_profile("long", settings.get_profile("ci"), max_examples=100)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)

# What takes long to make, and is made once for all tests of a file that use it.
_MADE_ONCE = {"browser", "folder", "pool", "root", "rows", "spark"}


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share something in one process, if there are many (`--dist loadgroup`).

    These groups come first, since a group that began late would be awaited by the other processes.
    """
    for item in items:
        if _MADE_ONCE & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection_finish() -> None:
    """Exclude what the tests import from garbage collection, with the tests themselves.

    These are most objects of the process, and river's checks collect garbage on purpose.
    """
    gc.collect()
    gc.freeze()
