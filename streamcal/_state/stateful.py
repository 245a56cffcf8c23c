"""States of learners as bytes, with version and checksum; reading them never executes code.

A state consists of the magic ``b"streamcal"``, a version byte, the length of a JSON header (uint32,
little endian), the header, the arrays that it lists, and a BLAKE2b digest of all that (16 bytes).
The header holds the name of the class, its parameters and other small fields, and name, dtype and
shape of each array. Dtypes are little-endian floats and integers of 8 bytes, and bytes. JSON keeps
floats exactly.

A learner derives from `Stateful` and defines ``_freeze``, which returns its state beyond the
parameters, and ``_thaw``, which restores it. Loading checks the digest, looks up the class among
the known ones, compares parameters that determine memory with the arrays (``_check_room``), calls
the constructor with the parameters, and calls ``_thaw``, which checks each value on which an index,
a loop or a result depends. So damaged or malicious bytes raise a `ValueError` and nothing worse,
and memory is at most a small multiple of the bytes.

``_thaw`` reads fields and arrays only by the functions of the section *Checks*, which return values
of the type, shape and range asked for.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import json
import math
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import MOST_COUNT
from streamcal.losses import (
    AbsoluteError,
    AsymmetricError,
    CostTable,
    FunctionLoss,
    Loss,
    SquaredError,
    TaskLoss,
    ZeroOneError,
    get,
    get_task,
)

MAGIC = b"streamcal"
VERSION = 6

DIGEST = 16
_PREFIX = len(MAGIC) + 1 + 4
_DTYPES = {"<f8": np.float64, "<i8": np.int64, "|u1": np.uint8}

# The modules of this library's classes, each imported when a state names the class.
_HOME = {
    "AM": "streamcal.decision.goals",
    "Accuracy": "streamcal.decision.goals",
    "AnytimeCalibrator": "streamcal.calibration.anytime",
    "BetaCalibrator": "streamcal.calibration.beta",
    "CalibratedClassifier": "streamcal.wrappers.classifier",
    "CalibratedRegressor": "streamcal.wrappers.regressor",
    "CuSumRank": "streamcal.ordinal.cusum",
    "DecisionClassifier": "streamcal.decision.classifier",
    "EUMThreshold": "streamcal.decision.eum",
    "FBeta": "streamcal.decision.goals",
    "FractionalLinear": "streamcal.decision.goals",
    "GMean": "streamcal.decision.goals",
    "GTPPR": "streamcal.decision.goals",
    "HMean": "streamcal.decision.goals",
    "HedgedCalibrator": "streamcal.calibration.hedged",
    "HistogramCalibrator": "streamcal.calibration.histogram",
    "IdentityCalibrator": "streamcal.calibration.identity",
    "IsotonicCalibrator": "streamcal.calibration.isotonic",
    "Jaccard": "streamcal.decision.goals",
    "Kappa": "streamcal.decision.goals",
    "KernelCuSumRank": "streamcal.ordinal.kernel_cusum",
    "LabelJoin": "streamcal.durable.labels",
    "MCC": "streamcal.decision.goals",
    "Metric": "streamcal.decision._base",
    "PACuSumRank": "streamcal.ordinal.cusum",
    "PAVStack": "streamcal.isotonic.stack",
    "PRank": "streamcal.ordinal.cusum",
    "PlattCalibrator": "streamcal.calibration.platt",
    "QMean": "streamcal.decision.goals",
    "SEC": "streamcal.decision.goals",
    "StreamingThresholds": "streamcal.ordinal.streaming",
    "TemperatureCalibrator": "streamcal.calibration.temperature",
    "ThresholdClassifier": "streamcal.ordinal.classifier",
    "TopLabelCalibrator": "streamcal.calibration.top_label",
    "Tversky": "streamcal.decision.goals",
    "VennAbersCalibrator": "streamcal.calibration.venn_abers",
}
_CLASSES_BY_NAME: dict[str, "type[Stateful]"] = {}  # imported classes, also those of users

Fields = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class State(NamedTuple):
    """The content of a state: the name of a class, fields for JSON, and arrays by name."""

    kind: str
    fields: Fields
    arrays: Arrays


class Stateful:
    """An object that can be written as bytes and read again; a base class of every learner.

    A class of a user derives from a class with this base: its parameters are those of its
    constructor, and it extends ``_freeze`` and ``_thaw`` by additional state. Its module must be
    imported before its bytes are read.
    """

    _given: ClassVar[tuple[str, ...]] = ()
    """Parameters that bytes do not hold, such as a river model: pass them to `from_bytes`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _CLASSES_BY_NAME[kind_of(cls)] = cls

    def to_bytes(self) -> bytes:
        """Return parameters and state as bytes, for `from_bytes` of this version.

        The restored learner predicts and learns bit for bit like this one. For losses that are not
        in this library only name and parameters are written.

        Raises
        ------
        TypeError
            If the type of a parameter is not supported.
        """
        parameters = {
            name: pack(value)
            for name, value in self._parameters().items()
            if name not in self._given
        }
        fields, arrays = self._freeze()
        return encode(kind_of(type(self)), {**fields, "parameters": parameters}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, **given: Any) -> Self:
        """Return the learner that `to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            The result of `to_bytes` for an instance of this class or a derived class. No code in it
            is executed.
        **given
            Parameters that bytes can't hold: a ``loss`` that is not in this library, a function,
            the model of a wrapper.

        Raises
        ------
        ValueError
            If the bytes are damaged, of another class, or of another version.
        TypeError
            If ``data`` is not bytes, or a parameter that must be given is missing.

        Examples
        --------
        >>> from streamcal import Calibrator, IsotonicCalibrator
        >>> calibrator = IsotonicCalibrator(window=100)
        >>> calibrator.learn_many([0.2, 0.8, 0.6], [0, 1, 1])
        >>> Calibrator.from_bytes(calibrator.to_bytes())
        IsotonicCalibrator (
          loss="log"
          window=100
          half_life=None
          prior=1.
          interpolation="linear"
          max_scores=1000000
        )
        """
        state = decode(data)
        with damaged():
            found = find(state.kind)
        if not issubclass(found, cls):
            raise ValueError(f"`data` must be of a {cls.__name__}, got that of a {state.kind}")
        missing = [name for name in found._given if name not in given]
        if missing:
            raise TypeError(f"`{missing[0]}` must be given: a {state.kind}'s bytes do not hold it")
        with damaged():
            packed = state.fields["parameters"]
            require(isinstance(packed, dict), "parameters must have names")
            parameters = {name: unpack(value, given.get(name)) for name, value in packed.items()}
        for name in given:
            if name not in parameters and name not in found._given:
                raise TypeError(f"`{name}` must be a parameter of {state.kind}")
        with damaged():
            parameters |= given
            found._check_room(parameters, state.arrays)
            made = found(**parameters)
            made._thaw(state.fields, state.arrays)
        return made

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        """Raise if the constructor would allocate much more memory than the arrays.

        For classes with a parameter that determines memory. It is called before the constructor, so
        parameters have not been checked; a derived class may have other parameters.
        """

    def _parameters(self) -> Fields:
        """Return the parameters of the constructor by name."""
        return {name: getattr(self, name) for name in _parameter_names(type(self))}  # type: ignore[arg-type]

    def _freeze(self) -> tuple[Fields, Arrays]:
        """Return the state beyond the parameters: small fields, and arrays by name."""
        raise TypeError(f"{type(self).__name__} must define `_freeze` and `_thaw` to have bytes")

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        """Restore what `_freeze` returned; raise ``ValueError`` if it is not possible."""
        raise TypeError(f"{type(self).__name__} must define `_freeze` and `_thaw` to have bytes")


