"""Run the tests as where JAX is not installed: ``pytest -p tests.without_jax``.

Processes that the tests start find it.
"""

from tests.only_extra import hide

hide("jax")
