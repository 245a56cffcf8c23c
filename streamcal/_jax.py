"""JAX, or the error that names the extra which installs it."""

from streamcal._extras import check_jax

check_jax("the derivative of a loss, or a layer of a network,")

# Only now, after the error that helps.
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

__all__ = ["jax", "jnp"]
