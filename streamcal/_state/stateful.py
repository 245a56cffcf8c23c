"""A base class of objects that are written as bytes and read again, without executing code.

A learner derives from `Stateful` and defines ``_freeze``, which returns its state beyond the
parameters, and ``_thaw``, which restores it. Loading checks the digest, looks up the class among
the known ones, compares parameters that determine memory with the arrays (``_check_room``), calls
the constructor with the parameters, and calls ``_thaw``. That checks each value on which an index,
a loop or a result depends, by the functions of `streamcal._state.checks`. So damaged or malicious
bytes raise a `ValueError` and nothing worse, and memory is at most a small multiple of the bytes.
"""

import dataclasses
import functools
import inspect
from datetime import timedelta
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal._advice import shown
from streamcal._lazy import homes_of
from streamcal._state.checks import (
    Arrays,
    Fields,
    are_fixed,
    as_int,
    as_list,
    as_name,
    require,
    state_of,
)
from streamcal._state.format import (
    BAD_VALUES,
    body_of,
    check,
    head_of,
    nest,
    read_fields,
    read_head,
    refuse,
    seal,
    split_body,
)
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

# The packages whose public classes may be named by a state, and the modules of classes that are not
# public.
_PACKAGES = ("calibration", "decision", "isotonic", "monitoring", "ordinal", "wrappers")
_NOT_PUBLIC = {
    "Expiry": "streamcal.durable.expiry",
    "ExportedCalibrator": "streamcal.calibration.exported",  # made by `read_export`
    "Journal": "streamcal.durable._journal",
    "LabelJoin": "streamcal.durable.labels",  # public in `durable`, which needs no other class
    "Timeline": "streamcal.durable.timeline",
}
_CLASSES_BY_NAME: dict[str, "type[Stateful]"] = {}  # imported classes, also those of users


_Learner = TypeVar("_Learner", bound="Stateful")


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
        return seal(self._body())

    def _body(self) -> bytes:
        """Return parameters and state as a body, see `streamcal._state.format`."""
        head = _head_of(self)
        return body_of(head, *self._freeze())

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
        body = check(data)
        try:
            head, fields, arrays = split_body(body)
            known = _look_up(head)
        except BAD_VALUES as error:
            refuse(error)
        found, parameters = known.found, known.parameters
        if not issubclass(found, cls):
            raise ValueError(f"`data` must be of a {cls.__name__}, got that of a {known.kind}")
        for name in found._given:
            if name not in given:
                raise TypeError(f"`{name}` must be given: a {known.kind}'s bytes do not hold it")
        for name in given:
            if name not in known.packed and name not in found._given:
                raise TypeError(f"`{name}` must be a parameter of {known.kind}")
        try:
            with np.errstate(all="ignore"):
                if parameters is None or given:
                    packed = known.packed.items()
                    parameters = {name: unpack(value, given.get(name)) for name, value in packed}
                    parameters |= given
                found._check_room(parameters, arrays)
                made = found(**parameters)
                made._thaw(read_fields(fields), arrays)
        except BAD_VALUES as error:
            refuse(error)
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


# Heads --------------------------------------------------------------------------------------------

# Many states have the same class and parameters, such as those of a thousand keys. So some short
# heads are kept: what each says, and what is written for parameters. Entries never change, and any
# may be missing, so threads need no lock, and forked processes go on with theirs.
_MOST_HEADS, _LONGEST_HEAD = 256, 1_000


class _Known(NamedTuple):
    """What a head says; ``parameters`` are None if they must be unpacked for each learner."""

    kind: str
    found: type[Stateful]
    packed: Fields
    parameters: Fields | None


_KNOWN: dict[bytes, _Known] = {}
_WRITTEN: dict[tuple[Any, ...], tuple[bytes, Any]] = {}


def _look_up(head: bytes) -> _Known:
    """Return what the head of a state says, or raise one of `BAD_VALUES`."""
    known = _KNOWN.get(head)
    if known is not None and _CLASSES_BY_NAME[known.kind] is known.found:
        return known
    kind, packed = read_head(head)
    found, parameters = find(kind), None
    if all(map(_is_fixed, packed.values())):
        parameters = {name: unpack(value) for name, value in packed.items()}
    known = _Known(kind, found, packed, parameters)
    if parameters is not None and len(head) <= _LONGEST_HEAD:
        _keep(_KNOWN, head, known)
    return known


