"""``streamcal export``: the map of a calibrator in a store, for another program."""

import contextlib
import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamcal.cli.console import data_errors, failure, name_option, say, usage_errors
from streamcal.cli.files import check_exists, check_target
from streamcal.cli.options import COLUMNS, FILES, QuietOption, setting

if TYPE_CHECKING:
    from streamcal.calibration.base import Calibrator
    from streamcal.durable.store import Store

EXAMPLES = (
    "streamcal export run.db --to map.json",
    "streamcal export run.db --key north --to north.sql --column p",
    "streamcal export run.db --to map.onnx --error 1e-4 --dtype float32",
)

_MAP = "Map"
_MOST_NAMED = 5
# How a file begins that may be replaced.
_BEGINS = (b'{"format": "streamcal map"', b'CASE WHEN +"', b"\x08\x08\x12\tstreamcal")


class MapFormat(StrEnum):
    """What a map is written as."""

    json = "json"
    sql = "sql"
    onnx = "onnx"


class Dtype(StrEnum):
    """The numbers of a model of ONNX."""

    float64 = "float64"
    float32 = "float32"


def export(
    store: Annotated[
        Path,
        typer.Argument(
            metavar="STORE", help="A store, as of `calibrate --store`.", show_default=False
        ),
    ],
    to: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="MAP",
            help="The file: .json, .sql or .onnx; `-` is standard output.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ],
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Whose map, if the store has several keys.",
            show_default=False,
            rich_help_panel=_MAP,
        ),
    ] = None,
    file_format: Annotated[
        MapFormat | None,
        typer.Option("--format", help="Default: by the ending of the file.", rich_help_panel=FILES),
    ] = None,
    error: Annotated[
        float,
        setting(_MAP, "The greatest distance from the calibrator, of maps without an exact table."),
    ] = 1e-6,
    max_knots: Annotated[int, setting(_MAP, "The greatest number of knots.")] = 2_000,
    formula: Annotated[
        bool, setting(_MAP, "Whether a formula may be used; a database may lack exp and ln.")
    ] = True,
    answer: Annotated[
        str | None,
        setting(
            _MAP,
            "Which answer of a Venn-Abers calibrator: merged, lower or upper. Default: merged.",
            metavar="ANSWER",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="The column of scores, for SQL.", rich_help_panel=COLUMNS
        ),
    ] = "score",
    dtype: Annotated[Dtype, setting(_MAP, "The numbers of a model of ONNX.")] = Dtype.float64,
    quiet: QuietOption = False,
) -> None:
    """Write the map of a calibrator in a store for another program: as JSON, SQL or ONNX.

    The store is only read; a run may go on meanwhile. The map is that of its last commit.
    """
    from streamcal.durable.files import is_store
    from streamcal.tables.output import is_standard, standard_output, write_file

    with usage_errors():
        check_exists(store)
        if not is_store(store):
            raise ValueError(f"{store} is not a store")
        kind = file_format or _format_of(to)
        if not is_standard(to):
            check_target(to)
            _check_replaceable(to)
    with data_errors(store):
        from streamcal.durable.store import Store

        with Store(store, read_only=True) as opened, opened.reading(), usage_errors():
            calibrator, name = _find(opened, key, store)
        try:
            written: Any = calibrator.export(
                kind.value,
                error=error,
                max_knots=max_knots,
                formula=formula,
                answer=answer,
                column=column,
                dtype=dtype.value,
            )
        except (TypeError, ValueError) as fault:
            raise failure(name_option(str(fault)), 2) from None
        except ImportError as fault:
            raise failure(str(fault), 1) from None
        data = written if isinstance(written, bytes) else f"{written}\n".encode()
        if is_standard(to):
            standard_output().write(data)
            standard_output().flush()
            return
        write_file(to, data)
        if not quiet:
            of = f"{name}, of the column {column!r}" if kind is MapFormat.sql else name
            say(f"{to}: the map of {of}, {_size(kind, written)}")


def _format_of(path: Path) -> MapFormat:
    """Return the format of an ending."""
    ending = path.suffix.lower().removeprefix(".")
    if ending not in list(MapFormat):
        raise ValueError(
            f"--to must end in .json, .sql or .onnx, unless there is --format, got {path}"
        )
    return MapFormat(ending)


