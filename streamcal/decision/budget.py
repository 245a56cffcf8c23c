"""Which samples a person is asked about, where the number of questions a day is limited.

A day has B questions. Of a new sample two numbers are known::

    rank    the share of the last 1,000 samples that are worth more
    share   (questions that are left today) / (samples that are still expected today, with this one)

A person is asked if rank < share. Where samples are exchangeable, the rank is uniform in [0, 1]. So
if as many samples come as expected, the rule is selection sampling [1]_: it asks B times, and every
sample of the day has the same chance, early or late. Equal worths are ranked by the fraction of n
times the golden ratio, which is spread evenly, so that they do not all count as the greatest.

As many samples are expected in an hour of the day as in the mean of the last days, times a factor
for today. In it c is a mean hour, so that one early minute does not settle it::

    factor  (samples today before this hour + c) / (samples expected before this hour + c)

In the hour itself those that have come are subtracted, so all may come in one minute of it. If more
have come than were expected, the clock tells how many are to come, and the factor counts the hour
so far, too. On the first day the mean of every hour is B / 24 and c is one sample, so that soon the
factor is all that counts.

References
----------
.. [1] Knuth, D. E. The Art of Computer Programming, volume 2, section 3.4.2, algorithm S.
"""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from streamcal._locked import Locked
from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_float,
    as_int,
    as_list,
    as_names,
    pack,
    require,
    restore,
)
from streamcal._validation import as_key, as_score, check_count
from streamcal._whole import Step, do_all
from streamcal.calibration.clock import Time, Timed

_DAYS = 8  # today and a week before
_HOURS = 24
_WINDOW = 1000  # worths that a new one is compared with
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_SMOOTHING = 0.1  # so many days at the mean rate are added to the counts of an hour
_SECONDS = 86_400.0
_LAST_HOUR = math.nextafter(24.0, 0.0)
_FIRST_DAY = datetime(1970, 1, 1).toordinal()


class _Pace(NamedTuple):
    """What the days before a day say of it."""

    day: float
    until: list[float]  # samples expected until the beginning of each hour, and of the next day
    slack: float  # samples that are added to those of the day before they are compared

    def at(self, hour: float) -> float:
        """Return the number of samples that are expected until an hour of the day."""
        whole = min(int(hour), _HOURS - 1)
        return self.until[whole] + (self.until[whole + 1] - self.until[whole]) * (hour - whole)