@functools.cache
def _parameter_names(cls: type) -> tuple[str, ...]:
    """Return the names of the parameters of a constructor; cached, as signatures are slow."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def kind_of(cls: type) -> str:
    """Return the name of a class in states; for classes of this library without the module.

    Examples
    --------
    >>> from streamcal import IsotonicCalibrator
    >>> kind_of(IsotonicCalibrator)
    'IsotonicCalibrator'
    """
    own = cls.__module__.split(".")[0] == "streamcal"
    return cls.__name__ if own else f"{cls.__module__}.{cls.__qualname__}"


def find(kind: str) -> type[Stateful]:
    """Return the class of a name; this imports only modules of this library."""
    if kind not in _CLASSES_BY_NAME and kind in _HOME:
        import_module(_HOME[kind])
    if kind not in _CLASSES_BY_NAME:
        raise ValueError(f"`data` must be of a class that is known and imported, got {kind!r}")
    return _CLASSES_BY_NAME[kind]


def restore(data: bytes, **given: Any) -> Any:
    """Return the learner that `Stateful.to_bytes` wrote; see `Stateful.from_bytes`.

    Examples
    --------
    >>> from streamcal import PlattCalibrator
    >>> restore(PlattCalibrator().to_bytes()).predict_one(0.25)
    0.25
    """
    return Stateful.from_bytes(data, **given)


# Bytes -------------------------------------------------------------------------------------------


def encode(kind: str, fields: Fields, arrays: Arrays) -> bytes:
    """Return fields that JSON can hold, and arrays of 8-byte numbers or bytes, as bytes."""
    parts = {name: np.ascontiguousarray(array, _dtype(array)) for name, array in arrays.items()}
    listed = [[name, part.dtype.str, part.shape] for name, part in parts.items()]
    header = json.dumps({"kind": kind, "fields": fields, "arrays": listed}).encode()
    body = b"".join(
        [MAGIC, bytes([VERSION]), len(header).to_bytes(4, "little"), header]
        + [part.tobytes() for part in parts.values()]
    )
    return body + hashlib.blake2b(body, digest_size=DIGEST).digest()


def _dtype(array: NDArray[Any]) -> str:
    if array.dtype == np.uint8:
        return "|u1"
    return "<f8" if array.dtype.kind == "f" else "<i8"


def check(data: bytes) -> bytes:
    """Return the bytes without their checksum; raise ``ValueError`` if that is wrong."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"`data` must be bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC) or len(data) < _PREFIX + DIGEST:
        raise ValueError(f"`data` must be what `to_bytes` wrote, got {len(data)} other bytes")
    version = data[len(MAGIC)]
    if version != VERSION:  # no release has written states of an earlier version
        raise ValueError(f"`data` must be of version {VERSION}, got version {version}")
    body = data[:-DIGEST]
    if hashlib.blake2b(body, digest_size=DIGEST).digest() != data[-DIGEST:]:
        raise ValueError("`data` must be whole: its checksum is wrong")
    return body


