"""The served prediction for one sample, to keep until its label arrives."""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from river.base.typing import ClfTarget

from streamcal._state import as_float, as_int, as_list, pack, require
from streamcal._validation import LEAST_PROBABILITY, MOST_PROBABILITY
from streamcal.calibration.sampling import as_sampling_rate
from streamcal.calibration.tickets import Ticket

_MOST_NESTED = 16  # tuples in a label


@dataclass(frozen=True, slots=True)
class Served:
    """The result of `CalibratedClassifier.serve_one`.

    Show ``calibrated`` to the user, keep the whole object, and pass it to
    `CalibratedClassifier.learn_one` as ``served`` when the label arrives.

    Attributes
    ----------
    calibrated : dict
        The calibrated probability of each label.
    raw : dict
        The model's own probability of each label; labels that it lacks are added.
    ticket : Ticket or None
        What the calibrators need with the label, if they make tickets.
    n_alarms : int
        How many alarms the drift detector had raised by then.
    sampling_rate : float
        The share of negatives that the stream keeps; ``calibrated`` is right among all samples.

    Examples
    --------
    >>> import json
    >>> served = Served({"yes": 0.75, "no": 0.25}, {"yes": 0.5, "no": 0.5})
    >>> kept = json.dumps(served.to_dict())
    >>> kept[:44]
    '{"calibrated": [["yes", 0.75], ["no", 0.25]]'
    >>> Served.from_dict(json.loads(kept)) == served
    True
    """

    calibrated: dict[ClfTarget, float]
    raw: dict[ClfTarget, float]
    ticket: Ticket | None = None
    n_alarms: int = 0
    sampling_rate: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the content as a dict that JSON keeps exactly, for `from_dict`.

        Labels and their values are written as pairs, since keys in JSON can only be text. A label
        may be a bool, an int, a finite float, a str, None or a tuple of these. A NumPy scalar is
        written, and comes back, as the equal Python value.

        Raises
        ------
        TypeError, ValueError
            If a label is of another kind, or `from_dict` would not accept a number.
        """
        kept = {
            "calibrated": [[pack(label), pack(p)] for label, p in self.calibrated.items()],
            "raw": [[pack(label), pack(p)] for label, p in self.raw.items()],
            "ticket": None if self.ticket is None else self.ticket.to_json(),
            "n_alarms": self.n_alarms,
            "sampling_rate": self.sampling_rate,
        }
        self.from_dict(kept)  # or it raises
        return kept

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Served":
        """Return the object that `to_dict` wrote, directly or after JSON wrote and read the dict.

        Raises
        ------
        TypeError
            If ``kept`` is not a mapping.
        ValueError
            If an entry is missing, repeated, unknown or not what `to_dict` writes.
        """
        if not isinstance(kept, Mapping):
            raise TypeError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        if set(kept) != {"calibrated", "raw", "ticket", "n_alarms", "sampling_rate"}:
            raise ValueError(f"`kept` must be what `to_dict` returned, got {reprlib.repr(kept)}")
        try:
            return cls(
                _from_pairs(kept["calibrated"]),
                _from_pairs(kept["raw"]),
                None if kept["ticket"] is None else Ticket.from_json(kept["ticket"]),
                as_int(kept["n_alarms"], "n_alarms"),
                as_sampling_rate(as_float(kept["sampling_rate"], "sampling_rate")),
            )
        except ValueError as error:
            raise ValueError(f"`kept` must be what `to_dict` returned: {error}") from None


def _from_pairs(pairs: Any) -> dict[ClfTarget, float]:
    """Return probabilities by label from pairs, or raise ``ValueError``."""
    values: dict[ClfTarget, float] = {}
    for pair in as_list(pairs, "probabilities"):
        packed, p = as_list(pair, "a label and its probability", 2)
        label = _as_label(packed)
        require(label not in values, f"each label must come once, got {label!r} again")
        values[label] = as_float(p, "a probability", LEAST_PROBABILITY, MOST_PROBABILITY)
    return values


def _as_label(packed: Any, depth: int = 0) -> Any:
    """Return a label that `pack` wrote, or raise; `pack` writes other things, too."""
    if isinstance(packed, dict) and list(packed) == ["tuple"] and depth < _MOST_NESTED:
        return tuple(_as_label(item, depth + 1) for item in as_list(packed["tuple"], "a tuple"))
    if packed is None or isinstance(packed, bool | int | str):
        return packed
    if not isinstance(packed, float) or not math.isfinite(packed):
        raise ValueError(
            "a label must be a bool, int, finite float, str, None or a tuple of these, got"
            f" {reprlib.repr(packed)}"
        )
    return packed
