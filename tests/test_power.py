"""Loss of power: from any possible content of the disk, a run ends as without the loss.

The guarantees hold: the disk has the offset of a `save` that had returned, a backup, the output of
a command that had ended. STREAMCAL_SOAK tries every state, and takes minutes.
"""

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import IsotonicCalibrator, KeyedCalibrator
from streamcal.durable import engine
from streamcal.durable.store import Store
from tests.power import Record, State, held, mark, needs_recorder, put
from tests.test_engine import EVENTS, contents
from tests.test_resume import calibrate, states, write_table

pytestmark = needs_recorder

N_STATES = None if "STREAMCAL_SOAK" in os.environ else 50
OLDER = b"what was there before\n"


class Always:
    """A pace at which each commit is due: the record does not depend on the clock."""

    is_due = staticmethod(lambda: True)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class Lines:
    """An exactly-once sink: a file of lines, synced by `commit`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def resume(self, token: int | None) -> None:
        self.file = open(self.path, "r+b" if token else "wb", buffering=0)  # noqa: SIM115
        self.file.truncate(token or 0)
        self.file.seek(token or 0)

    def __call__(self, offset: int, values: np.ndarray) -> None:
        for at, value in enumerate(values.tolist(), offset):
            self.file.write(f"{at} {value!r}\n".encode())

    def commit(self) -> int:
        os.fsync(self.file.fileno())
        folder = os.open(self.path.parent, os.O_RDONLY)  # the file may be new
        os.fsync(folder)
        os.close(folder)
        return self.file.tell()


class Marked(Store):
    """A store that records which saves have returned."""

    def save(self, *args: Any, **kwargs: Any) -> None:
        super().save(*args, **kwargs)
        mark("saved", self.offset)


def run_engine(root: Path, stop: int, *, keep_open: bool = False) -> None:
    """Run the first events of a stream; leave the files as a process does that is killed."""
    store = Marked(root / "state" / "run.db")
    store._connection.connected().execute(
        "PRAGMA wal_autocheckpoint = 12"
    )  # pages: the log begins anew at times
    keyed = KeyedCalibrator(IsotonicCalibrator(window=5), max_live=2, store=store)
    sink = Lines(root / "out" / "lines")
    engine.run(EVENTS[:stop], keyed, sink, store, batch_size=3)
    if keep_open:
        os._exit(0)
    sink.file.close()
    store.close()


def back_up(root: Path) -> int:
    """Copy the last save, and return its offset."""
    with Store(root / "state" / "run.db", read_only=True) as store:
        store.backup(root / "out" / "copy.db")
        mark("copied", store.offset)
        return store.offset


def record_engine(root: Path) -> None:
    """A run is killed, backed up and continued; the backup has a log, and is replaced."""
    engine.Pace = Always  # type: ignore[assignment,attr-defined]
    for stop in (7, 14):
        child = os.fork()
        if not child:
            run_engine(root, stop, keep_open=True)
        assert os.waitpid(child, 0)[1] == 0
        back_up(root)
        child = os.fork()
        if not child:
            with_a_log = Store(root / "out" / "copy.db")
            with_a_log.save({}, notes={"seen": True})
            mark("seen", with_a_log.offset)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    run_engine(root, len(EVENTS))
    back_up(root)


def folders(path: Path) -> Path:
    root = path / "root"
    for name in ("state", "out"):
        (root / name).mkdir(parents=True)
    return root


def record(root: Path, function: str) -> Record:
    code = f"import sys, pathlib, tests.test_power as t; t.{function}(pathlib.Path(sys.argv[1]))"
    return Record(root, code, str(root))


def tried(states: list[State]) -> Any:
    """Iterate over states; errors of a test name the state."""
    assert len(states) >= 50
    for n, state in enumerate(states):
        try:
            yield state
        except GeneratorExit:
            print(f"state {n} of {len(states)}, {state.marks}")
            print({name: len(data) for name, data in state.files().items()})
            print(*((how, *c._replace(data=c.data[:24])) for c, how in state.rest), sep="\n")
            raise


def test_an_engine_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Pace", Always)
    (tmp_path / "straight").mkdir()
    straight = folders(tmp_path / "straight")
    at_offset = {}
    for stop in sorted({*range(0, 20, 3), *range(7, 20, 3), *range(14, 20, 3), 7, 14, 20}):
        run_engine(straight, stop)
        at_offset[stop] = contents(straight / "state" / "run.db")
    wanted = (straight / "out" / "lines").read_bytes()
    recorded = record(folders(tmp_path), "record_engine")
    root, copy = recorded.root, recorded.root / "out" / "copy.db"
    for state in tried(recorded.states(1, N_STATES)):
        put(root, state.files())
        if "saved" in state.marks:
            with Store(root / "state" / "run.db", read_only=True) as store:
                assert store.offset >= state.marks["saved"]
        if copy.exists():
            offset, kept = contents(copy)
            assert (offset, kept) == at_offset[offset]
            assert offset >= state.marks.get("copied", 0)
            if offset == state.marks.get("seen"):
                with Store(copy, read_only=True) as store:
                    assert store.notes == {"seen": True}
        else:
            assert "copied" not in state.marks
        run_engine(root, len(EVENTS))
        assert (root / "out" / "lines").read_bytes() == wanted
        assert contents(root / "state" / "run.db") == at_offset[20]
        assert back_up(root) == 20
        assert contents(copy) == at_offset[20]


def record_command(root: Path) -> None:
    """The command is killed twice, and ends."""
    engine.Pace = Always  # type: ignore[assignment,attr-defined]
    for n_batches in (3, 7, None):
        child = os.fork()
        if not child:
            run_command(root, n_batches)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def run_command(root: Path, n_batches: int | None) -> None:
    """Run the command; the process ends after so many batches."""
    original, batches = engine._Loop._commit, itertools.count(1)

    def reached(self: Any, whole: bool = False) -> None:
        original(self, whole)
        mark("row", self.committed)
        if next(batches) == n_batches:
            os._exit(0)

    engine._Loop._commit = reached  # type: ignore[method-assign]
    command(root)
    mark("ended", True)


def command(root: Path) -> None:
    calibrate(
        root / "table.csv", root / "out" / "out.csv", root / "state" / "run.db", "--batch-size", 10
    )


def test_a_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Pace", Always)
    root = folders(tmp_path)
    table = write_table(root / "table.csv", 60)
    (root / "out" / "out.csv").write_bytes(OLDER)
    recorded = record(root, "record_command")
    straight = tmp_path / "straight.csv"
    calibrate(table, straight, tmp_path / "straight.db", "--batch-size", 10)
    wanted = straight.read_bytes()
    assert held(root)["out/out.csv"] == wanted
    for state in tried(recorded.states(2, N_STATES)):
        put(root, state.files())
        assert (root / "out" / "out.csv").read_bytes() in (OLDER, wanted)
        if "ended" in state.marks:
            assert (root / "out" / "out.csv").read_bytes() == wanted
        elif "row" in state.marks:
            with Store(root / "state" / "run.db", read_only=True) as store:
                assert store.notes["sink"]["row"] >= state.marks["row"]
        command(root)
        assert (root / "out" / "out.csv").read_bytes() == wanted
        assert states(root / "state" / "run.db") == states(tmp_path / "straight.db")
        assert {path.name for path in (root / "out").iterdir()} == {"out.csv"}
