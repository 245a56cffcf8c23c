"""Kafka as source and sink of a run, against the cluster that librdkafka has for tests."""

import contextlib
import ctypes
import functools
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import confluent_kafka
import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamcal import IsotonicCalibrator
from streamcal.durable import Event, KafkaSink, KafkaSource, Store, StoreError, run
from streamcal.durable._kafka_partition import OF_CONSUMERS, OF_PRODUCERS
from streamcal.durable.pace import Pace
from streamcal.durable.timeline import TIMELINE
from tests import WITHOUT_BYTE_CODE

RNG = np.random.default_rng(5)
ROWS = [(s, int(y)) for s, y in zip(RNG.random(12).round(2), RNG.integers(0, 2, 12), strict=True)]
NUMBERS = itertools.count()
Config = dict[str, Any]


@pytest.fixture(scope="module")
def config() -> Iterator[Config]:
    """The settings of clients of a cluster of one broker."""
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    yield {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}
    assert cluster.flush(0) == 0


def librdkafka() -> ctypes.CDLL:
    """The library itself, for what its Python module does not have."""
    return ctypes.CDLL(confluent_kafka.cimpl.__file__)


@pytest.fixture
def small_cluster() -> Iterator[tuple[Config, Callable[[str, int], None]]]:
    """The settings of clients of a cluster, and what makes a topic of n partitions in it.

    The clusters that settings make give four partitions to each topic.
    """
    library, n_bytes = librdkafka(), 512
    for name in ("conf_new", "new", "mock_cluster_new", "mock_cluster_bootstraps"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    error = ctypes.create_string_buffer(n_bytes)
    client = ctypes.c_void_p(library.rd_kafka_new(0, settings, error, n_bytes))
    assert client.value, error.value
    library.rd_kafka_set_log_level(client, 0)
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 1))
    servers = ctypes.string_at(library.rd_kafka_mock_cluster_bootstraps(cluster)).decode()

    def make_topic(name: str, n_partitions: int) -> None:
        assert not library.rd_kafka_mock_topic_create(cluster, name.encode(), n_partitions, 1)

    yield {"bootstrap.servers": servers, "log_level": 0}, make_topic
    library.rd_kafka_mock_cluster_destroy(cluster)
    library.rd_kafka_destroy(client)