def decode(data: bytes) -> State:
    """Return the arguments of `encode`; raise ``ValueError`` for damaged or other bytes.

    Examples
    --------
    >>> decode(encode("Some", {"a": 1}, {"x": np.array([0.5])}))
    State(kind='Some', fields={'a': 1}, arrays={'x': array([0.5])})
    >>> decode(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: `data` must be what `to_bytes` wrote, got 14 other bytes
    """
    body = check(data)
    with damaged():
        at = _PREFIX + int.from_bytes(body[_PREFIX - 4 : _PREFIX], "little")
        header = json.loads(body[_PREFIX:at])
        require(isinstance(header, dict), "the header must be an object")
        kind, fields, listed = header["kind"], header["fields"], header["arrays"]
        require(isinstance(kind, str) and isinstance(fields, dict), "a state has name and fields")
        arrays: Arrays = {}
        for name, code, shape in as_list(listed, "arrays"):
            require(isinstance(name, str) and name not in arrays, "an array must have its name")
            for length in as_list(shape, "shape"):
                as_int(length, "shape", 0)
            dtype = np.dtype(_DTYPES[code])
            size = dtype.itemsize * math.prod(shape)
            require(at + size <= len(body), "an array must not end after the data")
            arrays[name] = np.frombuffer(body[at : at + size], dtype).reshape(shape).copy()
            at += size
        require(at == len(body), "the data must end with the last array")
        return State(kind, fields, arrays)


