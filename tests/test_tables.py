"""Tables: rows are written as they were read, and errors name the row."""

import csv
import gzip
import io
import json
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamcal.report.periods import time_in_words
from streamcal.tables.base import Reader, TableError, check_names
from streamcal.tables.numbers import as_numbers
from streamcal.tables.open import format_of, open_table
from streamcal.tables.output import Output
from streamcal.tables.series import Series
from streamcal.tables.times import as_times


def read(path: Any, columns: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Return the columns as lists of text or values, the row numbers, and the faults."""
    values: dict[str, list[Any]] = {name: [] for name in columns}
    rows, faults = [], []
    with open_table(path, columns, **options) as table:
        for chunk in table:
            rows += chunk.rows.tolist()
            faults += chunk.faults
            for name in columns:
                column = chunk.columns[name]
                values[name] += column if isinstance(column, list) else column.to_pylist()
    return values, rows, faults


def add_column(
    source: Any, target: Any, values: Any, columns: Any = (), new: str = "new", drop: Any = ()
) -> None:
    """Copy a table with a column more; ``values`` are consumed in order."""
    values = iter(values)
    with (
        open_table(source, columns, new_column=new) as table,
        Output(target) as output,
        table.writer(output) as writer,
    ):
        for chunk in table:
            keep = ~np.isin(chunk.rows, drop)
            written = np.array([next(values) for _ in range(keep.sum())])
            writer.write(chunk, written, None if keep.all() else keep)


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_a_column_may_be_optional(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        path.write_text("a,b\n1,2\n")
    elif ending == "ndjson":
        path.write_text('{"a": "1", "b": "2"}\n')
    else:
        pq.write_table(pa.table({"a": ["1"], "b": ["2"]}), path)
    with open_table(path, ["a"], optional=["b", "c", "a"]) as table:
        (chunk,) = table
    found = {
        name: column if isinstance(column, list) else column.to_pylist()
        for name, column in chunk.columns.items()
    }
    nothing = {"c": [None]} if ending == "ndjson" else {}
    assert found == {"a": ["1"], "b": ["2"], **nothing}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder for the property tests, whose examples overwrite each other's files."""
    return tmp_path_factory.mktemp("tables")


def write(path: Any, data: Any) -> Any:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


# --- CSV: what is a row


csv_noise = st.lists(st.sampled_from(["a", "1", '"', ",", "\n", "\r\n", " "]), max_size=40).map(
    "".join
)


@given(body=csv_noise, block=st.integers(4, 60), batch_size=st.integers(1, 4))
@settings(deadline=None, max_examples=200)
def test_csv_rows_are_those_of_the_csv_module(
    folder: Any, body: Any, block: int, batch_size: int
) -> None:
    path = write(folder / "noise.csv", "x,y\n" + body)
    mark = ["mark", "mark"]
    expected = [row for row in csv.reader(io.StringIO(body + "\nmark,mark", newline="")) if row]
    is_open = expected[-1] != mark  # a quote left open swallows the mark
    if not is_open:
        expected.pop()

    seen: list[Any] = []
    faults, error_text = [], ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "_block_bytes", block)
        with open_table(path, "xy", batch_size=batch_size) as table:
            try:
                for chunk in table:
                    assert 0 < len(chunk) + len(chunk.faults) <= batch_size
                    pairs = zip(*(chunk.columns[name].to_pylist() for name in "xy"), strict=True)
                    seen += zip(chunk.rows.tolist(), pairs, strict=True)
                    faults += [fault.row for fault in chunk.faults]
            except TableError as error:
                error_text = str(error)
    if "longer" in error_text:
        place, _, _ = error_text.partition(" is longer than")
        del expected[int(place.removeprefix("row ")) - 1 :]
        assert block < len(body) + len(",,\n")
    elif is_open:
        assert error_text == f"row {len(expected)} has a quote that is never closed"
        expected.pop()
    else:
        assert error_text == ""
    numbered = list(enumerate(expected, start=1))
    assert seen == [(i, tuple(row)) for i, row in numbered if len(row) == 2]
    assert faults == [i for i, row in numbered if len(row) != 2]


