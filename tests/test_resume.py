"""``streamcal calibrate --store``: killed at any instant, the output is that of one run.

The kill harness runs alone, for longer, as

    STREAMCAL_KILLS=200 python -m pytest tests/test_resume.py -k killed -s
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from streamcal.cli.report_sources import StoreSubject
from streamcal.cli.resumable_output import ResumableOutput, RunNotes
from streamcal.durable import Store, StoreError, engine
from streamcal.tables.output import Output
from tests import WITHOUT_BYTE_CODE
from tests.runner import run

COMMAND = [*WITHOUT_BYTE_CODE, "-m", "streamcal.cli", "calibrate"]  # some are killed


def write_table(path: Path, n: int, seed: int = 0, start: int = 0) -> Path:
    """Write rows ``start`` to ``n`` of a stream: three keys, drifting, some labels missing."""
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(4)
    y = (rng.random(n) < p ** np.linspace(1, 2, n)).astype(int).astype(str)
    y[rng.random(n) < 0.05] = ""
    keys = rng.choice(["a", "b", "ü,x"], n)
    w = rng.uniform(0.5, 2.0, n).round(3)
    lines = [f'{i},{p[i]},{y[i]},{w[i]},"{keys[i]}"' for i in range(start, n)]
    path.write_text("\n".join(["id,p,y,w,k", *lines]) + "\n")
    return path


def arguments(table: Path, out: Path, store: Path | None, *more: Any) -> list[str]:
    stored = [] if store is None else ["--store", store]
    columns = ["--score", "p", "--label", "y", "--weight", "w", "--key", "k"]
    method = [] if "--calibrator" in more else ["--calibrator", "isotonic", "--window", 400]
    return [str(a) for a in (table, *columns, *method, "--out", out, *stored, *more)]


def calibrate(
    table: Path, out: Path, store: Path | None, *more: Any, status: int = 0, input: Any = None
) -> str:
    """Run the command in this process and return its output; a traceback fails the test."""
    command = ["calibrate", *arguments(table, out, store, *more)]
    return run(*command, status=status, input=input).stderr


def states(store: Path) -> dict[str, bytes]:
    with Store(store) as opened:
        return {key: opened.get_bytes(key) for key in opened.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, bytes]:
    """The folder of `done`, made once: a store contains the paths of its run."""
    folder = tmp_path_factory.mktemp("done")
    table = write_table(folder / "table.csv", 3000)
    out, store = folder / "whole.csv", folder / "whole.db"
    calibrate(table, out, store, "--batch-size", 100)
    return {path: path.read_bytes() for path in (table, out, store)}


@pytest.fixture
def done(whole: dict[Path, bytes]) -> Iterator[tuple[Path, ...]]:
    """A table, the output of one run, and its store."""
    for path, data in whole.items():
        path.write_bytes(data)
    yield tuple(whole)
    for path in next(iter(whole)).parent.iterdir():
        path.unlink()


def test_a_hedge_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    table, out, store, plain = (tmp_path / name for name in ("t.csv", "o.csv", "s.db", "p.csv"))
    hedge = ("--calibrator", "hedge")
    for n in (700, 701, 1500):
        write_table(table, 1500)
        table.write_text("".join(table.read_text().splitlines(keepends=True)[: n + 1]))
        calibrate(table, out, store, *hedge)
    calibrate(table, plain, None, *hedge)
    assert out.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("delay", [1, 30])
def test_groups_go_on_as_if_nothing_had_happened(tmp_path: Path, delay: int) -> None:
    """The table grows, and a second one follows, in the middle of a group; some rows have none."""
    whole = write_table(tmp_path / "all.csv", 200)
    header, *rows = whole.read_text().splitlines(keepends=True)
    names = ["" if i // 7 % 5 == 1 else i // 7 for i in range(200)]
    header, rows = f"g,{header}", [f"{g},{row}" for g, row in zip(names, rows, strict=True)]
    whole.write_text("".join([header, *rows]))
    more = ("--calibrator", "hedge", "--group", "g", "--delay", delay)
    found: list[str] = []
    for name, start, stops in (("a", 0, (100, 101, 150)), ("b", 150, (200,))):
        table, out = tmp_path / f"{name}.csv", tmp_path / f"{name}.out.csv"
        for stop in stops:
            table.write_text("".join([header, *rows[start:stop]]))
            batch_size = 9 if stop % 2 else 20
            calibrate(table, out, tmp_path / "s.db", *more, "--batch-size", batch_size)
        found += out.read_text().splitlines()[1:]
    calibrate(whole, tmp_path / "plain.csv", None, *more)
    assert found == (tmp_path / "plain.csv").read_text().splitlines()[1:]
    table.write_text("".join([header, *rows[150:]]).replace("\n22,", "\n23,"))
    with table.open("a") as file:
        file.write(rows[0])
    printed = calibrate(table, out, tmp_path / "s.db", *more, status=1)
    assert "a table may grow between runs, not change" in printed


@pytest.mark.parametrize("delay", [1, 30])
def test_segments_go_on_as_if_nothing_had_happened(tmp_path: Path, delay: int) -> None:
    table, out, store, plain = (tmp_path / name for name in ("t.csv", "o.csv", "s.db", "p.csv"))
    more = ("--calibrator", "hedge", "--segment", "k", "--segment", "w", "--delay", delay)
    for n in (100, 101, 200):
        write_table(table, 200)
        table.write_text("".join(table.read_text().splitlines(keepends=True)[: n + 1]))
        calibrate(table, out, store, *more)
    calibrate(table, plain, None, *more, "--batch-size", 17)
    assert out.read_bytes() == plain.read_bytes()
    result = run("report", store, "--out", tmp_path / "r.html", status=None)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "r.html").read_text()
    assert "SegmentCalibrator" in page
    assert "k, w" in page


def test_values_of_segments_that_were_learned_must_not_change(tmp_path: Path) -> None:
    table, out, store = write_table(tmp_path / "t.csv", 20), tmp_path / "o.csv", tmp_path / "s.db"
    lines = table.read_text().splitlines(keepends=True)
    more = ("--calibrator", "platt", "--segment", "id")
    table.write_text("".join(lines[:-1]))
    calibrate(table, out, store, *more)
    table.write_text("".join(lines).replace("\n3,", "\n33,"))
    assert "a table may grow between runs, not change" in calibrate(
        table, out, store, *more, status=1
    )
    printed = calibrate(table, out, store, *more[:2], status=1)
    assert "was started with --segment id, and this command is without --segment" in printed
    assert "needs a --store and an --out of its own" in printed


def test_the_state_changes_nothing_in_the_output(done: tuple[Path, ...]) -> None:
    table, out, _ = done
    plain = out.with_name("plain.csv")
    calibrate(table, plain, None)
    assert out.read_bytes() == plain.read_bytes()
    assert not list(out.parent.glob("*.partial"))


class Crash(BaseException):
    """Simulates a kill."""


class _Always:
    is_due = staticmethod(lambda: True)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def test_a_crash_while_rows_are_passed_over(
    done: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, whole, _ = done
    out, store = whole.with_name("out.csv"), whole.with_name("run.db")
    monkeypatch.setattr(engine, "Pace", _Always)
    original = engine._Loop._take_batch
    for limit in (2000, 500, 2500):
        chunks = iter(range(limit // 100 + 1))

        def reached(self: Any, n: int, chunks: Any = chunks) -> Any:
            if next(chunks, None) is None:
                raise Crash
            return original(self, n)

        with monkeypatch.context() as patch:
            patch.setattr(engine._Loop, "_take_batch", reached)
            with pytest.raises(Crash):
                calibrate(table, out, store, "--batch-size", 100)
    calibrate(table, out, store)
    assert out.read_bytes() == whole.read_bytes()


POINTS = [
    (Store, "save", "before"),
    (Store, "save", "after"),
    (Output, "write", "before"),
    (Output, "write", "after"),
    (Output, "sync", "after"),
]


@pytest.mark.parametrize("at", [1, 7, 29])
@pytest.mark.parametrize("point", POINTS, ids=lambda p: f"{p[2]} {p[0].__name__}.{p[1]}")
def test_crashes_at_every_step(
    done: tuple[Path, ...], point: tuple[type, str, str], at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the n-th save or write; then the command runs again."""
    table, whole, whole_store = done
    out, store = whole.with_name("out.csv"), whole.with_name("run.db")
    kind, method, when = point
    original, calls = getattr(kind, method), 0

    def crashing(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at and when == "before":
            raise Crash
        result = original(self, *args, **kwargs)
        if calls == at:
            raise Crash
        return result

    with monkeypatch.context() as patch:
        patch.setattr(kind, method, crashing)
        patch.setattr(engine, "Pace", _Always)
        try:
            calibrate(table, out, store, "--batch-size", 100)
        except Crash:
            assert not out.exists() or calls >= at
    calibrate(table, out, store, "--batch-size", random.Random(at).choice([9, 64, 5000]))
    assert out.read_bytes() == whole.read_bytes()
    assert states(store) == states(whole_store)


@pytest.mark.parametrize("delay", ["50", "d"])
def test_labels_that_are_late_wait_in_the_store(
    tmp_path: Path, delay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed again and again, and over two tables, it learns each label when one run would."""
    table = write_table(tmp_path / "all.csv", 400)
    lines = table.read_text().splitlines(keepends=True)
    delays = np.random.default_rng(1).integers(0, 90, 400).tolist()
    header, *rows = ["d," + lines[0], *(f"{d},{x}" for d, x in zip(delays, lines[1:], strict=True))]
    table.write_text("".join([header, *rows]))
    more = ("--delay", delay, "--calibrator", "hedge", "--batch-size", 20)
    plain = tmp_path / "plain.csv"
    calibrate(table, plain, None, *more)
    monkeypatch.setattr(engine, "Pace", _Always)
    original, calls, dead = engine._Loop._commit, 0, False

    def crashing(self: Any, whole: bool = False) -> None:
        nonlocal calls, dead
        calls += not dead
        if dead or calls == 1:
            dead = True
            raise Crash  # at the first call the table is begun, and nothing is committed
        original(self, whole)
        if calls in (3, 9) and not self.has_ended:
            dead = True
            raise Crash

    parts: list[str] = []
    for name, part in (("mon", rows[:220]), ("tue", rows[220:])):
        path, out = tmp_path / f"{name}.csv", tmp_path / f"{name}.out.csv"
        path.write_text("".join([header, *part]))
        with monkeypatch.context() as patch:
            patch.setattr(engine._Loop, "_commit", crashing)
            calls, n_crashes = 0, 0
            while not out.exists():
                dead = False
                try:
                    calibrate(path, out, tmp_path / "run.db", *more)
                except Crash:
                    n_crashes += 1
        assert n_crashes == 3
        parts += out.read_text().splitlines()[1:]
    assert parts == plain.read_text().splitlines()[1:]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (2, 5.0),  # the score
        (3, 7.0),  # the label
        (7, [0, 0.5]),  # the ticket
        (7, [None, [0, [0.5]]]),
    ],
)
@pytest.mark.parametrize("more", [(), ("--group", "w")], ids=["rows", "groups"])
def test_a_row_that_waits_and_cannot_be_learned_is_a_line(
    tmp_path: Path, place: int, value: Any, more: tuple[str, ...]
) -> None:
    store, options = tmp_path / "s.db", ("--delay", 9, "--calibrator", "hedge", *more)
    first, second = (write_table(tmp_path / f"{n}.csv", n) for n in (60, 61))
    calibrate(first, tmp_path / "60.out.csv", store, *options)
    with Store(store) as opened:
        notes = RunNotes(opened)
        late, *others = notes.now["waiting"]
        late[place] = value
        notes.change(waiting=[late, *others])
    before = states(store)
    printed = calibrate(second, tmp_path / "61.out.csv", store, *options, status=1)
    assert f"{store} is damaged: a sample that waited for its label can't be learned" in printed
    assert states(store) == before


def test_notes_of_another_version_are_refused(tmp_path: Path) -> None:
    table, out, store = write_table(tmp_path / "t.csv", 60), tmp_path / "out.csv", tmp_path / "s.db"
    calibrate(table, out, store)
    with Store(store) as opened:
        RunNotes(opened).change(format=99)
    before = states(store)
    line = f"{store} was written by another version of streamcal: its notes of the run must have"
    assert f"{line} format 1, got 99" in calibrate(table, out, store, status=1)
    assert line in run("report", store, "--out", tmp_path / "page.html", status=1).stderr
    assert states(store) == before


def test_several_tables_are_one_run_and_more_may_follow(tmp_path: Path) -> None:
    whole = write_table(tmp_path / "all.csv", 300)
    lines = whole.read_text().splitlines(keepends=True)
    days = []
    for i, rows in enumerate([lines[1:101], lines[101:180], lines[180:]]):
        days.append(tmp_path / f"{i}.csv")
        days[-1].write_text("".join([lines[0], *rows]))
    plain, out, store = tmp_path / "plain.csv", tmp_path / "out.csv", tmp_path / "run.db"
    calibrate(whole, plain, None)
    for n in (1, 2, 2, 3):
        printed = calibrate(days[0], out, store, *days[1:n])
        assert ("there is nothing to do" in printed) == (n == 2 and len(printed.split("\n")) == 2)
    assert out.read_bytes() == plain.read_bytes()
    printed = calibrate(days[0], out, store, days[1], status=1)
    assert "give all of them, or others" in printed
    run = f"the run over {', '.join(map(str, days))}"
    assert f"{run} is finished, at row 300" in calibrate(days[0], out, store, *days[1:])
    assert f"{run}, finished, at row 300" in StoreSubject(store).report().source
    days[1].write_text(days[0].read_text())
    assert "are others" in calibrate(days[0], out, store, *days[1:], status=1)


def test_a_pipe_that_gives_all_rows_again_goes_on(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 300)
    text = table.read_text()
    lines = text.splitlines(keepends=True)
    out, store, plain = tmp_path / "o.csv", tmp_path / "s.db", tmp_path / "p.csv"
    calibrate(table, plain, None)
    broken = "".join([*lines[:200], "199,x,0,1.0,a\n"])
    assert "row 200" in calibrate(Path("-"), out, store, status=1, input=broken)
    rest = "".join([lines[0], *lines[200:]])
    printed = calibrate(Path("-"), out, store, status=1, input=rest)
    assert "a pipe must give all rows again" in printed
    calibrate(Path("-"), out, store, input=text)
    printed = calibrate(Path("-"), out, store, input=text)
    assert "the run over standard input is finished" in printed
    assert out.read_bytes() == plain.read_bytes()


def test_parquet_begins_again_and_the_next_table_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = pyarrow.csv.read_csv(write_table(tmp_path / "both.csv", 800))
    pq.write_table(both, tmp_path / "both.parquet")
    calibrate(tmp_path / "both.parquet", tmp_path / "plain.parquet", None)
    expected = pq.read_table(tmp_path / "plain.parquet")["calibrated"].to_pylist()
    table, out, store = tmp_path / "a.parquet", tmp_path / "a.out.parquet", tmp_path / "run.db"
    pq.write_table(both.slice(0, 500), table)
    more = ("--batch-size", 100)

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:  # killed before the commit: nothing is tidied up
        patch.setattr(Output, "sync", crash)
        patch.setattr(ResumableOutput, "__exit__", lambda self, *_: self._file.close())
        with pytest.raises(Crash):
            calibrate(table, out, store, *more)
    assert out.with_name("a.out.parquet.partial").exists()
    assert not out.exists()
    calibrate(table, out, store, *more)
    assert pq.read_table(out)["calibrated"].to_pylist() == expected[:500]
    assert "is finished, at row 500" in calibrate(table, out, store)
    pq.write_table(both, table)
    before = out.read_bytes()
    assert "no rows can be added to a Parquet file" in calibrate(table, out, store, status=1)
    assert out.read_bytes() == before
    other, other_out = tmp_path / "b.parquet", tmp_path / "b.out.parquet"
    pq.write_table(both.slice(500), other)
    calibrate(other, other_out, store)
    assert pq.read_table(other_out)["calibrated"].to_pylist() == expected[500:]


def test_parquet_with_a_bad_row_leaves_no_partial_file(tmp_path: Path) -> None:
    table, out, store = tmp_path / "t.parquet", tmp_path / "o.parquet", tmp_path / "run.db"
    good = pyarrow.csv.read_csv(write_table(tmp_path / "t.csv", 50))
    bad = good.set_column(1, "p", pyarrow.array([0.5] * 49 + [None]))
    pq.write_table(bad, table)
    printed = calibrate(table, out, store, status=1)
    assert (
        "row 50: `p` must be a finite number, got nothing; --on-error skip leaves such rows out\n"
        in printed
    )
    pq.write_table(good, table)
    calibrate(table, out, store)
    assert len(pq.read_table(out)) == 50


def test_a_picture_of_a_run_with_a_store(done: tuple[Path, ...]) -> None:
    table, out, store = done
    picture = out.with_name("r.png")
    assert "r.png: drawn from 2,8" in calibrate(table, out, store, "--plot", picture)
    first = picture.read_bytes()
    assert first.startswith(b"\x89PNG")
    calibrate(table, out.with_name("plain.csv"), None, "--plot", picture)
    assert picture.read_bytes() == first


@pytest.mark.parametrize("lost", [slice(0, 3), slice(10, 700), slice(0, None)])
def test_zeros_where_a_loss_of_power_lost_what_was_written(
    done: tuple[Path, ...], lost: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed, and the partial file has the right length, but not all its bytes."""
    table, whole, whole_store = done
    out, store = whole.with_name("out.csv"), whole.with_name("run.db")

    def reached(self: Any, whole: bool = False) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(engine._Loop, "_commit", reached)
        with pytest.raises(Crash):
            calibrate(table, out, store, "--batch-size", 100)
    partial = out.with_name("out.csv.partial")
    left = bytearray(partial.read_bytes())
    assert len(left) > 1000
    left[lost] = bytes(len(left[lost]))
    partial.write_bytes(left)
    calibrate(table, out, store, "--batch-size", 7)
    assert out.read_bytes() == whole.read_bytes()
    assert states(store) == states(whole_store)


def kill_until_done(
    command: Sequence[str], rng: random.Random, n_kills: int, longest: float
) -> int:
    """Run a command, killed at random instants at most ``n_kills`` times; return how often."""
    killed = 0
    while True:
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            wait = rng.uniform(0.0, longest) if killed < n_kills else None
            _, printed = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
            continue
        assert process.returncode == 0, printed.decode()
        return killed


def test_killed_at_random_instants(tmp_path: Path) -> None:
    """SIGKILL, again and again: 0 rows lost, 0 learned twice, states equal to the last bit."""
    n_kills = int(os.environ.get("STREAMCAL_KILLS", "4"))
    rng = random.Random(n_kills)
    table = write_table(tmp_path / "table.csv", 30_000)
    whole, whole_store = tmp_path / "whole.csv", tmp_path / "whole.db"
    more = ("--batch-size", "100")
    begun = time.monotonic()
    subprocess.run(
        [*COMMAND, *arguments(table, whole, whole_store, *more)], check=True, capture_output=True
    )
    longest = time.monotonic() - begun
    killed = runs = 0
    while killed < n_kills:
        out, store = tmp_path / f"{runs}.csv", tmp_path / f"{runs}.db"
        command = [*COMMAND, *arguments(table, out, store, *more)]
        killed += kill_until_done(command, rng, min(20, n_kills - killed), longest)
        runs += 1
        assert out.read_bytes() == whole.read_bytes()
        assert states(store) == states(whole_store)
        out.unlink()
        store.unlink()
    print(f"\n{killed} kills in {runs} runs: outputs and states are equal")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_after_a_batch(tmp_path: Path, number: signal.Signals) -> None:
    table = write_table(tmp_path / "table.csv", 12_000)
    out, store = tmp_path / "out.csv", tmp_path / "run.db"
    partial = tmp_path / "out.csv.partial"
    command = [*COMMAND, *arguments(table, out, store, "--batch-size", 10)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not (partial.exists() and partial.stat().st_size > 1000) and process.poll() is None:
        time.sleep(0.002)  # until it has started to write
    process.send_signal(number)
    _, printed = process.communicate(timeout=300)
    if process.returncode == 0:
        pytest.skip("the run had ended before the signal came")
    assert process.returncode == 128 + number
    assert b"the same command continues from there" in printed
    assert b"Traceback" not in printed
    with Store(store) as opened:
        assert partial.stat().st_size == opened.notes["sink"]["length"]
        assert 0 < opened.offset < 12_000
    calibrate(table, out, store)
    plain = tmp_path / "plain.csv"
    calibrate(table, plain, None)
    assert out.read_bytes() == plain.read_bytes()


def test_a_table_may_grow(tmp_path: Path) -> None:
    table, out, store = tmp_path / "t.csv", tmp_path / "out.csv", tmp_path / "run.db"
    text = write_table(tmp_path / "all.csv", 500).read_text().splitlines(keepends=True)
    for n in (1, 2, 101, 101, 350, 501):
        table.write_text("".join(text[:n]))
        printed = calibrate(table, out, store)
        assert len(out.read_text().splitlines()) == n
    plain = tmp_path / "plain.csv"
    assert calibrate(tmp_path / "all.csv", plain, None) == printed
    assert out.read_bytes() == plain.read_bytes()


def test_the_next_table_goes_on_with_what_is_learned(tmp_path: Path) -> None:
    both = write_table(tmp_path / "both.csv", 800)
    lines = both.read_text().splitlines(keepends=True)
    store, parts = tmp_path / "run.db", []
    for name, rows in (("mon", lines[1:501]), ("tue", lines[501:])):
        table = tmp_path / f"{name}.csv"
        table.write_text("".join([lines[0], *rows]))
        calibrate(table, tmp_path / f"{name}.out.csv", store)
        parts += (tmp_path / f"{name}.out.csv").read_text().splitlines()[1:]
    plain = tmp_path / "plain.csv"
    calibrate(both, plain, None)
    assert plain.read_text().splitlines()[1:] == parts


def test_a_bad_row_is_mended_and_it_goes_on(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 300)
    good = table.read_text()
    lines = good.splitlines(keepends=True)
    table.write_text("".join([*lines[:200], "199,x,0,1.0,a\n", *lines[201:]]))
    out, store = tmp_path / "out.csv", tmp_path / "run.db"
    printed = calibrate(table, out, store, status=1)
    assert "row 200: `p` must be a finite number, got 'x'" in printed
    with Store(store) as opened:
        assert opened.offset == 199
    table.write_text(good)
    calibrate(table, out, store)
    plain = tmp_path / "plain.csv"
    calibrate(table, plain, None)
    assert out.read_bytes() == plain.read_bytes()


def test_bad_rows_that_are_skipped_are_counted_once(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 300)
    lines = table.read_text().splitlines(keepends=True)
    lines[50] = lines[150] = "0,x,0,1.0,a\n"
    out, store = tmp_path / "out.csv", tmp_path / "run.db"
    for n in (100, 301):
        table.write_text("".join(lines[:n]))
        printed = calibrate(table, out, store, "--on-error", "skip")
    assert "298 rows calibrated" in printed
    assert printed == calibrate(table, tmp_path / "plain.csv", None, "--on-error", "skip")
    assert out.read_bytes() == (tmp_path / "plain.csv").read_bytes()


def test_a_run_on_ndjson_is_continued(tmp_path: Path) -> None:
    table, out, store = tmp_path / "t.jsonl", tmp_path / "out.jsonl", tmp_path / "run.db"
    rows = [{"p": i % 7 / 7, "y": i % 3 % 2, "w": 1, "k": i % 2} for i in range(200)]
    for n, batch in ((90, 1), (200, 7)):
        table.write_text("".join(json.dumps(row) + "\n" for row in rows[:n]))
        calibrate(table, out, store, "--batch-size", batch)
    calibrate(table, tmp_path / "plain.jsonl", None)
    assert out.read_bytes() == (tmp_path / "plain.jsonl").read_bytes()
    rows[3]["k"] = 0
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "are others" in calibrate(table, out, store, status=1)


@pytest.mark.parametrize("column", [1, 2, 3, 4])
def test_rows_that_were_learned_must_not_change(done: tuple[Path, ...], column: int) -> None:
    table, out, store = done
    before = states(store), out.read_bytes()
    lines = table.read_text().splitlines(keepends=True)
    cells = lines[9].rstrip("\n").split(",", 4)
    cells[column] = {2: "1" if cells[2] != "1" else "0", 4: "d"}.get(column, "0.123")
    table.write_text("".join([*lines[:9], ",".join(cells) + "\n", *lines[10:]]))
    printed = calibrate(table, out, store, status=1)
    assert "has learned 3,000 rows, but those at the beginning of this table are others" in printed
    assert (states(store), out.read_bytes()) == before
    assert not out.with_name("whole.csv.partial").exists()


def test_what_does_not_belong_together_is_refused(done: tuple[Path, ...]) -> None:
    table, out, store = done
    before = states(store)
    printed = calibrate(table, out, store, "--prior", 2, status=1)
    assert "was started without --prior, and this command is with --prior 2.0" in printed
    other = out.with_name("other.csv")
    printed = calibrate(table, other, store, status=1)
    assert f"not to {other}: another output of the same table needs a --store of its own" in printed
    printed = calibrate(table, Path("-"), out.with_name("new.db"), status=2)
    assert "--store needs --out FILE" in printed
    assert not out.with_name("new.db").exists()
    assert states(store) == before
    foreign = out.with_name("foreign.db")
    sqlite3.connect(foreign).executescript("CREATE TABLE t (a); ").close()
    assert "is no store" in calibrate(table, other, foreign, status=1)


def test_an_unfinished_table_comes_first(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", 100)
    table.write_text(table.read_text() + "100,x,0,1.0,a\n")
    store = tmp_path / "run.db"
    calibrate(table, tmp_path / "out.csv", store, status=1)
    other = write_table(tmp_path / "u.csv", 50)
    printed = calibrate(other, tmp_path / "u.out.csv", store, status=1)
    assert "is at row 100 of" in printed
    assert "finish that first" in printed


def test_two_processes_on_one_state(done: tuple[Path, ...]) -> None:
    table, out, store = done
    with Store(store):
        done_by_other = subprocess.run(
            [*COMMAND, *arguments(table, out, store)], capture_output=True, check=False
        )
        assert done_by_other.returncode == 1
        assert b"is in use" in done_by_other.stderr
        assert b"Traceback" not in done_by_other.stderr
    calibrate(table, out, store)


def test_a_finished_run_says_so_and_a_lost_output_is_reported(done: tuple[Path, ...]) -> None:
    table, out, store = done
    data = out.read_bytes()
    message = f"{store}: the run over {table} is finished, at row 3,000: there is nothing to do"
    assert calibrate(table, out, store) == f"{message}\n"
    out.write_bytes(data[:500])
    assert calibrate(table, out, store) == f"{message}; {out} has changed since then\n"
    assert out.read_bytes() == data[:500]
    out.unlink()
    assert calibrate(table, out, store) == f"{message}; {out}, which was written then, is gone\n"
    assert not out.exists()
    assert not out.with_name("whole.csv.partial").exists()


def test_an_output_that_is_edited_while_a_run_is_under_way_is_not_replaced(
    done: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, whole, _ = done
    out, store = whole.with_name("out.csv"), whole.with_name("run.db")
    out.write_bytes(b"older")
    original = engine._Loop._commit

    def reached(self: Any, whole: bool = False) -> None:
        original(self, whole)
        out.write_bytes(b"newer")

    with monkeypatch.context() as patch:
        patch.setattr(engine._Loop, "_commit", reached)
        printed = calibrate(table, out, store, status=1)
    assert f"{out} has changed since the run began" in printed
    assert f"3,000 rows, is in {out}.partial" in printed
    assert out.read_bytes() == b"newer"
    out.rename(out.with_name("kept.csv"))
    calibrate(table, out, store)
    assert out.read_bytes() == whole.read_bytes()


def test_a_full_disk_loses_nothing(done: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the output or the store fails half-way; with space again the run continues."""
    table, whole, whole_store = done
    out, store = whole.with_name("out.csv"), whole.with_name("run.db")
    original, room = Output.write, 20_000

    def full(self: Output, data: Any) -> int:
        if self.tell() + len(memoryview(data)) > room:
            self._file.write(memoryview(data)[: len(memoryview(data)) // 2])
            raise OSError(28, "No space left on device")
        return original(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(Output, "write", full)
        printed = calibrate(table, out, store, "--batch-size", 100, status=1)
        assert "No space left on device" in printed
    save = Store.save

    def fails(self: Store, *args: Any, **kwargs: Any) -> None:
        if self.offset > 1500:
            raise StoreError(f"{self.path} can't be written: database or disk is full")
        save(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "save", fails)
        printed = calibrate(table, out, store, "--batch-size", 100, status=1)
        assert "can't be written" in printed
    calibrate(table, out, store)
    assert out.read_bytes() == whole.read_bytes()
    assert states(store) == states(whole_store)
