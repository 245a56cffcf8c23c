"""The store: what was saved last is there, whole, whatever happens to the process and the file."""

import contextlib
import copy
import errno
import gc
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import IsotonicCalibrator, PlattCalibrator, _state
from streamcal.durable import Store, StoreError, rows
from streamcal.durable import connection as connection_module
from streamcal.durable import database as database_module
from streamcal.durable.files import is_store
from tests import WITHOUT_BYTE_CODE
from tests.interrupts import InterruptionError


def mark(n: int, size: int = 300) -> bytes:
    """A state that says of which commit it is."""
    return _state.encode("Mark", {"parameters": {}, "n": n}, {"fill": np.full(size, n)})


def read_mark(data: bytes) -> int:
    """The number of a state, all of which must say the same."""
    state = _state.decode(data)
    assert (state.arrays["fill"] == state.fields["n"]).all()
    return int(state.fields["n"])


def commit(store: Store, n: int) -> None:
    """Save the ``n``-th of a series of states: of ten keys, three are always new."""
    changed = {f"{(n + i) % 10}": mark(n) for i in (0, 3, 5)}
    store.save({**changed, "last": mark(n, 20)}, n, notes={"n": n}, forget=[f"{(n + 7) % 10}"])


def expected(n: int) -> dict[str, int]:
    """What a store holds after the commits 1 to ``n``."""
    held: dict[str, int] = {}
    for k in range(1, n + 1):
        held |= {f"{(k + i) % 10}": k for i in (0, 3, 5)} | {"last": k}
        held.pop(f"{(k + 7) % 10}", None)
    return held


def held(store: Store) -> dict[str, int]:
    return {key: read_mark(store.get_bytes(key)) for key in store.keys()}  # noqa: SIM118


def assert_holds(store: Store, n: int) -> None:
    """All of commit ``n`` is there and nothing else."""
    assert (store.offset, store.notes) == (n, {"n": n} if n else {})
    assert held(store) == expected(n)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def filled(path: Path, n: int, start: int = 1) -> None:
    with Store(path) as store:
        for k in range(start, n + 1):
            commit(store, k)


# What it holds ------------------------------------------------------------------------------------


def test_learners_come_back(path: Path) -> None:
    rng = np.random.default_rng(1)
    learners = {"a": IsotonicCalibrator(window=50), "b": PlattCalibrator()}
    with Store(path) as store:
        assert (len(store), store.offset, store.notes, store.keys()) == (0, 0, {}, [])
        for learner in learners.values():
            learner.learn_many(rng.random(90), rng.integers(0, 2, 90))
        store.save(learners, 90, notes={"file": [1, 2]})
        assert repr(store) == f"Store({str(path)!r}, n_states=2, offset=90)"
    with Store(path) as store:
        states, offset = store.load()
        assert (offset, store.notes) == (90, {"file": [1, 2]})
        assert "a" in store
        assert "c" not in store
        assert sorted(store.keys()) == ["a", "b"]
        for key, learner in learners.items():
            assert states[key].to_bytes() == learner.to_bytes() == store.get_bytes(key)
            assert store.get(key).predict_one(0.3) == learner.predict_one(0.3)
        with pytest.raises(KeyError, match="'c'"):
            store.get("c")


def test_what_is_not_given_stays(path: Path) -> None:
    with Store(path) as store:
        store.save({"a": mark(1), "b": mark(2)}, 10, notes={"x": 1})
        store.save({"b": mark(3)})
        assert (held(store), store.offset, store.notes) == ({"a": 1, "b": 3}, 10, {"x": 1})
        store.save({}, 11, notes={})
        store.save({}, forget=["a", "never there"])
        assert (held(store), store.offset, store.notes) == ({"b": 3}, 11, {})
        store.save({"b": mark(4)}, forget=["b"])  # what is given is not forgotten
    with Store(path) as store:
        assert (held(store), store.offset) == ({"b": 4}, 11)


@pytest.mark.parametrize("key", ["", "é", "a\0b", "'; DROP TABLE head", "\N{SNOWMAN}" * 300])
def test_any_text_is_a_key(path: Path, key: str) -> None:
    with Store(path) as store:
        store.save({key: mark(1), key + "x": mark(2)})
    with Store(path) as store:
        assert held(store) == {key: 1, key + "x": 2}


@pytest.mark.parametrize("name", ["file:x.db", "file:x.db?mode=memory", ":memory:", "a b%20#?.db"])
def test_any_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with Store(name) as store:
        commit(store, 1)
        store.backup(f"{name}2")
        with pytest.raises(StoreError, match="is in use"):
            Store(name)
    with Store(f"{name}2") as copied:
        assert_holds(copied, 1)
    names = {f"{name}{rest}" for rest in ("", "-lock", "2", "2-lock")}
    assert {file.name for file in tmp_path.iterdir()} == names