texts = st.text(
    alphabet=st.one_of(
        st.sampled_from('",\n\r; \t\x00'),
        st.characters(exclude_categories=["Cs"], max_codepoint=0x1F600),
    ),
    max_size=8,
)


def quoted(value: Any, always: Any) -> Any:
    """Return a CSV field; the csv module of Python 3.11 may leave a CR bare."""
    text = str(value)
    if always or any(c in '",\n\r' for c in text):
        text = '"' + text.replace('"', '""') + '"'
    return text


@given(
    rows=st.lists(st.tuples(texts, st.floats(allow_nan=False), texts), max_size=5),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quotes=st.lists(st.booleans(), min_size=6, max_size=6),
    final=st.booleans(),
    mark=st.booleans(),
    more=st.integers(0, 40),
)
@settings(deadline=None)
def test_rows_of_csv_are_copied_byte_for_byte(
    folder: Any, rows: Any, end: str, quotes: Any, final: bool, mark: bool, more: int
) -> None:
    table = [("left", "p", "right"), *rows]
    lines = [
        ",".join(quoted(value, always) for value in row)
        for row, always in zip(table, quotes, strict=False)
    ]
    bom = "\ufeff" if mark else ""
    source = write(folder / "in.csv", bom + end.join(lines) + (end if final else ""))
    values = [i / 7 for i in range(len(rows))]
    with pytest.MonkeyPatch.context() as patch:
        longest = max(len(line.encode()) for line in lines) + len(bom.encode()) + len(end)
        patch.setattr(Reader, "_block_bytes", longest + more)
        add_column(source, folder / "out.csv", values, ["p"])
    end = end if final or rows else "\n"
    written = [f"{line},{value!r}" for line, value in zip(lines[1:], values, strict=True)]
    written = [line.removesuffix(".0") for line in written]
    expected = bom + "".join(line + end for line in (f"{lines[0]},new", *written))
    assert (folder / "out.csv").read_bytes().decode() == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@settings(deadline=None, max_examples=30)
def test_written_values_read_back_exactly(folder: Any, ending: str, values: Any) -> None:
    lines = ["p", *["1"] * len(values)] if ending == "csv" else ['{"p": 1}'] * len(values)
    source = write(folder / f"in.{ending}", "\n".join(lines))
    add_column(source, folder / f"out.{ending}", values)
    back, _, _ = read(folder / f"out.{ending}", ["new"])
    assert list(map(float, back["new"])) == values


def test_csv_cells_that_are_empty_stay_as_they_are(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", 'a,p\n,1\n"",2\n')
    add_column(source, tmp_path / "out.csv", [0.25, 0.5], ["a", "p"])
    assert (tmp_path / "out.csv").read_text() == 'a,p,new\n,1,0.25\n"",2,0.5\n'
    assert read(source, ["a"])[0] == {"a": ["", ""]}


@pytest.mark.parametrize("block", [16, 1 << 20])
@pytest.mark.parametrize("bad", [b"3,M\xfcnchen\n4,x\n", b"\xff\n", b"\xff,\xff\n,\n", b"3,\xc3"])
def test_csv_that_is_no_utf8_ends_after_the_rows_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: Any, block: Any
) -> None:
    path = write(tmp_path / "in.csv", "p,city\n" + "1,Köln\n" * 10)
    with path.open("ab") as file:
        file.write(bad)
    monkeypatch.setattr(Reader, "_block_bytes", block)
    with open_table(path, ["p"]) as table:
        seen: list[Any] = []
        with pytest.raises(TableError, match="row 11 is not UTF-8 text"):
            seen.extend(row for chunk in table for row in chunk.rows.tolist())
        assert seen == list(range(1, 11))


@pytest.mark.parametrize("size", range(90, 110))
def test_csv_rows_may_break_anywhere_between_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = write(tmp_path / "in.csv", "a,p\r\n" + "x,12\r\n" * 50)
    monkeypatch.setattr(Reader, "_block_bytes", size)
    with open_table(path, ["p"]) as table:
        assert sum(map(len, table)) == 50