@functools.cache
def writer(servers: str, transactional: bool = False) -> Producer:
    """A producer that the tests share, since it takes its time to begin with transactions."""
    producer = Producer(
        {"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0}
        | ({"transactional.id": "tests"} if transactional else {})
    )
    if transactional:
        producer.init_transactions(10)
    return producer


def write(config: Config, topic: str, *values: str | bytes) -> None:
    producer = writer(config["bootstrap.servers"])
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(10) == 0


@pytest.fixture(autouse=True)
def commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit after each batch, however long commits take."""
    monkeypatch.setattr(Pace, "is_due", lambda pace: True)


def new_topic(config: Config, rows: Any = (), per_transaction: int = 4) -> str:
    """A topic with rows; between transactions its offsets have gaps, as in a compacted topic."""
    topic = f"topic-{next(NUMBERS)}"
    producer = writer(config["bootstrap.servers"], transactional=True)
    producer.list_topics(topic, timeout=10)  # makes it
    for at in range(0, len(rows), per_transaction):
        producer.begin_transaction()
        for number, row in enumerate(rows[at : at + per_transaction], at):
            producer.produce(topic, json.dumps(row), key=f"k{number}", partition=0)
        producer.commit_transaction(10)
    return topic


def decode(message: Message) -> Event:
    return Event(*json.loads(message.value()))


def source_of(config: Config, topic: str, decode: Any = decode, **options: Any) -> KafkaSource:
    # A broker waits for more messages before it answers that there are none.
    settings = {**config, "fetch.wait.max.ms": 5}
    return KafkaSource(settings, topic, decode, **{"partition": 0, "timeout": 10.0, **options})


def sink_of(config: Config, topic: str, encode: Any, **options: Any) -> KafkaSink:
    settings = {**config, "transactional.id": f"to {topic}", "linger.ms": 0, **options}
    return KafkaSink(settings, topic, encode, timeout=10.0)


def messages_of(config: Config, topic: str) -> list[Any]:
    """What a consumer of committed messages gets."""
    settings = {"group.id": "test", "isolation.level": "read_committed"}
    settings |= {"enable.partition.eof": True, "fetch.wait.max.ms": 5}
    found: list[Any] = []
    message: Any
    with contextlib.closing(Consumer(config | settings)) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.assign([TopicPartition(topic, 0, 0)])
        position = 0
        while position < end:
            (message,) = consumer.consume(1, 10)
            position = message.offset()
            if message.error() is None:
                position += 1
                found.append(message)
    return found


def texts_of(config: Config, topic: str) -> list[tuple[str, float]]:
    return [
        (message.key().decode(), json.loads(message.value()))
        for message in messages_of(config, topic)
    ]


def numbered(offset: int, value: float) -> tuple[str, str]:
    return f"k{offset}", json.dumps(value)


def wanted(path: Path, rows: Any = ROWS) -> list[tuple[str, float]]:
    """The predictions of a run without Kafka."""
    values: list[float] = []
    with Store(path / f"wanted-{next(NUMBERS)}.db") as store:
        run(rows, IsotonicCalibrator(), lambda at, p: values.extend(p.tolist()), store)
    return [(f"k{at}", value) for at, value in enumerate(values)]


def states_of_keys(store: Store) -> dict[str, bytes]:
    names = store.keys()
    return {name: store.get_bytes(name) for name in names if name.startswith("key:")}


def serve(store: Store, source: Any, sink: Any = lambda at, p: None, **options: Any) -> int:
    return run(source, IsotonicCalibrator(), sink, store, **options)


# The source ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_a_source_continues_where_the_store_is(config: Config, tmp_path: Path, batch: int) -> None:
    topic = new_topic(config, ROWS[:5], per_transaction=2)
    got: list[Any] = []

    def keep(message: Message) -> Event:
        got.append((message.key(), json.loads(message.value())))
        return decode(message)

    values: list[float] = []
    with Store(tmp_path / "run.db") as store:
        with source_of(config, topic, keep) as source:
            options = {"batch_size": batch, "stop": lambda: len(values) >= 3}
            sink: Callable[..., Any] = lambda at, p: values.extend(p.tolist())  # noqa: E731
            stopped = serve(store, source, sink, **options)
            assert 3 <= stopped == store.offset
            # Two messages, the end of a transaction, two messages, another end, a message, an end.
            assert store.notes["source"]["offset"] in {3: (4,), 4: (5,), 5: (7, 8)}[stopped]
        with source_of(config, topic, keep) as source:
            assert serve(store, source, sink, batch_size=batch) == 5
            assert serve(store, source, sink, batch_size=batch) == 5
            assert source.end() == 5
    assert got == [(f"k{at}".encode(), list(row)) for at, row in enumerate(ROWS[:5])]
    assert [value for _, value in wanted(tmp_path, ROWS[:5])] == values


def test_messages_that_are_no_events_are_skipped(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, [None, *ROWS[:2], None, None, ROWS[2], None])
    source = source_of(
        config, topic, lambda message: decode(message) if message.value() != b"null" else None
    )
    names: list[bytes] = []

    def sink(at: int, values: Any) -> None:
        names.extend(source.message(at + n).key() for n in range(len(values)))

    with Store(tmp_path / "run.db") as store, source:
        assert serve(store, source, sink, batch_size=2) == 3
    assert names == [b"k1", b"k2", b"k5"]
    with pytest.raises(ValueError, match="`offset` must be that of an event of the last batch"):
        source.message(99)


def test_a_service_waits_and_returns_when_nothing_comes(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, ROWS[:3])
    decoded: list[bytes] = []

    def keep(message: Message) -> Event | None:
        decoded.append(message.value())
        return None if message.value() == b"null" else decode(message)

    with Store(tmp_path / "run.db") as store, source_of(config, topic, keep, wait=0.1) as source:
        # A run may return before the broker has answered.
        assert any(serve(store, source) == 3 for _ in range(100))
        for row, offset in ((None, 3), (None, 3), (ROWS[3], 4), (ROWS[4], 5)):
            write(config, topic, json.dumps(row))
            assert any(serve(store, source) == offset for _ in range(100))
    assert decoded == [json.dumps(row).encode() for row in (*ROWS[:3], None, None, *ROWS[3:5])]


@pytest.mark.parametrize("wait", [None, 0.1])
def test_skipped_messages_may_be_removed(
    config: Config, tmp_path: Path, wait: float | None
) -> None:
    """The store's position is after them, though there was no event."""
    topic, large = new_topic(config, ROWS[:2]), [b"x" * 900_000] * 4

    def skip(message: Message) -> Event | None:
        return decode(message) if message.value()[:1] == b"[" else None

    with Store(tmp_path / "run.db") as store:
        with source_of(config, topic, skip, wait=wait) as source:
            assert any(serve(store, source) == 2 for _ in range(100))
            write(config, topic, *large)
            # Two events, the end of their transaction, and the large messages.
            assert any(
                serve(store, source) == 2 and store.notes["source"]["offset"] == 7
                for _ in range(100)
            )
        write(config, topic, *large, json.dumps(ROWS[2]))  # the cluster keeps 5 MB
        with source_of(config, topic, skip) as source:
            assert serve(store, source) == 3


def test_a_batch_ends_at_the_end_that_it_found(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, ROWS[:4], per_transaction=2)

    def sink(at: int, values: Any) -> None:
        write(config, topic, json.dumps(ROWS[at]))

    with Store(tmp_path / "run.db") as store, source_of(config, topic) as source:
        assert serve(store, source, sink, batch_size=1) == 4
        assert serve(store, source) == 8


def test_lag(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, ROWS, per_transaction=len(ROWS))
    ends: list[int] = []
    with Store(tmp_path / "run.db") as store, source_of(config, topic) as source:
        serve(store, source, lambda at, p: ends.append(source.end()), batch_size=5)
        assert ends[0] == len(ROWS) + 1  # the end of the transaction has an offset, too
        assert source.end() == len(ROWS)


def test_a_new_store_starts_where_it_is_told(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, ROWS, per_transaction=len(ROWS))
    with Store(tmp_path / "run.db") as store:
        with source_of(config, topic, start=9) as source:
            assert serve(store, source, stop=lambda: True) == 0
            assert store.notes["source"]["offset"] == 9
        with source_of(config, topic, start=0) as source:
            assert serve(store, source) == 3


def test_a_message_that_can_not_be_decoded_is_named(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, [*ROWS[:4], "no event", *ROWS[4:]], per_transaction=3)
    place = f"topic {topic}, partition 0, offset 5, key b'k4'"

    def as_list(message: Message) -> Any:
        return json.loads(message.value())

    with Store(tmp_path / "run.db") as store, source_of(config, topic, as_list) as source:
        for _ in range(2):
            with pytest.raises(TypeError) as error:
                serve(store, source, batch_size=1)
            wanted = f"`decode` must return an Event or None, got 'no event' for {place}"
            assert str(error.value) == wanted
            assert (store.offset, store.notes["source"]["offset"]) == (4, 5)
        source._decode = lambda m: None if m.value() == b'"no event"' else decode(m)
        assert serve(store, source, batch_size=3) == len(ROWS)


@pytest.mark.parametrize("kind", [KeyError, TimeoutError, ArithmeticError])
def test_what_decode_raises_is_raised_with_the_message(
    config: Config, tmp_path: Path, kind: type[Exception]
) -> None:
    """An error that has nothing to do with the message stays what it is."""
    topic = new_topic(config, ROWS[:3])

    def fail(message: Message) -> Event:
        if message.offset() == 1:
            raise kind("reason")
        return decode(message)

    with Store(tmp_path / "run.db") as store, source_of(config, topic, fail) as source:
        with pytest.raises(kind) as error:
            serve(store, source)
        place = f"topic {topic}, partition 0, offset 1, key b'k1'"
        assert (type(error.value), error.value.args) == (kind, ("reason",))
        assert error.value.__notes__ == [f"`decode` failed for {place}"]


def test_a_bad_event_is_read_again(config: Config, tmp_path: Path) -> None:
    """The source had read it when the run ended; the store's position is before it."""
    topic = new_topic(config, [*ROWS[:4], [0.5, 7.0], *ROWS[4:]], per_transaction=3)
    with Store(tmp_path / "run.db") as store, source_of(config, topic) as source:
        with pytest.raises(ValueError, match="`y` must"):
            serve(store, source, batch_size=1)
        assert (store.offset, store.notes["source"]["offset"]) == (4, 5)
        source._decode = lambda m: Event(0.5, 1.0)
        assert serve(store, source) == len(ROWS) + 1


def test_where_an_event_of_the_last_batch_is(config: Config) -> None:
    """Offsets of events and of messages differ, by transactions and by messages skipped."""
    topic = new_topic(config, [None, *ROWS[:3], None, ROWS[3]], per_transaction=2)
    write(config, topic, json.dumps(ROWS[4]))

    def skip(message: Message) -> Event | None:
        return None if message.value() == b"null" else decode(message)

    places: list[str] = []
    with source_of(config, topic, skip) as source:
        source.resume(0, None)
        while events := source.read(len(places), 3):
            places += [source.where(len(places) + at) for at in range(len(events))]
        with pytest.raises(ValueError, match="`offset` must be that of an event of the last batch"):
            source.where(0)
    at = f"topic {topic}, partition 0, offset"
    assert places == [
        f"{at} {offset}, key {key!r}"
        for offset, key in ((1, b"k1"), (3, b"k2"), (4, b"k3"), (7, b"k5"), (9, None))
    ]


def test_a_bad_event_is_skipped_by_its_offset(config: Config, tmp_path: Path) -> None:
    """What docs/durable.md advises; the sink has the predictions of the others, each once."""
    rows = [*ROWS[:4], [0.5, 7.0], *ROWS[4:]]
    topic, out = new_topic(config, rows, per_transaction=3), new_topic(config)
    bad: set[int | None] = set()

    def skip(message: Message) -> Event | None:
        return None if message.offset() in bad else decode(message)

    for _ in range(2):
        with Store(tmp_path / "run.db") as store, source_of(config, topic, skip) as source:
            if not bad:
                with pytest.raises(ValueError, match="`y` must"):
                    serve(store, source, sink_of(config, out, numbered), batch_size=3)
                bad.add(source.message(4).offset())
            else:
                sink = sink_of(config, out, numbered)
                assert serve(store, source, sink, batch_size=3) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)


