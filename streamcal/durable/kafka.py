"""A partition of Kafka as the source of `run`, and one as its sink: each prediction exactly once.

**Source.** `run` counts events; the offsets of Kafka have gaps, where a topic is compacted or has
transactions. So the store keeps the Kafka offset of the next message beside the number of events,
and saves both with the states. Nothing is committed to a consumer group. A position that the
partition does not have any more is an error: nothing is skipped or read twice silently.

A source reads one partition. After a crash `run` must read the same events in the same order, and
the order of messages of several partitions is not defined. A topic with several partitions has one
process and one store for each of them. Kafka sends messages with equal keys to the same partition,
so each calibrator by key is in one store.

**Sink.** The store and Kafka are two systems, which do not commit together. The sink first commits
its predictions in one transaction of Kafka, and `run` then commits the store:

1. killed before Kafka's commit: neither has the predictions; they are computed and written again.
   The next run has the same ``transactional.id``, which makes Kafka abort what was not committed;
2. killed between the two: Kafka has predictions that the store has not. Each message has the
   number of its event in a header. The next run reads the headers after the position that the
   store has, computes the same predictions again, and does not write those that Kafka has;
3. killed after the store's commit: both have them.

So each prediction is in the topic once, on the conditions in the docstring of `KafkaSink`.

Both need confluent-kafka: ``pip install '.[kafka]'`` in the checkout.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import check_count, check_within
from streamcal.durable._kafka_partition import FIXED_IN_SINK, MOST_PARTITION, SECONDS, Partition
from streamcal.durable.labels import Event

if TYPE_CHECKING:
    from confluent_kafka import Message

_RUN, _EVENT = "streamcal-run", "streamcal-event"  # headers: which run has written, of which event


class KafkaSource:
    """Reads the events of `run` from one partition of Kafka.

    Parameters
    ----------
    config : mapping
        Settings of a consumer of confluent-kafka, at least ``bootstrap.servers``. Those of
        producers are ignored, so a `KafkaSink` may have the same. ``isolation.level`` is
        ``read_committed`` by default. Settings of commits and resets of offsets are refused: the
        store has the position.
    topic : str
        The topic.
    decode : callable
        Gets a ``confluent_kafka.Message`` and returns its `Event`, or None to skip the message.
        It must return the same for the same message each time.
    partition : int, optional
        The partition. None: the only one of the topic; a topic that has more is refused, because
        messages of several have no order that would be the same after a restart.
    start : int, optional
        The Kafka offset where a new store starts; None: the first message of the partition. A store
        that has a position starts there.
    wait : float, optional
        None: the run ends at the end that the partition has when it starts. For a service, the
        seconds to wait for the next event: if none arrives, everything is committed and `run`
        returns, and can be called again with the same objects.
    timeout : float
        The seconds to wait for an answer of the brokers before an error.

    Raises
    ------
    ImportError
        If confluent-kafka is not installed.
    ValueError, TypeError
        If an argument is out of range.

    Notes
    -----
    `run` calls `resume`, `read`, `where`, `commit` and `end`. They raise RuntimeError, which names
    the topic and the partition, if brokers do not answer, if the topic or the partition does not
    exist, or if the partition does not have the position: because of its retention time, or because
    the topic was made again. A topic that was made again and already has more messages is not
    noticed: use a new store for it. `resume` raises ValueError if a topic has several partitions
    and ``partition`` is None.

    What ``decode`` raises is raised, with a note that names topic, partition, offset and key of the
    message. So does the error for an event that can't be learned. Every further run stops there,
    too, until ``decode`` returns None for this message, or an event that can be learned.

    Examples
    --------
    A producer of librdkafka can pretend to be a cluster, for tests:

    >>> import json, pathlib, tempfile
    >>> from confluent_kafka import Producer
    >>> from streamcal import IsotonicCalibrator
    >>> from streamcal.durable import Event, KafkaSource, Store, run
    >>> cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    >>> broker = cluster.list_topics(timeout=10).brokers[1]
    >>> for score, y in [(0.2, 0), (0.9, 1), (0.6, 1)]:
    ...     cluster.produce("scores", json.dumps([score, y]), partition=0)
    >>> cluster.flush(10)
    0
    >>> config = {"bootstrap.servers": f"{broker.host}:{broker.port}", "fetch.wait.max.ms": 10}
    >>> def decode(message):
    ...     return Event(*json.loads(message.value()))
    >>> folder, values = tempfile.TemporaryDirectory(), []
    >>> with (
    ...     Store(pathlib.Path(folder.name, "run.db")) as store,
    ...     KafkaSource(config, "scores", decode, partition=0) as source,
    ... ):
    ...     run(source, IsotonicCalibrator(), lambda at, p: values.extend(p.round(2)), store)
    ...     store.notes["source"]
    3
    {'topic': 'scores', 'partition': 0, 'offset': 3}
    >>> print(*values)  # in batches of as many messages as have come
    0.2 0.33 0.5
    >>> folder.cleanup()
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        decode: Callable[["Message"], Event | tuple[Any, ...] | None],
        *,
        partition: int | None = None,
        start: int | None = None,
        wait: float | None = None,
        timeout: float = 30.0,
    ) -> None:
        _check_callable(decode, "decode")
        check_count(partition, "partition", least=0, most=MOST_PARTITION, optional=True)
        if start is not None:
            check_count(start, "start", least=0)
        check_within(wait, "wait", f"{SECONDS} or None")
        self._partition = Partition(config, topic, partition, timeout)
        self._consumer = self._partition.consumer("read_committed")
        self._decode, self._start, self._wait = decode, start, wait
        # The last batch: the offset of its first event, its messages, the Kafka offset after it.
        self._offset = 0
        self._messages: list[Any] = []
        self._next = -1
        self._end = -1  # the Kafka offset where the partition ended when the run started
        self._stands_at: int | None = None  # the Kafka offset that the consumer gives next

    def resume(self, offset: int, token: dict[str, Any] | None) -> None:
        """Go to the position of the event ``offset``, from a token of `commit`."""
        self._partition.find(self._consumer)
        low, high = self._partition.watermarks(self._consumer)
        if token is not None:
            self._partition.check(token, "source")
            position = token["offset"]
        elif offset:
            raise ValueError(
                f"`source` must be the one that the store was learned from: the store has {offset}"
                f" events and no position in {self._partition}"
            )
        else:
            position = low if self._start is None else self._start
        if not low <= position <= high:
            raise RuntimeError(
                f"{self._partition} has messages from offset {low} to {high}, and the next event is"
                f" to be read at {position}: messages were removed, or the topic was made again"
            )
        self._next, self._end = position, high
        self._offset, self._messages = offset, []

    def commit(self, offset: int) -> dict[str, Any]:
        """Return a token of the position of the event ``offset``."""
        return self._partition.token(offset=self._position(offset))

    def read(self, offset: int, n: int) -> list[Event]:
        """Return at most ``n`` events; none at the end, or when none has come in time."""
        position = self._position(offset)
        if position != self._stands_at:
            self._partition.assign(self._consumer, position)
        self._stands_at = None  # until the batch is complete
        events: list[Event] = []
        messages: list[Any] = []
        deadline = None if self._wait is None else time.monotonic() + self._wait
        while not events and not self._is_at_end(position):
            for message in self._partition.take(self._consumer, n, deadline):
                if self._is_at_end(message.offset()):
                    position = self._end  # further messages are for the next run
                    break
                position = message.offset()
                if message.error() is None:  # it is not the end of the partition
                    position += 1
                    event = self._as_event(message)
                    if event is not None:
                        events.append(event)
                        messages.append(message)
            if deadline is not None and time.monotonic() >= deadline:
                break
        self._offset, self._messages, self._next = offset, messages, position
        self._stands_at = None if self._is_at_end(position) else position
        return events

    def message(self, offset: int) -> "Message":
        """Return the message of an event of the last batch, for example for a sink."""
        at = offset - self._offset
        if not 0 <= at < len(self._messages):
            raise ValueError(f"`offset` must be that of an event of the last batch, got {offset}")
        found: Message = self._messages[at]
        return found

    def where(self, offset: int) -> str:
        """Return the place of an event of the last batch: topic, partition, offset and key."""
        return self._partition.place_of(self.message(offset))

    def end(self) -> int:
        """Return the offset after the last event that there is now, as far as is known.

        Gaps and messages that will be skipped are counted as events: only reading shows them.
        """
        _, high = self._partition.watermarks(self._consumer, cached=True)
        behind = max(high, self._end) - self._next
        return self._offset + len(self._messages) + max(behind, 0)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _position(self, offset: int) -> int:
        """Return where to read an event: one of the last batch, or the next one."""
        at = offset - self._offset
        if at == len(self._messages) and self._next >= 0:
            return self._next
        return int(self.message(offset).offset() or 0)

    def _is_at_end(self, position: int) -> bool:
        return self._wait is None and position >= self._end

    def _as_event(self, message: "Message") -> Event | None:
        try:
            event = self._decode(message)
        except Exception as error:  # of any kind, and not only because of the message
            error.add_note(f"`decode` failed for {self._partition.place_of(message)}")
            raise
        try:
            if isinstance(event, str | Mapping):  # a text of eight characters fits an event
                raise TypeError
            return None if event is None else Event(*event)
        except TypeError:
            raise TypeError(
                f"`decode` must return an Event or None, got {event!r} for"
                f" {self._partition.place_of(message)}"
            ) from None


