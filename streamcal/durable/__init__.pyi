# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.durable.engine import Source as Source
from streamcal.durable.engine import run as run
from streamcal.durable.errors import StoreError as StoreError
from streamcal.durable.kafka import KafkaSink as KafkaSink
from streamcal.durable.kafka import KafkaSource as KafkaSource
from streamcal.durable.keyed import KeyedCalibrator as KeyedCalibrator
from streamcal.durable.labels import Event as Event
from streamcal.durable.labels import LabelJoin as LabelJoin
from streamcal.durable.owners import copy_keys as copy_keys
from streamcal.durable.owners import owner as owner
from streamcal.durable.store import Store as Store

__all__: list[str]
