"""Delayed labels: a score waits for its label under an id, or a label for its score."""

import math
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_int,
    as_list,
    as_name,
    as_names,
    pack,
    require,
    unpack,
)
from streamcal._validation import as_number, as_score, as_weight, as_within, check_count
from streamcal._whole import do_all
from streamcal.calibration.clock import Time
from streamcal.calibration.tickets import Prediction, Ticket, check_ticket_type
from streamcal.durable.fields import pack_fields, unpack_fields
from streamcal.durable.keys import name_of
from streamcal.kernels.waiting_room import WaitingRoom

JOIN = "join"
"""The name of a run's join among the states of its store."""

_NOTHING = Prediction(math.nan, None)  # served
_ASKED = (None, False, True)


class Event(NamedTuple):
    """A sample of a stream, or one half of it.

    Parameters
    ----------
    score : float
        The score of the model; NaN in an event that is only a label.
    y : float
        The label; NaN if it is not known (yet).
    w : float
        The weight.
    key : hashable
        The key of the calibrator.
    id : hashable
        The name that joins a label to its score: a string, number, boolean or tuple, like a key.
        None: no label will arrive.
    served : Prediction, optional
        What the calibrator served for the score. `run` sets it; it waits with the score.
    x : mapping, optional
        The values of the calibrator's ``fields``: text, numbers, booleans or None by name.
        They wait with the score. `run` ignores other names, so it may be all features.
    t : datetime or float, optional
        The time of the event, if the calibrator forgets by time. A late label is learned at its own
        time, not at that of its score.
    propensity : float, optional
        The probability with which the label is asked for, if the calibrator needs it: see
        `AuditedCalibrator`. It is known when the score is served, and waits with it. In a run with
        a sampler, 1 is for a decision that is always labelled: the sampler leaves it out.
    asked : bool, optional
        Whether the sampler asks for the label; None if it does not decide. `run` sets it; it waits
        with the score.

    Examples
    --------
    >>> served = Event(score=0.7, key="shop", id=12)  # the label is not known yet
    >>> late = Event(score=math.nan, y=1, key="shop", id=12)
    >>> served.y, late.y, late.w
    (nan, 1, 1.0)
    """

    score: float
    y: float = math.nan
    w: float = 1.0
    key: Hashable = None
    id: Hashable = None
    served: Prediction | None = None
    x: Mapping[str, Any] | None = None
    t: Time | None = None
    propensity: float | None = None
    asked: bool | None = None


