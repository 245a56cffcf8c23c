"""Which files a command may change: a table of situations with their expected results.

A situation is the moment at which the previous process was killed, the later changes of the output
and of its partial file, and the next command. Files of others are never changed. STREAMCAL_SOAK=1
tries all pairs of changes of the two files; in the gates one of the two is unchanged, and unlikely
combinations are skipped.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamcal.durable import engine
from streamcal.durable.files import files_of_store
from streamcal.durable.store import Store
from streamcal.tables.output import Output
from tests.runner import run
from tests.test_resume import Crash, _Always, write_table

N, BATCH = 60, 15
OLDER = b"older " * 5000  # longer than any output
FOREIGN = b"id,p,y,w,k,calibrated\nsomebody else's\n"
MOMENTS = ("new", "begun", "between", "whole", "named", "finished", "copying", "growing")
"""Before there was a store; then killed before the first commit, between commits, between the last
one and the renaming, between that and the note of it, not at all, when the output is copied for a
table that has grown and nothing more is committed, while the grown table goes on."""


def command(table: str, out: str, *, store: bool = True) -> list[str]:
    columns = ["--score", "p", "--label", "y", "--weight", "w", "--key", "k"]
    options = ["--store", "run.db", "--batch-size", str(BATCH)]
    options = options if store else []
    return ["calibrate", table, *columns, "--out", out, *options]


def invoke(*arguments: Any) -> tuple[int, str]:
    result = run(*arguments, status=None)
    return result.exit_code, result.stderr


class File(NamedTuple):
    """The content of a name: a kind, the bytes or the target of a link, and the inode."""

    kind: str
    content: Any
    identity: tuple[int, int] | None = None


def look(path: Path) -> File:
    if path.is_symlink():
        return File("link", os.readlink(path))
    if path.is_dir():
        return File("folder", sorted(file.name for file in path.iterdir()))
    if not path.exists():
        return File("missing", None)
    status = path.stat()
    return File("file", path.read_bytes(), (status.st_ino, status.st_mtime_ns))


def look_around() -> dict[str, File]:
    """Return all files of the folder except those of SQLite and the lock."""
    ours = [f"run.db{ending}" for ending in ("-lock", "-wal", "-shm")]
    return {path.name: look(path) for path in Path().iterdir() if path.name not in ours}


# The moments, built once in one folder, since a store contains absolute paths ---------------------


@dataclass
class Built:
    """The folder at a moment, and its expected content."""

    files: dict[str, bytes]
    committed: bytes  # what of the output is
    before: bytes | None  # what the output is to replace


class World(NamedTuple):
    folder: Path
    wholes: dict[str, bytes]  # the output of a run left alone, by its table
    built: dict[tuple[str, bool], Built]


def build(moment: str, older: bool, text: bytes, patch: pytest.MonkeyPatch) -> None:
    """Bring the folder to a moment: kill a run there."""
    if older:
        Path("out.csv").write_bytes(OLDER)
    if moment == "new":
        return
    save, saves = Store.save, 0
    last = {"begun": 1, "between": 3, "copying": 1, "growing": 2}.get(moment)

    def dying(self: Store, *args: Any, **kwargs: Any) -> None:
        nonlocal saves
        saves += 1
        notes = (kwargs.get("notes") or {}).get("sink", {})
        if (last is not None and saves > last) or (
            moment == "named" and notes["state"] == "finished"
        ):
            raise Crash
        save(self, *args, **kwargs)

    def no_exit(self: Output, *error: object) -> None:
        self._file.close()
        raise Crash

    run = command("table.csv", "out.csv")
    if moment in ("finished", "copying", "growing"):
        assert invoke(*run)[0] == 0
    if moment == "finished":
        return
    if moment in ("copying", "growing"):
        Path("table.csv").write_bytes(text)
    with patch.context() as patched:
        patched.setattr(Store, "save", dying)
        if moment != "named":
            patched.setattr(Output, "__exit__", no_exit)
        with pytest.raises(Crash):
            invoke(*run)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(engine, "Pace", _Always)
        whole = write_table(folder / "all.csv", N + 50).read_text().splitlines(keepends=True)
        texts = {
            "table": "".join(whole[: N + 1]).encode(),
            "grown": "".join(whole[: N + 41]).encode(),
            "other": "".join([whole[0], *whole[N + 41 :]]).encode(),
        }
        inputs = {
            "table.csv": texts["table"],
            "grown.txt": texts["grown"],
            "other.csv": texts["other"],
            "foreign.csv": FOREIGN,
        }
        wholes = {}
        for name in ("table", "grown"):
            (folder / "t.csv").write_bytes(texts[name])
            run = command("t.csv", "o.csv")
            assert invoke(*run, "--store", f"{name}.db")[0] == 0
            wholes[name] = (folder / "o.csv").read_bytes()
        built = {}
        for moment in MOMENTS:
            for older in (False, True):
                fill(folder, inputs)
                build(moment, older, texts["grown"], patch)
                files = {path.name: path.read_bytes() for path in folder.iterdir()}
                committed, before = b"", OLDER if older else None
                if moment not in ("new", "copying"):
                    with Store("run.db") as store:
                        length = store.notes["sink"]["length"]
                    source = wholes["grown" if moment == "growing" else "table"]
                    committed = source[:length]
                if moment in ("copying", "growing"):
                    before = wholes["table"]
                built[moment, older] = Built(files, committed, before)
        # The result for the next table does not depend on where the previous run was interrupted.
        fill(folder, built["finished", False].files)
        assert invoke(*command("other.csv", "next.csv"))[0] == 0
        wholes["other"] = (folder / "next.csv").read_bytes()
        yield World(folder, wholes, built)


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def test_the_moments_are_what_they_are_called(world: World) -> None:
    whole, grown = world.wholes["table"], world.wholes["grown"]
    lengths = {}
    for (moment, older), built in world.built.items():
        out, partial = built.files.get("out.csv"), built.files.get("out.csv.partial")
        was = OLDER if older else None
        if moment in ("new", "begun", "between", "whole"):
            assert out == was
        else:
            assert out == whole
        assert (partial is None) == (moment in ("new", "named", "finished"))
        if moment in ("begun", "between"):
            assert len(partial) > len(built.committed)
            assert whole.startswith(partial)
        if moment == "growing":
            assert grown.startswith(partial)
            assert len(whole) < len(built.committed) < len(partial) < len(grown)
        if moment == "copying":
            assert grown.startswith(partial)
            assert len(whole) < len(partial)
        lengths[moment] = len(built.committed)
    assert lengths["begun"] == 0 < lengths["between"] < lengths["whole"] == len(whole)
    assert not any(name.endswith("-wal") for built in world.built.values() for name in built.files)


# Changes of the output and of the partial file ----------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[25] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more\n")


def same_elsewhere(path: Path) -> None:
    """Put a link to a file with the same bytes in its place."""
    path.rename("elsewhere.csv")
    path.symlink_to("elsewhere.csv")


def afresh(put: Callable[[Path], Any]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink(missing_ok=True)
        put(path)

    return change


NEEDS_A_FILE = {"edited", "shorter", "longer", "missing", "moved and linked", "second name"}
CHANGES: dict[str, Callable[[Path], Any]] = {
    "as left": lambda path: None,
    "missing": lambda path: path.unlink(),
    "edited": flip,
    "shorter": cut,
    "longer": append,
    "moved and linked": same_elsewhere,
    "second name": lambda path: Path("second.csv").hardlink_to(path),
    "of somebody else": afresh(lambda path: path.write_bytes(FOREIGN)),
    "a link": afresh(lambda path: path.symlink_to("foreign.csv")),
    "a dangling link": afresh(lambda path: path.symlink_to("nothing.csv")),
    "a link to itself": afresh(lambda path: path.symlink_to(path.name)),
    "a hard link": afresh(lambda path: path.hardlink_to("foreign.csv")),
    "a folder": afresh(lambda path: path.mkdir()),
    "a link to the table": afresh(lambda path: path.symlink_to("table.csv")),
    "a hard link to the table": afresh(lambda path: path.hardlink_to("table.csv")),
    "a link to the store": afresh(lambda path: path.symlink_to("run.db")),
    "a hard link to the store": afresh(lambda path: path.hardlink_to("run.db")),
}
COMMANDS = ("again", "grown", "other", "stateless")


def cells() -> Iterator[Any]:
    for moment, older, out, partial, following in product(
        MOMENTS, (False, True), CHANGES, CHANGES, COMMANDS
    ):
        is_named = moment in ("named", "finished", "copying", "growing")
        has_partial = moment in ("begun", "between", "whole", "copying", "growing")
        if following == "stateless" and (out != "as left" or moment not in ("new", "between")):
            continue  # what it makes of --out and where the runs before stand are not related
        if out in NEEDS_A_FILE and not (older or is_named):
            continue
        if partial in NEEDS_A_FILE and not has_partial:
            continue
        if {out, partial} <= {"moved and linked", "second name"}:
            continue  # they would take one name
        if moment == "new" and "to the store" in out + partial:
            continue
        if following == "other" and "a hard link to the store" in (out, partial):
            continue  # then it is the store that has two names
        if "STREAMCAL_SOAK" not in os.environ:
            one = partial if out == "as left" else out
            if "as left" not in (out, partial):
                continue
            wants_older = out in NEEDS_A_FILE and not is_named
            if one != "as left" and partial != "missing" and older != wants_older:
                continue
            if one != "as left" and following == "grown" and moment not in ("named", "finished"):
                continue
        case = f"{moment}{' older' * older}-{out}-{partial}-{following}"
        yield pytest.param(moment, older, out, partial, following, id=case)


# Expected results ---------------------------------------------------------------------------------


class Due(NamedTuple):
    status: int
    message: str
    changed: dict[str, bytes | None]  # new bytes by name, None: gone; all else is as before


def due(world: World, moment: str, older: bool, following: str, files: dict[str, File]) -> Due:
    """Return the expected result, as the documents state it."""
    built = world.built[moment, older]
    out = files.get("out.csv", File("missing", None))
    partial = files.get("out.csv.partial", File("missing", None))
    linked = Path(os.path.realpath("out.csv"))

    def is_same_as(name: str) -> bool:
        return Path(name).exists() and linked.exists() and linked.samefile(name)

    result = world.wholes[
        "grown" if following == "grown" or moment in ("copying", "growing") else "table"
    ]
    refused = {status: Due(status, "", {}) for status in (1, 2)}
    if following == "stateless":
        if Path("out.csv.partial").exists() and Path("out.csv.partial").samefile("table.csv"):
            return refused[2]
        return Due(0, "rows calibrated", {"out.csv": result})
    if following != "other":
        # What is named by --out can't be the output of a run that is resumed.
        mine = [linked, linked.with_name(f"{linked.name}.partial")]
        apart = [Path("table.csv"), Path("run.db")]
        if out.kind == "folder" or linked.is_symlink():
            return refused[2]
        if any(a.exists() and b.exists() and a.samefile(b) for a in mine for b in apart):
            return refused[2]
    whole = world.wholes["table"]
    done = Due(0, "rows calibrated", {"out.csv": result, "out.csv.partial": None})
    ours = partial.kind == "file" and (
        partial.content.startswith(built.committed)
        if built.committed
        else result.startswith(partial.content)  # it must be what the run would write
    )
    ours = ours and os.lstat("out.csv.partial").st_nlink == 1
    replaceable = out.kind == "missing" or (out.kind == "file" and out.content == built.before)

    if moment == "new":
        name = "next.csv" if following == "other" else linked.name
        if partial.kind != "missing" and following != "other" and linked.name == "out.csv":
            return refused[1]
        if following == "other":
            return Due(0, "rows calibrated", {"next.csv": next_of(world, moment)})
        return Due(0, "rows calibrated", {name: result})
    if following == "other":
        follows = {"next.csv": world.wholes["other"]}
        if moment in ("begun", "copying") and partial.kind == "missing":
            # Nothing was committed and there is no file: the run has not begun.
            if moment == "begun":
                follows = {"next.csv": next_of(world, moment)}
            return Due(0, "rows calibrated", follows)
        if moment in ("begun", "between", "copying", "growing"):
            return Due(1, "finish that first", {})
        if moment == "whole" and partial.kind != "missing":
            if not (ours and replaceable):
                return refused[1]
            follows |= {"out.csv": whole, "out.csv.partial": None}
        elif moment == "named" and partial.kind != "missing":
            return refused[1]  # if it is ours can't be known
        return Due(0, "rows calibrated", follows)
    if linked.name != "out.csv":
        return Due(1, "belongs to the output", {})
    is_whole = out.kind == "file" and out.content == whole
    if moment == "finished" or (
        moment in ("whole", "named") and partial.kind == "missing" and is_whole
    ):
        if following == "again":
            end = "" if is_whole else "is gone" if out.kind == "missing" else "has changed"
            return Due(0, f"there is nothing to do{'; ' * bool(end)}", {})
        return done if is_whole and partial.kind == "missing" else refused[1]
    if moment == "named":
        return refused[1]
    if moment in ("begun", "copying"):
        plain = partial.kind == "missing" or ours
        if moment == "copying" and out.kind == "missing":
            return refused[1]  # what was to be copied is gone
        return done if plain and replaceable else refused[1]
    return done if ours and replaceable else refused[1]


def next_of(world: World, moment: str) -> bytes:
    """Return the result for the next table if there was no previous run."""
    if "alone" not in world.wholes:
        status, _ = invoke(*command("other.csv", "alone.csv"), "--store", "alone.db")
        assert status == 0
        world.wholes["alone"] = Path("alone.csv").read_bytes()
        for name in ("alone.csv", "alone.db", "alone.db-lock"):
            Path(name).unlink()
    return world.wholes["alone"]


@pytest.mark.parametrize(("moment", "older", "out", "partial", "following"), list(cells()))
def test_what_is_not_ours_is_never_changed(
    world: World,
    moment: str,
    older: bool,
    out: str,
    partial: str,
    following: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(engine, "Pace", _Always)
    fill(world.folder, world.built[moment, older].files)
    if following == "grown":
        Path("table.csv").write_bytes(Path("grown.txt").read_bytes())
    CHANGES[out](Path("out.csv"))
    CHANGES[partial](Path("out.csv.partial"))
    before = look_around()
    expected = due(world, moment, older, following, before)

    run = (
        command("other.csv", "next.csv")
        if following == "other"
        else command("table.csv", "out.csv", store=following != "stateless")
    )
    status, printed = invoke(*run)
    after = look_around()

    assert (status, expected.message in printed) == (expected.status, True), printed
    if not expected.changed:
        assert printed.count("\n") == 1, printed
    # Only the store may change in addition: it gets notes.
    noted = expected.status == 0 and not (moment == "finished" and not expected.changed)
    noted = noted and following != "stateless"
    for name in before.keys() | after.keys() | expected.changed.keys():
        if name in expected.changed:
            data = expected.changed[name]
            wanted = File("missing", None) if data is None else File("file", data)
            assert after.get(name, File("missing", None))[:2] == wanted[:2], name
        elif not (name == "run.db" and noted):
            assert after.get(name) == before.get(name), name
    if expected.changed and following in ("again", "grown") and "as left" == out == partial:
        # Now there is nothing to do, for any change of the output.
        assert "there is nothing to do" in invoke(*run)[1]


# One name for two things --------------------------------------------------------------------------


STORE = ("run.db", "run.db-wal", "run.db-shm", "run.db-lock", "run.db.partial", "link.db")


def test_the_files_of_a_store_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link.db"
    link.symlink_to("run.db")
    seen: set[Path] = set()
    replace = Path.replace

    def look_and_replace(self: Path, target: Path) -> Path:
        seen.update(tmp_path.iterdir())  # a new store, before it has its name
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", look_and_replace)
    with Store(tmp_path / "run.db") as store:
        store.save({}, 3, notes={"a": 1})
        seen.update(tmp_path.iterdir())
    seen.remove(link)
    assert {file.name for file in seen} >= {"run.db", "run.db.partial", "run.db-lock", "run.db-wal"}
    for name in (tmp_path / "run.db", link):
        assert seen <= set(files_of_store(name))


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table under some names, and a finished run with a store under some names."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.csv", 40)
    assert invoke(*command("t.csv", "out.csv"))[0] == 0
    Path("link.csv").symlink_to("t.csv")
    Path("hard.csv").hardlink_to("t.csv")
    Path("link.db").symlink_to("run.db")
    Path("t.svg").hardlink_to("t.csv")
    shutil.copy("t.csv", "u.csv.partial")
    return tmp_path


CALIBRATE = ["calibrate", "t.csv", "--format", "csv", "--score", "p", "--label", "y"]
ORDINAL = ["--format", "csv", "--score", "p", "--label", "id", "--n-labels", "50"]


@pytest.mark.parametrize(
    "arguments",
    [
        *([*CALIBRATE, "--out", out, "--store", "run.db"] for out in STORE),
        *([*CALIBRATE, "--out", out, "--store", "link.db"] for out in STORE),
        *([*CALIBRATE, "--out", out, "--store", "new.db"] for out in ("t.csv", "link.csv")),
        [*CALIBRATE, "--out", "hard.csv", "--store", "new.db"],
        [*CALIBRATE, "--out", "./x/../new.db", "--store", "new.db"],
        [*CALIBRATE, "--out", "New.db", "--store", "new.db"],
        [*CALIBRATE, "--out", "new.db-WAL", "--store", "new.db"],
        [*CALIBRATE, "--out", "new", "--store", "new.partial"],
        [*CALIBRATE, "--out", "new.csv", "--store", "t.csv"],
        [*CALIBRATE, "--out", "new.csv", "--store", "hard.csv"],
        [*CALIBRATE, "--out", "new.csv", "--plot", "t.svg"],
        [*CALIBRATE, "--out", "new.svg", "--plot", "new.svg"],
        ["calibrate", "u.csv.partial", *CALIBRATE[2:], "--out", "u.csv"],
        ["calibrate", "u.csv.partial", *CALIBRATE[2:], "--out", "u.csv", "--store", "new.db"],
        ["plot", "t.csv", "--format", "csv", "--prob", "p", "--label", "y", "--out", "t.svg"],
        ["thresholds", "t.csv", *ORDINAL, "--plot", "t.svg"],
        ["decide", "t.csv", "--format", "csv", "--prob", "p", "--plot", "t.svg"],
        ["decide", "t.csv", "--prob", "p", "--format", "csv", "--out", "n.svg", "--plot", "n.svg"],
        ["decide", "u.csv.partial", "--format", "csv", "--prob", "p", "--out", "u.csv"],
        ["report", "u.csv.partial", *CALIBRATE[2:], "--prob", "p", "--out", "u.csv"],
        ["report", "hard.csv", *CALIBRATE[2:], "--prob", "p", "--out", "t.csv"],
        *(["report", "run.db", "--out", out] for out in (*STORE, "out.csv", "t.csv", "hard.csv")),
    ],
    ids=" ".join,
)
def test_one_file_for_two_things_is_refused(apart: Path, arguments: list[str]) -> None:
    before = look_around()
    status, printed = invoke(*arguments)
    assert status == 2
    refused = (
        "must be another file than",
        "is a file of the report",
        "is a database",
        "has a name of a file of the store",
    )
    assert any(words in printed for words in refused)
    assert printed.count("\n") == 1
    assert look_around() == before


def test_names_that_differ_in_case_are_two_where_they_are(apart: Path) -> None:
    if Path("T.CSV").exists():
        pytest.skip("this file system takes upper and lower case for the same")
    assert invoke(*CALIBRATE, "--out", "T.csv", "--store", "new.db")[0] == 0
    assert Path("T.csv").read_text().startswith("id,p,y,w,k,calibrated")
    assert Path("t.csv").read_text().startswith("id,p,y,w,k\n")


# Runs after an error, and linked files ------------------------------------------------------------


def test_a_partial_file_of_somebody_else_is_moved_away_and_it_goes_on(apart: Path) -> None:
    Path("n.csv.partial").write_bytes(FOREIGN)
    run = command("t.csv", "n.csv")
    status, printed = invoke(*run, "--store", "new.db")
    assert (status, "n.csv.partial exists already" in printed) == (1, True)
    assert not Path("new.db").exists()
    Path("n.csv.partial").rename("theirs.csv")
    assert invoke(*run, "--store", "new.db")[0] == 0
    assert Path("theirs.csv").read_bytes() == FOREIGN
    assert Path("n.csv").read_bytes() == Path("out.csv").read_bytes()


def test_an_output_without_a_state_is_not_written_through_a_link(apart: Path) -> None:
    for make in (Path.symlink_to, Path.hardlink_to):
        Path("foreign.csv").write_bytes(FOREIGN)
        Path("n.csv.partial").unlink(missing_ok=True)
        make(Path("n.csv.partial"), "foreign.csv")
        assert invoke(*CALIBRATE, "--out", "n.csv")[0] == 0
        assert Path("foreign.csv").read_bytes() == FOREIGN
        assert not Path("n.csv").is_symlink()
    Path("loop.csv").symlink_to("loop.csv")
    for subcommand in ("calibrate", "decide"):
        column = ["--prob", "p"] if subcommand == "decide" else CALIBRATE[4:]
        status, printed = invoke(subcommand, "t.csv", *column, "--out", "loop.csv")
        assert (status, "Too many levels of symbolic links" in printed) == (2, True)


def test_two_outputs_of_one_name_at_once_are_both_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with Output(path) as one:
        one.write(b"one")
        with Output(path) as two:
            two.write(b"two")
            assert one.partial != two.partial
        assert path.read_bytes() == b"two"
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


NO_FILE = ["no/out.csv", f"{'x' * 250}.csv"]


@pytest.mark.parametrize("command", ["calibrate", "report", "picture"])
def test_no_output_replaces_a_store(tmp_path: Path, command: str) -> None:
    scores_csv = write_table(tmp_path / "scores.csv", 30)
    store = tmp_path / "run.png"
    with Store(store) as opened:
        opened.save({}, offset=3)
    before = store.read_bytes()
    columns = ["--score", "p", "--label", "y"]
    given = {
        "calibrate": ["calibrate", scores_csv, *columns, "--out", store, "--format", "csv"],
        "report": ["report", store, "--out", store],
        "picture": [
            "calibrate",
            scores_csv,
            *columns,
            "--out",
            tmp_path / "a.csv",
            "--plot",
            store,
        ],
    }[command]
    printed = run(*given, status=2).stderr
    assert f"{store} is a database, such as a store: choose another name, or remove it" in printed
    assert store.read_bytes() == before
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("out", NO_FILE, ids=["no folder", "too long"])
@pytest.mark.parametrize("table", ["t.csv", "u.csv"])
def test_an_output_that_cannot_be_made_leaves_the_store_as_it_is(
    apart: Path, table: str, out: str
) -> None:
    shutil.copy("t.csv", "u.csv")
    store = "run.db" if table == "u.csv" else "new.db"  # one with a table before, or a new one
    run = command(table, out, store=False)
    before = look_around()
    assert invoke(*run, "--store", store)[0] != 0
    assert look_around() == before
    assert invoke(*command(table, "n.csv", store=False), "--store", store)[0] == 0


def test_a_run_of_which_nothing_is_there_may_get_another_output(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.folder)
    fill(world.folder, world.built["begun", False].files)
    run = command("table.csv", "n.csv")
    assert "belongs to the output" in invoke(*run)[1]
    Path("out.csv.partial").unlink()
    assert invoke(*run)[0] == 0
    assert Path("n.csv").read_bytes() == world.wholes["table"]


def test_a_copy_that_was_begun_and_is_gone_is_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Pace", _Always)
    monkeypatch.chdir(world.folder)
    fill(world.folder, world.built["copying", False].files)
    grown = Path("table.csv").read_bytes()
    Path("out.csv.partial").unlink()
    Path("table.csv").write_bytes(world.built["finished", False].files["table.csv"])
    assert "there is nothing to do" in invoke(*command("table.csv", "out.csv"))[1]
    Path("table.csv").write_bytes(grown)
    Path("out.csv.partial").write_bytes(FOREIGN)
    before = look_around()
    assert "exists already" in invoke(*command("table.csv", "out.csv"))[1]
    assert look_around() == before


def test_a_store_that_something_else_has_moved_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.folder)
    for moment in ("between", "finished"):
        fill(world.folder, world.built[moment, False].files)
        with Store("run.db") as store:
            store.save({}, store.offset + 1)
        before = look_around()
        status, printed = invoke(*command("table.csv", "out.csv"))
        assert (status, "something else has written to it" in printed) == (1, True)
        assert look_around() == before


def test_a_report_of_a_run_that_has_just_begun(world: World) -> None:
    fill(world.folder, world.built["begun", False].files)
    assert invoke("report", "run.db", "--out", "r.html")[0] == 0
    assert "is not shown: has no labelled rows" in Path("r.html").read_text()