def test_each_of_many_commits_is_read_again(path: Path) -> None:
    with Store(path) as store:
        for n in range(1, 60):
            commit(store, n)
            assert_holds(store, n)
            if n % 20 == 0:
                store.refresh()
                assert_holds(store, n)
    with Store(path) as store:
        assert_holds(store, 59)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"states": {1: mark(1)}}, TypeError, "`states` must have str for keys, got 1"),
        ({"states": {"a": 3}}, TypeError, "`states` must hold learners.*, got 3 for 'a'"),
        ({"states": {"a": None}}, TypeError, "`states` must hold learners.*, got None for 'a'"),
        ({"states": {"a": b"else"}}, ValueError, "must be what `to_bytes` wrote"),
        ({"states": {"a": bytearray(mark(1)[:-1])}}, ValueError, "checksum is wrong"),
        ({"states": {"\ud800": mark(1)}}, ValueError, "surrogates"),
        ({"offset": -1}, ValueError, "`offset` must be a non-negative int, got -1"),
        ({"offset": 1.0}, ValueError, "`offset` must be a non-negative int, got 1.0"),
        (
            {"offset": 2**53 + 1},
            ValueError,
            r"`offset` must be at most 2\*\*53, got 9007199254740993",
        ),
        ({"offset": True}, ValueError, "`offset` must be a non-negative int, got True"),
        ({"notes": {"a": object()}}, TypeError, "JSON"),
        ({"forget": "1"}, TypeError, "`forget` must be keys, not one, got .1."),
    ],
)
def test_bad_arguments_change_nothing(
    path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with Store(path) as store:
        commit(store, 1)
        with pytest.raises(error, match=message):
            store.save(**{"states": {"new": mark(9)}, "offset": 7, **change})
        assert_holds(store, 1)
    with Store(path) as store:
        assert_holds(store, 1)


def test_the_greatest_offset_is_read_again(path: Path) -> None:
    with Store(path) as store:
        store.save({}, 2**53)
    with Store(path) as store:
        assert store.offset == 2**53


def test_learners_that_need_more_are_named(path: Path) -> None:
    from river import linear_model

    from streamcal import CalibratedRegressor

    with Store(path) as store:
        store.save({"model": CalibratedRegressor(linear_model.LinearRegression())})
        with pytest.raises(TypeError, match="`regressor` must be given"):
            store.load()
        store.get("model", regressor=linear_model.LinearRegression())


def test_opening_does_not_depend_on_the_number_of_keys(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[None] = []  # of SQLite's machine
    original = connection_module.connect  # type: ignore[attr-defined]

    def counting(path: Path, read_only: bool) -> sqlite3.Connection:
        database = original(path, read_only)
        database.set_progress_handler(lambda: steps.append(None), 1)
        return database

    monkeypatch.setattr(connection_module, "connect", counting)
    counts = []
    for n_keys in (10, 2_000):
        with Store(path) as store:
            store.save(dict.fromkeys(map(str, range(n_keys)), mark(1)))
        steps.clear()
        with Store(path) as store:
            assert (len(store), read_mark(store.get_bytes("3")), "x" in store) == (n_keys, 1, False)
        counts.append(len(steps))
    assert 0 < counts[0] == counts[1]


# Readers and copies -------------------------------------------------------------------------------


def test_readers_see_the_last_save(path: Path) -> None:
    with Store(path) as writer, contextlib.ExitStack() as readers:
        commit(writer, 1)
        reader = readers.enter_context(Store(path, read_only=True))
        assert_holds(reader, 1)
        commit(writer, 2)
        assert reader.offset == 1
        reader.refresh()
        assert_holds(reader, 2)
        commit(writer, 3)
        assert read_mark(reader.get_bytes("last")) == 3  # the one of before is gone
        with pytest.raises(StoreError, match="was opened to be read only"):
            reader.save({}, 4)
    with Store(path, read_only=True) as reader:
        assert_holds(reader, 3)


def test_load_of_a_reader_is_of_one_moment(path: Path) -> None:
    with Store(path) as writer, Store(path, read_only=True) as reader:
        for n in range(1, 20):
            learner = PlattCalibrator()
            learner.learn_many([0.5] * n, [1] * n)
            writer.save({"a": learner, f"b{n}": learner}, n)
            states, offset = reader.load()
            assert offset == n
            assert states["a"].to_bytes() == states[f"b{n}"].to_bytes() == learner.to_bytes()


def test_readers_in_threads_while_a_writer_saves(path: Path) -> None:
    errors: list[BaseException] = []
    n_commits = 60
    filled(path, 1)

    def read() -> None:
        seen = 0
        try:
            with Store(path, read_only=True) as reader:
                while seen < n_commits:
                    reader.refresh()
                    assert reader.offset >= seen
                    seen = reader.offset
                    assert reader.notes == {"n": seen}
                    assert read_mark(reader.get_bytes("last")) >= seen
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    with Store(path) as writer:
        for n in range(2, n_commits + 1):
            commit(writer, n)
    for thread in threads:
        thread.join(60)
    assert errors == []


def test_threads_share_a_store(path: Path) -> None:
    errors: list[BaseException] = []
    with Store(path) as store:

        def work(name: str) -> None:
            try:
                for n in range(25):
                    store.save({name: mark(n)}, n)
                    assert read_mark(store.get_bytes(name)) == n
                    store.refresh()
                    assert name in store
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
    with Store(path) as store:
        assert held(store) == dict.fromkeys("abcd", 24)


def test_all_connections_are_those_that_a_fork_waits_for() -> None:
    package = Path(_state.__file__).parents[1]
    connect = re.compile(r"sqlite3\.(connect|Connection)\b|from sqlite3 import")
    modules = [path for end in ("py", "pyx") for path in package.rglob(f"*.{end}")]
    assert [path.name for path in modules if connect.search(path.read_text())] == ["sqlite.pyx"]


def test_a_store_is_closed_by_any_thread(path: Path) -> None:
    for n in range(2):
        store = Store(path)
        assert store.offset == n
        commit(store, n + 1)
        thread = threading.Thread(target=store.close)
        thread.start()
        thread.join()


def test_backup_while_saving_goes_on(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with Store(path) as store, Store(path, read_only=True) as reader:
        for n in range(1, 6):
            commit(store, n)
            (store if n % 2 else reader).backup(target)
            with Store(target, read_only=True) as copied:
                assert_holds(copied, n)
        commit(store, 6)
    with Store(target) as copied:
        assert_holds(copied, 5)
        commit(copied, 6)
        assert_holds(copied, 6)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"run.db", "run.db-lock", "copy.db", "copy.db-lock"}


def test_backup_takes_the_place_of_a_store_that_was_killed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with Store(tmp_path / "other.db") as other:
        commit(other, 1)
        commit(other, 2)
        for rest in ("", "-wal"):  # as a killed process leaves them
            shutil.copy(f"{other.path}{rest}", f"{target}{rest}")
    with Store(path) as store:
        commit(store, 1)
        store.backup(target)
    with Store(target) as copied:
        assert_holds(copied, 1)


def test_backup_is_refused_where_a_store_is_in_use(path: Path, tmp_path: Path) -> None:
    with Store(path) as store, Store(tmp_path / "other.db") as other:
        commit(store, 1)
        for target in (path, other.path):
            with pytest.raises(StoreError, match="is in use"):
                store.backup(target)
        with pytest.raises(StoreError, match="can't be copied to"):
            store.backup(tmp_path / "missing" / "copy.db")
        with pytest.raises(StoreError, match="can't be copied to"):
            store.backup(tmp_path)
        assert_holds(store, 1)
        assert len(other) == 0
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    "ending",
    [f"{of}{rest}" for of in ("", ".partial") for rest in ("", "-wal", "-shm", "-journal")][1:],
)
def test_files_of_others_are_not_removed(path: Path, tmp_path: Path, ending: str) -> None:
    made, target = tmp_path / "made.db", tmp_path / "copy.db"

    def refused(file: Path, use: Callable[[], object]) -> None:
        for content in (b"MINE", b"SQLite format 3\0" * 300):
            foreign = file.with_name(file.name + ending)
            foreign.write_bytes(content)
            with pytest.raises(
                StoreError, match="may belong to another program; move it away"
            ) as caught:
                use()
            assert str(foreign) in str(caught.value)
            assert foreign.read_bytes() == content
            assert not file.exists()
            foreign.unlink()
        use()

    refused(made, lambda: Store(made).close())
    with Store(path) as store:
        commit(store, 1)
        refused(target, lambda: store.backup(target))


@pytest.mark.parametrize("ending", ["-lock", "-wal", "-shm", "-journal", ".partial", "-WAL"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_backup_takes_no_file_of_a_store(
    path: Path, tmp_path: Path, ending: str, read_only: bool
) -> None:
    filled(path, 1)
    other = tmp_path / "other.db"
    filled(other, 1)
    with Store(path, read_only=read_only) as store:
        before = {file.name for file in tmp_path.iterdir()}
        for of in (path, other):
            with pytest.raises(StoreError, match="is in use: it is a file of the store"):
                store.backup(f"{of}{ending}")
        assert {file.name for file in tmp_path.iterdir()} == before
    filled(tmp_path / f"new.db{ending}", 1)
    with Store(tmp_path / f"new.db{ending}") as store:
        if ending.islower():
            with pytest.raises(StoreError, match=r"is in use: .* bears the name of its"):
                store.backup(tmp_path / "new.db")
        assert_holds(store, 1)


@pytest.mark.skipif(os.name == "nt", reason="files that are open stay where they are")
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_save_into_a_file_without_its_name_is_refused(
    path: Path, tmp_path: Path, ending: str, how: str
) -> None:
    file, away = Path(f"{path}{ending}"), tmp_path / "away"
    with Store(path) as store:
        commit(store, 1)
        shutil.copy(file, away)
        if how == "removed":
            file.unlink()
        else:
            (file if how == "moved" else away).rename(away if how == "moved" else file)
        for _ in range(2):
            with pytest.raises(StoreError, match="it or its log was moved, removed or replaced"):
                commit(store, 2)
            assert_holds(store, 1)


def test_a_read_that_ends_its_transaction_says_why(path: Path) -> None:
    def read(store: Store) -> None:
        with store._reading() as (database, _):
            database.execute("ROLLBACK")  # as SQLite does by itself
            raise sqlite3.OperationalError("the disk is gone")

    with Store(path) as store, pytest.raises(StoreError, match="the disk is gone"):
        read(store)


def test_a_log_without_its_store_is_not_removed(path: Path, tmp_path: Path) -> None:
    """Somebody has moved the store that a killed process left, but not what was in its log."""
    with Store(tmp_path / "other.db") as other:
        commit(other, 1)
        shutil.copy(f"{other.path}-wal", f"{path}-wal")
    before = path.with_name("run.db-wal").read_bytes()
    with pytest.raises(StoreError, match=r"run\.db-wal exists and may belong to another program"):
        Store(path)
    assert path.with_name("run.db-wal").read_bytes() == before


@pytest.mark.parametrize("left", ["empty", "zeros", "a store"])
def test_what_a_killed_process_left_is_made_anew(path: Path, tmp_path: Path, left: str) -> None:
    filled(tmp_path / "other.db", 3)
    whole = (tmp_path / "other.db").read_bytes()
    partial = path.with_name("run.db.partial")
    partial.write_bytes({"empty": b"", "zeros": bytes(5000), "a store": whole}[left])
    for ending in ("-wal", "-shm", "-journal"):
        path.with_name(f"run.db.partial{ending}").write_bytes(bytes(50))
    filled(path, 1)
    with Store(path) as store:
        assert_holds(store, 1)
    assert {file.name for file in tmp_path.glob("run.db*")} == {"run.db", "run.db-lock"}


def test_a_journal_of_another_database_is_not_played_into_a_store(
    path: Path, tmp_path: Path
) -> None:
    code = """if True:
        import os, sqlite3, sys
        database = sqlite3.connect(sys.argv[1], isolation_level=None)
        database.execute("PRAGMA cache_size = 5")
        database.execute("CREATE TABLE numbers (n)")
        database.executemany("INSERT INTO numbers VALUES (?)", [("x" * 500,)] * 400)
        database.execute("BEGIN")
        database.execute("UPDATE numbers SET n = n || 'y'")
        os._exit(0)
    """
    filled(tmp_path / "whole.db", 5)
    subprocess.run([sys.executable, "-c", code, path], check=True)
    shutil.copy(tmp_path / "whole.db", path)
    journal = path.with_name("run.db-journal")
    before = path.read_bytes(), journal.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"run\.db-journal exists and may belong"):
            Store(path, read_only=read_only)
        assert (path.read_bytes(), journal.read_bytes()) == before
    with Store(tmp_path / "whole.db") as store, pytest.raises(StoreError, match="can't be made"):
        store.backup(path)
    assert (path.read_bytes(), journal.read_bytes()) == before
    journal.unlink()
    with Store(path) as store:
        assert_holds(store, 5)


def test_a_log_is_not_played_into_an_older_file(path: Path, tmp_path: Path) -> None:
    """A backup was copied over a store, and the log of the store is left."""
    keys = [f"{n:04}" for n in range(500)]
    for at in (0, 77, 250, 499):
        with Store(path) as store:
            store.save(dict.fromkeys(keys, mark(1, 9)), 1)
            store.backup(tmp_path / "copy.db")
            for n in (2, 3):
                store.save(dict.fromkeys(keys, mark(n, 9)), n)
        with Store(path) as store:
            store.save({keys[at]: mark(4, 9)}, 4)
            shutil.copy(f"{path}-wal", tmp_path / "copy.db-wal")
        before = {file: file.read_bytes() for file in tmp_path.glob("copy.db*[bl]")}
        with pytest.raises(StoreError, match=r"copy\.db-wal is the log of another file|no store"):
            Store(tmp_path / "copy.db")
        assert {file: file.read_bytes() for file in before} == before
        for file in tmp_path.glob("copy.db?*"):
            file.unlink()
        with Store(tmp_path / "copy.db") as copied:
            assert set(held(copied).values()) == {1}


def test_no_older_state_is_read_where_the_index_is_in_the_log(path: Path, tmp_path: Path) -> None:
    """All keys are on one page of the index, so the summary fits; most states are older."""
    keys = list("abcde")
    with Store(path) as store:
        store.save(dict.fromkeys(keys, mark(1)), 1)
        store.backup(tmp_path / "copy.db")
        for n in (2, 3):
            store.save(dict.fromkeys(keys, mark(n)), n)
    with Store(path) as store:
        store.save({"a": mark(4)}, 4)
        shutil.copy(f"{path}-wal", tmp_path / "copy.db-wal")
    with Store(tmp_path / "copy.db") as copied:
        assert read_mark(copied.get_bytes("a")) == 4
        for key in "bcde":
            with pytest.raises(StoreError, match="is damaged"):
                copied.get_bytes(key)


def put_foreign(file: Path, kind: str) -> None:
    """Put something of somebody else in the place of a file."""
    mine = file.with_name("mine.txt")
    mine.unlink(missing_ok=True)
    if kind == "folder":
        file.mkdir()
    elif kind.startswith("link"):
        file.symlink_to(mine)
        if kind == "link":
            mine.write_bytes(b"MINE")
    else:
        file.write_bytes({"text": b"MINE" * 500, "database": b"SQLite format 3\0" * 300}[kind])


def look_at(file: Path) -> list[tuple[bool, bool, bytes | None]]:
    """What is there, and where a link of `put_foreign` leads."""
    return [
        (name.is_symlink(), name.is_dir(), name.read_bytes() if name.is_file() else None)
        for name in (file, file.with_name("mine.txt"))
    ]


KINDS = pytest.mark.parametrize("kind", ["text", "database", "link", "link to nothing", "folder"])


def assert_foreign_stays(foreign: Path, kind: str, *uses: Callable[[], object]) -> None:
    """Each of the uses is refused, and the message names the file."""
    put_foreign(foreign, kind)
    before = look_at(foreign)
    for use in uses:
        with pytest.raises(
            StoreError, match="may belong to another program; move it away"
        ) as caught:
            use()
        assert str(foreign) in str(caught.value)
        assert look_at(foreign) == before


@KINDS
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_files_of_others_beside_a_store_stay(
    path: Path, tmp_path: Path, ending: str, kind: str
) -> None:
    filled(path, 1)
    with Store(tmp_path / "other.db") as other:
        assert_foreign_stays(
            path.with_name(path.name + ending),
            kind,
            lambda: Store(path),
            lambda: Store(path, read_only=True),
            lambda: other.backup(path),
        )


@KINDS
@pytest.mark.parametrize("ending", ["", "-journal", "-wal"])
@pytest.mark.parametrize("exists", [False, True])
def test_files_of_others_with_the_name_of_a_lock_stay(
    path: Path, tmp_path: Path, exists: bool, ending: str, kind: str
) -> None:
    if exists:
        filled(path, 1)
        path.with_name("run.db-lock").unlink()
    foreign = path.with_name(f"run.db-lock{ending}")
    with Store(tmp_path / "other.db") as other:
        assert_foreign_stays(foreign, kind, lambda: Store(path), lambda: other.backup(path))
    assert path.exists() == exists
    if exists:
        with Store(path, read_only=True) as reader:  # it needs no lock
            assert_holds(reader, 1)


def test_the_lock_of_a_killed_process_is_taken(path: Path, tmp_path: Path) -> None:
    """Its journal may be left."""
    with Store(path):
        journal = path.with_name("run.db-lock-journal")
        assert journal.read_bytes()
        for ending in ("-lock", "-lock-journal"):
            shutil.copy(f"{path}{ending}", f"{tmp_path / 'new.db'}{ending}")
    filled(tmp_path / "new.db", 1)
    assert not (tmp_path / "new.db-lock-journal").exists()


# One writer ---------------------------------------------------------------------------------------

HOLD = """
import sys
from streamcal.durable.store import Store
store = Store(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    with Store(path) as store:
        link.symlink_to(path)
        for again in (path, link):
            with pytest.raises(StoreError, match="is in use: another process or store writes"):
                Store(again)
        commit(store, 1)
    with Store(path) as store:
        assert_holds(store, 1)


@pytest.mark.parametrize("kind", ["absolute", "relative", "chain", "folder"])
def test_a_link_to_nothing_is_the_store_that_it_leads_to(tmp_path: Path, kind: str) -> None:
    (tmp_path / "away").mkdir()
    target, link = tmp_path / "away" / "run.db", tmp_path / "link.db"
    if kind == "folder":
        (tmp_path / "door").symlink_to("away")
        link = tmp_path / "door" / "run.db"
    elif kind == "chain":
        link.symlink_to("second.db")
        (tmp_path / "second.db").symlink_to(target)
    else:
        link.symlink_to(target if kind == "absolute" else Path("away", "run.db"))
    for first, second in ((link, target), (target, link)):
        for n in (1, 2):  # the file is there the second time
            with Store(first) as store:
                for name in {first, second}:
                    with pytest.raises(StoreError, match="is in use: another process or store"):
                        Store(name)
                    with pytest.raises(StoreError, match="is in use: another process or store"):
                        store.backup(name)
                commit(store, n)
                with Store(second, read_only=True) as reader:
                    assert_holds(reader, n)
            with Store(second, read_only=True) as reader:
                assert_holds(reader, n)
        assert link.is_symlink() == (kind != "folder")
        assert all(file.name.startswith("run.db") for file in target.parent.iterdir())
        target.unlink()


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    loop, lost = tmp_path / "loop.db", tmp_path / "lost.db"
    loop.symlink_to("knot.db")
    (tmp_path / "knot.db").symlink_to(loop)
    lost.symlink_to(tmp_path / "missing" / "run.db")
    before = sorted(tmp_path.iterdir())
    for read_only in (False, True):
        with pytest.raises(StoreError, match="can't be opened: "):
            Store(loop, read_only=read_only)
        with pytest.raises(StoreError, match="can't be opened: there is no such folder"):
            Store(lost, read_only=read_only)
    assert sorted(tmp_path.iterdir()) == before


def test_a_backup_through_a_link(path: Path, tmp_path: Path) -> None:
    link, target = tmp_path / "link.db", tmp_path / "copy.db"
    link.symlink_to(target)
    with Store(path) as store:
        for n in (1, 2):
            commit(store, n)
            store.backup(link)
            assert link.is_symlink()
            with Store(target, read_only=True) as copied:
                assert_holds(copied, n)


def test_nobody_opens_what_a_backup_is_about_to_replace(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy.db"
    original, refused = database_module.sync, []  # type: ignore[attr-defined]

    def sync(file: Path) -> None:
        original(file)
        with pytest.raises(StoreError, match="is in use"):
            Store(target)
        refused.append(file.name)

    with Store(path) as store:
        commit(store, 1)
        monkeypatch.setattr(database_module, "sync", sync)
        store.backup(target)
        monkeypatch.undo()
        assert refused[0] == "copy.db.partial"
    with Store(target) as copied:
        assert_holds(copied, 1)


def test_a_file_with_two_names_has_no_writer(path: Path, tmp_path: Path) -> None:
    """Each name has a lock and a log of its own: two writers would not see each other."""
    filled(path, 2)
    other = tmp_path / "other.db"
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(StoreError, match=f"{name} has another name \\(a hard link\\)"):
            Store(name)
        with Store(name, read_only=True) as reader:
            assert_holds(reader, 2)
    other.unlink()
    filled(path, 3)
    with Store(path) as store:
        assert_holds(store, 3)


def test_writers_that_no_lock_stops(path: Path) -> None:
    """A save is refused where somebody else has saved: on a drive without locks, for instance."""
    filled(path, 1)
    with Store(path) as first:
        Path(f"{path}-lock").unlink()  # stands for such a drive
        with Store(path) as second:
            commit(first, 2)
            for _ in range(2):  # it is not forgotten
                with pytest.raises(StoreError, match="another process has written to it since"):
                    second.save({"last": mark(7)}, 2)
                assert_holds(first, 2)
            second.refresh()
            commit(second, 3)
            with pytest.raises(StoreError, match="another process has written to it since"):
                first.save({}, 3)
            first.refresh()
            assert_holds(first, 3)
            commit(first, 4)
    with Store(path) as store:
        assert_holds(store, 4)


class Meddler:
    """A connection that lets somebody else try to save after its ``at``-th statement."""

    def __init__(self, database: sqlite3.Connection, at: int, other: Callable[[], None]) -> None:
        self.database, self.left, self.other = database, at, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    def _run(self, name: str, *args: Any) -> Any:
        answer = getattr(self.database, name)(*args)
        answer = answer.fetchall() if name == "execute" else None
        self.left -= 1
        if self.left == 0:
            self.other()
        return Rows(answer)

    def execute(self, *args: Any) -> Any:
        return self._run("execute", *args)

    def executemany(self, *args: Any) -> Any:
        return self._run("executemany", *args)


class Rows:
    """What a statement has answered."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def fetchall(self) -> Any:
        return self.rows


def test_a_save_has_the_file_from_its_first_statement_to_its_last(path: Path) -> None:
    """Another writer comes after each of the statements; it is refused and the save is whole."""
    for at in itertools.count(1):
        path.unlink(missing_ok=True)
        filled(path, 1)
        with Store(path) as first:
            Path(f"{path}-lock").unlink()
            with Store(path) as second:
                second._connection.connected().execute("PRAGMA busy_timeout = 0")
                errors: list[str] = []

                def save(second: Store = second, errors: list[str] = errors) -> None:
                    try:
                        commit(second, 2)
                    except StoreError as error:
                        errors.append(str(error))

                database = first._connection.connected()
                meddler = Meddler(database, at, save)
                first._connection.database = meddler  # type: ignore[assignment]
                commit(first, 2)
                first._connection.database = database
                assert_holds(first, 2)
                if meddler.left > 0:
                    break
                (message,) = errors
                # After the last statement it could write, and sees that it must not.
                assert "database is locked" in message or "another process has written" in message
        with Store(path) as store:
            assert_holds(store, 2)
    assert at > 5


# Exits with the number of files that it can lock although the other process has them open: byte 128
# of the index says that it is mapped, the others of the database that it is open.
LOCK_FILES = """
import fcntl, os, sys
taken = 0
for ending, first, length in (("-shm", 128, 1), ("", 0x40000002, 510)):
    if not os.path.exists(sys.argv[1] + ending):
        continue
    with open(sys.argv[1] + ending, "rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, first)
            taken += 1
        except OSError:
            pass
sys.exit(taken)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs the locks of POSIX systems")
def test_sqlite_keeps_its_locks(path: Path) -> None:
    """If it did not, another process could cut off the index, and SIGBUS would end this one."""

    def n_taken() -> int:
        return subprocess.run([sys.executable, "-c", LOCK_FILES, path], check=False).returncode

    with Store(path) as store:
        commit(store, 1)
        for use in (is_store, Store, lambda path: Store(path, read_only=True).close()):
            with contextlib.suppress(StoreError):
                use(path)
            assert n_taken() == 0
        commit(store, 2)
    assert n_taken() == 1  # the index is gone


def test_the_lock_ends_with_its_process(path: Path) -> None:
    for _ in range(2):
        with subprocess.Popen(
            [*WITHOUT_BYTE_CODE, "-c", HOLD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline().strip() == b"open"
            with pytest.raises(StoreError, match="is in use"):
                Store(path)
            with Store(path, read_only=True) as reader:
                assert reader.offset == 0
            holder.kill()
            holder.wait()
        with Store(path) as store:
            assert len(store) == 0


def test_writers_take_turns(path: Path) -> None:
    """Many threads open, save and close: the lock is one's alone at any time."""
    turns = itertools.count(1)

    def work() -> None:
        done = 0
        while done < 6:
            with contextlib.suppress(StoreError), Store(path) as store:
                assert store.offset == store.notes.get("n", 0)
                n = next(turns)
                assert store.offset == n - 1
                store.save({}, n, notes={"n": n})
                done += 1

    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    with Store(path, read_only=True) as store:
        assert store.offset == 18


def test_a_closed_store_says_so(path: Path) -> None:
    store = Store(path)
    commit(store, 1)
    store.close()
    store.close()
    for use in (store.load, store.refresh, lambda: store.save({}), lambda: store.get_bytes("last")):
        with pytest.raises(StoreError, match="is closed"):
            use()
    with pytest.raises(StoreError, match="is closed"):
        store.backup(path.with_name("copy.db"))


def test_a_store_stays_in_its_process(path: Path) -> None:
    with Store(path) as store:
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="can't be pickled or copied"):
                copied(store)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_cannot_use_it(path: Path) -> None:
    code = f"""
import os
from streamcal.durable import Store, StoreError
store = Store({str(path)!r})
store.save({{}}, 1)
child = os.fork()
if not child:
    try:
        store.save({{}}, 2)
    except StoreError as error:
        good = "opened by another process" in str(error)
    store.close()
    os._exit(0 if good else 1)
assert os.waitpid(child, 0)[1] == 0
store.save({{}}, 3)
try:
    Store({str(path)!r})
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "is in use" in done.stdout
    with Store(path) as store:
        assert store.offset == 3


# Files that are none ------------------------------------------------------------------------------


def test_files_that_are_no_stores(path: Path, tmp_path: Path) -> None:
    empty, text, foreign = tmp_path / "empty.db", tmp_path / "text.db", tmp_path / "foreign.db"
    empty.touch()
    text.write_text("score,y\n" * 300)
    with contextlib.closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE head (id, text)")
        database.commit()
    before = foreign.read_bytes()
    for read_only in (False, True):
        for file, message in (
            (empty, "is empty: it is no store"),
            (text, "is damaged or no store"),
            (foreign, "is no store of states"),
            (tmp_path, "it is a folder"),
            (tmp_path / "missing" / "run.db", "there is no such folder"),
        ):
            with pytest.raises(StoreError, match=message) as caught:
                Store(file, read_only=read_only)
            assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="there is no such file"):
        Store(path, read_only=True)
    assert not path.exists()
    assert not tmp_path.with_name(tmp_path.name + "-lock").exists()
    assert foreign.read_bytes() == before


@pytest.mark.parametrize("read_only", [False, True])
def test_the_log_of_another_database_stays(tmp_path: Path, read_only: bool) -> None:
    """SQLite would play it back when it asks the database what it is."""
    code = """if True:
        import os, sqlite3, sys
        database = sqlite3.connect(sys.argv[1], isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE numbers (n)")
        os._exit(0)
    """
    foreign = tmp_path / "foreign.db"
    subprocess.run([sys.executable, "-c", code, foreign], check=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(before) == {"foreign.db", "foreign.db-wal", "foreign.db-shm"}
    with pytest.raises(StoreError, match="is no store of states"):
        Store(foreign, read_only=read_only)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("version", [1, 4])
def test_another_version_is_refused(path: Path, version: int) -> None:
    filled(path, 1)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=f"of version 3, got version {version}: another streamcal"):
        Store(path)


def rewrite(path: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement, values)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE head SET text = replace(text, '5', '6')",
        "UPDATE head SET text = NULL",
        "UPDATE head SET digest = 3",
        "DELETE FROM head",
    ],
)
def test_what_hands_do_to_the_head(path: Path, statement: str) -> None:
    filled(path, 5)
    rewrite(path, statement)
    with pytest.raises(StoreError):
        Store(path)


def rewrite_head(path: Path, **fields: Any) -> None:
    """Change fields of the head, which fits its digest then."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        ((text,),) = database.execute("SELECT text FROM head").fetchall()
        text = json.dumps({**json.loads(text), **fields})
        digest = rows.hash_of(text.encode())
        database.execute("UPDATE head SET text = ?, digest = ?", (text, digest))


@pytest.mark.parametrize("field", ["n_saves", "n_states"])
def test_counts_in_the_head_that_are_too_great(path: Path, field: str) -> None:
    """A `save` that would write what can't be read again writes nothing."""
    filled(path, 5)
    rewrite_head(path, **{field: 2**53 + (field == "n_states")})
    with pytest.raises(StoreError, match=f"is damaged: {field} must be an int from 0 to"):
        Store(path)
    most = 2**53 - (field == "n_saves")
    rewrite_head(path, **{field: most})
    with Store(path) as store:
        with pytest.raises(StoreError, match=f"is damaged: {field} must be an int from 0 to"):
            store.save({"new": mark(6)}, 6)
        assert (store.offset, "new" in store) == (5, False)
    with Store(path) as store:
        assert store.offset == 5


def assert_refused(store: Store, *uses: Callable[[], Any]) -> None:
    """Whatever reads all keys refuses the store, and so does each of the uses."""
    for use in (*uses, store.check, store.load):
        with pytest.raises(StoreError, match=f"{store.path} (is damaged|can't be read)") as caught:
            use()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE states SET data = ?",
        "UPDATE states SET data = 3",
        "UPDATE states SET data = NULL",
        "UPDATE states SET digest = 4000000000000",
        "UPDATE states SET digest = NULL",
        "UPDATE states SET n_saves = 6",
        "UPDATE states SET n_saves = 'x'",
        "UPDATE states SET key = CASE key WHEN 'last' THEN '5' WHEN '5' THEN 'last' ELSE key END",
    ],
)
def test_what_hands_do_to_states(path: Path, statement: str) -> None:
    """A row that is not what was saved is refused when it is read."""
    filled(path, 5)
    rewrite(path, statement, *[mark(4)] * statement.count("?"))
    with Store(path) as store:
        assert_refused(store, lambda: store.get("last"), lambda: store.get_bytes("last"))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM states",
        "DELETE FROM states WHERE key = 'last'",
        "INSERT INTO states VALUES (99, 'new', x'00', 1, x'00')",
        "INSERT INTO states SELECT 99, key, x'00', n_saves, data FROM states WHERE key = 'last'",
        "UPDATE states SET key = x'80' WHERE key = 'last'",
        "UPDATE states SET key = 'other' WHERE key = 'last'",
        "UPDATE states SET key = CASE key WHEN 'last' THEN '5' WHEN '5' THEN 'last' ELSE key END",
        "UPDATE states SET key = CAST(x'80' AS TEXT) WHERE key = 'last'",
    ],
)
def test_what_hands_add_and_remove(path: Path, statement: str) -> None:
    """The summary in the head is of all rows: it is compared by whatever reads all keys."""
    filled(path, 5)
    rewrite(path, statement)
    with Store(path) as store:
        assert_refused(store, store.keys, store.sizes)


