"""States as bytes: arrays of numbers, written and read without a Python object for each part.

``streamcal._state.format`` has the checksum and the version. What lies between them is::

    lengths of what follows      head, fields, list of arrays; uint32, little endian
    head, fields                 two texts, of which this module knows nothing
    list of arrays               for each: kind, dimensions, length of its name (uint16), name, shape
    arrays                       one after the other, in the order of the list

The kind is f for floats and i for integers of 8 bytes, or u for bytes; a shape is uint64 numbers. All
numbers are little endian. A length is compared with the bytes that are there before it is used, so
damaged bytes raise a ``ValueError``, and memory is taken only for what is there.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from libc.float cimport DBL_MAX
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

import numpy as np

cdef Py_ssize_t MOST_DIMENSIONS = 8, MOST_NAME = 60_000, LENGTHS = 12
cdef uint64_t MOST_SIZE = 1 << 48  # of an array, in bytes

cdef object FLOATS = np.dtype("<f8"), INTEGERS = np.dtype("<i8"), BYTES = np.dtype("u1")
cdef dict DTYPES = {np.float64: FLOATS, np.int64: INTEGERS, np.uint8: BYTES}
cdef object empty = np.empty


# Writing ------------------------------------------------------------------------------------------


def join(bytes start not None, bytes head not None, bytes fields not None, dict arrays not None):
    """Return ``start`` and what `split` reads: two texts, and arrays of 8-byte numbers or bytes."""
    cdef list parts = [], names = []
    cdef Py_ssize_t n_list = 0, n_arrays = 0
    cdef bytes joined
    cdef char *at
    for name, array in arrays.items():
        array = as_part(array)
        coded = (<str?> name).encode()
        if len(coded) > MOST_NAME or len(array.shape) > MOST_DIMENSIONS:
            raise ValueError(f"an array of a state must have a short name and shape, got {name}")
        names.append(coded)
        parts.append(array)
        n_list += 4 + PyBytes_GET_SIZE(coded) + 8 * len(array.shape)
        n_arrays += array.nbytes
    joined = PyBytes_FromStringAndSize(
        NULL, len(start) + LENGTHS + len(head) + len(fields) + n_list + n_arrays
    )
    at = PyBytes_AS_STRING(joined)
    put_bytes(&at, start)
    put_number(&at, len(head), 4)
    put_number(&at, len(fields), 4)
    put_number(&at, n_list, 4)
    put_bytes(&at, head)
    put_bytes(&at, fields)
    for coded, array in zip(names, parts):
        put_number(&at, kind_of(array.dtype), 1)
        put_number(&at, len(array.shape), 1)
        put_number(&at, PyBytes_GET_SIZE(coded), 2)
        put_bytes(&at, coded)
        for length in array.shape:
            put_number(&at, length, 8)
    for array in parts:
        put_array(&at, array)
    return joined


cdef object as_part(object array):
    """Return an array as it is written."""
    dtype = array.dtype
    if dtype is FLOATS or dtype is INTEGERS or dtype is BYTES:
        if array.flags.c_contiguous:
            return array
    elif dtype == BYTES or dtype == FLOATS or dtype == INTEGERS:
        dtype = BYTES if dtype == BYTES else FLOATS if dtype == FLOATS else INTEGERS
    else:
        dtype = FLOATS if dtype.kind == "f" else INTEGERS
    return np.ascontiguousarray(array, dtype)


cdef inline int kind_of(object dtype) except -1:
    return c"f" if dtype is FLOATS else c"i" if dtype is INTEGERS else c"u"


cdef inline void put_number(char **at, uint64_t number, int n_bytes) noexcept:
    cdef int i
    for i in range(n_bytes):
        at[0][i] = <char> ((number >> (8 * i)) & 255)
    at[0] += n_bytes


cdef inline void put_bytes(char **at, bytes data) noexcept:
    memcpy(at[0], PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    at[0] += PyBytes_GET_SIZE(data)


cdef int put_array(char **at, object array) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    memcpy(at[0], view.buf, view.len)
    at[0] += view.len
    PyBuffer_Release(&view)
    return 0


# Reading ------------------------------------------------------------------------------------------


def split(bytes data not None, Py_ssize_t start):
    """Return the head, the fields and the arrays by name of what `join` returned."""
    cdef const unsigned char *first = <const unsigned char *> PyBytes_AS_STRING(data)
    cdef Py_ssize_t n_left = PyBytes_GET_SIZE(data) - start - LENGTHS, n_head, n_fields, n_list
    cdef const unsigned char *at = first + start
    cdef const unsigned char *of_arrays
    cdef const unsigned char *end = first + PyBytes_GET_SIZE(data)
    cdef dict arrays = {}
    require(n_left >= 0, "there must be lengths")
    n_head, n_fields, n_list = get_number(at, 4), get_number(at + 4, 4), get_number(at + 8, 4)
    at += LENGTHS
    require(n_head + n_fields + n_list <= n_left, "the texts must not end after the data")
    head = PyBytes_FromStringAndSize(<const char *> at, n_head)
    fields = PyBytes_FromStringAndSize(<const char *> at + n_head, n_fields)
    at += n_head + n_fields
    of_arrays = at + n_list
    while n_list > 0:
        n_list -= read_array(&at, n_list, &of_arrays, end, arrays)
    require(of_arrays == end, "the data must end with the last array")
    return head, fields, arrays


cdef Py_ssize_t read_array(
    const unsigned char **at,
    Py_ssize_t n_list,
    const unsigned char **data,
    const unsigned char *end,
    dict arrays,
) except -1:
    """Read an array at the front of a list and of the data; return the bytes taken of the list."""
    cdef Py_ssize_t n_dimensions, n_name, n_taken
    cdef uint64_t length, n_bytes = 8
    cdef Py_buffer view
    cdef int i
    require(n_list >= 4, "the list of arrays must be whole")
    n_dimensions, n_name = at[0][1], <Py_ssize_t> get_number(at[0] + 2, 2)
    n_taken = 4 + n_name + 8 * n_dimensions
    require(n_dimensions <= MOST_DIMENSIONS, "an array must have few dimensions")
    require(n_taken <= n_list, "the list of arrays must be whole")
    if at[0][0] == c"f":
        dtype = FLOATS
    elif at[0][0] == c"i":
        dtype = INTEGERS
    else:
        require(at[0][0] == c"u", "an array must be of a known kind")
        dtype, n_bytes = BYTES, 1
    name = (<const char *> at[0])[4 : 4 + n_name].decode()
    at[0] += 4 + n_name
    if n_dimensions == 1:
        length = get_number(at[0], 8)
        shape = length
        n_bytes = times(n_bytes, length)
    else:
        lengths = []
        for i in range(n_dimensions):
            length = get_number(at[0] + 8 * i, 8)
            lengths.append(length)
            n_bytes = times(n_bytes, length)
        shape = tuple(lengths)
    at[0] += 8 * n_dimensions
    require(n_bytes <= <uint64_t> (end - data[0]), "an array must not end after the data")
    array = empty(shape, dtype)
    if n_bytes > 0:
        PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)
        memcpy(view.buf, data[0], n_bytes)
        PyBuffer_Release(&view)
    data[0] += n_bytes
    if name in arrays:
        raise ValueError("an array must have its name")
    arrays[name] = array
    return n_taken


cdef inline uint64_t times(uint64_t size, uint64_t length) except? 0:
    """Return the product of a size and a length, or raise if it is more than there can be."""
    require(size == 0 or length <= MOST_SIZE // size, "a shape must be possible")
    return size * length


cdef inline uint64_t get_number(const unsigned char *at, int n_bytes) noexcept:
    cdef uint64_t number = 0
    cdef int i
    for i in range(n_bytes):
        number |= (<uint64_t> at[i]) << (8 * i)
    return number


# Checks -------------------------------------------------------------------------------------------


def array_of(dict arrays not None, str name not None, *shape, dtype=np.float64, finite=True):
    """Return an array that must have a dtype, a shape (None: any length) and finite numbers.

    Raises
    ------
    ValueError
        If it has not, or there is no such array.

    Examples
    --------
    >>> array_of({"bins": np.zeros((2, 3))}, "bins", 2, None).shape
    (2, 3)
    """
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"there must be an array {name}")
    found = array.dtype
    if found is not DTYPES.get(dtype) and found != dtype:
        raise ValueError(f"{name} must hold {np.dtype(dtype)}, got {found}")
    lengths = array.shape
    if not fits(lengths, shape):
        raise ValueError(f"{name} must have the shape {shape}, got {lengths}")
    if finite and (found is FLOATS or found == FLOATS) and not lie_within(array, -DBL_MAX, DBL_MAX):
        raise ValueError(f"{name} must hold finite numbers")
    return array


cdef bint fits(tuple lengths, tuple shape) except -1:
    """Return whether lengths are those of a shape; None is any."""
    cdef Py_ssize_t i
    if len(lengths) != len(shape):
        return False
    for i in range(len(shape)):
        if shape[i] is not None and shape[i] != lengths[i]:
            return False
    return True


def are_within(array, double low, double high):
    """Return whether all floats of an array lie in a closed range; NaN does not.

    Examples
    --------
    >>> are_within(np.array([0.5, 1.0]), 0.0, 1.0), are_within(np.array([np.nan]), 0.0, 1.0)
    (True, False)
    """
    return lie_within(array, low, high)


cdef bint lie_within(object array, double low, double high) except -1:
    """Do what `are_within` does."""
    cdef Py_buffer view
    cdef const double *numbers
    cdef Py_ssize_t i
    cdef bint found = True
    if array.dtype != FLOATS:
        raise TypeError(f"there must be floats, got {array.dtype}")
    array = np.ascontiguousarray(array)
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE)
    numbers = <const double *> view.buf
    for i in range(view.len // <Py_ssize_t> sizeof(double)):
        found &= low <= numbers[i] <= high
    PyBuffer_Release(&view)
    return found