def test_csv_dropped_rows_and_blank_lines_leave_no_trace(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "\n\na,p\r\n1,.5\r\n\r\n2,.5\r\n3,.5\r\n\r\n")
    add_column(source, tmp_path / "out.csv", [0.5, 0.75], drop=[2])
    assert (tmp_path / "out.csv").read_bytes() == b"a,p,new\r\n1,.5,0.5\r\n3,.5,0.75\r\n"


def test_csv_new_name_is_quoted_if_it_must_be(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "p")
    add_column(source, tmp_path / "out.csv", [], new='a "b", c')
    assert (tmp_path / "out.csv").read_text() == 'p,"a ""b"", c"\n'


def test_csv_wanted_columns_may_come_in_any_order_and_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", "a,b,c\n1,2,3\n")
    values, rows, _ = read(path, ["c", "a"])
    assert values == {"c": ["3"], "a": ["1"]}
    assert rows == [1]
    with open_table(path, ["c", "c"]) as table:
        assert [list(chunk.columns) for chunk in table] == [["c"]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        ("\n\r\n", "is empty"),
        ("\ufeff", "is empty"),
        ('p,"y', "has no line of column names: unexpected end"),
        ('"p"x,y\n', "has no line of column names: ',' expected after '\"'"),
        ("p,y,p\n", "has two columns named `p`"),
        ("q,y\n1,2\n", "has no column `p`; its columns are `q`, `y`"),
        ("q;y\n1;2\n", "has no column `p`; its columns are `q`, `y`"),
        ("p|y\n", r"has no column `p`; its columns are `p\|y`"),
        ("p,new\n", "already has a column `new`"),
        ("p,y\n".encode("utf-16"), "has no line of column names in UTF-8"),
        (
            gzip.compress(b"p,y\n", mtime=0),
            "has no line of column names in UTF-8 .is it compressed, or Latin-1",
        ),
        (b"p" * (1 << 23), "the line of column names is longer than 1,048,576 bytes"),
    ],
)
def test_csv_that_can_not_be_used_is_refused_before_any_row(
    tmp_path: Path, data: Any, message: str
) -> None:
    path = write(tmp_path / "in.csv", data)
    with pytest.raises(TableError, match=message):
        open_table(path, ["p"], new_column="new")


@pytest.mark.parametrize(
    "text", ["p,y\r0.5,1\r0.25,0\r", "p,y\r0.5,1\r0.25,0", "\rp,y\r\r0.5,1\r0.25,0"]
)
def test_csv_lines_may_end_with_cr(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "in.csv", text)
    assert read(path, ["p"]) == ({"p": ["0.5", "0.25"]}, [1, 2], [])


def test_a_line_of_many_column_names_is_read_once(tmp_path: Path) -> None:
    class Name(str):
        n_compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Name.n_compared += 1
            return str.__eq__(self, other)

    names = [Name(i) for i in range(1000)]
    check_names(names, ["7"], "new")
    with pytest.raises(TableError, match="has no column `p`"):
        check_names(names, ["p"], "new")
    with pytest.raises(TableError, match="has two columns named `0`"):
        check_names([*names, Name(0)], [], None)
    assert Name.n_compared < 2000


def test_csv_header_only_has_no_rows(tmp_path: Path) -> None:
    assert read(write(tmp_path / "in.csv", "p,y\n"), ["p"]) == ({"p": []}, [], [])


def test_malformed_rows_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "in.csv", 'a,p\n"x\ny",1\n\nshort\n1,2,3\n5,6\n,,\n')
    values, rows, faults = read(path, ["p"])
    assert values == {"p": ["1", "6"]}
    assert rows == [1, 4]
    assert [(fault.row, fault.message) for fault in faults] == [
        (2, "row 2 must have 2 fields, got 1"),
        (3, "row 3 must have 2 fields, got 3"),
        (5, "row 5 must have 2 fields, got 3"),
    ]


def test_a_table_of_malformed_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "in.csv", "a,p\n" + "1\n" * 100)
    monkeypatch.setattr(Reader, "_block_bytes", 16)
    values, rows, faults = read(path, ["p"])
    assert (values, rows, len(faults)) == ({"p": []}, [], 100)


