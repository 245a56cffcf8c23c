"""Rows and cells of CSV, found in text that arrives in pieces.

A row ends with a line end that is not in quotes; a quote counts only at the beginning of a cell, and
two of them in quotes are one:

    text     1 , " a , ↵ b " ↵ ↵ 2 , 5 " ↵ 3 , " c
    rows     └──────────────┘   └───────┘              the third has begun, and is in quotes
    cells    1   a,↵b            2   5"

``find_rows`` walks over each piece once: the `State` after it says how much of a row has begun. Bytes
of a row are never changed: ``take_cells`` copies one cell of each row without its quotes, and
``join_rows`` copies rows with one cell more. Any LF, CR or both ends a line; empty lines are no rows.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memchr, memcpy

import numpy as np

cdef enum:
    OUTSIDE = 0  # between rows
    CELL  # at the beginning of a cell
    PLAIN  # in a cell, outside of quotes
    QUOTED
    QUOTE  # after a quote in quotes: the end of them, or half of a quote

# What has begun at the end of a piece: a mode, and the bytes and complete cells of the row so far.
START = (<int>OUTSIDE, 0, 0)


def is_quoted(state):
    """Return whether a row has begun that ends in quotes."""
    return state[0] == QUOTED


def find_rows(const unsigned char[::1] data, int separator, state):
    """Return the rows that end in ``data``, and the state after it.

    Parameters
    ----------
    data : bytes
    separator : int
        The byte that separates cells.
    state : tuple
        `START`, or the state after the data before.

    Returns
    -------
    rows : ndarray of shape (n_rows, 3)
        Where a row starts and stops in ``data``, without the line end, and how many cells it has.
        The first may start before ``data``: its start is negative.
    state : tuple
    """
    cdef Py_ssize_t n = data.shape[0], i, start, cells, found = 0
    cdef int mode
    cdef Py_ssize_t begun
    mode, begun, cells = state
    rows = np.empty((_line_ends(data), 3), np.int64)
    cdef long long[:, ::1] into = rows
    cdef const unsigned char *text = &data[0] if n else NULL
    cdef const unsigned char *quote
    cdef unsigned char c
    start = -begun
    with nogil:
        i = 0
        while i < n:
            c = text[i]
            if mode == QUOTED:
                quote = <const unsigned char *>memchr(text + i, c'"', n - i)
                if quote == NULL:
                    break
                i = quote - text + 1
                mode = QUOTE
                continue
            if mode == QUOTE:
                mode = QUOTED if c == c'"' else PLAIN
                if mode == QUOTED:
                    i += 1
                    continue
            if c == c'\n' or c == c'\r':
                if mode != OUTSIDE:
                    into[found, 0] = start
                    into[found, 1] = i
                    into[found, 2] = cells + 1
                    found += 1
                    mode = OUTSIDE
            else:
                if mode == OUTSIDE:
                    start, cells, mode = i, 0, CELL
                if c == separator:
                    cells += 1
                    mode = CELL
                elif mode == CELL and c == c'"':
                    mode = QUOTED
                else:
                    mode = PLAIN
            i += 1
    if mode == OUTSIDE:
        return rows[:found], START
    return rows[:found], (mode, n - start, cells)


cdef Py_ssize_t _line_ends(const unsigned char[::1] data) noexcept nogil:
    """Return how many bytes end a line."""
    cdef Py_ssize_t i, count = 0
    for i in range(data.shape[0]):
        count += (data[i] == c'\n') | (data[i] == c'\r')
    return count


def take_cells(
    const unsigned char[::1] text,
    const long long[:, :] rows,
    int separator,
    const long long[::1] columns,
):
    """Return cells of each row without their quotes, by column.

    Parameters
    ----------
    text : bytes
        Shorter than 2**31.
    rows : ndarray of shape (n_rows, 3)
        What `find_rows` found in it.
    separator : int
    columns : ndarray of int64
        Increasing numbers of cells in a row, from 0; beyond the end of a row they are empty.

    Returns
    -------
    list of (cells, ends)
        For each column the bytes of all cells, one after another, and an array of shape
        ``(n_rows + 1,)``: 0, then where each of them ends.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_columns = columns.shape[0], row, k, size = 0
    _check(text, rows)
    for k in range(n_columns):
        if columns[k] < 0 or (k and columns[k] <= columns[k - 1]):
            raise ValueError("`columns` must increase from 0 on")
    for row in range(n_rows):
        size += rows[row, 1] - rows[row, 0]
    cells = np.empty((n_columns, max(size, 1)), np.uint8)
    ends = np.zeros((n_columns, n_rows + 1), np.int32)
    cdef unsigned char[:, ::1] into = cells
    cdef int[:, ::1] stops = ends
    cdef const unsigned char *i
    cdef const unsigned char *stop
    cdef unsigned char *end
    cdef long long column
    with nogil:
        for row in range(n_rows):
            i, stop, column = &text[0] + rows[row, 0], &text[0] + rows[row, 1], 0
            for k in range(n_columns):
                while column < columns[k] and i < stop:
                    i = _cell(i, stop, separator, NULL, &end) + 1
                    column += 1
                end = &into[k, 0] + stops[k, row]
                if i < stop:
                    i = _cell(i, stop, separator, end, &end) + 1
                    column += 1
                stops[k, row + 1] = <int>(end - &into[k, 0])
    return [(cells[k, : ends[k, n_rows]], ends[k]) for k in range(n_columns)]


