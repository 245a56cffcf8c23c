"""Isotonic regression: what calibrators and other parts rest on, for batches and for streams.

Each name loads its module when it is first used: `isotonic_fit` needs neither river nor JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