def test_a_key_that_is_no_text(path: Path) -> None:
    filled(path, 5)
    rewrite(path, "UPDATE states SET key = x'80' WHERE key = 'last'")
    with Store(path) as store:
        assert_refused(store, lambda: store.first_key("m"))


def test_an_older_row_is_not_of_the_last_save(path: Path) -> None:
    """It fits its own digest; it is the summary that it does not fit."""
    filled(path, 4)
    with contextlib.closing(sqlite3.connect(path)) as database:
        query = "SELECT digest, n_saves, data FROM states WHERE key = 'last'"
        (older,) = database.execute(query).fetchall()
    filled(path, 5, start=5)
    with Store(path) as store:
        store.check()
    rewrite(path, "UPDATE states SET digest = ?, n_saves = ?, data = ? WHERE key = 'last'", *older)
    with Store(path) as store:
        assert_refused(store, store.keys, store.sizes)


def test_an_index_that_does_not_fit_its_table(path: Path) -> None:
    """A row was added while the index was not in the list of tables."""
    filled(path, 5)
    query = "SELECT rootpage, sql FROM sqlite_master WHERE name = 'directory'"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        (index,) = database.execute(query).fetchall()
        database.execute("PRAGMA writable_schema = ON")
        database.execute("DELETE FROM sqlite_master WHERE name = 'directory'")
    rewrite(path, "INSERT INTO states VALUES (99, 'new', x'00', 1, x'00')")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema = ON")
        values = "('index', 'directory', 'states', ?, ?)"
        database.execute(f"INSERT INTO sqlite_master VALUES {values}", index)
    with (
        Store(path) as store,
        pytest.raises(StoreError, match=r"is damaged: .* missing from index"),
    ):
        store.check()


MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000) SELECT"


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("in_log", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        f"DROP TABLE head; CREATE VIEW head AS {MANY} i AS id, i AS text, i AS digest FROM n",
        "DROP TABLE states; CREATE VIEW states AS SELECT 1 AS place, 'a' AS key, x'' AS digest",
        "CREATE TRIGGER later AFTER UPDATE ON head BEGIN DELETE FROM states; END",
        "CREATE TRIGGER never BEFORE INSERT ON states BEGIN SELECT RAISE(IGNORE); END",
        "CREATE INDEX mine ON states (abs(place))",
        "CREATE TABLE mine (a)",
        "ALTER TABLE states ADD COLUMN mine",
        "DROP INDEX directory",
        "DROP TABLE head",
        "DROP TABLE states",
    ],
)
def test_a_store_runs_no_statement_of_somebody_else(
    path: Path, tmp_path: Path, statements: str, in_log: bool, read_only: bool
) -> None:
    """Other tables are refused before anything is read from them."""
    crafted = tmp_path / "crafted.db"
    with Store(path) as store:
        commit(store, 1)
        database = store._connection.connected()
        database.executescript(f"BEGIN; {statements}; COMMIT")
        if not in_log:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{crafted}{ending}")
    before = crafted.read_bytes()
    with pytest.raises(StoreError, match="its tables are not those of a store"):
        Store(crafted, read_only=read_only)
    assert in_log or crafted.read_bytes() == before


