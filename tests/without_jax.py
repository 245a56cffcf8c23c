"""Run the tests as where JAX is not installed: ``pytest -p tests.without_jax``.

Processes that the tests start find it.
"""

from tests.only_extra import hide


def pytest_load_initial_conftests() -> None:
    """Hide it before anything of the tests is imported; importing this module hides nothing."""
    hide("jax")
