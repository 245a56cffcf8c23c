"""Isotonic regression for batches and streams; calibrators are built on it.

Each name loads its module when it is first used: `isotonic_fit` needs neither river nor JAX.
"""

from typing import TYPE_CHECKING

from streamcal._lazy import attach

if TYPE_CHECKING:
    from streamcal.isotonic.anytime.fit import anytime_isotonic, anytime_isotonic_refinements
    from streamcal.isotonic.anytime.staircase import AnytimeStaircase
    from streamcal.isotonic.sharded import isotonic_fit_sharded
    from streamcal.isotonic.stack import PAVStack
    from streamcal.isotonic.staircase import Staircase, isotonic_fit

__all__ = [
    "AnytimeStaircase",
    "PAVStack",
    "Staircase",
    "anytime_isotonic",
    "anytime_isotonic_refinements",
    "isotonic_fit",
    "isotonic_fit_sharded",
]

_HOME = {
    "AnytimeStaircase": "anytime.staircase",
    "PAVStack": "stack",
    "Staircase": "staircase",
    "anytime_isotonic": "anytime.fit",
    "anytime_isotonic_refinements": "anytime.fit",
    "isotonic_fit": "staircase",
    "isotonic_fit_sharded": "sharded",
}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