def test_a_long_key_is_shortened(config: Config) -> None:
    topic = new_topic(config)
    writer(config["bootstrap.servers"]).produce(topic, "[0.5, 1]", key="k" * 1_000, partition=0)
    assert writer(config["bootstrap.servers"]).flush(10) == 0
    with source_of(config, topic) as source:
        source.resume(0, None)
        source.read(0, 1)
        assert source.where(0).endswith("kkk…")
        assert len(source.where(0)) < 200


def test_a_position_that_is_gone_is_an_error(config: Config, tmp_path: Path) -> None:
    topic, short = new_topic(config, ROWS[:2]), new_topic(config, ROWS[:1])
    with Store(tmp_path / "run.db") as store:
        with source_of(config, topic) as source:
            assert serve(store, source) == 2
        write(config, topic, *[b"x" * 900_000] * 7)  # the cluster keeps 5 MB
        before = store.notes
        with source_of(config, topic) as source, pytest.raises(RuntimeError) as error:
            serve(store, source)
        assert f"{topic}[0] has messages from offset 5 to 10" in str(error.value)
        assert "the next event is to be read at 3" in str(error.value)
        store.save({}, notes={"source": {"topic": short, "partition": 0, "offset": 99}})
        with (
            source_of(config, short) as source,
            pytest.raises(RuntimeError, match=r"from offset 0 to 2, and .* at 99: messages were"),
        ):
            serve(store, source)
        store.save({}, notes=before)
        assert store.offset == 2