def _head_of(learner: Stateful) -> bytes:
    """Return the head of a learner's states."""
    kind, given = type(learner), learner._given
    parameters = learner._parameters()
    if given:
        parameters = {name: value for name, value in parameters.items() if name not in given}
    # The same objects, which live as long as the entry: equal ones may be written otherwise.
    values = tuple(parameters.values())
    key = (kind, *map(id, values))
    written = _WRITTEN.get(key)
    if written is not None:
        return written[0]
    head = head_of(
        kind_of(kind), {name: _pack_parameter(name, value) for name, value in parameters.items()}
    )
    if are_fixed(values) and len(head) <= _LONGEST_HEAD:
        _keep(_WRITTEN, key, (head, values))
    return head


def _pack_parameter(name: str, value: Any) -> Any:
    try:
        return pack(value)
    except TypeError:
        raise TypeError(
            f"`{name}` must be a number, text, a label, a loss or a learner of this library for"
            f" `to_bytes`, got {shown(value)}; pickle the object instead"
        ) from None


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    if len(kept) >= _MOST_HEADS:
        kept.clear()
    kept[key] = value


def _is_fixed(packed: Any) -> bool:
    """Return whether `unpack` makes the same object of a value each time, and it cannot change."""
    if isinstance(packed, dict):
        if packed.keys() == {"timedelta"}:
            return True
        inner = packed.get("tuple")
        return len(packed) == 1 and isinstance(inner, list) and all(map(_is_fixed, inner))
    return not isinstance(packed, list)


# Classes ------------------------------------------------------------------------------------------


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


@functools.cache
def homes() -> dict[str, str]:
    """Return the names that a state may have, with the modules of these classes.

    Examples
    --------
    >>> homes()["IsotonicCalibrator"]
    'streamcal.calibration.isotonic'
    """
    found = dict(_NOT_PUBLIC)
    for package in _PACKAGES:
        named = homes_of(f"streamcal.{package}").items()
        found |= {name: home for name, home in named if name[0].isupper()}
    return found


def find(kind: str) -> type[Stateful]:
    """Return the class of a name; this imports only modules of this library."""
    if kind not in _CLASSES_BY_NAME and kind in homes():
        import_module(homes()[kind])
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


def nested(learner: Stateful) -> NDArray[np.uint8]:
    """Return the state of a learner as an array of the state of another one, for `fill`."""
    return nest(learner._body())


def fill(learner: _Learner, arrays: Arrays, name: str) -> _Learner:
    """Read the state that `nested` returned into a learner without samples, and return it.

    Raises
    ------
    ValueError
        If it is that of another class or of other parameters, or damaged.
    """
    head, fields, own = split_body(state_of(arrays, name))
    if head != _head_of(learner):
        raise ValueError("nested learners must have the class and parameters of those in this one")
    learner._thaw(read_fields(fields), own)
    return learner


# Values -------------------------------------------------------------------------------------------


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
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # a time has a unit
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, timedelta):
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
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
        f" {type(value).__name__}: {shown(value)}"
    )


def unpack(packed: Any, given: Any = None) -> Any:
    """Return the argument of `pack`; a loss or function stored only by name must be ``given``."""
    if not isinstance(packed, dict):
        return packed
    ((kind, value),) = packed.items()
    if kind in ("list", "tuple"):
        items = [unpack(item) for item in value]
        return items if kind == "list" else tuple(items)
    if kind == "timedelta":
        days, seconds, microseconds = (as_int(part, kind, -_MOST_DAYS) for part in value)
        return timedelta(days, seconds, microseconds)
    if kind in ("loss", "task"):
        return _find_loss(kind, value, given)
    if given is not None:
        return given
    if kind == "state":
        return restore(bytes.fromhex(value))
    raise ValueError(f"the {kind} {value!r} must be given to `from_bytes`")


def as_names(packed: Any, name: str, n: int | None = None, *, none: bool = False) -> list[Any]:
    """Return names packed by `pack`, which must be different, as a list."""
    names = [as_name(unpack(item), name, none=none) for item in as_list(packed, name, n)]
    require(len(set(names)) == len(names), f"{name} must be different")
    return names


_MOST_DAYS = 10**9

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
