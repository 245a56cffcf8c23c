"""Crash-safe streams: states and the stream's offset in one file, and one calibrator per key."""

from typing import TYPE_CHECKING

from streamcal._lazy import attach

if TYPE_CHECKING:
    from streamcal.durable.engine import Source, run
    from streamcal.durable.errors import StoreError
    from streamcal.durable.kafka import KafkaSink, KafkaSource
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.durable.keys import key_of, name_of
    from streamcal.durable.labels import Event, LabelJoin
    from streamcal.durable.owners import copy_keys, owner
    from streamcal.durable.store import Saved, Store

__all__ = [
    "Event",
    "KafkaSink",
    "KafkaSource",
    "KeyedCalibrator",
    "LabelJoin",
    "Saved",
    "Source",
    "Store",
    "StoreError",
    "copy_keys",
    "key_of",
    "name_of",
    "owner",
    "run",
]

_HOME = {
    "Event": "labels",
    "KafkaSink": "kafka",
    "KafkaSource": "kafka",
    "KeyedCalibrator": "keyed",
    "LabelJoin": "labels",
    "Saved": "store",
    "Source": "engine",
    "Store": "store",
    "StoreError": "errors",
    "copy_keys": "owners",
    "key_of": "keys",
    "name_of": "keys",
    "owner": "owners",
    "run": "engine",
}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
