"""Crash-safe streams: states and the stream's offset in one file, and one calibrator per key."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamcal.durable.engine import run
    from streamcal.durable.errors import StoreError
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.durable.labels import Event, LabelJoin
    from streamcal.durable.store import Store

__all__ = ["Event", "KeyedCalibrator", "LabelJoin", "Store", "StoreError", "run"]

# Each name loads its module when it is first touched.
_HOME = {
    "Event": "streamcal.durable.labels",
    "KeyedCalibrator": "streamcal.durable.keyed",
    "LabelJoin": "streamcal.durable.labels",
    "Store": "streamcal.durable.store",
    "StoreError": "streamcal.durable.errors",
    "run": "streamcal.durable.engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'streamcal.durable' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