cdef const unsigned char *_cell(
    const unsigned char *i,
    const unsigned char *stop,
    int separator,
    unsigned char *into,
    unsigned char **end,
) noexcept nogil:
    """Return where the cell at ``i`` ends; copy it if ``into`` is not NULL, up to ``end``."""
    if i[0] == c'"':
        i += 1
        while i < stop:
            if i[0] == c'"':
                i += 1
                if i >= stop or i[0] != c'"':
                    break
            if into != NULL:
                into[0] = i[0]
                into += 1
            i += 1
    while i < stop and i[0] != separator:
        if into != NULL:
            into[0] = i[0]
            into += 1
        i += 1
    end[0] = into
    return i


def join_rows(
    const unsigned char[::1] text,
    const long long[:, :] rows,
    const unsigned char[::1] cells,
    const int[::1] ends,
    bytes separator,
    bytes line_end,
):
    """Return rows as they are in ``text``, each with one more cell, and a line end.

    Parameters
    ----------
    text : bytes
    rows : ndarray of shape (n_rows, 3)
        What `find_rows` found in it.
    cells, ends : ndarray
        A cell for each row, as `take_cells` returns them.
    separator, line_end : bytes
        What comes before the cell, and after it.

    Returns
    -------
    joined : bytes
    """
    cdef Py_ssize_t n_rows = rows.shape[0], row, size
    cdef Py_ssize_t n_before = len(separator), n_after = len(line_end), length
    cdef const char *before = PyBytes_AS_STRING(separator)
    cdef const char *after = PyBytes_AS_STRING(line_end)
    _check(text, rows)
    if ends.shape[0] != n_rows + 1 or ends[0] != 0 or ends[n_rows] > cells.shape[0]:
        raise ValueError("`ends` must hold where the cell of each row ends")
    size = ends[n_rows] + n_rows * (n_before + n_after)
    for row in range(n_rows):
        if ends[row] > ends[row + 1]:
            raise ValueError("`ends` must be in order")
        size += rows[row, 1] - rows[row, 0]
    joined = PyBytes_FromStringAndSize(NULL, size)
    cdef char *into = PyBytes_AS_STRING(joined)
    if not n_rows:
        return joined
    with nogil:
        for row in range(n_rows):
            length = rows[row, 1] - rows[row, 0]
            memcpy(into, &text[0] + rows[row, 0], length)
            into += length
            memcpy(into, before, n_before)
            into += n_before
            length = ends[row + 1] - ends[row]
            if length:
                memcpy(into, &cells[0] + ends[row], length)
            into += length
            memcpy(into, after, n_after)
            into += n_after
    return joined


cdef int _check(const unsigned char[::1] text, const long long[:, :] rows) except -1:
    """Raise unless rows lie in the text."""
    cdef Py_ssize_t row
    if text.shape[0] >= 1 << 31:
        raise ValueError(f"`text` must be shorter than 2**31 bytes, got {text.shape[0]}")
    if rows.shape[1] != 3:
        raise ValueError(f"`rows` must have 3 columns, got {rows.shape[1]}")
    for row in range(rows.shape[0]):
        if not 0 <= rows[row, 0] < rows[row, 1] <= text.shape[0]:
            raise ValueError(f"`rows` must lie in the text, got {rows[row, 0]} to {rows[row, 1]}")
    return 0
