"""Isotonic regression for batches and streams; calibrators are built on it.

Each name loads its module when it is first used: `isotonic_fit` needs neither river nor JAX.
"""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
