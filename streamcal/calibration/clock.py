"""The time at which a sample is learned, for calibrators that forget by time.

A time is a `datetime` or a number of seconds from any origin. Compiled calibrators get seconds.
A time before that of the newest sample counts as equal to it: streams are a little out of order,
and a service that runs can't refuse an event.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Fields, as_float, require
from streamcal._validation import as_number, check_count, check_half_life
from streamcal._whole import Step
from streamcal.kernels.moments import LATEST, read_moment, read_moments

Time = datetime | float
"""A time: a `datetime` with or without a zone, or seconds from any origin, such as 1970."""

_Number = TypeVar("_Number")

_EPOCH = datetime(1970, 1, 1)
_MICROSECONDS = "datetime64[us]"


def _aware(seconds: float) -> Time:
    return _naive(seconds).replace(tzinfo=UTC)


def _naive(seconds: float) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:  # `datetime.max` in seconds is rounded up; a zone may move a time out
        return datetime.max if seconds > 0.0 else datetime.min


_MAKERS: dict[str, Callable[[float], Time]] = {"aware": _aware, "naive": _naive, "seconds": float}
_SHOWN = {
    "aware": "datetimes with a zone",
    "naive": "datetimes without a zone",
    "seconds": "numbers of seconds",
}


def as_seconds(t: Any) -> tuple[float, str]:
    """Return a time in seconds, and its kind: "seconds", "aware" or "naive"; or raise.

    A `datetime` without a zone counts as one in UTC. Times of two kinds can't be compared.

    Raises
    ------
    TypeError
        If it is no time.
    ValueError
        If it is not finite, or beyond 1e300 seconds: the time between two of them is finite.

    Examples
    --------
    >>> as_seconds(datetime(1970, 1, 2))
    (86400.0, 'naive')
    >>> as_seconds(datetime(1970, 1, 2, tzinfo=UTC))
    (86400.0, 'aware')
    >>> as_seconds(60)
    (60.0, 'seconds')
    """
    found: tuple[float, str] | None = read_moment(tuple, t)
    if found is not None:
        return found
    if isinstance(t, np.datetime64) and not np.isnat(t):
        _check_years(np.array([t]))
        t = t.astype(_MICROSECONDS).item()
    if isinstance(t, datetime) and t == t:
        if hasattr(t, "to_pydatetime"):  # of pandas; without nanoseconds, as in an array
            t = t.to_pydatetime(warn=False)
        if t.utcoffset() is None:  # so it is naive, also if it has a zone
            return t.replace(tzinfo=UTC).timestamp(), "naive"
        return t.timestamp(), "aware"
    try:
        if isinstance(t, np.timedelta64):  # it is a number, too, of some unit
            raise TypeError
        seconds = as_number(t, "t")
    except TypeError:
        hint = f"; write {datetime(t.year, t.month, t.day)!r}" if type(t) is date else ""
        got = f"{t!r}{hint}"
        raise TypeError(f"`t` must be a datetime or a number of seconds, got {got}") from None
    if not math.isfinite(seconds):
        raise ValueError(f"`t` must be a datetime or a finite number of seconds, got {t!r}")
    if abs(seconds) > LATEST:
        raise ValueError(f"`t` must be a datetime, or seconds from -1e300 to 1e300, got {t!r}")
    return seconds, "seconds"


class Moment(NamedTuple):
    """The time of a sample in seconds, and its kind; NaN and None if there is no time."""

    seconds: float
    kind: str | None

    def for_kernel(self) -> tuple[float, Callable[[float], Time] | None]:
        """Return the seconds, and what makes a time of seconds again."""
        return self.seconds, maker_of(self.kind)


NO_MOMENT: Final = Moment(math.nan, None)


def maker_of(kind: str | None) -> Callable[[float], Time] | None:
    """Return what makes a time of this kind of seconds.

    Examples
    --------
    >>> maker_of("naive")(86_400.0)
    datetime.datetime(1970, 1, 2, 0, 0)
    """
    return None if kind is None else _MAKERS[kind]


class Times(Sequence[Time]):
    """The times of a batch: their seconds, shape ``(n_samples,)``, and their kind.

    Examples
    --------
    >>> times = as_times(np.array(["1970-01-02", "1970-01-03"], "datetime64[D]"), 2)
    >>> times.seconds, times[1]
    (array([ 86400., 172800.]), datetime.datetime(1970, 1, 3, 0, 0))
    """

    def __init__(self, seconds: NDArray[np.float64], kind: str | None) -> None:
        self.seconds = seconds
        self.kind = kind

    def __len__(self) -> int:
        return len(self.seconds)

    @overload
    def __getitem__(self, at: int) -> Time: ...
    @overload
    def __getitem__(self, at: slice) -> "Times": ...
    def __getitem__(self, at: int | slice) -> "Time | Times":
        if isinstance(at, slice):
            return Times(self.seconds[at], self.kind)
        return _MAKERS[self.kind or "seconds"](float(self.seconds[at]))

    def __iter__(self) -> Iterator[Time]:
        return map(_MAKERS[self.kind or "seconds"], self.seconds.tolist())

    def pack(self) -> NDArray[np.float64]:
        """Return two columns, seconds and kind, for `unpack`; rows may be left out."""
        code = math.nan if self.kind is None else float(_CODES.index(self.kind))
        return np.column_stack([self.seconds, np.full(len(self), code)])

    @classmethod
    def unpack(cls, packed: NDArray[np.float64]) -> "Times":
        """Return the times of which `pack` made an array."""
        kind = _CODES[int(packed[0, 1])] if len(packed) else None
        return cls(np.ascontiguousarray(packed[:, 0]), kind)


_CODES = tuple(_MAKERS)


def as_times(t: Any, n_samples: int) -> Times:
    """Return the times of a batch, or raise: a sequence, an array or a Series, of one kind."""
    if isinstance(t, Times):
        _check_length(t, n_samples)
        return t
    if hasattr(t, "to_pylist"):  # of Arrow, whose arrays for NumPy have no zone
        t = t.to_pylist()
    dtype = getattr(t, "dtype", None)
    zone = getattr(dtype, "tz", getattr(dtype, "time_zone", None))
    if zone is not None and hasattr(getattr(t, "dt", None), "tz_convert"):  # a Series of pandas
        utc = t.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        return Times(as_times(utc, n_samples).seconds, "aware")
    array = getattr(t, "to_numpy", lambda: t)() if zone is None else t
    if isinstance(array, np.ndarray) and array.dtype.kind == "m":  # its list may be of integers
        raise TypeError(f"`t` must be a sequence of datetimes or of seconds, got {array.dtype}")
    if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "Mfiu":
        _check_length(array, n_samples)
        if array.dtype.kind == "M":
            missing, kind = np.isnat(array), "naive"
            _check_years(array[~missing])
            seconds = _in_seconds(array.astype(_MICROSECONDS).astype(np.int64))
        else:
            seconds = array.astype(np.float64)
            missing, kind = ~(np.abs(seconds) <= LATEST), "seconds"
        if missing.any():
            as_seconds(array[missing][0])  # raises
        return Times(seconds, kind)
    given, seconds = as_time_list(t, n_samples), np.empty(n_samples)
    found = read_moments(given, seconds)
    if found is not None:
        return Times(seconds, found)
    read = [as_seconds(time) for time in given]
    kinds = {kind: time for (_, kind), time in zip(read, t, strict=True)}
    if len(kinds) > 1:
        listed = " and ".join(repr(time) for time in kinds.values())
        raise ValueError(f"`t` must have times of one kind, got {listed}")
    seconds[:] = [each for each, _ in read]
    return Times(seconds, next(iter(kinds), None))


def _check_years(times: NDArray[np.datetime64]) -> None:
    """Raise unless times are of the years of a `datetime`: others overflow in microseconds."""
    years = times.astype("datetime64[Y]").astype(np.int64) + 1970
    bad = (years < MINYEAR) | (years > MAXYEAR)
    if bad.any():
        raise ValueError(f"`t` must be of the years {MINYEAR} to {MAXYEAR}, got {times[bad][0]!r}")


def _in_seconds(microseconds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return microseconds as seconds, rounded once, as those of one `datetime` are."""
    if (abs(microseconds // 2) > 2**52).any():
        return np.array([each / 10**6 for each in microseconds.tolist()])
    return microseconds / 1e6


def as_time_list(t: Any, n_samples: int) -> list[Any]:
    """Return the times of a batch, or raise: a sequence, an array or a Series.

    Examples
    --------
    >>> as_time_list(np.array(["1970-01-02"], "datetime64[D]"), 1)
    [datetime.datetime(1970, 1, 2, 0, 0)]
    """
    if isinstance(t, str | bytes | Mapping | AbstractSet) or not hasattr(t, "__len__"):
        raise TypeError(f"`t` must be a sequence of datetimes or of seconds, got {t!r}")
    _check_length(t, n_samples)
    if isinstance(t, np.ndarray) and t.dtype.kind == "M":
        return list(t.astype(_MICROSECONDS).tolist())
    return list(t.tolist() if isinstance(t, np.ndarray) else t)


def pack_time(t: Time | None) -> list[Any] | None:
    """Return a time as JSON can hold it, for `unpack_time`.

    Examples
    --------
    >>> pack_time(datetime(1970, 1, 2))
    [86400.0, 'naive']
    """
    return None if t is None else list(as_seconds(t))


def pack_now(now: float) -> float | None:
    """Return the newest time of a kernel, which is NaN before the first one, for JSON."""
    return now if now == now else None


def unpack_now(packed: Any) -> float:
    """Return the argument of `pack_now`; ``ValueError`` if there is none."""
    return math.nan if packed is None else as_float(packed, "now", -LATEST, LATEST)


def unpack_time(packed: Any) -> Time | None:
    """Return the argument of `pack_time`, a zone as UTC; ``ValueError`` if there is none.

    Examples
    --------
    >>> unpack_time([86400.0, "naive"])
    datetime.datetime(1970, 1, 2, 0, 0)
    """
    if packed is None:
        return None
    require(isinstance(packed, list) and len(packed) == 2, "a time must have two parts")
    seconds, kind = as_float(packed[0], "a time"), packed[1]
    require(isinstance(kind, str) and kind in _MAKERS, "a time must be of a kind")
    known = kind == "seconds" or _FIRST <= seconds <= _LAST
    require(known, f"a time must be of the years 1 to 9999, got {seconds!r}")
    return _MAKERS[kind](seconds)


_DAY = 86_400.0  # a zone may move a time out of the years by less than that
_FIRST, _LAST = -62_135_596_800.0 - _DAY, 253_402_300_800.0 + _DAY


def _check_length(t: Any, n_samples: int) -> None:
    if len(t) != n_samples:
        raise ValueError(f"`t` must have one time per score ({n_samples}), got {len(t)}")


class Timed:
    """A base class of what may forget by time.

    Attributes
    ----------
    needs_time : bool
        Whether it must know the time at which a sample is learned.
    """

    needs_time: bool = False
    _kind: str | None = None  # of the times so far

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()
        if self.needs_time and state.get("_kind") is None:
            # Another thread may learn the first sample meanwhile; then the copy has the kind, too.
            state = copy.deepcopy(state, {id(self): self})
            state["_kind"] = self._kind
        return state

    def _read_time(self, t: Any) -> Moment:
        """Return the time of a sample, or raise; `NO_MOMENT` if no time is needed."""
        if not self.needs_time:
            return NO_MOMENT
        if t is None:
            raise TypeError(f"{self._wanted()}; pass t=datetime.now(UTC), got None")
        moment = read_moment(Moment, t)
        if moment is None:
            moment = Moment(*as_seconds(t))
        if moment.kind != self._kind:
            self._check_kind(moment.kind, t)
        return moment

    def _read_times(self, t: Any, n_samples: int) -> Times | None:
        """Return the times of a batch, or raise; None if no time is needed."""
        if not self.needs_time:
            return None
        if t is None:
            raise TypeError(f"{self._wanted()}; pass t=[…] with a time for each sample, got None")
        times = as_times(t, n_samples)
        if len(times):
            self._check_kind(times.kind, t)
        return times

    def _wanted(self) -> str:
        return (
            f"`t` must be the time at which a sample is learned, since {type(self).__name__}"
            " forgets by time"
        )

    def _knows_times(self) -> bool:
        """Return whether no time is needed, or the kind of times is known."""
        return not self.needs_time or self._kind is not None

    def _check_kind(self, kind: str | None, t: Any) -> None:
        if self._kind is not None and kind != self._kind:
            raise ValueError(
                f"`t` must have times of one kind, {_SHOWN[self._kind]} as before, got {t!r}"
            )

    def _kind_steps(self, kind: str | None) -> tuple[Step, ...]:
        """Return the step that notes the kind of the first time, if this is the first.

        It comes before a step that learns without the interpreter's lock, so that no other thread
        finds what was learned without the kind.
        """
        if kind is None or self._kind is not None:
            return ()
        return (partial(setattr, self, "_kind", kind),)

    def _freeze_clock(self, now: float) -> Fields:
        """Return the time and its kind for a state; nothing where no time is needed."""
        if not self.needs_time:
            return {}
        kind = None if now != now else self._kind  # another thread may have noted it since
        return {"now": pack_now(now), "kind": kind}

    def _freeze_kind(self) -> Fields:
        return {"kind": self._kind} if self.needs_time else {}

    def _thaw_kind(self, fields: Fields) -> None:
        if self.needs_time:
            kind = fields["kind"]
            require(kind is None or kind in _CODES, "times must be of a kind")
            self._kind = kind

    def _thaw_clock(self, fields: Fields) -> float:
        """Restore the kind of times, and return the time, or raise."""
        if not self.needs_time:
            return math.nan
        self._thaw_kind(fields)
        now = unpack_now(fields["now"])
        require(self._kind is None or now == now, "a kind of times must have a time")
        return now


# Parameters ---------------------------------------------------------------------------------------


def check_forgetting(half_life: Any) -> None:
    """Raise unless ``half_life`` is a number of samples, of at least 0.1, a timedelta, or None.

    Examples
    --------
    >>> check_forgetting(timedelta(days=-1))
    Traceback (most recent call last):
    ...
    ValueError: `half_life` must be a timedelta of at least 1 microsecond, got -86400.0 seconds
    """
    if isinstance(half_life, timedelta):
        check_span(half_life, "half_life")
    else:
        or_time(check_half_life, half_life, "half_life")


def check_window(window: Any) -> None:
    """Raise unless ``window`` is a positive number of samples, a timedelta, or None."""
    if isinstance(window, timedelta):
        check_span(window, "window")
    else:
        or_time(partial(check_count, name="window", optional=True), window, "window")


def or_time(read: Callable[[Any], _Number], value: Any, name: str) -> _Number:
    """Return what ``read`` returns or raises; if a time is given otherwise, say how to write it."""
    hint = "; a time is a timedelta, such as timedelta(days=7)"
    if isinstance(value, np.timedelta64):  # it is a number, too, of some unit
        raise TypeError(f"`{name}` must be a number or a timedelta, got {value!r}{hint}")
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        if isinstance(value, str) and "; " not in str(error):
            raise type(error)(f"{error}{hint}") from None
        raise


def check_span(span: timedelta, name: str) -> None:
    """Raise unless a timedelta is at least a microsecond."""
    if not span >= timedelta(microseconds=1):
        got = f"{span.total_seconds()} seconds" if span == span else repr(span)
        raise ValueError(f"`{name}` must be a timedelta of at least 1 microsecond, got {got}")


def in_samples(half_life: float | timedelta | None) -> float | None:
    """Return a half-life that counts samples; None for another one, or none."""
    return None if isinstance(half_life, timedelta) else half_life


def in_seconds(half_life: float | timedelta | None) -> float:
    """Return a half-life of time in seconds; infinity for another one, or none."""
    return half_life.total_seconds() if isinstance(half_life, timedelta) else math.inf
