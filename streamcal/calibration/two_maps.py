"""Two maps of clones of one calibrator, mixed by their likelihood: a base class.

`AuditedCalibrator` and `PriorShiftCalibrator` derive from it. Each has a map that takes what
another part answers in place of the score, and one that does not.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, fill, nested, prefixed, without_prefix
from streamcal._validation import as_probability
from streamcal.calibration.base import Calibrator, check_calibrator
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.mixture import Mixture
from streamcal.calibration.probability import ProbabilityCalibrator
from streamcal.calibration.tickets import Prediction, Ticket, check_ticket_type
from streamcal.kernels.expert import Expert
from streamcal.notebook.card import card
from streamcal.notebook.shape import Samples, Shape

CLIP = 1e-6
"""Predictions are clipped to [`CLIP`, 1 − `CLIP`]."""
_SHARES = (0.0, 0.001, 0.01)


class Known(NamedTuple):
    """What was served: what a map takes in place of the score, and the tickets of all parts.

    ``own`` has those of the clones, in their order.
    """

    moved: float
    own: tuple[Ticket | None, ...]
    mixed: Ticket


class TwoMaps(Locked, ProbabilityCalibrator):
    """A base class of calibrators that mix two maps.

    A subclass names its maps and its clones, and calls `_clone`. Its clones are attributes: that of
    the name "plain" is ``_plain``. The first one takes the score itself.
    """

    makes_tickets = True
    _map_names: ClassVar[tuple[str, str]]
    _clone_names: ClassVar[tuple[str, ...]]

    def _clone(self, calibrator: Calibrator | None) -> None:
        """Make the clones of a prototype, and their mixture; raise if it can't be one."""
        prototype = HedgedCalibrator() if calibrator is None else calibrator
        check_calibrator(prototype, fields=True)
        self.fields = tuple(prototype.fields)
        if prototype.needs_time:
            self.needs_time = True
        for name in self._clone_names:
            clone = prototype.clone()
            clone._look_for_no_bursts()  # the mixture would learn one by one beside it
            setattr(self, f"_{name}", clone)
        self._mixture = Mixture([Expert()] * 2, _SHARES, np.array([0.5, 0.5]), CLIP, -1)

    @property
    def _clones(self) -> tuple[Calibrator, ...]:
        return tuple(getattr(self, f"_{name}") for name in self._clone_names)

    @property
    def n_samples(self) -> int:
        """How many samples have been learned; a group counts as one."""
        return self._mixture.n_samples

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the two maps; they sum to 1."""
        with self._mutex:
            return self._weights()

    def _weights(self) -> dict[str, float]:
        return dict(zip(self._map_names, self._mixture.weights, strict=True))

    # What is predicted ----------------------------------------------------------------------------

    def _mixed(self, p: float, answers: tuple[float, float]) -> float:
        """Return the mixture of two probabilities of a score; before the first label, the score."""
        if not self.n_samples:
            return p
        mean = self._mixture.kernel.mixture_of(answers)
        return min(max(mean, CLIP), 1.0 - CLIP)  # it is rounded

    def _checked(self, answer: float) -> float:
        """Return an answer of a clone, or raise if it is NaN, which would stay in the weights."""
        if answer != answer:
            raise ValueError(f"`calibrator` must predict numbers, got NaN from {self._clones[0]!r}")
        return answer

    # Tickets --------------------------------------------------------------------------------------

    def _served(
        self, p: float, moved: float, answers: tuple[float, float], *own: Ticket | None
    ) -> Prediction:
        """Return the mixture of the answers to a score, with the ticket of all parts."""
        rows = np.asarray(self._mixture.kernel.rows()) @ np.array(answers)
        mixed = self.n_samples, (*answers, *rows.clip(0.0, 1.0).tolist())
        parts = (moved, *(each and tuple(each) for each in own), mixed)
        return Prediction(self._mixed(p, answers), Ticket(parts))

    def _without_tickets(self, moved: float) -> Known:
        """Return what is known of a sample whose label comes at once."""
        return Known(moved, (None,) * len(self._clone_names), Ticket())

    def _read_ticket(self, ticket: Any) -> Known:
        """Return what a ticket of `_served` says, or raise."""
        check_ticket_type(ticket)
        clones = self._clones
        try:
            moved, *own, mixed = ticket
            of_clones = tuple(each and Ticket(each) for each in own)
            known = Known(as_probability(moved), of_clones, Ticket(mixed))
            made = [each is not None for each in of_clones]
            if made != [clone.makes_tickets for clone in clones]:
                raise TypeError
        except (TypeError, ValueError):
            raise TypeError(
                f"`ticket` must be a ticket of this calibrator's `serve_one`, got {ticket!r}"
            ) from None
        self._mixture.read(known.mixed)
        for clone, of_clone in zip(clones, known.own, strict=True):
            if of_clone is not None:
                clone._check_ticket(of_clone)
        return known

    def _check_ticket(self, ticket: Any) -> None:
        with self._mutex:
            self._read_ticket(ticket)

    def _check_fields(self, x: Any) -> None:
        self._clones[0]._check_fields(x)

    # Shown and saved ------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        if not self.fields:
            return super()._repr_html_()
        with self._mutex:  # there is no map of scores alone
            facts = {"samples": self.n_samples, **self._facts()}
            return card(
                self, facts, weights=self._weights(), inside=[self._clones[0]._repr_html_()]
            )

    def _weights_shown(self) -> dict[str, float]:
        return self.weights

    def _shape(self) -> Shape:
        return self._clones[0]._shape() if self.fields else super()._shape()

    def _kept_scores(self) -> Samples:
        return self._clones[0]._kept_scores()

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            return self._freeze_parts()

    def _freeze_parts(self) -> tuple[Fields, Arrays]:
        """Return the state; the lock is held."""
        of_mixture, arrays, _ = self._mixture.freeze()
        clones = zip(self._clone_names, self._clones, strict=True)
        own = {name: nested(clone) for name, clone in clones}
        fields = {"mixture": of_mixture, **self._freeze_kind()}
        return fields, {**prefixed("mixture", arrays), **own}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        for name, clone in zip(self._clone_names, self._clones, strict=True):
            fill(clone, arrays, name)
        self._mixture.thaw(fields["mixture"], without_prefix("mixture", arrays))
        self._thaw_kind(fields)