def test_messages_that_vanish_during_a_run_are_an_error(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, ROWS[:4])
    with source_of(config, topic, wait=10.0) as source:
        source.resume(0, None)
        source._next = 99  # as if a broker had lost messages
        with pytest.raises(RuntimeError, match=rf"{topic}\[0\] at offset 99: .*out of range"):
            source.read(0, 5)


def test_a_store_has_one_source(config: Config, tmp_path: Path) -> None:
    topic, other = new_topic(config, ROWS), new_topic(config, ROWS)
    with Store(tmp_path / "list.db") as store, source_of(config, topic) as source:
        serve(store, ROWS[:3])
        with pytest.raises(ValueError, match=r"the store has 3 events and no position in topic"):
            serve(store, source)
        assert store.notes == {}
    with Store(tmp_path / "kafka.db") as store, source_of(config, topic) as source:
        assert serve(store, source) == len(ROWS)
        with (
            source_of(config, other) as wrong,
            pytest.raises(ValueError, match=rf"`source` must be that of .*got {other}\[0\]"),
        ):
            serve(store, wrong)
        with pytest.raises(ValueError, match="`source` must have `resume`"):
            serve(store, [*ROWS, (0.5, 1)])
        assert store.offset == len(ROWS)


def test_a_topic_or_a_partition_that_does_not_exist_is_named(
    config: Config, tmp_path: Path
) -> None:
    topic = new_topic(config)
    for name, partition, text in (
        ("nothing", 0, "Unknown topic"),
        ("nothing", None, "Unknown topic"),
        (topic, 77, "unknown partition, the topic has 4"),
    ):
        with (
            Store(tmp_path / "run.db") as store,
            source_of(config, name, partition=partition) as source,
            pytest.raises(RuntimeError, match=rf"{name}\[{partition or 0}\]: .*{text}"),
        ):
            serve(store, source)
        assert store.notes == {}


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_that_do_not_answer_are_named(tmp_path: Path, name: str) -> None:
    """Not taken for a partition that does not exist."""
    alone = {name: "127.0.0.1:9", "log_level": 0}
    source = KafkaSource(alone, "scores", decode, timeout=0.05)
    sink = KafkaSink({**alone, "transactional.id": "x"}, "out", numbered, timeout=0.05)
    with Store(tmp_path / "run.db") as store, source:
        for arguments, topic in (((source,), "scores"), ((ROWS, sink), "out")):
            with pytest.raises(RuntimeError) as error:
                serve(store, *arguments)
            assert str(error.value).startswith(f"{topic}[0]: no answer from 127.0.0.1:9: ")
            assert "artition" not in str(error.value)
        assert store.notes == {}


def test_a_topic_of_several_partitions_needs_a_number(config: Config, tmp_path: Path) -> None:
    topic = new_topic(config, ROWS)
    with (
        Store(tmp_path / "run.db") as store,
        source_of(config, topic, partition=None) as source,
        pytest.raises(ValueError, match=rf"`partition` must be .* 0 to 3, .* {topic} has 4 part"),
    ):
        serve(store, source)
    with Store(tmp_path / "run.db") as store, source_of(config, topic, partition=0) as source:
        assert store.notes == {}
        assert serve(store, source) == len(ROWS)


def test_the_only_partition_needs_no_number(
    small_cluster: tuple[Config, Callable[[str, int], None]], tmp_path: Path
) -> None:
    config, make_topic = small_cluster
    make_topic("one", 1)
    write(config, "one", *map(json.dumps, ROWS))
    with Store(tmp_path / "run.db") as store:
        for partition in (None, 0):  # both are the same position
            with source_of(config, "one", partition=partition) as source:
                assert serve(store, source) == len(ROWS)
        assert store.notes["source"] == {"topic": "one", "partition": 0, "offset": len(ROWS)}


# Settings that make sense to a client of one kind only, in a dict for both.
SHARED = {
    "group.id": "g",
    "fetch.wait.max.ms": 5,
    "max.partition.fetch.bytes": 100_000,
    "session.timeout.ms": 10_000,
    "on_commit": print,
    "transactional.id": "shared",
    "acks": "all",
    "linger.ms": 0,
    "compression.type": "gzip",
    "enable.idempotence": True,
    "queue.buffering.max.ms": 0,
    "on_delivery": print,
}