class ReviewBudget(Timed, Locked, Stateful):
    """Ask a person about the samples that are worth it most, at most so many times a day.

    Parameters
    ----------
    per_day : int
        The most questions about samples of one day.
    remember : int
        For how many of the last samples the answer is kept, so that the same key has the same
        answer again.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    *Never above*: of all samples whose ``t`` is of one day, in whichever order they come, at most
    ``per_day`` are asked about. What is left of a day is not carried over.

    *Evenly over the samples of the day*: those are asked about whose worth is above a threshold, a
    quantile of the last 1,000 worths. It follows how many questions are left, and how many samples
    are still expected today: by the counts of the last seven days for each hour, and by how busy
    today is. If that many come, and samples are exchangeable, all questions are used, and an early
    sample has the same chance as a late one. This is not promised for other streams: if far more
    samples come late in the day than before, questions run out; if fewer come, some are left. On
    the first day the samples so far and the clock tell how many are expected.

    The day is the one that ``t`` shows: of a datetime with a zone the day there, of seconds the day
    in UTC. Days with a change of the clock have 23 or 25 hours and the same budget. The eight
    latest days are remembered; samples of earlier ones are never asked about. So a wrong time far
    ahead does no harm, but eight days of them end all questions.

    A copy has a budget of its own: several processes must share ``per_day`` among them.

    Examples
    --------
    >>> budget = ReviewBudget(per_day=20)
    >>> worths = [0.5 - abs(i * 0.618 % 1 - 0.5) for i in range(6_000)]
    >>> asks = [budget.ask_one(i, worth, t=86.4 * i) for i, worth in enumerate(worths)]
    >>> [sum(asks[day : day + 1_000]) for day in range(0, 6_000, 1_000)]
    [20, 20, 20, 20, 20, 20]
    >>> sum(asks[5_000:5_500])  # before noon
    9
    >>> min(worth for ask, worth in zip(asks[5_000:], worths[5_000:]) if ask) > 0.48
    True
    """

    needs_time = True

    def __init__(self, per_day: int, *, remember: int = 10_000) -> None:
        check_count(per_day, "per_day")
        check_count(remember, "remember")
        self.per_day = per_day
        self.remember = remember
        self._days: dict[float, list[int]] = {}  # samples of each hour, then questions
        self._start: tuple[float, float] | None = None  # the earliest day, and its hour
        self._pace: _Pace | None = None  # of the day of the last sample
        self._worths: deque[float] = deque()
        self._sorted: list[float] = []
        self._answers: dict[Any, bool] = {}
        self.n_samples: int = 0
        self.n_asked: int = 0

    def ask_one(self, key: Any, worth: float, *, t: Time) -> bool:
        """Return whether to ask a person about a sample.

        Parameters
        ----------
        key : str, int, float or tuple of these
            What identifies the sample. A key that is remembered has the same answer again, and
            counts once.
        worth : float
            The greater, the sooner a person is asked. For a calibrated probability p the chance of
            a wrong label, ``min(p, 1 - p)``, or its cost.
        t : datetime or float
            The time of the sample, or seconds from any origin.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of its range; nothing changes.
        """
        known, value = as_key(key), as_score(worth, "worth")
        with self._mutex:
            moment = self._read_time(t)
            if (answer := self._answers.get(known)) is not None:
                return answer
            day, hour = _day_and_hour(t, moment.seconds)
            rank = self._rank(value)
            if len(self._days) == _DAYS and day < min(self._days):  # it may have been forgotten
                ask, found = False, {}
            else:
                start = min(self._start or (day, hour), (day, hour))
                pace = self._pace
                if pace is None or pace.day != day:  # counts of the days before may have changed
                    pace = self._pace_of(day)
                begin = start[1] if start[0] == day else 0.0
                ask, found = rank < self._share(pace, begin, hour), {"_start": start, "_pace": pace}
            do_all(
                *(self._counting(day, int(hour), ask) if found else ()),
                *self._keeping(value),
                *self._remembering(known, ask),
                *self._kind_steps(moment.kind),
                partial(
                    vars(self).update,
                    found,
                    n_samples=self.n_samples + 1,
                    n_asked=self.n_asked + ask,
                ),
            )
            return ask

    def _rank(self, worth: float) -> float:
        """Return which share of the last samples are worth more."""
        below, until = bisect_left(self._sorted, worth), bisect_right(self._sorted, worth)
        among_equal = (self.n_samples * _GOLDEN) % 1.0 * (until - below + 1)
        return (len(self._sorted) - until + among_equal) / (len(self._sorted) + 1)

    def _share(self, pace: _Pace, begin: float, hour: float) -> float:
        """Return the share of the samples to ask about at an hour of a day that began at one."""
        *samples, asked = self._days.get(pace.day, [0] * (_HOURS + 1))
        this, n, slack = int(hour), sum(samples), pace.slack
        start, now, end = pace.at(max(begin, float(this))), pace.at(hour), pace.until[this + 1]
        before = start - pace.at(begin)
        factor = (n - samples[this] + slack) / (before + slack)
        come = start + samples[this] / factor
        if come > end:
            come = max(now, start)
            factor = (n + slack) / (before + come - start + slack)
        return (self.per_day - asked) / (max(pace.until[-1] - come, 0.0) * factor + 1.0)

    def _pace_of(self, day: float) -> _Pace:
        """Return what the days before a day say of it."""
        kept = sorted(self._days)[day not in self._days and len(self._days) == _DAYS :]
        before = [each for each in kept if each < day]
        counts = [sum(self._days[each][hour] for each in before) for hour in range(_HOURS)]
        seen = [float(len(before))] * _HOURS  # on how many days
        if before and self._start is not None and self._start[0] in before:
            for hour in range(_HOURS):
                seen[hour] -= min(max(self._start[1] - hour, 0.0), 1.0)
        mean = (sum(counts) + 1.0) / (sum(seen) + _HOURS / self.per_day)
        rates = [
            (n + _SMOOTHING * mean) / (days + _SMOOTHING)
            for n, days in zip(counts, seen, strict=True)
        ]
        return _Pace(day, [0.0, *accumulate(rates)], max(mean, 1.0) if before else 1.0)

    def _counting(self, day: float, hour: int, ask: bool) -> Iterator[Step]:
        """Return the steps that count a sample, in place of the oldest day if its day is new."""
        if day not in self._days and len(self._days) == _DAYS:
            yield partial(self._days.pop, min(self._days))
        counts = [*self._days.get(day, [0] * (_HOURS + 1))]
        counts[hour] += 1
        counts[_HOURS] += ask
        yield partial(self._days.__setitem__, day, counts)

    def _keeping(self, worth: float) -> Iterator[Step]:
        """Return the steps that keep a worth in place of the oldest."""
        at = bisect_right(self._sorted, worth)
        if len(self._worths) == _WINDOW:
            old = bisect_left(self._sorted, self._worths[0])
            yield partial(self._sorted.pop, old)
            yield self._worths.popleft
            at -= old < at
        yield partial(self._sorted.insert, at, worth)
        yield partial(self._worths.append, worth)

    def _remembering(self, key: Any, ask: bool) -> Iterator[Step]:
        """Return the steps that remember an answer in place of the oldest."""
        if len(self._answers) == self.remember:
            yield partial(self._answers.__delitem__, next(iter(self._answers)))
        yield partial(self._answers.__setitem__, key, ask)

    def _wanted(self) -> str:
        return "`t` must be the time of a sample, since a budget is of a day"

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            days, worths, answers = {**self._days}, [*self._worths], {**self._answers}
            fields = {
                "n": [self.n_samples, self.n_asked],
                "start": None if self._start is None else list(self._start),
                **self._freeze_kind(),
            }
        return {"keys": [pack(key) for key in answers], **fields}, {
            "days": np.array([*days], np.float64),
            "counts": np.array([*days.values()], np.int64).ravel(),
            "worths": np.array(worths, np.float64),
            "answers": np.array([*answers.values()], np.int64),
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._thaw_kind(fields)
        n_samples, n_asked = (as_int(n, "n") for n in as_list(fields["n"], "n", 2))
        require(n_asked <= n_samples, "not more can be asked than there are")
        require((self._kind is None) == (n_samples == 0), "samples must have a kind of times")
        days = array_of(arrays, "days", None)
        require(len(days) <= min(_DAYS, n_samples), "days must be few, and have samples")
        require(n_samples == 0 or len(days), "samples must be of a day")
        require(np.isfinite(days).all() and (days == np.floor(days)).all(), "days must be whole")
        require(len({*days.tolist()}) == len(days), "days must be different")
        counts = array_of(arrays, "counts", len(days) * (_HOURS + 1), dtype=np.int64)
        require((counts >= 0).all() and (counts <= n_samples).all(), "counts must be in range")
        table = counts.reshape(len(days), _HOURS + 1)
        samples, asked = table[:, :_HOURS].sum(axis=1), table[:, _HOURS]
        require((samples >= 1).all() and samples.sum() <= n_samples, "days must have samples")
        in_range = (asked <= samples) & (asked <= self.per_day)
        require(in_range.all() and asked.sum() <= n_asked, "questions must be of samples")
        worths = array_of(arrays, "worths", min(n_samples, _WINDOW))
        require(np.isfinite(worths).all(), "worths must be finite")
        keys = as_names(fields["keys"], "keys")
        require(len(keys) <= min(self.remember, n_samples), "keys must be remembered")
        answers = array_of(arrays, "answers", len(keys), dtype=np.int64)
        require(((answers == 0) | (answers == 1)).all(), "an answer must be yes or no")
        self._start = None
        if n_samples:
            day, hour = as_list(fields["start"], "start", 2)
            self._start = as_float(day, "start"), as_float(hour, "start", 0.0, _HOURS)
            require(self._start[0] <= days.min(), "no day can be before the start")
        self._days = dict(zip(days.tolist(), table.tolist(), strict=True))
        self._worths = deque(worths.tolist())
        self._sorted = sorted(self._worths)
        self._answers = dict(zip(keys, map(bool, answers.tolist()), strict=True))
        self.n_samples, self.n_asked = n_samples, n_asked


def _day_and_hour(t: Any, seconds: float) -> tuple[float, float]:
    """Return the day of a time, from 1970, and its hour, in [0, 24)."""
    if isinstance(t, datetime):  # as it shows them, in its own zone
        time = t.hour * 3600.0 + t.minute * 60.0 + t.second + t.microsecond / 1e6
        return float(t.toordinal() - _FIRST_DAY), time / 3600.0
    # A remainder of a tiny negative number is rounded up to a day.
    return seconds // _SECONDS, min(seconds % _SECONDS / 3600.0, _LAST_HOUR)