def nest(data: bytes) -> NDArray[np.uint8]:
    """Return bytes as an array, so that a state can hold another."""
    return np.frombuffer(data, np.uint8)


@contextlib.contextmanager
def damaged() -> Iterator[None]:
    """Turn all exceptions inside into a ``ValueError`` about the bytes."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ValueError as error:
        if str(error).startswith("`data` must"):
            raise
        raise ValueError(f"`data` must be what `to_bytes` wrote: {error}") from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ValueError(f"`data` must be what `to_bytes` wrote: {what}") from error


# Checks ------------------------------------------------------------------------------------------


def require(condition: object, rule: str) -> None:
    """Raise ``ValueError`` with the rule unless the condition holds."""
    if not condition:
        raise ValueError(rule)


def as_int(value: Any, name: str, least: int = 0, most: int = MOST_COUNT) -> int:
    """Return a field that must be an int in a range.

    Examples
    --------
    >>> as_int(True, "n_samples")
    Traceback (most recent call last):
    ...
    ValueError: n_samples must be an int from 0 to 9007199254740992, got True
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be an int from {least} to {most}, got {_shorten(value)}")
    return value


def as_float(value: Any, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a field that must be a finite number in a range, as a float.

    Examples
    --------
    >>> as_float(1, "growth", 1.0)
    1.0
    """
    if type(value) not in (int, float) or not (least <= value <= most and math.isfinite(value)):
        raise ValueError(
            f"{name} must be a finite number from {least} to {most}, got {_shorten(value)}"
        )
    return float(value)


def as_list(value: Any, name: str, n: int | None = None) -> list[Any]:
    """Return a field that must be a list, of ``n`` items if that is given."""
    if not isinstance(value, list) or n not in (None, len(value)):
        long = "a list" if n is None else f"a list of {n}"
        raise ValueError(f"{name} must be {long}, got {_shorten(value)}")
    return value


def as_text(value: Any, name: str) -> str | None:
    """Return a field that must be text or None."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {_shorten(value)}")
    return value


def as_name(value: Any, name: str, *, none: bool = False) -> Any:
    """Return a field that must be a label, a key or the name of a feature.

    That is text, a number that equals itself, or a tuple of these; with ``none`` also None.
    """
    if isinstance(value, tuple):
        return tuple(as_name(part, name, none=True) for part in value)
    known = isinstance(value, str | int) or (isinstance(value, float) and value == value)
    if not known and not (none and value is None):
        raise ValueError(f"{name} must be text, numbers or tuples, got {_shorten(value)}")
    return value


def as_names(packed: Any, name: str, n: int | None = None, *, none: bool = False) -> list[Any]:
    """Return names packed by `pack`, which must be different, as a list."""
    names = [as_name(unpack(item), name, none=none) for item in as_list(packed, name, n)]
    require(len(set(names)) == len(names), f"{name} must be different")
    return names


def array_of(
    arrays: Arrays, name: str, *shape: int | None, dtype: Any = np.float64, finite: bool = True
) -> NDArray[Any]:
    """Return an array that must have a dtype, a shape (None: any length) and finite numbers.

    Examples
    --------
    >>> array_of({"bins": np.zeros((2, 3))}, "bins", 2, None).shape
    (2, 3)
    """
    require(name in arrays, f"there must be an array {name}")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        n in (None, length) for n, length in zip(shape, array.shape, strict=True)
    )
    require(array.dtype == dtype, f"{name} must hold {np.dtype(dtype)}, got {array.dtype}")
    require(fits, f"{name} must have the shape {shape}, got {array.shape}")
    if finite and array.dtype == np.float64:
        require(np.isfinite(array).all(), f"{name} must hold finite numbers")
    return array


