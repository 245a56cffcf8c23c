"""A partition of Kafka and its clients, for the source and the sink of `streamcal.durable.kafka`.

It has the settings that both need or refuse, and errors that name the partition.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from streamcal._extras import missing
from streamcal._validation import check_within

# The positions in the store depend on these settings of consumers, and the old name for settings of
# topics would replace them.
_OWN = {"auto.offset.reset": "error", "enable.auto.commit": False, "enable.partition.eof": True}
_FIXED = {*_OWN, "default.topic.config"}
# The sink reads with both isolation levels, and is told where its messages are.
FIXED_IN_SINK = _FIXED | {"isolation.level", "delivery.report.only.error"}
# Settings that librdkafka ignores in the clients of the other kind, with a warning for each.
OF_CONSUMERS = {
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "consume.callback.max.messages",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "on_commit",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
    "share.acknowledgement.mode",
}
OF_PRODUCERS = {
    "acks",
    "batch.num.messages",
    "batch.size",
    "compression.codec",
    "compression.level",
    "compression.type",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "linger.ms",
    "message.send.max.retries",
    "message.timeout.ms",
    "on_delivery",
    "partitioner",
    "produce.offset.report",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queuing.strategy",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.linger.ms",
    "transaction.timeout.ms",
    "transactional.id",
}
MOST_PARTITION = 2**31 - 1  # an int32 in the protocol
SECONDS = "(0, 2000000]"  # librdkafka has milliseconds in an int
_MOST_MESSAGES = 10_000  # that are taken at a time; `consume` makes an array of this length first
_SERVERS = "metadata.broker.list"  # another name for bootstrap.servers
_MOST_OF_KEY = 100  # characters of a message's key that an error shows


class Partition:
    """A partition, and its clients."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        partition: int | None,
        timeout: float,
        fixed: Set[str] = _FIXED,
    ) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise missing("streamcal.durable.kafka", "confluent-kafka", "kafka") from error
        if not isinstance(config, Mapping):
            raise TypeError(f"`config` must be a mapping, got {config!r}")
        for name in sorted(fixed & config.keys()):
            raise ValueError(f"`config` must not have {name}, got {config[name]!r}")
        if not config.get("group.id", True):  # confluent-kafka would end the process
            raise ValueError(f"`config` must have no empty group.id, got {config['group.id']!r}")
        if not isinstance(topic, str):
            raise TypeError(f"`topic` must be a str, got {topic!r}")
        check_within(timeout, "timeout", SECONDS)
        self._kafka: Any = confluent_kafka
        self._config, self._topic, self.timeout = dict(config), topic, timeout
        self._is_only = partition is None
        self._partition = 0 if partition is None else int(partition)

    def __str__(self) -> str:
        return f"{self._topic}[{self._partition}]"

    def token(self, **fields: Any) -> dict[str, Any]:
        """Return a token of this partition."""
        return {"topic": self._topic, "partition": self._partition, **fields}

    def check(self, token: Any, name: str) -> None:
        """Raise unless a token is of this partition."""
        if not isinstance(token, dict) or not self.token().items() <= token.items():
            raise ValueError(f"`{name}` must be that of the store, {token}, got {self}")

    def consumer(self, isolation: str) -> Any:
        """Return a consumer, with an isolation level by default."""
        own = self._settings_without(OF_PRODUCERS)
        defaults = {"group.id": "streamcal", "isolation.level": isolation}
        return self._client(self._kafka.Consumer, {**defaults, **own, **_OWN})

    def producer(self) -> Any:
        """Return a producer."""
        return self._client(self._kafka.Producer, self._settings_without(OF_CONSUMERS))

    def _settings_without(self, others: Set[str]) -> dict[str, Any]:
        """Return the settings but for those of clients of the other kind."""
        return {key: value for key, value in self._config.items() if key not in others}

    def _client(self, make: Any, settings: dict[str, Any]) -> Any:
        try:
            return make(settings)
        except self._kafka.KafkaException as error:
            raise ValueError(f"`config` must be settings of Kafka: {_text(error)}") from error

    @contextlib.contextmanager
    def named_errors(self, about: Sequence[str] = ()) -> Iterator[None]:
        """Raise errors of Kafka as RuntimeErrors with the partition, and the first of ``about``."""
        try:
            yield
        except (self._kafka.KafkaException, SystemError) as error:
            cause: BaseException | None = error
            # While confluent-kafka raises a fatal error, it calls the callbacks of deliveries:
            # Python then raises SystemErrors from it.
            while isinstance(cause, SystemError):
                cause = cause.__cause__
            if not isinstance(cause, self._kafka.KafkaException):
                raise
            first = f" ({about[0]})" if about else ""
            raise RuntimeError(f"{self}: {_text(cause)}{first}") from error

    def find(self, consumer: Any) -> None:
        """Raise unless brokers answer and the topic has the partition, and no other if None."""
        try:
            topics = consumer.list_topics(self._topic, timeout=self.timeout).topics
        except self._kafka.KafkaException as error:
            servers = self._config.get("bootstrap.servers", self._config.get(_SERVERS))
            raise RuntimeError(f"{self}: no answer from {servers}: {_text(error)}") from error
        found = topics[self._topic]
        if found.error is not None:
            raise RuntimeError(f"{self}: {found.error.str()}")
        n_partitions = len(found.partitions)
        if self._is_only and n_partitions > 1:
            raise ValueError(
                f"`partition` must be an int from 0 to {n_partitions - 1}, since the topic"
                f" {self._topic} has {n_partitions} partitions, got None"
            )
        if self._partition not in found.partitions:
            raise RuntimeError(f"{self}: unknown partition, the topic has {n_partitions}")

    def place_of(self, message: Any) -> str:
        """Return the topic, partition, offset and key of a message in words."""
        key = repr(message.key())
        if len(key) > _MOST_OF_KEY:
            key = f"{key[:_MOST_OF_KEY]}…"
        offset = message.offset()
        return f"topic {self._topic}, partition {self._partition}, offset {offset}, key {key}"

    def watermarks(self, consumer: Any, cached: bool = False) -> tuple[int, int]:
        """Return the Kafka offsets of the first message and after the last one."""
        place = self._kafka.TopicPartition(self._topic, self._partition)
        with self.named_errors():
            found = consumer.get_watermark_offsets(place, timeout=self.timeout, cached=cached)
        if found is None:
            raise RuntimeError(f"{self}: no answer in {self.timeout} s")
        low, high = found
        return low, high

    def assign(self, consumer: Any, position: int) -> None:
        """Let a consumer continue at a Kafka offset."""
        with self.named_errors():
            consumer.assign([self._kafka.TopicPartition(self._topic, self._partition, position)])

    def take(self, consumer: Any, n: int, deadline: float | None = None) -> list[Any]:
        """Return from one to ``n`` messages, of which some may be marks of the partition's end.

        If none has come by a deadline there are none; without a deadline that is an error.
        """
        seconds = self.timeout if deadline is None else max(0.0, deadline - time.monotonic())
        with self.named_errors():
            messages: list[Any] = consumer.consume(1, seconds)
            if messages and n > 1:
                messages += consumer.consume(min(n - 1, _MOST_MESSAGES), 0)
        if not messages and deadline is None:
            raise RuntimeError(f"{self}: no message in {seconds} s")
        for message in messages:
            error = message.error()
            if error is not None and error.code() != self._kafka.KafkaError._PARTITION_EOF:
                raise RuntimeError(f"{self} at offset {message.offset()}: {error.str()}")
        return messages

    def produce(self, producer: Any, **message: Any) -> None:
        """Give a producer a message."""
        producer.produce(self._topic, partition=self._partition, **message)


def _text(error: BaseException) -> str:
    """Return what an exception of Kafka is about."""
    text: str = error.args[0].str()
    return text
