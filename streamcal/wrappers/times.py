"""The times at which the samples of a wrapper are learned: ``t``, or one of their features."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from narwhals.stable.v2.typing import IntoDataFrame
from river.utils.dataframe import into_frame

from streamcal.calibration.clock import Moment, Time, Timed, Times
from streamcal.wrappers.routing import name_of

ReadTimes = Callable[[Any, int], Times | None]


_A_CALIBRATOR = (
    "the calibrator forgets by time, as PlattCalibrator(half_life=timedelta(days=7)) does"
)


def check_time_feature(time: Any, learner: Any, unless: str = _A_CALIBRATOR) -> None:
    """Raise unless this is the name of the feature with the time, and a learner needs it.

    ``unless`` says for the message when it does.
    """
    if time is None:
        return
    if not isinstance(time, str):
        raise TypeError(f"`time` must be the name of a feature or None, got {time!r}")
    if not learner.needs_time:
        raise ValueError(
            f"`time` must be None unless {unless}, got {time!r} with {name_of(learner)}"
        )


def time_of(
    x: Mapping[Any, Any], t: Time | None, time: str | None, check: Callable[[Any], Any]
) -> Time:
    """Return ``t`` or, if that is None, the feature ``time`` of a sample; raise if it is no time.

    ``check`` raises unless calibrators accept a time; its message names `t`.
    """
    if t is not None or time is None:
        if t is None:
            raise_without()
        check(t)
        return t
    if time not in x:
        raise ValueError(
            f"`x` must have the feature {time!r}, which `time` names, unless `t` is given, got the"
            f" features {list(x)}"
        )
    found: Time = x[time]
    try:
        check(found)
    except (TypeError, ValueError) as error:
        raise _about(error, time) from None
    return found


def moment_of(learner: Timed, x: Mapping[Any, Any], t: Time | None, time: str | None) -> Moment:
    """Return the time of a sample of a learner that may forget by time itself, or raise.

    It is `NO_MOMENT` if no time is needed.
    """
    if not learner.needs_time or (t is None and time is None):
        return learner._read_time(None)
    return learner._read_time(time_of(x, t, time, learner._read_time))


def times_of(
    X: IntoDataFrame, n_samples: int, t: Any, time: str | None, read: ReadTimes
) -> Times | None:
    """Return the times ``t`` of a batch or, if they are None, those in the column ``time``.

    ``read`` returns the times that calibrators accept, or raises; its message names `t`.
    """
    if t is not None or time is None:
        if t is None:
            raise_without()
        return read(t.to_pylist() if hasattr(t, "to_pylist") else t, n_samples)
    frame = into_frame(X)
    if time not in frame.columns:
        raise ValueError(
            f"`X` must have the column {time!r}, which `time` names, unless `t` is given, got the"
            f" columns {frame.columns}"
        )
    column = frame.get_column(time)
    native = column.to_native()
    try:
        return read(native if hasattr(native, "dtype") else column.to_list(), n_samples)
    except (TypeError, ValueError) as error:
        raise _about(error, time) from None


def raise_without() -> NoReturn:
    """Raise: a sample has no time."""
    raise TypeError(
        "`t` must be given, as the calibrator forgets by time, got None; pass the time at which a"
        " sample is learned, or name the feature that holds it when the wrapper is made, as by"
        " time='moment'"
    )


def _about(error: Exception, feature: str) -> Exception:
    """Return an error about `t` as one about the feature that holds the time."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(str(error).replace("`t`", f"the feature {feature!r}"))
