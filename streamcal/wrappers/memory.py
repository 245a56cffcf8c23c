"""The predictions of a classifier that wait for their labels, found again by the features."""

import marshal
import operator
import warnings
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from river.base.typing import ClfTarget

from streamcal._whole import Step, do_all
from streamcal.calibration.tickets import Ticket
from streamcal.kernels.waiting_room import WaitingRoom
from streamcal.wrappers._features import is_alike, is_same, key_of, shallow, snapshot

_RATE = 0.02  # of the mean that follows the delay of labels
_MANY = 10  # predictions; if the features of all differ, features seem to identify samples
_LONG = 5.0  # mean delays: a label that is later than this seems to be lost
_SOON = 100  # predictions: no label seems to be lost before there are so many
_FLOATS = {float, np.float64}
_REMEDY = "call `serve_one`, and pass its result as `served`"

MakeTicket = Callable[[Mapping[ClfTarget, float], Any], tuple[Ticket | None, Sequence[Step]]]
"""Returns the ticket of the calibrators for the model's probabilities and the features.

The features are what `streamcal.wrappers._features.snapshot` returned. The steps are what serving
changes, once it is known that the ticket is kept.
"""


class Remembered(NamedTuple):
    """A prediction that waits for its label.

    Attributes
    ----------
    raw : dict
        The model's probabilities by label.
    shown : dict or None
        The calibrated ones, if a drift detector needs them.
    n_alarms : int
        The number of alarms of the drift detector at that time.
    ticket : Ticket or None
        What the calibrators served. None if they need none, or nothing was learned in between, so
        that the calibrators predict now what they predicted then.
    set_size : int
        How many labels, the most probable ones, were in the prediction set, if there was one.
    """

    raw: Mapping[ClfTarget, float]
    shown: Mapping[ClfTarget, float] | None
    n_alarms: int
    ticket: Ticket | None = None
    set_size: int = 0


_Aside = tuple[Any, Remembered]


class Found(NamedTuple):
    """The prediction that a label belongs to, which is still remembered.

    Attributes
    ----------
    prediction : Remembered
        What was predicted.
    place : int
        Where it is in the order of all predictions.
    now : int
        The place of the latest prediction.
    key : hashable
        The features; None if no other prediction waited, and it is in no group.
    aside : tuple or None
        Features and prediction as they are kept aside; None if it has been stored.
    """

    prediction: Remembered
    place: int
    now: int
    key: Hashable
    aside: "_Aside | None"