# Disks that fail ----------------------------------------------------------------------------------


def test_a_full_disk(path: Path) -> None:
    with Store(path) as store:
        commit(store, 1)
        database = store._connection.connected()
        (n_pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {n_pages + 1}")
        with pytest.raises(StoreError, match="can't be written: database or disk is full"):
            store.save({f"big {i}": mark(9, 10_000) for i in range(9)}, 9, notes={"n": 9})
        assert_holds(store, 1)
        database.execute("PRAGMA max_page_count = 1000000")
        commit(store, 2)
        assert_holds(store, 2)
    with Store(path) as store:
        assert_holds(store, 2)


def test_a_folder_that_is_read_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, 2)
    if os.geteuid():
        path.parent.chmod(0o500)
        message = "can't be opened|can't be written"
    else:  # root may write anywhere

        def refuse(*args: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(connection_module, "take_lock", refuse)
        message = "can't be opened: Permission denied"
    with pytest.raises(StoreError, match=message):
        Store(path)
    path.parent.chmod(0o700)
    monkeypatch.undo()
    with Store(path) as store:
        assert_holds(store, 2)


def test_a_reader_in_a_folder_that_is_read_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, 2)
    path.parent.chmod(0o500)
    with Store(path, read_only=True) as reader:
        assert_holds(reader, 2)
    path.parent.chmod(0o700)
    original = connection_module.connect  # type: ignore[attr-defined]

    def refuse(path: Path, read_only: bool, immutable: bool = False) -> sqlite3.Connection:
        if read_only and not immutable and not path.with_name(path.name + "-wal").exists():
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return original(path, read_only, immutable)

    monkeypatch.setattr(connection_module, "connect", refuse)  # root may write anywhere
    with Store(path, read_only=True) as reader:
        assert_holds(reader, 2)
        with Store(path) as writer:
            commit(writer, 3)
            reader.refresh()
            assert_holds(reader, 3)
            commit(writer, 4)
        reader.refresh()
        assert_holds(reader, 4)
    filled(path, 5, start=5)  # the last to close the file removes the log
    with Store(path, read_only=True) as reader:
        assert_holds(reader, 5)
        filled(path, 6, start=6)
        assert read_mark(reader.get_bytes("last")) == 6  # without `refresh`, as anywhere else
        with Store(path) as writer:
            commit(writer, 7)
            assert read_mark(reader.get_bytes("last")) == 7