def _check_replaceable(path: Path) -> None:
    """Raise ``ValueError`` if there is a file that is no exported map."""
    from streamcal.durable.files import beginning_of

    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if path.is_file() and path.stat().st_size and not beginning_of(path).startswith(_BEGINS):
        raise ValueError(f"{path} exists and is no exported map: choose another name, or remove it")


def _find(store: "Store", key: str | None, path: Path) -> tuple["Calibrator", str]:
    """Return the calibrator of a key, and what it is called; raise ``ValueError`` if there is none.

    A key may be text, a number or another value in JSON, or the name of a state.
    """
    from streamcal.calibration.base import is_calibrator
    from streamcal.cli.resumable_output import RunNotes
    from streamcal.durable.expiry import EXPIRY
    from streamcal.durable.keys import name_of
    from streamcal.durable.timeline import TIMELINE

    if RunNotes(store).now.get("options", {}).get("--sampling-rate") is not None:
        raise ValueError(
            f"{path} is of a run with --sampling-rate: its answers depend on that, too"
        )
    states = store.keys()
    names = [name for name in states if name not in (TIMELINE, EXPIRY)]
    if not names:
        raise ValueError(f"{path} has no calibrator yet: nothing was committed")
    if key is None:
        if 1 < len(names) <= _MOST_NAMED:  # a run with labels by id also has what waits for them
            names = [name for name in names if _may_be_meant(store, name)]
        if len(names) != 1:
            raise ValueError(f"{path} has {len(names):,} states: choose one by --key{_some(names)}")
        name = names[0]
    else:
        found = [name for name in _names_of(key) if name in store]
        if not found and names == [name_of(None)]:
            raise ValueError(f"{path} has no keys: leave out --key, got {key!r}")
        if not found:
            raise ValueError(f"{path} has no key {key!r}{_some(names)}")
        name = found[0]
    try:
        state = store.get(name)
    except TypeError as fault:
        raise ValueError(f"{path}: {_text_of(name)} is no calibrator: {fault}") from None
    if not is_calibrator(state):
        raise ValueError(
            f"{path}: {_text_of(name)} is a {type(state).__name__}; only calibrators of one score"
            " are exported"
        )
    return state, _text_of(name)


def _may_be_meant(store: "Store", name: str) -> bool:
    """Return whether a state is that of a key, or a calibrator."""
    from streamcal.calibration.base import is_calibrator
    from streamcal.durable.keys import PREFIX

    if name.startswith(PREFIX):
        return True
    try:
        return is_calibrator(store.get(name))
    except TypeError:
        return False


def _names_of(key: str) -> list[str]:
    """Return what a key that was typed may be called in a store.

    Examples
    --------
    >>> _names_of("7"), _names_of("north")
    (['key:"7"', 'key:7', '7'], ['key:"north"', 'north'])
    """
    from streamcal.durable.keys import PREFIX, key_of, name_of

    found = [name_of(key)]
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        found.append(name_of(key_of(f"{PREFIX}{json.dumps(json.loads(key))}")))
    return list(dict.fromkeys([*found, key]))


def _text_of(name: str) -> str:
    """Return the name of a state as a reader knows it.

    Examples
    --------
    >>> _text_of('key:"north"'), _text_of("key:null"), _text_of("one")
    ("key 'north'", 'the run', "'one'")
    """
    from streamcal.durable.keys import PREFIX, key_of

    if not name.startswith(PREFIX):
        return repr(name)
    return "the run" if name == f"{PREFIX}null" else f"key {key_of(name)!r}"


def _some(names: list[str]) -> str:
    """Return some names of states, for an error."""
    if not names:
        return ""
    listed = ", ".join(map(_text_of, names[:_MOST_NAMED]))
    return f" ({listed}{', …' if len(names) > _MOST_NAMED else ''})"


def _size(kind: MapFormat, written: str | bytes) -> str:
    """Return in words what was written."""
    if kind is not MapFormat.json:
        return f"{len(written):,} bytes"
    content = json.loads(written)
    of = content["map"]
    size = f"{len(of['scores']):,} knots" if of["kind"] == "knots" else "a formula"
    error = content["error"]
    return f"{size}, {f'at most {error:g} from it' if error else 'exact'}"