class PredictionMemory:
    """Remembers the latest predictions, so that a late label is learned with what was served.

    A prediction is found by the features. If several have the same features, a label belongs to the
    one that waits about as long as labels usually do; the first label belongs to the oldest. One is
    forgotten, as if its label were lost, when others with the same features wait, and it is older
    than five mean delays and a hundred predictions. So a label may come much later than usual: the
    first rows of a game whose labels all come at its end wait twice as long as the mean.

    ``predict_one`` and ``predict_proba_one`` may be called for one sample, so if both are called in
    a row with the same features, this is one prediction. If one of them is called twice, these are
    two samples.

    A label is learned in three steps: `find` changes nothing, so the sample may still be refused;
    `store_latest` comes before anything learns; `take_steps` forget what was found, together with
    what the calibrators learn.

    Usually the label comes at once. The latest prediction is therefore kept aside, without a hash
    and without a ticket, until the calibrators are about to change or another prediction is made.

    Copies and pickles are empty. Any thread, and any signal handler, may call any method at any
    time. Nothing is caught here, so that what a signal handler raises reaches the caller.

    Parameters
    ----------
    limit : int
        A prediction is forgotten after this many others.

    Attributes
    ----------
    delay : float or None
        How many predictions usually follow before the label; None before the first label.

    Examples
    --------
    >>> memory, no_ticket = PredictionMemory(2), lambda raw, features: (None, ())
    >>> for x in ({"a": 1}, {"a": 2}, {"a": 3}):
    ...     memory.add(x, Remembered({True: x["a"] / 10}, None, 0), no_ticket)
    >>> memory.find({"a": 1}) is None, memory.find({"a": 3}).prediction.raw
    (True, {True: 0.3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Predictions by features. Aside are the features of the latest, and it without a ticket.
        self._room: WaitingRoom[Remembered | _Packed] = WaitingRoom()
        self._asked = ""  # what it was asked for: "label", "probabilities", or "both"
        self._failed: _Aside | None = None  # the latest prediction for which no ticket was made
        self.delay: float | None = None
        self._labels: tuple[ClfTarget, ...] = ()  # of the latest packed prediction
        self._unremembered = _Unremembered(limit)

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return (self._room.aside is not None) + len(self._room)

    def add(
        self, x: Any, prediction: Remembered, make_ticket: MakeTicket, asked: str = "probabilities"
    ) -> None:
        """Remember the prediction of ``asked``, the label or probabilities, for ``x``.

        It has no ticket yet; one is made with ``make_ticket`` if the label is late.
        """
        room = self._room
        latest = room.aside
        if latest is not None:
            if self._asked not in (asked, "both") and is_same(latest[0], x):
                self._asked = "both"
                return
            self.store_latest(make_ticket)
        kept = snapshot(x)
        if kept is None:
            self._unremembered.add(x)
        else:
            room.aside = kept, prediction
            self._asked = asked
        if room:
            room.drop_until(room.last - self.limit + 1)  # one less, for the latest

    def find(self, x: Any, group: dict[Hashable, list[int]] | None = None) -> Found | None:
        """Return the prediction for these features, None if there is none.

        The rows of a group are found one after the other, all with the same ``group``, a dict that
        is empty at first. It has the places that are left for the next rows, by features.
        """
        room = self._room
        latest: _Aside | None = room.aside
        now = room.last + (latest is not None)
        is_latest = latest is not None and is_same(latest[0], x)
        if latest is not None and is_latest and not room and group is None:  # the usual case
            return tuple.__new__(Found, (latest[1], now, now, None, latest))
        key = key_of(x) if room or is_latest else None
        if key is None:
            return None
        places = None if group is None else group.get(key)
        if places is None:
            places = room.places(key)
            if is_latest:
                places.append(now)
        if not places:
            return None
        place = self._choose(places, now)
        if group is not None:
            del places[bisect_left(places, place)]
            group[key] = places
        if latest is not None and is_latest and place == now:
            return Found(latest[1], now, now, key, latest)
        stored = room.get(place)
        if stored is None:  # another thread or a signal handler took it
            return None
        prediction = stored.unpack() if isinstance(stored, _Packed) else stored
        return Found(prediction, place, now, key, None)

    def warn_if_late(self, x: Any, remedy: str = _REMEDY) -> None:
        """Warn if these features were predicted before others, and could not be remembered."""
        if self._unremembered.waiting:
            self._unremembered.learn(x, remedy)

    def store_latest(self, make_ticket: MakeTicket, found: Sequence[Found | None] = ()) -> None:
        """Store the latest prediction with its ticket, while the calibrators are as they were.

        It stays aside if it is one of those that were ``found``: their labels are about to be
        learned.
        """
        latest: _Aside | None = self._room.aside
        if latest is None or id(latest) in [id(each.aside) for each in found if each is not None]:
            return
        kept, prediction = latest
        try:
            ticket, steps = make_ticket(prediction.raw, kept)
            packed = self._pack(prediction._replace(ticket=ticket))
        except BaseException:
            if self._failed is latest:  # a calibrator's error would be raised again and again
                self._room.aside = None
            self._failed = latest
            raise
        do_all(*steps, partial(self._room.store_aside, latest, key_of(kept), packed))

    def take_steps(self, found: Sequence[Found]) -> list[Step]:
        """Return what forgets predictions, as their labels are learned; steps for `do_all`."""
        room, mean = self._room, self.delay
        if mean == 0.0 and found and found[0].key is None:  # the usual case
            return [partial(room.drop_aside, found[0].aside, found[0].place)]
        steps: list[Step] = []
        places_of: dict[Hashable, list[int]] = {}
        for _, place, now, key, aside in found:
            forget = partial(room.drop, place)
            # A signal handler may predict before the steps, and so store what is aside now.
            steps.append(forget if aside is None else partial(room.drop_aside, aside, place))
            if key is not None:
                places = places_of.setdefault(key, room.places(key))
                if mean is not None and len(places) > 1:
                    n_lost = bisect_left(places, _earliest_due(now, mean))
                    steps += [partial(room.drop, lost) for lost in places[:n_lost]]
                    del places[:n_lost]
                at = bisect_left(places, place)
                del places[at : at + (places[at : at + 1] == [place])]
            late = float(now - place)
            mean = late if mean is None else mean + _RATE * (late - mean)
        if mean != self.delay:
            steps.append(partial(setattr, self, "delay", mean))
        return steps

    # Several of equal features --------------------------------------------------------------------

    def _choose(self, places: list[int], now: int) -> int:
        """Return the place of these, which are sorted, that a label belongs to.

        ``now`` is the place of the latest prediction.
        """
        if len(places) == 1:
            return places[0]
        expected = self._expected_place(places, now)
        first = min(self._n_lost(places, now), len(places) - 1)
        after = bisect_left(places, expected, first)
        nearest = places[max(after - 1, first) : after + 1]
        return min(nearest, key=lambda place: abs(place - expected))

    def _n_lost(self, places: list[int], now: int) -> int:
        """Return how many of these predictions are so old that no label is expected."""
        return 0 if self.delay is None else bisect_left(places, _earliest_due(now, self.delay))

    def _expected_place(self, places: list[int], now: int) -> float:
        """Return where the prediction of a label is expected, for features with these places."""
        if self.delay is not None:
            return now - self.delay
        # This is the first label, and the sample was predicted just now. If no other features came
        # twice, it was also predicted before, as for a comparison, and its label is not late.
        if len(places) < 2 or places[-1] != now:
            return 0.0
        others = len(self._room) - (len(places) - 1)
        n_alike = self._room.n_names - 1
        return now if others >= _MANY and n_alike == others else 0.0

    # Many labels ----------------------------------------------------------------------------------

    def _pack(self, prediction: Remembered) -> "Remembered | _Packed":
        """Return a prediction of more than two labels as bytes, if it comes back the same."""
        if len(prediction.raw) < 3:
            return prediction
        raw, shown, ticket = prediction.raw, prediction.shown, prediction.ticket
        if not _FLOATS.issuperset(map(type, raw.values())):
            return prediction
        if shown is not None and list(shown) != list(raw):
            return prediction
        values = tuple(map(float, raw.values()))
        answers = None if shown is None else tuple(map(float, shown.values()))
        as_tuple = None if ticket is None else tuple(ticket)
        simple = {"raw": values, "shown": answers, "ticket": as_tuple}
        content = tuple((prediction._asdict() | simple).values())
        try:
            packed = marshal.dumps(content)
        except ValueError:  # the ticket of a calibrator of the user's own
            return prediction
        if marshal.loads(packed) != content:
            return prediction
        # Predictions share their labels. Equal ones may still be different, as True and 1 are.
        if len(self._labels) != len(raw) or not all(map(operator.is_, self._labels, raw)):
            self._labels = tuple(raw)
        return _Packed(packed, self._labels)


def _earliest_due(now: int, delay: float) -> float:
    """Return the place before which labels seem to be lost, for a mean delay."""
    return now - max(_LONG * delay, _SOON)


class _Packed:
    """A `Remembered` of many labels as bytes, which take a fifth of the memory."""

    __slots__ = ("_labels", "_packed")

    def __init__(self, packed: bytes, labels: tuple[ClfTarget, ...]) -> None:
        self._packed = packed
        self._labels = labels

    def unpack(self) -> Remembered:
        """Return the prediction as it was."""
        kept = dict(zip(Remembered._fields, marshal.loads(self._packed), strict=True))
        for name in ("raw", "shown"):
            if kept[name] is not None:
                kept[name] = dict(zip(self._labels, kept[name], strict=True))
        if kept["ticket"] is not None:
            kept["ticket"] = Ticket(kept["ticket"])
        return Remembered(**kept)


class _Unremembered:
    """Warns once if features that cannot be remembered come with a late label.

    It holds the features of the latest such prediction, and those of an earlier one, until that
    label comes. There is no false alarm: a label is late if its features are those of the earlier
    prediction, and not of the latest.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.waiting = self._warned = False
        self._latest: Any = None
        self._earlier: Any = None
        self._n_later = 0  # predictions after the earlier one

    def add(self, x: Any) -> None:
        """Note that ``x`` was predicted."""
        latest = self._latest
        if self._warned or (latest is not None and is_alike(latest, x)):
            return
        self._n_later += 1
        if latest is not None and (self._earlier is None or self._n_later > self._limit):
            self._earlier, self._n_later = latest, 1
        self._latest, self.waiting = shallow(x), True

    def learn(self, x: Any, remedy: str) -> None:
        """Warn if the label of ``x`` is late."""
        if is_alike(self._latest, x):
            self._latest = None
        elif self._earlier is not None and is_alike(self._earlier, x):
            self._warned, self.waiting, self._latest, self._earlier = True, False, None, None
            warnings.warn(
                "the label is late, and its prediction was not remembered, because a feature may"
                " change (a list, an array or a dict) or has a class with its own comparison;"
                f" {remedy} with the label",
                RuntimeWarning,
                stacklevel=4,
            )
