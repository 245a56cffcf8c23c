"""Which decisions to have labelled, and with which probability each was chosen.

Where only some decisions ever get a label, a small share is sent to a person at random: an *audit*.
The probability with which a decision is chosen, its *propensity*, is known before the label, and so
weights 1 / propensity make averages over the labelled decisions averages over all.

The propensity of a decision is the rate, times a correction, times a factor: a half, and half
of how much its label would teach in comparison to the mean of the last decisions::

    interest    1 / cosh(d / 2), d the distance of p from the threshold in log odds: with the
                threshold ½ it is 2 √(p (1 − p)); up to 4 times as much in segments of few decisions
    correction  1 + (rate · n − number asked) / 10, at least ½

The correction keeps the number that is asked near its rate at all times: without it, 200 questions
vary by 14, with it by about 3. It depends only on the past, so the propensity is still exact.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
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
from streamcal._validation import (
    as_category,
    as_key,
    as_probability,
    as_within,
    check_count,
    check_kept,
)
from streamcal._whole import Step, do_all
from streamcal.calibration.segments import check_fields

_SLACK = 10.0  # so many questions too few double the correction
_SAME = 0.5  # the part of the propensity that is the same for all decisions
_MEMORY = 1000.0  # the mean interest is that of about so many decisions
_MOST_SEGMENTS = 10_000  # values of a field that are counted apart
_THINNEST = 4.0  # how much more a decision of a thin segment counts at most


class Audit(NamedTuple):
    """Whether to ask for the label of a decision, and the probability of that.

    Examples
    --------
    >>> Audit(ask=False, propensity=0.02)
    Audit(ask=False, propensity=0.02)
    """

    ask: bool
    propensity: float


class AuditSampler(Locked, Stateful):
    """Choose the decisions whose labels are asked for, and say with which probability.

    Parameters
    ----------
    rate : float
        The share of decisions to ask for, in (0, 1].
    secret : str
        What the random numbers depend on, beside the key of a decision. Who knows it can tell which
        decisions will be asked for.
    floor : float, optional
        The least propensity, in (0, ``rate``]; by default half of the rate. Weights of asked
        decisions are at most 1 / ``floor``.
    threshold : float
        Near this probability decisions are asked for more often; in (0, 1).
    fields : sequence of str
        Fields of a decision. Values of a field that few decisions have are asked for more often.
    remember : int
        For how many of the last decisions the answer is kept, so that the same key has the same
        answer again.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    The number that was asked stays within about ten of ``rate`` times the number of decisions. It
    may be more for about a thousand decisions after many of them suddenly come near the threshold,
    and with a floor near the rate.

    A random number is a keyed hash of the key. So two copies of a sampler, such as those of two
    processes, use the same number for the same key.

    Examples
    --------
    >>> sampler = AuditSampler(0.02, secret="2026")
    >>> audits = [sampler.audit_one(i, (i % 100) / 100) for i in range(10_000)]
    >>> sum(audit.ask for audit in audits)
    198
    >>> round(audits[9_950].propensity, 3), round(audits[9_901].propensity, 3)
    (0.027, 0.014)
    >>> sampler.audit_one(9_950, 0.5) == audits[9_950]  # asked again
    True
    """

    def __init__(
        self,
        rate: float = 0.02,
        *,
        secret: str,
        floor: float | None = None,
        threshold: float = 0.5,
        fields: Sequence[str] = (),
        remember: int = 10_000,
    ) -> None:
        self.rate: float = as_within(rate, "rate", "(0, 1]")
        self.secret: str = _as_secret(secret)
        self.floor = None if floor is None else as_within(floor, "floor", "(0, 1]")
        self._floor = self.rate / 2.0 if self.floor is None else self.floor
        if self._floor > self.rate:
            raise ValueError(f"`floor` must be at most `rate`, {rate}, got {floor}")
        self.threshold: float = as_within(threshold, "threshold", "(0, 1)")
        self.fields: tuple[str, ...] = check_fields(fields) if fields else ()
        check_count(remember, "remember")
        self.remember = remember
        self._hash_key = hashlib.sha256(secret.encode()).digest()
        self._centre = _log_odds(self.threshold)
        self._mean_interest = 1.0
        # Of each field: how many decisions had a value.
        self._counts: list[dict[Any, int]] = [{} for _ in self.fields]
        self._audits: dict[Any, Audit] = {}
        self.n_samples: int = 0
        self.n_asked: int = 0

    def audit_one(self, key: Any, p: float, x: Mapping[str, Any] | None = None) -> Audit:
        """Return whether to ask for the label of a decision, and the propensity.

        Parameters
        ----------
        key : str, int, float or tuple of these
            What identifies the decision. A key that is remembered has the same answer again.
        p : float
            The probability of the label 1, in [0, 1].
        x : mapping, optional
            The values of ``fields``; one that is missing counts as None.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of its range; nothing changes.
        """
        known = as_key(key)
        probability = as_probability(p, "p")
        values = self._values(x)
        with self._mutex:
            return self._find_or_draw(known, probability, values)

    def _check(self, key: Any, x: Any) -> None:
        """Raise unless `audit_one` accepts a decision."""
        as_key(key)
        self._values(x)

    def _find_or_draw(self, known: Any, probability: float, values: list[Any]) -> Audit:
        """Return the audit of a decision that was checked."""
        if (audit := self._audits.get(known)) is not None:
            return audit
        interest = self._interest(probability, values)
        n = self.n_samples + 1
        mean = self._mean_interest + (interest - self._mean_interest) / min(n, _MEMORY)
        correction = max(1.0 + (self.rate * n - self.n_asked) / _SLACK, 0.5)
        relative = _SAME + (1.0 - _SAME) * interest / mean if mean > 0.0 else 1.0
        wanted = self.rate * correction * relative
        propensity = min(max(wanted, self._floor), 1.0)
        audit = Audit(self._random(known) < propensity, propensity)
        old = [next(iter(self._audits))] if len(self._audits) >= self.remember else []
        do_all(
            *(partial(self._audits.pop, each) for each in old),
            partial(self._audits.__setitem__, known, audit),
            *self._counting(values),
            partial(
                vars(self).update,
                _mean_interest=mean,
                n_samples=n,
                n_asked=self.n_asked + audit.ask,
            ),
        )
        return audit

    def _values(self, x: Any) -> list[Any]:
        """Return the values of the fields of a decision, or raise."""
        if not self.fields:
            return []
        if not isinstance(x, Mapping):
            raise TypeError(f"`x` must be a mapping with {list(self.fields)}, got {x!r}")
        return [as_value(x.get(name), name) for name in self.fields]

    def _counting(self, values: list[Any]) -> Iterator[Step]:
        """Return the steps that count a decision, but not the values after the first 10,000."""
        for counts, value in zip(self._counts, values, strict=True):
            if value in counts or len(counts) < _MOST_SEGMENTS:
                yield partial(counts.__setitem__, value, counts.get(value, 0) + 1)

    def _interest(self, p: float, values: list[Any]) -> float:
        """Return how much the label of a decision teaches."""
        if not 0.0 < p < 1.0:
            return 0.0
        distance = abs(_log_odds(p) - self._centre)
        return self._thinness(values) / math.cosh(min(distance / 2.0, 700.0))

    def _thinness(self, values: list[Any]) -> float:
        """Return 1, or more for the value of a field that has few decisions."""
        most = 1.0
        for counts, value in zip(self._counts, values, strict=True):
            mean = self.n_samples / max(len(counts), 1)
            most = max(most, math.sqrt(mean / (counts.get(value, 0) + 1)))
        return min(most, _THINNEST)

    def _random(self, key: Any) -> float:
        """Return the random number of a key, in [0, 1)."""
        digest = hashlib.blake2b(repr(key).encode(), key=self._hash_key, digest_size=7).digest()
        return int.from_bytes(digest, "big") / 2.0**56

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            counted, audits = [{**counts} for counts in self._counts], {**self._audits}
            fields = {"n": [self.n_samples, self.n_asked], "mean_interest": self._mean_interest}
        numbers = [n for counts in counted for n in counts.values()]
        packed = {
            "counts": [[pack(value) for value in counts] for counts in counted],
            "keys": [pack(key) for key in audits],
        }
        return {**packed, **fields}, {
            "counts": np.array(numbers, np.int64),
            "asked": np.array([audit.ask for audit in audits.values()], np.int64),
            "propensities": np.array([audit.propensity for audit in audits.values()]),
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        n_samples, n_asked = (as_int(n, "n") for n in as_list(fields["n"], "n", 2))
        require(n_asked <= n_samples, "not more can be asked than there are")
        mean = as_float(fields["mean_interest"], "mean_interest", 0.0, _THINNEST)
        keys = as_names(fields["keys"], "keys")
        require(len(keys) <= min(self.remember, n_samples), "keys must be remembered")
        asked = array_of(arrays, "asked", len(keys), dtype=np.int64)
        propensities = array_of(arrays, "propensities", len(keys))
        require(((asked == 0) | (asked == 1)).all(), "an audit must be asked or not")
        in_range = (propensities >= self._floor) & (propensities <= 1.0)
        require(in_range.all(), "propensities must be from the floor to 1")
        values = [
            as_names(of_field, "counts", none=True)
            for of_field in as_list(fields["counts"], "counts", len(self.fields))
        ]
        require(all(len(each) <= _MOST_SEGMENTS for each in values), "segments must be few enough")
        numbers = array_of(arrays, "counts", sum(map(len, values)), dtype=np.int64)
        require((numbers >= 1).all() and (numbers <= n_samples).all(), "counts must be positive")
        counted = iter(numbers.tolist())
        self._counts = [{value: next(counted) for value in each} for each in values]
        self._audits = {
            key: Audit(bool(ask), propensity)
            for key, ask, propensity in zip(
                keys, asked.tolist(), propensities.tolist(), strict=True
            )
        }
        self.n_samples, self.n_asked, self._mean_interest = n_samples, n_asked, mean


def _as_secret(secret: Any) -> str:
    if not isinstance(secret, str):
        raise TypeError(f"`secret` must be text, got {secret!r}")
    if not secret:
        raise ValueError("`secret` must be text that is not empty, got ''")
    try:
        secret.encode()
    except UnicodeEncodeError:
        raise ValueError(f"`secret` must be text that UTF-8 can hold, got {secret!r}") from None
    return secret


def _log_odds(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def as_value(value: Any, field: str) -> Any:
    """Return the value of a field that can be counted, or raise; NaN counts as None."""
    try:
        plain = as_category(value, field)
    except TypeError:
        raise TypeError(f"`x` must have text or numbers in {field!r}, got {value!r}") from None
    check_kept(plain, "x")
    return plain