@pytest.mark.parametrize("rest", ['3,"4\n5,6\n', '"4\n5,6\n,\n,,\n', '3,"'])
def test_a_quote_left_open_ends_the_table_after_the_rows_before_it(
    tmp_path: Path, rest: str
) -> None:
    path = write(tmp_path / "in.csv", "a,p\n1,2\n" + rest)
    with open_table(path, ["p"]) as table:
        rows = iter(table)
        assert next(rows).columns["p"].to_pylist() == ["2"]
        with pytest.raises(TableError, match=r"row 2 has a quote that is never closed"):
            next(rows)


def test_a_row_without_end_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader, "_block_bytes", 1024)
    path = write(tmp_path / "in.csv", 'a,p\n1,2\n3,"' + "4,5\n" * 1_000_000)
    with open_table(path, ["p"]) as table:
        rows = iter(table)
        next(rows)
        with pytest.raises(TableError, match=r"row 2 is longer than 1,024 bytes: is a quote left"):
            next(rows)
        assert table.position < 40 * 1024


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader, "_block_bytes", 1 << 14)
    path = write(tmp_path / "in.csv", "a,p\n" + '"x\ny",0.25\n' * 100_000)
    before = pa.total_allocated_bytes()
    with open_table(path, ["p"]) as table:
        held = [pa.total_allocated_bytes() - before for _ in table]
    assert len(held) > 50
    assert max(held) < 50 << 14
    assert table.position == table.size == path.stat().st_size


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Standard input as a pipe; the file to write to it."""
    source, sink = os.pipe()
    with open(source) as reading, open(sink, "wb", buffering=0) as writing:
        monkeypatch.setattr("sys.stdin", reading)
        watchdog = threading.Timer(60, writing.close)  # who waits for rows gets the end
        watchdog.start()
        yield writing
        watchdog.cancel()


@pytest.mark.parametrize(
    ("kind", "begin", "row"),
    [
        ("csv", b"a,p\n", b"x,%d\n"),
        ("csv", b"a,p\r\n", b'"x\ny",%d\r\n'),
        ("ndjson", b"", b'{"p": %d}\n'),
    ],
)
def test_rows_in_a_pipe_do_not_wait_for_later_rows(
    pipe: Any, kind: str, begin: bytes, row: bytes
) -> None:
    pipe.write(begin + row % 0)
    with open_table(Path("-"), ["p"], format=kind) as table:
        chunks = iter(table)
        for i in range(1, 4):
            chunk = next(chunks)
            assert [int(value) for value in pa.array(chunk.columns["p"]).to_pylist()] == [i - 1]
            pipe.write((row % i)[:3])  # half of a row waits for its end
            pipe.write((row % i)[3:])
        next(chunks)
        pipe.close()
        assert next(chunks, None) is None


def test_what_a_pipe_has_is_one_chunk(pipe: Any) -> None:
    pipe.write(b"p\n")
    with open_table(Path("-"), ["p"]) as table:
        for i in range(100):
            pipe.write(b"0.%d\n" % i)
        pipe.close()
        assert [len(chunk) for chunk in table] == [100]


@pytest.mark.parametrize("block", range(5, 10))
def test_a_pipe_may_end_lines_with_both_marks_in_two_pieces(
    pipe: Any, tmp_path: Path, block: int
) -> None:
    for piece in (b"a,", b"p\r", b"\n1,0", b".5\r", b"\n2,0.5"):
        pipe.write(piece)
    pipe.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "_block_bytes", block)
        add_column(Path("-"), tmp_path / "out.csv", [0.25, 0.75], ["p"])
    assert (tmp_path / "out.csv").read_bytes() == b"a,p,new\r\n1,0.5,0.25\r\n2,0.5,0.75\r\n"


def test_a_pipe_is_read_to_its_end_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    source, sink = os.pipe()
    with open(source) as reading, open(sink, "wb", buffering=0) as writing:
        monkeypatch.setattr("sys.stdin", reading)
        writing.write(b"a,p\n1,2\n3,")

        def end() -> None:
            with writing:
                writing.write(b"4\n5,6")

        closing = threading.Thread(target=end)
        closing.start()
        with open_table(Path("-"), ["p"]) as table:
            assert [v for chunk in table for v in chunk.columns["p"].to_pylist()] == ["2", "4", "6"]
            assert table.size is None
        closing.join()
        assert not reading.closed


# Numbers ------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.floats() | st.sampled_from(["", "x", "1_0", " 1", "+2", "0x1", "inf", "True", "FALSE"])
    ),
    st.booleans(),
)
def test_text_is_read_as_python_reads_a_float(values: Any, booleans: bool) -> None:
    texts = [value if isinstance(value, str) else repr(value) for value in values]

    def number(text: Any) -> Any:
        if booleans and text.lower() in ("true", "false"):
            return float(text == "True")
        try:
            return float(text.replace("_", "?"))
        except ValueError:
            return math.nan

    numbers, empty = as_numbers(pa.array([text.encode() for text in texts], pa.large_binary()))
    numbers_of_list, _ = as_numbers(texts)
    if booleans:
        numbers, _ = as_numbers(pa.array(texts, pa.string()), booleans=True)
        numbers_of_list, _ = as_numbers(texts, booleans=True)
    np.testing.assert_array_equal(numbers, [number(text) for text in texts])
    np.testing.assert_array_equal(numbers_of_list, numbers)
    assert empty.tolist() == [text == "" for text in texts]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 0, None], pa.int8()),
        pa.array([1.0, 0.0, None], pa.float32()),
        pa.array([True, False, None]),
        pa.array(["1", "0", ""]),
        pa.array(["true", "False", None], pa.large_string()),
        pa.array(["1", "0", None]).dictionary_encode(),
        pa.array([1, 0, None], pa.decimal128(5, 2)),
        [1, 0, None],
        [True, False, ""],
        ["TRUE", 0.0, None],
    ],
    ids=lambda column: str(getattr(column, "type", column)),
)
def test_labels_of_any_type(column: Any) -> None:
    values, empty = as_numbers(column, booleans=True)
    np.testing.assert_array_equal(values, [1.0, 0.0, np.nan])
    assert empty.tolist() == [False, False, True]


def test_only_labels_may_be_booleans() -> None:
    values, empty = as_numbers([True, "true", 10**400, [1]])
    assert np.isnan(values).all()
    assert not empty.any()
    with pytest.raises(TableError, match="must hold numbers, not booleans"):
        as_numbers(pa.array([True]))
    with pytest.raises(TableError, match="must hold numbers, not timestamp"):
        as_numbers(pa.array([0], pa.timestamp("s")), booleans=True)


# --- NDJSON


json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
json_values = json_scalars | st.lists(json_scalars, max_size=2)


@given(
    records=st.lists(st.dictionaries(texts, json_values, max_size=3), min_size=1, max_size=5),
    ends=st.sampled_from(["\n", "\r\n", " \n\n", "\n \t\n"]),
    ascii_only=st.booleans(),
    block=st.integers(1000, 1050),
)
@settings(deadline=None, max_examples=50)
def test_ndjson_fields_survive(
    folder: Any, records: Any, ends: str, ascii_only: bool, block: int
) -> None:
    for i, record in enumerate(records):
        record["p"] = i / 8
    lines = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
    source = write(folder / "in.jsonl", ends.join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "_block_bytes", block)
        values, rows, faults = read(source, ["p"])
        add_column(source, folder / "out.jsonl", values["p"], ["p"], new="neü")
    assert rows == list(range(1, len(records) + 1))
    assert faults == []
    assert values["p"] == [record["p"] for record in records]
    out = (folder / "out.jsonl").read_bytes().decode().split("\n")
    out = [line for line in out if line.strip()]
    assert list(map(json.loads, out)) == [{**record, "neü": record["p"]} for record in records]
    for line, before in zip(out, lines, strict=True):
        assert line.startswith(before[:-1])


def test_ndjson_lines_that_are_no_objects_are_faults(tmp_path: Path) -> None:
    path = write(
        tmp_path / "in.jsonl", b'\xef\xbb\xbf{"p": 1}\n\n{"p"\n[1]\n{"a": "\xff"}\n{} {}\n {"a": 0}'
    )
    values, rows, faults = read(path, ["p"])
    assert values == {"p": [1, None]}
    assert rows == [1, 6]
    assert [fault.row for fault in faults] == [2, 3, 4, 5]
    assert faults[0].message.startswith("row 2 is not JSON: Expecting ':' delimiter")
    assert faults[1].message == "row 3 is not a JSON object"
    assert faults[2].message == "row 4 is not UTF-8 text"
    assert faults[3].message == "row 5 is not JSON: Extra data at column 4"


DEEP = "[" * 200_000 + "]" * 200_000


def test_ndjson_fields_that_are_not_used_may_hold_anything(tmp_path: Path) -> None:
    digits = "9" * 5000
    text = f'{{"p": 1, "q": -{digits}}}\n{{"p": 2, "q": {DEEP}}}\n{{"p": {digits}}}\n{{"p": 3}}\n'
    values, rows, faults = read(write(tmp_path / "in.jsonl", text), ["p"])
    assert values == {"p": [1, digits, 3]}
    assert rows == [1, 3, 4]
    assert [fault.message for fault in faults] == ["row 2 is nested too deeply to be read"]
    assert faults[0].reason == "nested too deeply"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ('{"q": 1}\n{"q": 2}\n', "has no field `p` in any of its objects"),
        ('{"p": 1}\n{"new": 2}\n', r"row 2 already has a field `new`"),
    ],
)
def test_ndjson_that_can_not_be_used(tmp_path: Path, data: str, message: str) -> None:
    path = write(tmp_path / "in.ndjson", data)
    with pytest.raises(TableError, match=message):
        read(path, ["p"], new_column="new")


def test_ndjson_row_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_block_bytes", 1024)
    path = write(tmp_path / "in.ndjson", '{"p": 1}\n{"p": "' + "x" * (1 << 18))
    with pytest.raises(TableError, match=r"row 2 is longer than"):
        read(path, ["p"])


def test_rows_before_one_without_end_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader, "_block_bytes", 64)
    path = write(tmp_path / "in.ndjson", '{"p": 1}\n' * 3 + '{"p": "' + "x" * 80 + '"}\n{"p": 1}\n')
    with open_table(path, ["p"]) as table:
        chunks = iter(table)
        assert len(next(chunks)) == 3
        with pytest.raises(TableError, match="row 4 is longer than 64 bytes"):
            next(chunks)


# Several tables -----------------------------------------------------------------------------------


def test_the_columns_of_all_tables_are_compared_before_the_first_row(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.csv", "p,y\n1,1\n") for name in "ab"]
    with pytest.raises(TableError, match="has other columns than"):
        Series([*paths, write(tmp_path / "c.csv", "p\n1\n")], ["p"]).__enter__()
    series = Series([*paths, write(tmp_path / "d.csv", "y\n1\n")], ["p"])
    with pytest.raises(TableError, match="has no column `p`"):
        series.__enter__()
    assert series.path == tmp_path / "d.csv"  # which the message of a command names


def test_pipes_in_a_series_are_opened_one_after_the_other(tmp_path: Path, pipe: Any) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        os.mkfifo(path)
    last = write(tmp_path / "z.csv", "p\n4\n")

    def feed() -> None:
        for value, path in enumerate(paths, start=1):
            path.write_text(f"p\n{value}\n")  # waits until it is read

    feeding = threading.Thread(target=feed, daemon=True)
    feeding.start()
    pipe.write(b"p\n3\n")
    pipe.close()
    with Series([*paths, Path("-"), last], ["p"]) as series:
        values = [v for chunk in series for v in chunk.columns["p"].to_pylist()]
    assert values == ["1", "2", "3", "4"]
    feeding.join()


# --- Parquet


@pytest.fixture
def parquet(tmp_path: Path) -> tuple[Any, Any]:
    schema = pa.schema(
        [
            pa.field("id", pa.int16(), metadata={"unit": "none"}),
            pa.field("tags", pa.list_(pa.struct([("k", pa.string())]))),
            pa.field("p", pa.float64()),
            pa.field("city", pa.dictionary(pa.int32(), pa.string())),
        ],
        metadata={"made by": "hand"},
    )
    table = pa.table(
        {
            "id": range(10),
            "tags": [None, [], [{"k": "x"}], [{"k": None}], *[[]] * 6],
            "p": [i / 10 for i in range(9)] + [None],
            "city": ["a", "b"] * 5,
        },
        schema=schema,
    )
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, row_group_size=4)
    return path, table


def test_parquet_keeps_schema_metadata_and_values(parquet: Any, tmp_path: Path) -> None:
    path, table = parquet
    out = tmp_path / "out.parquet"
    add_column(path, out, np.arange(9) / 4, ["p"], drop=[3])
    back = pq.read_table(out)
    kept = table.filter(pa.array([i != 2 for i in range(10)]))
    assert back.drop_columns("new") == kept
    assert back.schema.metadata == table.schema.metadata
    assert back.schema.field("id").metadata == table.schema.field("id").metadata
    assert back["new"].to_pylist() == [i / 4 for i in range(9)]
    assert back.schema.names[-1] == "new"


def test_parquet_reads_in_chunks_and_counts_rows(parquet: Any) -> None:
    path, _ = parquet
    with open_table(path, ["p"], batch_size=3) as table:
        lengths = [len(chunk) for chunk in table]
        assert table.size == table.position == sum(lengths) == 10
    assert max(lengths) <= 3
    with open_table(path, ["p"]) as table:
        (chunk,) = table
        assert chunk.show("p", 9) == "nothing"


def test_parquet_that_can_not_be_used(parquet: Any, tmp_path: Path) -> None:
    path, _ = parquet
    with pytest.raises(TableError, match="has no column `q`"):
        open_table(path, ["q"])
    with pytest.raises(TableError, match="already has a column `p`"):
        open_table(path, [], new_column="p")
    with pytest.raises(TableError, match="can't be read from a pipe"):
        open_table(Path("-"), ["p"], format="parquet")
    with pytest.raises(TableError, match="is empty"):
        open_table(write(tmp_path / "empty.parquet", ""), ["p"])
    with pytest.raises(TableError, match="is not a Parquet file"):
        open_table(write(tmp_path / "text.parquet", "p,y\n" * 100), ["p"])


def test_damaged_parquet_names_the_row_where_it_breaks_off(parquet: Any) -> None:
    path, _ = parquet
    data = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(2)
    at = second.dictionary_page_offset or second.data_page_offset
    data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(TableError, match="row 5: the file is damaged here"):
        read(path, ["p"], batch_size=4)


# Names and outputs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "given", "expected"),
    [
        (["a.csv"], None, "csv"),
        (["a.CSV", "b.csv"], None, "csv"),
        (["a.jsonl", "-"], None, "ndjson"),
        (["-", "b.ndjson"], None, "ndjson"),
        (["-", "-"], None, "csv"),
        (["a.pq", "/dev/null"], None, "parquet"),
        (["a.txt"], "csv", "csv"),
    ],
)
def test_format_by_name(paths: Any, given: str | None, expected: str) -> None:
    assert format_of(*map(Path, paths), given=given) == expected


@pytest.mark.parametrize(
    ("paths", "given", "message"),
    [
        (["a.csv", "b.parquet"], None, "b.parquet is parquet by its name, but csv is wanted"),
        (["a.csv"], "ndjson", "a.csv is csv by its name, but ndjson is wanted"),
        (["a.txt", "-"], None, "`format` must be given for a.txt, which does not end in .csv"),
        (["a.csv"], "xml", "must be one of csv, ndjson, parquet, got 'xml'"),
    ],
)
def test_format_that_is_not_clear(paths: Any, given: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        format_of(*map(Path, paths), given=given)


def test_output_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "out.csv", "old")
    with Output(path) as output:
        assert output.write(b"new") == output.tell() == 3
        assert path.read_text() == "old"
        assert output.begun
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    assert not output.begun


def test_output_broken_off_keeps_the_old_file_and_the_partial_one(tmp_path: Path) -> None:
    path = write(tmp_path / "out.csv", "old")
    output = Output(path)

    def fail() -> None:
        with output:
            output.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert output.partial.read_text() == "new"
    assert output.begun


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_nothing_stays_if_the_first_row_is_refused(tmp_path: Path, ending: str) -> None:
    source = write(tmp_path / f"in.{ending}", "p\n1\n" if ending == "csv" else '{"p": 1}\n')
    if ending == "parquet":
        pq.write_table(pa.table({"p": [1.0]}), source)
    output = Output(tmp_path / f"out.{ending}")

    def fail() -> None:
        with (
            open_table(source, ["p"], new_column="q") as table,
            output,
            table.writer(output) as writer,
        ):
            chunk = next(iter(table))
            writer.write(chunk, np.empty(0), np.array([False]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not output.begun
    assert list(tmp_path.iterdir()) == [source]


def test_output_ends_with_the_last_whole_write_when_the_disk_is_full(tmp_path: Path) -> None:
    output = Output(tmp_path / "out.csv")

    class Full:
        """Takes some bytes of a write and has no room for the rest."""

        def __init__(self, file: Any) -> None:
            self.file, self.room = file, 5

        def write(self, data: Any) -> Any:
            if not self.room:
                raise OSError(28, "No space left on device")
            taken = bytes(data[: self.room])
            self.room -= len(taken)
            return self.file.write(taken)

        def __getattr__(self, name: Any) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Any:
            return self.file.__enter__()

        def __exit__(self, *error: Any) -> Any:
            return self.file.__exit__(*error)

    def fill() -> None:
        with output:
            output._file = Full(output._file)  # type: ignore[assignment]
            output.write(b"one\n")
            output.write(b"two\n")

    with pytest.raises(OSError, match="No space left"):
        fill()
    assert output.partial.read_bytes() == b"one\n"


def test_output_goes_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "deep" / "out.csv")
    with Output(link) as output:
        output.write(b"x")
    assert link.is_symlink()
    assert (tmp_path / "deep" / "out.csv").read_text() == "x"


def test_output_does_not_replace_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Output(path) as output:
            output.write(b"x")
            assert output.partial is None
        assert os.read(reading, 10) == b"x"
    finally:
        os.close(reading)
    assert path.is_fifo()


def test_times_that_python_cannot_hold_are_none() -> None:
    begin, end = "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"
    bad = ["0001-01-01T00:00+01:00", "9999-12-31T23:30-01:00", "-2e11", "1772000000000", "-1e400"]
    times = as_times([begin, end, *bad])
    assert times.seconds[:2].tolist() == [-719_162 * 86_400, 2_932_897 * 86_400 - 1]
    assert np.isnan(times.seconds[2:]).all()
    for seconds in times.seconds[:2].tolist():
        assert time_in_words(seconds, "")[:4] in ("0001", "9999")
    for values, kind in (
        ([2**62, 0], pa.timestamp("ms")),
        ([2**62, 0], pa.timestamp("us")),
        ([-(2**62), 0], pa.timestamp("s")),
        ([2**30, 0], pa.date32()),
        ([2**62 // 86_400_000 * 86_400_000, 0], pa.date64()),
        ([2**62, 0], pa.timestamp("us", "Mars/Olympus")),
    ):
        times = as_times(pa.array(values, kind))
        assert math.isnan(times.seconds[0]), kind
        assert times.seconds[1] == 0.0
        assert times.has_zone.tolist() == [getattr(kind, "tz", None) is not None] * 2


def test_times_of_columns_of_parquet() -> None:
    moments = pa.array([1_500_000_000, None, -500_000_000], pa.timestamp("ns"))
    for column in (moments, moments.dictionary_encode()):
        assert as_times(column).seconds.tolist() == pytest.approx(
            [1.5, math.nan, -0.5], nan_ok=True
        )
    days = np.arange(-40_000, 40_000, dtype=np.int32)
    for dates in (pa.array(days, pa.date32()), pa.array(days, pa.date32()).cast(pa.date64())):
        assert (as_times(dates).seconds == 86_400.0 * days).all()  # the borders of --since
    for values in ([[1]], [{"a": 1}]):
        with pytest.raises(TableError, match="must hold times, not"):
            as_times(pa.array(values))
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    with pytest.raises(TableError, match="must be UTF-8"):
        as_times(broken)