def state_of(arrays: Arrays, name: str) -> bytes:
    """Return a nested state of this name."""
    return array_of(arrays, name, None, dtype=np.uint8).tobytes()


def alike(restored: "Stateful", expected: "Stateful") -> bool:
    """Return whether two learners have the same class and parameters."""
    if type(restored) is not type(expected):
        return False
    one, other = (
        {name: pack(value) for name, value in learner._parameters().items()}
        for learner in (restored, expected)
    )
    return one == other


def check_alike(restored: "Iterable[Stateful]", expected: "Iterable[Stateful]") -> None:
    """Raise unless learners have the classes and parameters that they should."""
    same = all(alike(a, b) for a, b in zip(restored, expected, strict=True))
    require(same, "nested learners must have the class and parameters of those in this one")


def _shorten(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "one beyond 1e40"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


# Values ------------------------------------------------------------------------------------------


def pack(value: Any) -> Any:
    """Return a parameter, a label or the name of a feature as JSON, for `unpack`.

    Raises
    ------
    TypeError
        If its type is not supported.

    Examples
    --------
    >>> from streamcal.losses import Log
    >>> pack(("cold", 1, True)), pack(Log())
    ({'tuple': ['cold', 1, True]}, {'loss': ['log', {}]})
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return {type(value).__name__: [pack(item) for item in value]}
    if isinstance(value, Loss | TaskLoss):
        return {"loss" if isinstance(value, Loss) else "task": _name_and_parameters(value)}
    if isinstance(value, Stateful):
        return {"state": value.to_bytes().hex()}
    if callable(value):
        return {"function": getattr(value, "__qualname__", type(value).__qualname__)}
    raise TypeError(
        "a value in a state must be a number, text, a label or a loss, got a"
        f" {type(value).__name__}: {value!r}"
    )


def unpack(packed: Any, given: Any = None) -> Any:
    """Return the argument of `pack`; a loss or function stored only by name must be ``given``."""
    if not isinstance(packed, dict):
        return packed
    ((kind, value),) = packed.items()
    if kind in ("list", "tuple"):
        items = [unpack(item) for item in value]
        return items if kind == "list" else tuple(items)
    if kind in ("loss", "task"):
        return _find_loss(kind, value, given)
    if given is not None:
        return given
    if kind == "state":
        return restore(bytes.fromhex(value))
    raise ValueError(f"the {kind} {value!r} must be given to `from_bytes`")


_TASK_LOSSES: dict[str, type[TaskLoss]] = {
    kind.name: kind
    for kind in (AbsoluteError, AsymmetricError, CostTable, SquaredError, ZeroOneError)
}


def _name_and_parameters(loss: Any) -> list[Any]:
    """Return name and parameters of a loss."""
    if isinstance(loss, FunctionLoss):
        return [loss.name, pack(loss.function)]
    named = {f.name: pack(getattr(loss, f.name)) for f in dataclasses.fields(loss) if f.init}
    return [loss.name, named]


def _find_loss(kind: str, described: Any, given: Any) -> Any:
    """Return the loss with this name and these parameters; it may be ``given``."""
    name, parameters = described
    if given is not None:
        if not isinstance(given, Loss | TaskLoss):
            given = get(given) if kind == "loss" else get_task(given)
        if _name_and_parameters(given) != [name, parameters]:
            raise ValueError(f"`loss` must be the {name} loss with {parameters}, got {given}")
        return given
    known: Any = type(get(name)) if kind == "loss" else _TASK_LOSSES[name]
    return known(**{parameter: unpack(value) for parameter, value in parameters.items()})
