"""Crash-safe streams: states and the stream's offset in one file, one calibrator per key.

Each name loads its module when it is first touched.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamcal.durable.engine import Event, LabelJoin, run
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.durable.store import Store, StoreError

__all__ = ["Event", "KeyedCalibrator", "LabelJoin", "Store", "StoreError", "run"]

_HOME = {
    "Event": "streamcal.durable.engine",
    "KeyedCalibrator": "streamcal.durable.keyed",
    "LabelJoin": "streamcal.durable.engine",
    "Store": "streamcal.durable.store",
    "StoreError": "streamcal.durable.store",
    "run": "streamcal.durable.engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'streamcal.durable' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