class LabelJoin(Stateful):
    """Joins served scores with labels that arrive later, or labels with later scores.

    Parameters
    ----------
    horizon : int
        The number of events that a score or a label waits before it is dropped.

    Attributes
    ----------
    n_waiting : int
        The number of scores and labels that wait now.
    n_joined : int
        The number of pairs found.
    n_expired : int
        The number of scores and labels that were dropped after the horizon.
    n_duplicates : int
        The number of events dropped because the score or label of their id had arrived before.

    Raises
    ------
    ValueError
        If ``horizon`` is not a positive int.

    Notes
    -----
    A score that comes again under the id of one that waits is answered by `run` as before. An id
    may be used again a horizon after its first event. An event that has both score and label
    is complete; its id is not used. Weight, key, fields and propensity of a sample are those of the
    event with its score. Its time ``t`` is that of the event that came last: what waits keeps none.

    Examples
    --------
    >>> join = LabelJoin(horizon=100)
    >>> join.add(Event(0.7, id="a"))
    >>> sample = join.add(Event(float("nan"), y=1.0, id="a"))
    >>> sample.score, sample.y, sample.id
    (0.7, 1.0, 'a')
    >>> join.n_waiting, join.n_joined
    (0, 1)
    """

    def __init__(self, horizon: int = 100_000) -> None:
        check_count(horizon, "horizon")
        self.horizon = horizon
        self.n_joined = self.n_expired = self.n_duplicates = 0
        self._now = 0
        self._room: WaitingRoom[Event | None] = WaitingRoom()  # by id; None if both have come
        self._n_done = 0

    @property
    def n_waiting(self) -> int:
        """The number of scores and labels that wait."""
        return len(self._room) - self._n_done

    def add(self, event: Event) -> Event | None:
        """Add an event; return the complete sample if there is one now.

        Raises
        ------
        ValueError, TypeError
            If an event that would wait has a number, id, key, ``served``, ``x`` or ``asked`` that
            can't be saved; the join is unchanged.
        """
        has_score, has_label = not math.isnan(event.score), not math.isnan(event.y)
        is_half = event.id is not None and has_score != has_label
        if is_half:
            _check_half(event)
        room, now = self._room, self._now + 1
        last = self._now - self.horizon  # what has arrived until then is dropped now
        changes, steps = {"_now": now}, []
        if old := room.until(last):
            n_done = [room.get(place) for place in old].count(None)
            changes["_n_done"] = self._n_done - n_done
            changes["n_expired"] = self.n_expired + len(old) - n_done
            steps.append(partial(room.drop_until, last))
        joined = event if has_score and has_label else None
        if is_half:
            arrived = room.latest(event.id)
            other = room.get(arrived)
            if arrived <= max(last, 0):  # it was not seen, or is dropped now
                steps.append(partial(room.add, now, event.id, event._replace(t=None)))
            elif other is None or math.isnan(other.score) != has_score:
                changes["n_duplicates"] = self.n_duplicates + 1
            else:
                # It is kept, so that a second label is a duplicate.
                steps.append(partial(room.add, arrived, event.id, None))
                changes["_n_done"] = changes.get("_n_done", self._n_done) + 1
                changes["n_joined"] = self.n_joined + 1
                joined = event._replace(y=other.y)
                if not has_score:
                    joined = other._replace(y=event.y, t=event.t)
        do_all(*steps, partial(self.__dict__.update, changes))
        return joined

    def find(self, id: Hashable) -> Event | None:
        """Return the score or the label that waits under an id; None if neither does.

        A service that is asked again for the same id answers what was served.

        Raises
        ------
        ValueError, TypeError
            If an event can't have this id.

        Examples
        --------
        >>> join = LabelJoin(horizon=100)
        >>> join.add(Event(0.7, id="a", served=Prediction(0.9, None)))
        >>> join.find("a").served.value, join.find("b")
        (0.9, None)
        """
        name_of(id)  # or it raises
        arrived = self._room.latest(id)
        # The next event would drop what came before that.
        return self._room.get(arrived) if arrived > max(self._now - self.horizon, 0) else None

    def _age(self, id: Hashable) -> int:
        """Return how many events ago the first event of an id came, of a pair or alone."""
        return self._now - self._room.latest(id)

    def _freeze(self) -> tuple[Fields, Arrays]:
        arrived, ids, halves = zip(*self._room, strict=True) if self._room else ((), (), ())
        events = [event or Event(math.nan) for event in halves]
        served = [event.served or _NOTHING for event in events]
        numbers = [
            (event.score, event.y, event.w, value, _or_nan(event.propensity))
            for event, (value, _) in zip(events, served, strict=True)
        ]
        fields = {
            "now": self._now,
            "counts": [self.n_joined, self.n_expired, self.n_duplicates],
            "ids": [pack(name) for name in ids],
            "keys": [pack(event.key) for event in events],
            "tickets": [ticket and ticket.to_json() for _, ticket in served],
            "x": [pack_fields(event.x) for event in events],
        }
        return fields, {
            "arrived": np.array(arrived, np.int64),
            "done": np.array([event is None for event in halves], np.int64),
            "asked": np.array([_ASKED.index(event.asked) for event in events], np.int64),
            "numbers": np.array(numbers, np.float64).reshape(-1, 5),
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        arrived = array_of(arrays, "arrived", None, dtype=np.int64)
        n = len(arrived)
        done = array_of(arrays, "done", n, dtype=np.int64)
        numbers = array_of(arrays, "numbers", n, 5, finite=False)
        now = as_int(fields["now"], "now")
        counts = [as_int(count, "counts") for count in as_list(fields["counts"], "counts", 3)]
        require((np.diff(arrived, prepend=0) > 0).all(), "events must be in order")
        require(not n or arrived[-1] <= now, "no event may be later than now")
        require(((done == 0) | (done == 1)).all(), "an event must be waiting or done")
        missing = np.isnan(numbers[done == 0])
        either = (missing[:, 0] != missing[:, 1]) & ~missing[:, 2]
        require(either.all(), "an event that waits must have a score or a label")
        asked = array_of(arrays, "asked", n, dtype=np.int64)
        require(((asked >= 0) & (asked < len(_ASKED))).all(), "a label must be asked for or not")
        events = _unpack_events(fields, numbers, asked)
        self._now, self._n_done = now, int(done.sum())
        self.n_joined, self.n_expired, self.n_duplicates = counts
        for event, at, is_done in zip(events, arrived.tolist(), done.tolist(), strict=True):
            self._room.add(at, event.id, None if is_done else event)


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else number


def _check_half(event: Event) -> None:
    """Raise unless bytes can hold an event that waits."""
    as_number(event.score, "score")
    as_number(event.y, "y")
    as_weight(event.w)
    if event.propensity is not None:
        as_within(event.propensity, "propensity", "(0, 1]")
    if event.asked is not None and not isinstance(event.asked, bool):
        raise TypeError(f"`asked` must be True, False or None, got {event.asked!r}")
    name_of(event.id)
    if event.key is not None:
        name_of(event.key)
    if event.x is not None:
        pack_fields(event.x)  # or it raises
    if event.served is None:
        return
    if not isinstance(event.served, Prediction):
        raise TypeError(f"`served` must be a Prediction or None, got {event.served!r}")
    value, ticket = event.served
    as_score(value, "served")
    check_ticket_type(ticket)
    if ticket is None:
        return
    try:
        Ticket.from_json(ticket.to_json())
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`served` must have a ticket of `serve_one`, got {ticket!r}: {error}"
        ) from None


def _unpack_events(
    fields: Fields, numbers: NDArray[np.float64], asked: NDArray[np.int64]
) -> list[Event]:
    """Return events from numbers of shape ``(n_events, 5)``, and from the other fields."""
    n = len(numbers)
    ids = as_names(fields["ids"], "ids", n)
    packed = as_list(fields["keys"], "keys", n)
    keys = [as_name(unpack(key), "keys", none=True) for key in packed]
    kept = as_list(fields["tickets"], "tickets", n)
    tickets = [None if each is None else Ticket.from_json(each) for each in kept]
    x = [unpack_fields(packed) for packed in as_list(fields["x"], "x", n)]
    return [
        Event(
            score=score,
            y=y,
            w=w,
            key=keys[i],
            id=ids[i],
            served=None if value != value else Prediction(value, tickets[i]),
            x=x[i],
            propensity=None if propensity != propensity else propensity,
            asked=_ASKED[asked[i]],
        )
        for i, (score, y, w, value, propensity) in enumerate(numbers.tolist())
    ]