def become_another(path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be of another user than a store, as far as it can see."""
    if how == "may not write":
        monkeypatch.setattr(os, "access", lambda file, mode: Path(file).name != path.name)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345_678)


OTHERS = pytest.mark.parametrize(
    "how",
    [
        "may not write",
        pytest.param(
            "may write",
            marks=pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files"),
        ),
    ],
)


@OTHERS
def test_a_reader_of_another_user_makes_no_file(
    path: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner could not write to a log of another user, so not to the store any more."""
    filled(path, 2)
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        become_another(path, how, patch)
        with Store(path, read_only=True) as reader:
            assert_holds(reader, 2)
            assert sorted(tmp_path.iterdir()) == before
            reader.check()
        assert sorted(tmp_path.iterdir()) == before


@OTHERS
def test_a_reader_of_another_user_makes_no_index_of_a_log(
    path: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a database and its log were copied without the index."""
    with Store(path) as store:
        commit(store, 1)
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{tmp_path / 'copy.db'}{ending}")
    copied = tmp_path / "copy.db"
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        become_another(copied, how, patch)
        with pytest.raises(StoreError, match="its owner must open it first"):
            Store(copied, read_only=True)
        assert sorted(tmp_path.iterdir()) == before
    with Store(copied) as store:
        assert_holds(store, 1)
        become_another(copied, how, monkeypatch)
        with Store(copied, read_only=True) as reader:
            assert_holds(reader, 1)


@pytest.mark.parametrize("use", ["read", "fail"])
def test_what_a_reader_without_a_lock_has_read_is_of_one_save(
    path: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that comes during a read does not see this reader."""
    filled(path, 2)
    become_another(path, "may not write", monkeypatch)
    with Store(path, read_only=True) as reader:
        monkeypatch.undo()

        def read() -> None:
            with reader._reading():
                filled(path, 3, start=3)
                if use == "fail":
                    raise ValueError("pages of two saves")

        with pytest.raises(StoreError, match="it was written meanwhile; read it again"):
            read()
        reader.refresh()
        assert_holds(reader, 3)


def test_a_backup_of_a_reader_without_a_lock_is_of_one_save(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        """A connection during whose backup somebody else saves."""

        def __init__(self, database: Any) -> None:
            self.database = database

        def __getattr__(self, name: str) -> Any:
            return getattr(self.database, name)

        def backup(self, copy: sqlite3.Connection) -> None:
            filled(path, 3, start=3)
            self.database.backup(copy)

    filled(path, 2)
    become_another(path, "may not write", monkeypatch)
    with Store(path, read_only=True) as reader:
        monkeypatch.undo()
        reader._connection.database = Late(reader._connection.database)  # type: ignore[assignment]
        with pytest.raises(StoreError, match="it was written meanwhile; read it again"):
            reader.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()
        reader.backup(tmp_path / "copy.db")
    with Store(tmp_path / "copy.db") as copied:
        assert_holds(copied, 3)


@pytest.mark.parametrize("beside", ["", "-lock", "-wal", "-shm"])
def test_a_file_that_may_not_be_written_has_no_writer(
    path: Path, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would open it all the same, only to be read, and lock nothing."""
    filled(path, 2)
    name = path.name + beside
    path.with_name(name).touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != name)
    message = "can't be opened: Permission denied" + (f": .*{name}" if beside else "$")
    with pytest.raises(StoreError, match=message):
        Store(path)
    with Store(path, read_only=True) as reader:
        assert_holds(reader, 2)
    monkeypatch.undo()
    filled(path, 3)


class Flaky:
    """A connection that is interrupted before or after its ``at``-th statement, and then once more.

    The second time is before the next statement: that is the ``ROLLBACK``.
    """

    def __init__(self, database: sqlite3.Connection, at: int, after: bool, twice: bool) -> None:
        self.database, self.at, self.after, self.n = database, at, after, 0
        self.until = at + twice

    def __getattr__(self, name: str) -> Any:
        return getattr(self.database, name)

    def _run(self, name: str, *args: Any) -> Any:
        self.n += 1
        if self.n == self.until != self.at or (self.n == self.at and not self.after):
            raise KeyboardInterrupt
        answer = getattr(self.database, name)(*args)
        if self.n == self.at:
            raise KeyboardInterrupt
        return answer

    def execute(self, *args: Any) -> Any:
        return self._run("execute", *args)

    def executemany(self, *args: Any) -> Any:
        return self._run("executemany", *args)


def test_a_backup_after_an_interrupt_has_what_was_saved(path: Path, tmp_path: Path) -> None:
    """The rows of a `save` that was interrupted in its ``ROLLBACK``, too, are not in the copy."""
    with Store(path) as store:
        commit(store, 1)
        database = store._connection.database
        assert database is not None
        for at in (2, 3, 4, 5):
            store._connection.database = Flaky(database, at, True, True)  # type: ignore[assignment]
            with contextlib.suppress(KeyboardInterrupt):
                store.save({"new": mark(at)})
            store._connection.database = database
            store.backup(tmp_path / "copy.db")
            with Store(tmp_path / "copy.db", read_only=True) as copy:
                copy.check()
                assert_holds(copy, 1)


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_interrupt_at_any_statement(path: Path, after: bool, twice: bool) -> None:
    """After a ``KeyboardInterrupt`` in `save`, the same store is still used."""
    for at in itertools.count(1):
        path.unlink(missing_ok=True)
        with Store(path) as store:
            commit(store, 1)
            database = store._connection.database
            assert database is not None
            flaky = Flaky(database, at, after, twice)
            store._connection.database = flaky  # type: ignore[assignment]
            interrupted = False
            try:
                commit(store, 2)
            except KeyboardInterrupt:
                interrupted = True
            store._connection.database = database
            with Store(path, read_only=True) as reader:
                n = reader.offset
                assert_holds(reader, n)
            assert n in (1, 2)
            ask = itertools.cycle([store.keys, lambda: store.offset, lambda: "3" in store])
            for _ in range(at % 3 + 1):  # whatever is asked first
                next(ask)()
            assert_holds(store, n)
            for k in range(n + 1, 5):
                commit(store, k)
            assert_holds(store, 4)
        with Store(path) as store:
            assert_holds(store, 4)
        if not interrupted:
            break
    assert at > 5


# Processes that are killed ------------------------------------------------------------------------

SAVE = """
import sys
sys.path.insert(0, sys.argv[2])
from streamcal.durable.store import Store
from tests.test_store import commit
with Store(sys.argv[1]) as store:
    n = store.offset
    while True:
        n += 1
        commit(store, n)
        print(n, flush=True)
"""


def test_killed_in_the_middle_of_saves(path: Path) -> None:
    rng = np.random.default_rng(7)
    n_kills = int(os.environ.get("STREAMCAL_SOAK", "0")) // 100 or 4
    root = str(Path(__file__).parents[1])
    saved = 0
    for _ in range(n_kills):
        with subprocess.Popen(
            [*WITHOUT_BYTE_CODE, "-c", SAVE, str(path), root], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for _ in range(int(rng.integers(1, 60))):
                saved = int(process.stdout.readline())
            # The pipe holds more than was read: the process is anywhere in a later save.
            os.kill(process.pid, signal.SIGKILL)
            rest = process.stdout.read().split(b"\n")[:-1]
        saved = int(rest[-1]) if rest else saved
        with Store(path, read_only=True) as store:
            assert store.offset in (saved, saved + 1)
            assert_holds(store, store.offset)


# Files that are damaged ---------------------------------------------------------------------------


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flip bits, or overwrite a stretch."""
    broken = bytearray(data)
    kind = rng.integers(4)
    at = int(rng.integers(len(data)))
    if kind == 0:
        return bytes(broken[:at])
    if kind == 1:
        stop = min(len(data), at + int(rng.integers(1, 5000)))
        broken[at:stop] = rng.bytes(stop - at) if rng.random() < 0.5 else bytes(stop - at)
        return bytes(broken)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(min(len(data), 200 if kind == 2 else len(data))))
        broken[at] ^= 1 << rng.integers(8)
    return bytes(broken)


@pytest.mark.parametrize("log", ["none", "after", "doubled"])
def test_damage_is_refused_or_does_no_harm(path: Path, tmp_path: Path, log: str) -> None:
    """30,000 files by STREAMCAL_SOAK=30000; fewer in the gates.

    The log is empty, or holds the commits after the fifth, or also what the file has by now: cut,
    it would put old pages among new ones.
    """
    n_rounds = int(os.environ.get("STREAMCAL_SOAK", "600")) // 3
    rng = np.random.default_rng(5)
    n_last = 9
    with Store(path) as store:
        for n in range(1, n_last + 1):
            commit(store, n)
            if n == 5 and log != "none":
                store._connection.connected().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if log != "after":
            mode = "TRUNCATE" if log == "none" else "PASSIVE"
            store._connection.connected().execute(f"PRAGMA wal_checkpoint({mode})")
        parts = {rest: Path(f"{path}{rest}").read_bytes() for rest in ("", "-wal")}
    broken = tmp_path / "broken.db"
    held_at, refused = [], []
    for _ in range(n_rounds):
        for rest in ("", "-wal", "-shm"):
            Path(f"{broken}{rest}").unlink(missing_ok=True)
        hit = "-wal" if log != "none" and rng.random() < 0.7 else ""
        for rest, data in parts.items():
            if data:
                Path(f"{broken}{rest}").write_bytes(damage(data, rng) if rest == hit else data)
        try:
            with Store(broken, read_only=bool(rng.random() < 0.5)) as store:
                for key in (*map(str, range(10)), "last"):  # each is checked without the others
                    with contextlib.suppress(StoreError, KeyError):
                        assert read_mark(store.get_bytes(key)) == expected(store.offset).get(key)
                assert_holds(store, store.offset)
                held_at.append(store.offset)
        except StoreError as error:
            refused.append(str(error))
    assert [m for m in refused if "\n" in m or str(broken) not in m] == []
    assert set(held_at) <= ({n_last} if log == "none" else set(range(5, n_last + 1)))
    assert held_at
    assert refused or log == "after"  # whose file the log replaces, or nearly


def test_a_state_that_is_damaged_does_not_spoil_others(path: Path) -> None:
    filled(path, 5)
    data = bytearray(path.read_bytes())
    at = data.find(mark(5, 20))
    data[at + 60] ^= 1
    path.write_bytes(data)
    with Store(path) as store:
        with pytest.raises(StoreError, match="is damaged"):
            store.get_bytes("last")
        good = expected(5)
        del good["last"]
        assert {key: read_mark(store.get_bytes(key)) for key in good} == good


def test_the_head_is_json_that_others_can_read(path: Path) -> None:
    filled(path, 3)
    with contextlib.closing(sqlite3.connect(path)) as database:
        ((text,),) = database.execute("SELECT text FROM head").fetchall()
    head = json.loads(text)
    assert (head["offset"], head["notes"], head["n_states"]) == (3, {"n": 3}, len(expected(3)))


# Several reads of one moment ----------------------------------------------------------------------


def test_all_reads_inside_reading_see_one_save(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    one, other = PlattCalibrator(), PlattCalibrator()
    other.learn_many([0.2, 0.8], [0, 1])
    with Store(path) as writer:
        writer.save({"a": one}, 1, notes={"n": 1})
        with Store(path, read_only=True) as reader:
            with reader.reading(), reader.reading():
                writer.save({"a": other, "b": other}, 2, notes={"n": 2})
                assert (reader.offset, reader.notes, len(reader)) == (1, {"n": 1}, 1)
                assert reader.get_bytes("a") == one.to_bytes()
                assert (reader.keys(), "b" in reader, list(reader.sizes())) == (["a"], False, ["a"])
                reader.check()
            assert reader.get_bytes("a") == other.to_bytes()
            assert (reader.offset, reader.notes, reader.keys()) == (2, {"n": 2}, ["a", "b"])
        with pytest.raises(StoreError, match="`reading` needs read_only=True"), writer.reading():
            pass


def test_an_error_inside_reading_is_not_one_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Store(path) as writer:
        writer.save({"a": PlattCalibrator()}, 1)
    for error in (ZeroDivisionError(), ValueError("mine"), KeyboardInterrupt()):
        with Store(path, read_only=True) as reader:
            with pytest.raises(type(error)) as found, reader.reading():
                raise error
            assert found.value is error
            assert reader.keys() == ["a"]


def test_a_backup_inside_reading_is_of_the_same_save(tmp_path: Path) -> None:
    path, copy = tmp_path / "run.db", tmp_path / "copy.db"
    with Store(path) as writer, Store(path, read_only=True) as reader:
        writer.save({"a": PlattCalibrator()}, 1)
        with reader.reading():
            assert reader.keys() == ["a"]
            writer.save({"b": PlattCalibrator()}, 2)
            reader.backup(copy)
            writer.save({"c": PlattCalibrator()}, 3)
            assert (reader.offset, reader.keys()) == (1, ["a"])
        assert (reader.keys(), reader.offset) == (["a", "b", "c"], 3)
    with Store(copy) as backup:
        assert (backup.offset, backup.keys()) == (1, ["a"])


def test_an_interrupt_at_the_edge_of_reading_leaves_no_old_reads(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    gc.collect()
    gc.freeze()  # what other tests have left is not looked at again and again
    with Store(path) as writer, Store(path, read_only=True) as reader:
        for k in itertools.count():
            calls = itertools.count()

            def trace(frame: Any, event: str, _: Any) -> None:
                if next(calls) == k:  # noqa: B023  (called in this turn only)
                    raise InterruptionError

            writer.save({f"{k}": PlattCalibrator()}, k)
            assert (len(reader.keys()), reader.offset) == (k + 1, k)
            before = sys.gettrace()
            sys.settrace(trace)
            try:
                with reader.reading():
                    pass
                break
            except InterruptionError:
                pass
            finally:
                sys.settrace(before)
            gc.collect()  # generators that were interrupted at their ends
    assert k > 10


def test_a_store_that_is_closed_inside_reading_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Store(path) as writer:
        writer.save({"a": PlattCalibrator()}, 1)
    reader = Store(path, read_only=True)
    reading = reader.reading()
    reading.__enter__()
    reader.close()
    with pytest.raises(StoreError, match="is closed"):
        reader.keys()
    with pytest.raises(StoreError, match="is closed"):
        reading.__exit__(None, None, None)