def test_source_and_sink_share_their_settings(
    config: Config, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without warnings of librdkafka that clients of the other kind need them."""
    topic, out = new_topic(config, ROWS), new_topic(config)
    shared = {"bootstrap.servers": config["bootstrap.servers"], **SHARED}
    capfd.readouterr()
    Consumer({**config, "group.id": "x", "linger.ms": 5, "log_level": 6}).close()
    assert "is a producer property" in capfd.readouterr().err  # a warning would be seen
    source = KafkaSource(shared, topic, decode, partition=0, timeout=10.0)
    with Store(tmp_path / "run.db") as store, source:
        assert serve(store, source, KafkaSink(shared, out, numbered, timeout=10.0)) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)
    assert "".join(capfd.readouterr()) == ""


def test_settings_of_one_kind_are_those_that_librdkafka_lists(tmp_path: Path) -> None:
    path = tmp_path / "properties"
    libc, libc.fopen.restype = ctypes.CDLL(None), ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(bytes(path), b"w"))
    librdkafka().rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    text = path.read_text()
    for kind, ours in (("C", OF_CONSUMERS), ("P", OF_PRODUCERS)):
        found = re.findall(rf"^(\S+) +\| +{kind} +\|", text, re.MULTILINE)
        of_clients = {name for name in found if not name.endswith(("_cb", "_cmp"))}
        assert ours - {"on_commit", "on_delivery"} == of_clients


def test_partitions_are_added(
    small_cluster: tuple[Config, Callable[[str, int], None]], tmp_path: Path
) -> None:
    """With the code of docs/durable.md each key learns all of its events, in order.

    A topic of the cluster for tests can't get more partitions, so it has them from the start, and
    is used as one of two first.
    """
    config, make_topic = small_cluster
    make_topic("scores", 5)
    random, n_first, ends = np.random.default_rng(1), 60, (2, 5)
    rows = [
        {"key": f"k{random.integers(0, 20)}", "score": float(random.random()), "y": n % 2}
        for n in range(200)
    ]

    def by_key(message: Message) -> Event:
        fields = json.loads(message.value())
        assert message.key().decode() == fields["key"]
        return Event(fields["score"], fields["y"], key=fields["key"])

    page = (Path(__file__).parents[1] / "docs" / "durable.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import zlib\n.*?)```", page, re.DOTALL)
    on_page: dict[str, Any] = {}
    exec(code, on_page)

    def produce(rows: Any, n_partitions: int) -> None:
        producer = writer(config["bootstrap.servers"])
        for row in rows:
            of_row = (
                {"partition": on_page["partition_of"](row["key"], 2)} if n_partitions == 2 else {}
            )
            producer.produce("scores", json.dumps(row), key=row["key"], **of_row)
        assert producer.flush(10) == 0

    def learn(stores: list[Store], starts: list[int | None]) -> None:
        for number, (store, start) in enumerate(zip(stores, starts, strict=True)):
            with source_of(config, "scores", by_key, partition=number, start=start) as source:
                serve(store, source)

    with contextlib.ExitStack() as stack:
        old, new = (
            [stack.enter_context(Store(tmp_path / f"{n} of {end}.db")) for n in range(end)]
            for end in ends
        )
        produce(rows[:n_first], 2)
        learn(old, [None, None])
        starts = on_page["copy_to_partitions"](old, new)
        produce(rows[n_first:], 5)  # by librdkafka's own partitioner
        learn(new, starts)
        found = [state for store in new for state in states_of_keys(store).items()]
        assert sum(store.offset for store in new) == len(rows) - n_first
        assert all(store.offset for store in new)
    with Store(tmp_path / "whole.db") as whole:
        serve(whole, [Event(row["score"], row["y"], key=row["key"]) for row in rows])
        assert sorted(found) == sorted(states_of_keys(whole).items())


# The sink -----------------------------------------------------------------------------------------


def test_predictions_are_written_with_the_keys_of_their_messages(
    config: Config, tmp_path: Path
) -> None:
    topic, out = new_topic(config, ROWS, per_transaction=5), new_topic(config)
    source = source_of(config, topic)
    sink = sink_of(config, out, lambda at, p: (source.message(at).key(), json.dumps(p)))
    with Store(tmp_path / "run.db") as store, source:
        assert serve(store, source, sink, batch_size=4) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)
    headers = [dict(message.headers()) for message in messages_of(config, out)]
    assert [int(header["streamcal-event"]) for header in headers] == list(range(len(ROWS)))
    assert len({header["streamcal-run"] for header in headers}) == 1


def test_no_message_for_some_events(config: Config, tmp_path: Path) -> None:
    out = new_topic(config)
    sink = sink_of(config, out, lambda at, p: numbered(at, p) if at == 7 else None)
    with Store(tmp_path / "run.db") as store:
        assert serve(store, ROWS, sink, batch_size=5) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)[7:8]


def test_runs_share_a_partition_and_a_new_store_writes_again(
    config: Config, tmp_path: Path
) -> None:
    out = new_topic(config)
    with Store(tmp_path / "a.db") as a, Store(tmp_path / "b.db") as b:
        sink = sink_of(config, out, numbered)
        other = sink_of(config, out, numbered, **{"transactional.id": f"also to {out}"})
        for stop in (4, 8, 12):
            serve(a, ROWS[:stop], sink)
            serve(b, ROWS[:stop], other)
    expected = wanted(tmp_path)
    parts = [expected[at : at + 4] for at in (0, 0, 4, 4, 8, 8)]
    assert texts_of(config, out) == list(itertools.chain(*parts))
    with Store(tmp_path / "new.db") as store:
        serve(store, ROWS, sink_of(config, out, numbered))
    assert texts_of(config, out)[len(expected) * 2 :] == expected


def test_another_run_on_the_store_is_noticed_before_anything_is_written(
    config: Config, tmp_path: Path
) -> None:
    out = new_topic(config)
    other = sink_of(config, out, numbered, **{"transactional.id": f"also to {out}"})
    with Store(tmp_path / "run.db") as store:

        def encode(at: int, value: float) -> tuple[str, str]:
            if at == 4:
                assert serve(store, ROWS[:5], other) == 5
            return numbered(at, value)

        with pytest.raises(StoreError, match="has changed since"):
            serve(store, ROWS, sink_of(config, out, encode), batch_size=5)
        assert store.offset == 5
    assert texts_of(config, out) == wanted(tmp_path)[:5]


def test_more_messages_than_the_producer_holds(config: Config, tmp_path: Path) -> None:
    out = new_topic(config)
    sink = sink_of(config, out, numbered, **{"queue.buffering.max.messages": 3})
    with Store(tmp_path / "run.db") as store:
        serve(store, ROWS, sink)
    assert texts_of(config, out) == wanted(tmp_path)


def test_what_encode_returns_is_checked(config: Config, tmp_path: Path) -> None:
    out = new_topic(config)
    with Store(tmp_path / "run.db") as store:
        for bad in ("text", (1, "x"), ("x",), (b"x", 0.5)):
            sink = sink_of(config, out, lambda at, p, bad=bad: bad)
            with pytest.raises(TypeError, match=r"`encode` must return a key and a value.*event 0"):
                serve(store, ROWS, sink)
        with pytest.raises(ValueError, match=r"`sink` must be that of the store, \{.*got another"):
            serve(store, ROWS, sink_of(config, "another", numbered))
        assert store.offset == 0
    assert texts_of(config, out) == []


def test_the_event_of_a_message_that_can_not_be_written_is_named(
    config: Config, tmp_path: Path
) -> None:
    out = new_topic(config)
    large = sink_of(config, out, lambda at, p: (None, "x" * (2_000_000 if at == 5 else 1)))
    with Store(tmp_path / "run.db") as store:
        with pytest.raises(RuntimeError, match=rf"{out}\[0\]: .*too large \(event 5\)"):
            serve(store, ROWS, large, batch_size=2)
        assert store.offset == 4


# Crashes ------------------------------------------------------------------------------------------


class KilledError(BaseException):
    """Simulates the end of a process."""


class Kill:
    """Ends the process at the ``nth`` time of a step; what is called afterwards raises, too."""

    def __init__(self, step: str, nth: int = 1) -> None:
        self.step, self.left, self.is_dead = step, nth, False

    def at(self, step: str) -> None:
        if step == self.step:
            self.left -= 1
            self.is_dead = self.is_dead or self.left == 0
        if self.is_dead:
            raise KilledError(step)


class Transactions:
    """Two promises of Kafka that the cluster for tests does not keep.

    Nobody sees messages of a transaction that was not committed; and of the producers with one
    ``transactional.id`` only the last one can commit.
    """

    last: ClassVar[dict[str, Any]] = {}
    kill = Kill("")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.held: list[tuple[Any, Any]] | None = None

    def init_transactions(self, timeout: float) -> None:
        self.kill.at("before init")
        self.last[self.config["transactional.id"]] = self
        self.kill.at("after init")

    def begin_transaction(self) -> None:
        self.kill.at("begin")
        assert self.held is None
        self.held = []

    def produce(self, *args: Any, **options: Any) -> None:
        self.kill.at("produce")
        assert self.held is not None
        self.held.append((args, options))

    def flush(self, timeout: float) -> int:
        return 0

    def commit_transaction(self, timeout: float) -> None:
        self.kill.at("before commit")
        assert self.held is not None
        if self.last[self.config["transactional.id"]] is not self:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by another"))
        producer = writer(self.config["bootstrap.servers"])
        for args, options in self.held:
            producer.produce(*args, **options)
        assert producer.flush(timeout) == 0
        self.held = None
        self.kill.at("after commit")

    def abort_transaction(self, timeout: float) -> None:
        self.kill.at("abort")
        assert self.held is not None
        self.held = None


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> type[Transactions]:
    monkeypatch.setattr(confluent_kafka, "Producer", Transactions)
    monkeypatch.setattr(Transactions, "kill", Kill(""))
    return Transactions


class FragileStore(Store):
    """A store whose process may be killed around a save."""

    kill = Kill("")

    def save(self, *args: Any, **options: Any) -> None:
        self.kill.at("before save")
        super().save(*args, **options)
        self.kill.at("after save")


STEPS = [
    *(("decode", 6), ("encode", 7)),
    *(("before init", 1), ("after init", 1), ("begin", 1), ("produce", 7)),
    *(("before commit", 1), ("before commit", 2), ("after commit", 1), ("after commit", 2)),
    *(("before save", 1), ("before save", 2), ("before save", 3)),
    *(("after save", 1), ("after save", 2), ("after save", 3)),
]


@pytest.mark.parametrize(("step", "nth"), STEPS)
def test_killed_at_each_step(
    config: Config, tmp_path: Path, transactions: type[Transactions], step: str, nth: int
) -> None:
    """Killed, killed again after a smaller batch, and ended: each prediction is there once."""
    topic, out = new_topic(config, ROWS, per_transaction=5), new_topic(config)
    for batch, kill in ((5, Kill(step, nth)), (2, Kill("after save")), (3, Kill(""))):
        transactions.kill = kill

        def take(message: Message, kill: Kill = kill) -> Event:
            kill.at("decode")
            return decode(message)

        def give(offset: int, value: float, kill: Kill = kill) -> tuple[str, str]:
            kill.at("encode")
            return numbered(offset, value)

        with FragileStore(tmp_path / "run.db") as store, source_of(config, topic, take) as source:
            store.kill = kill
            with pytest.raises(KilledError) if kill.step else contextlib.nullcontext():
                serve(store, source, sink_of(config, out, give), batch_size=batch)
    assert texts_of(config, out) == wanted(tmp_path)
    with Store(tmp_path / "run.db") as saved:
        assert saved.offset == len(ROWS)


@pytest.mark.parametrize("step", ["produce", "before commit", "after commit", "before save"])
def test_the_same_objects_continue_after_an_error(
    config: Config, tmp_path: Path, transactions: type[Transactions], step: str
) -> None:
    topic, out = new_topic(config, ROWS), new_topic(config)
    transactions.kill = Kill(step, 2)
    sink = sink_of(config, out, numbered)
    with FragileStore(tmp_path / "run.db") as store, source_of(config, topic) as source:
        store.kill = transactions.kill
        with pytest.raises(KilledError):
            serve(store, source, sink, batch_size=3)
        store.kill = transactions.kill = Kill("")
        assert serve(store, source, sink, batch_size=5) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)


def fatal_flush(producer: Transactions, timeout: float) -> int:
    """Raise what confluent-kafka raises if a callback of a delivery comes after a fatal error."""
    if producer.last[producer.config["transactional.id"]] is not producer:
        fatal = KafkaException(KafkaError(KafkaError._FENCED, "fenced by another", True))
        first, second = SystemError("`str` returned a result"), SystemError("`note` returned one")
        first.__cause__ = fatal
        raise second from first
    return 0


@pytest.mark.parametrize("flush", [Transactions.flush, fatal_flush])
def test_a_sink_that_another_process_has_replaced_writes_no_more(
    config: Config,
    tmp_path: Path,
    transactions: type[Transactions],
    monkeypatch: pytest.MonkeyPatch,
    flush: Any,
) -> None:
    monkeypatch.setattr(transactions, "flush", flush)
    out = new_topic(config)
    old, new = sink_of(config, out, numbered), sink_of(config, out, numbered)
    with Store(tmp_path / "run.db") as store:
        serve(store, ROWS[:4], old)
        new.resume(store.notes["sink"])
        old(4, np.array([0.5]))
        with pytest.raises(RuntimeError, match=rf"{out}\[0\]: fenced by another") as error:
            old.commit()
        with pytest.raises(RuntimeError) as again:  # and not a second transaction
            old.commit()
        assert again.value is error.value
        assert serve(store, ROWS, new) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)


class Interrupts:
    """Ctrl-C in the line of a commit of a sink that is reached after so many others."""

    CODES = (KafkaSink.commit.__code__, KafkaSink._write.__code__)

    def __init__(self, after: int) -> None:
        self.left = after

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *error: object) -> bool:
        sys.settrace(self.before)
        return error[0] is KeyboardInterrupt

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code not in self.CODES:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.trace


def test_interrupted_in_each_line_of_a_commit(
    config: Config, tmp_path: Path, transactions: type[Transactions]
) -> None:
    """`run` commits once more before it ends, and what Kafka has must not be written again."""
    expected = wanted(tmp_path, ROWS[:4])
    for after in itertools.count(1):
        out, interrupts = new_topic(config), Interrupts(after)
        sink = sink_of(config, out, numbered)
        with Store(tmp_path / f"{after}.db") as store:
            with interrupts:
                serve(store, ROWS[:4], sink)
            assert serve(store, ROWS[:4], sink, batch_size=3) == 4
        assert texts_of(config, out) == expected, f"after {after} lines"
        if interrupts.left > 0:
            break
    assert after > 20


def test_an_output_that_was_made_again_is_searched_from_its_beginning(
    config: Config, tmp_path: Path, transactions: type[Transactions]
) -> None:
    out = new_topic(config)
    with FragileStore(tmp_path / "run.db") as store:
        serve(store, ROWS[:4], sink_of(config, out, numbered))
        sink = {**store.notes["sink"], "offset": 99}  # the topic that was deleted was longer
        store.save({}, notes={**store.notes, "sink": sink})
        store.kill = Kill("before save")
        with pytest.raises(KilledError):
            serve(store, ROWS, sink_of(config, out, numbered))
        store.kill = Kill("")
        assert serve(store, ROWS, sink_of(config, out, numbered)) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)


# Processes that are killed. Their producers are librdkafka's; its cluster shows messages that were
# not committed, so the processes are killed before and after transactions.


class KillProcess(Kill):
    """Ends this process, with SIGKILL."""

    def at(self, step: str) -> None:
        try:
            super().at(step)
        except KilledError:
            os.kill(os.getpid(), signal.SIGKILL)


class FragileProducer(Producer):
    """A producer whose process may be killed around a transaction."""

    kill = Kill("")

    def begin_transaction(self) -> None:
        self.kill.at("begin")
        super().begin_transaction()

    def commit_transaction(self, timeout: float) -> None:
        super().commit_transaction(timeout)
        self.kill.at("after commit")


def serve_until_killed(
    servers: str, path: str, topic: str, out: str, batch: str, step: str
) -> None:
    """Serve in a process of its own, which ends itself at the second time of a step."""
    # As `commits` in the tests: fixtures do not reach this process.
    Pace.is_due = lambda self: True  # type: ignore[method-assign]
    confluent_kafka.Producer = FragileProducer
    FragileProducer.kill = FragileStore.kill = KillProcess(step, 2)
    config = {"bootstrap.servers": servers, "log_level": 0}
    with FragileStore(path) as store, source_of(config, topic) as source:
        serve(store, source, sink_of(config, out, numbered), batch_size=int(batch))


SERVE_UNTIL_KILLED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from tests.test_kafka import serve_until_killed
serve_until_killed(*sys.argv[1:])
"""


def states(path: Path) -> dict[str, bytes]:
    with Store(path) as store:
        names = store.keys()
        return {key: store.get_bytes(key) for key in names if key != TIMELINE}


@pytest.mark.parametrize("step", ["begin", "after commit", "after save"])
def test_a_process_is_killed(config: Config, tmp_path: Path, step: str) -> None:
    """Killed, killed again with smaller batches, and ended: each prediction is there once."""
    topic, out = new_topic(config, ROWS, per_transaction=5), new_topic(config)
    path, root = tmp_path / "run.db", str(Path(__file__).parents[1])
    for batch in (3, 2):
        child = [*WITHOUT_BYTE_CODE, "-c", SERVE_UNTIL_KILLED, root, config["bootstrap.servers"]]
        command = [*child, str(path), topic, out, str(batch), step]
        ended = subprocess.run(command, capture_output=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    with Store(path) as store, source_of(config, topic) as source:
        n_unknown = len(texts_of(config, out)) - store.offset  # written, and the store doesn't know
        assert n_unknown == (2 if step == "after commit" else 0)
        assert 0 < store.offset < len(ROWS)
        assert serve(store, source, sink_of(config, out, numbered)) == len(ROWS)
    assert texts_of(config, out) == wanted(tmp_path)
    whole = tmp_path / "whole.db"
    with Store(whole) as store, source_of(config, topic) as source:
        serve(store, source)
    assert states(path) == states(whole)


# Arguments ----------------------------------------------------------------------------------------


def test_bad_arguments_are_refused(config: Config) -> None:
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"partition": -1}, ValueError, "`partition` must be"),
        ({"timeout": 0}, ValueError, r"`timeout` must lie in \(0, 2000000\], got 0"),
        ({"timeout": "1"}, TypeError, "`timeout` must be a number"),
        ({"wait": float("nan")}, ValueError, r"`wait` must lie in \(0, 2000000\] or None"),
        ({"decode": None}, TypeError, "`decode` must be callable, got None"),
        ({"timeout": 1e7}, ValueError, r"`timeout` must lie in .* 2000000\], got 10000000.0"),
        ({"partition": 2**31}, ValueError, "`partition` must be an int from 0 to 2147483647"),
        ({"start": -2}, ValueError, "`start` must be an int of at least 0, got -2"),
    ]
    for options, error, message in bad:
        with pytest.raises(error, match=message):
            source_of(config, "topic", **options)
    with pytest.raises(ValueError, match=r"`config` must not have auto.offset.reset, got 'latest'"):
        source_of({**config, "auto.offset.reset": "latest"}, "topic")
    old_name = {"default.topic.config": {"auto.offset.reset": "earliest"}}
    with pytest.raises(ValueError, match=r"`config` must not have default.topic.config, got \{"):
        source_of({**config, **old_name}, "topic")
    for name, value in (("isolation.level", "read_uncommitted"), ("delivery.report.only.error", 1)):
        with pytest.raises(ValueError, match=rf"`config` must not have {name}, got {value!r}"):
            sink_of(config, "topic", numbered, **{name: value})
    for part_of in (source_of, sink_of):
        with pytest.raises(TypeError, match="`topic` must be a str, got None"):
            part_of(config, None, decode)
        with pytest.raises(ValueError, match=r"`config` must have no empty group\.id, got ''"):
            part_of({**config, "group.id": ""}, "topic", decode)
    with pytest.raises(ValueError, match=r"`config` must be settings of Kafka: No such config"):
        source_of({**config, "bootstrap.server": "x"}, "topic")
    for make in (KafkaSource, KafkaSink):
        with pytest.raises(TypeError, match="`config` must be a mapping, got None"):
            make(None, "topic", decode)
    with pytest.raises(ValueError, match=r"`config` must have a transactional.id, got \['boot"):
        KafkaSink({"bootstrap.servers": "x"}, "topic", numbered)
    with pytest.raises(TypeError, match="`encode` must be callable, got None"):
        sink_of(config, "topic", None)


def test_the_extra_is_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for make in (source_of, sink_of):
        with pytest.raises(ImportError, match=r"needs confluent-kafka: pip install '.\[kafka\]'"):
            make(config, "topic", decode)