class KafkaSink:
    """Writes the predictions of `run` to one partition of Kafka, each exactly once.

    Parameters
    ----------
    config : mapping
        Settings of a producer of confluent-kafka: ``bootstrap.servers``, and a
        ``transactional.id`` that no other process has and each restart has again. Those of
        consumers are ignored, so a `KafkaSource` may have the same. The sink sets
        ``isolation.level`` and ``delivery.report.only.error`` itself.
    topic : str
        The topic, which must exist.
    encode : callable
        Gets the offset of an event, as `run` counts, and its prediction; returns the key and the
        value of a message, each str, bytes or None, or None to write nothing. `KafkaSource.message`
        has the message that the event was made of.
    partition : int
        The partition.
    timeout : float
        The seconds to wait for an answer of the brokers before an error.

    Raises
    ------
    ImportError
        If confluent-kafka is not installed.
    ValueError, TypeError
        If an argument is out of range.

    Notes
    -----
    A consumer with ``isolation.level=read_committed`` gets each prediction exactly once and in the
    order of the events, on these conditions:

    * The ``transactional.id`` is the same after a restart, and no other run has it. If a second one
      has, Kafka lets only the one write that started last, and the other one stops with an error.
    * The store is not replaced by an older copy, and no copy of it is run as well.
    * The run is started again within the retention time of the topic. After that, predictions of
      the last commit may be written a second time; in a topic that is compacted, sooner.
    * The source gives the same events again. `KafkaSource` does so if ``decode`` has not changed,
      and if Kafka has not compacted the messages after the position in the store: events have
      numbers, and a message that is gone changes those of all that follow.
    * Both topics are those of before. One of the same name that was made again, or is in another
      cluster, is noticed only if the position in the store is not in it.

    Predictions wait in memory until `run` commits, and are then written in one transaction. A run
    that was killed between the commits of Kafka and of the store finds in Kafka which predictions
    are there, and does not write these again.

    Messages have the headers ``streamcal-event``, the offset of the event, and ``streamcal-run``,
    which is drawn for each new store, so that several runs may write to one partition.

    Errors are RuntimeErrors that name topic and partition. The store is as before; the next `run`
    finds out what Kafka has. For that it may have to wait, up to ``timeout``, for the transactions
    of others that write to the partition.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from confluent_kafka import Producer
    >>> from streamcal import IsotonicCalibrator
    >>> from streamcal.durable import KafkaSink, Store, run
    >>> cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})  # for tests
    >>> broker = cluster.list_topics("calibrated", timeout=10).brokers[1]
    >>> config = {
    ...     "bootstrap.servers": f"{broker.host}:{broker.port}",
    ...     "transactional.id": "calibrator-0",
    ... }
    >>> def encode(offset, value):
    ...     return f"event {offset}", json.dumps(round(value, 2))
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store(pathlib.Path(folder.name, "run.db")) as store:
    ...     sink = KafkaSink(config, "calibrated", encode)
    ...     run([(0.2, 0), (0.9, 1), (0.6, 1)], IsotonicCalibrator(), sink, store)
    3
    >>> folder.cleanup()
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        encode: Callable[[int, float], tuple[str | bytes | None, str | bytes | None] | None],
        *,
        partition: int = 0,
        timeout: float = 30.0,
    ) -> None:
        self._partition = Partition(config, topic, partition, timeout, FIXED_IN_SINK)
        if not config.get("transactional.id"):
            raise ValueError(f"`config` must have a transactional.id, got {sorted(config)}")
        _check_callable(encode, "encode")
        check_count(partition, "partition", least=0, most=MOST_PARTITION)
        self._encode = encode
        self._producer: Any = None
        self._run = ""
        self._position = 0  # a Kafka offset: our later messages are not known to the store
        self._written = 0  # the offset after the last event that was written before `resume`
        self._waiting: list[tuple[Any, Any, int]] = []  # key, value and offset of an event
        self._token: dict[str, Any] | None = None  # of the last commit; None where that failed
        self._failure: BaseException | None = None

    def __call__(self, offset: int, values: NDArray[np.float64]) -> None:
        """Encode predictions, which are written by the next `commit`."""
        for at, value in enumerate(values.tolist(), offset):
            if at >= self._written:
                self._add(at, self._encode(at, value))

    def resume(self, token: dict[str, Any] | None) -> None:
        """Find out what is written since a commit, from its token; end what was not committed."""
        self._waiting = []
        if token is not None and token == self._token:
            return  # nothing was written since the last commit, by this object
        if token is not None:
            self._partition.check(token, "sink")
        self._token = self._failure = self._producer = None
        producer = self._partition.producer()
        with contextlib.closing(self._partition.consumer("read_uncommitted")) as consumer:
            self._partition.find(consumer)
            with self._partition.named_errors():
                # This aborts the transaction of a killed process.
                producer.init_transactions(self._partition.timeout)
            # A transaction of another writer may be open: what is before this end is waited for.
            low, end = self._partition.watermarks(consumer)
        if token is None:
            token = self._partition.token(offset=end, run=uuid.uuid4().hex)
        self._run, self._position = token["run"], token["offset"]
        # A position outside: messages were removed, or the topic was made again.
        is_there = low <= self._position <= end
        self._written = self._find_written(self._position if is_there else low, end)
        self._producer = producer

    def commit(self) -> dict[str, Any]:
        """Write the predictions that wait, in a transaction; return a token of what is written."""
        if self._failure is not None:  # Kafka may have them: only `resume` can find out
            raise self._failure
        self._token = None
        if self._waiting:
            try:
                self._write()
                self._waiting = []  # before an interrupt can make `run` commit them again
            except BaseException as error:
                self._failure = error
                with contextlib.suppress(RuntimeError), self._partition.named_errors():
                    self._producer.abort_transaction(self._partition.timeout)
                raise
        self._token = self._partition.token(offset=self._position, run=self._run)
        return self._token

    def _add(self, at: int, encoded: Any) -> None:
        """Let the message of an event wait for `commit`, if there is one."""
        if encoded is None:
            return
        if not (
            isinstance(encoded, tuple)
            and len(encoded) == 2
            and all(part is None or isinstance(part, str | bytes) for part in encoded)
        ):
            raise TypeError(
                "`encode` must return a key and a value, each str, bytes or None, or None, got"
                f" {encoded!r} for the event {at}"
            )
        self._waiting.append((*encoded, at))

    def _write(self) -> None:
        """Write the messages that wait, in a transaction."""
        positions: list[int] = []
        refused: list[str] = []

        def note(at: int, error: Any, message: Any) -> None:
            if error is None:
                positions.append(message.offset())
            else:
                refused.append(f"event {at}: {error.str()}")

        with self._partition.named_errors(refused):
            self._producer.begin_transaction()
            for key, value, at in self._waiting:
                headers = [(_RUN, self._run.encode()), (_EVENT, b"%d" % at)]
                try:
                    self._produce(
                        key=key, value=value, headers=headers, on_delivery=partial(note, at)
                    )
                except Exception:
                    refused.append(f"event {at}")
                    raise
            self._flush()
            self._producer.commit_transaction(self._partition.timeout)
        self._position = max(positions) + 1

    def _produce(self, **message: Any) -> None:
        try:
            self._partition.produce(self._producer, **message)
        except BufferError:  # the producer's queue is full
            self._flush()
            self._partition.produce(self._producer, **message)

    def _flush(self) -> None:
        n_left = self._producer.flush(self._partition.timeout)
        if n_left:
            raise RuntimeError(f"{self._partition}: {n_left} messages were not written in time")

    def _find_written(self, position: int, end: int) -> int:
        """Return the offset after the last event that is in the partition from a position on."""
        written = 0
        if position >= end:
            return written
        with contextlib.closing(self._partition.consumer("read_committed")) as consumer:
            self._partition.assign(consumer, position)
            while position < end:
                for message in self._partition.take(consumer, 1_000):
                    position = message.offset() + (message.error() is None)
                    headers = dict(message.headers() or ())
                    if headers.get(_RUN) == self._run.encode():
                        written = max(written, int(headers[_EVENT]) + 1)
        return written


def _check_callable(value: Any, name: str) -> None:
    if not callable(value):
        raise TypeError(f"`{name}` must be callable, got {value!r}")
