"""A mixture of maps of the probabilities of all labels, for models with more than two labels.

Calibrators of single labels, one against the rest, cannot see that the model mistakes one label for
another, and their answers no longer belong together once they are divided by their sum. A map of
the whole vector of probabilities can correct both. So several such maps run side by side, and are
mixed by the likelihood of the true labels, as in `streamcal.HedgedCalibrator`:

    model           the model's probabilities
    temperature     of these (Guo, Pleiss, Sun & Weinberger, ICML 2017)
    bias            the same, with a bias for each label
    one-vs-rest     the calibrators of single labels, divided by their sum
    matrix          logits from the logs of model and one-vs-rest together; a slow and a fast one

Matrix scaling of all labels is the most powerful and has the most parameters: it wins on long
streams, the hedge keeps it from harm on short ones.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.base.typing import ClfTarget

from streamcal._locked import Locked
from streamcal._state import (
    Arrays,
    Fields,
    array_of,
    as_names,
    fill,
    nested,
    pack,
    prefixed,
    require,
    without_prefix,
)
from streamcal._validation import MOST_COUNT, decay_per_sample
from streamcal._whole import Step, do_all, write_to
from streamcal.calibration.mixture import Mixture
from streamcal.calibration.temperature import TemperatureCalibrator
from streamcal.calibration.tickets import Ticket
from streamcal.kernels.expert import Expert
from streamcal.kernels.joint import SLOPE_PRIOR, JointMaps, Matrix

Raw = Mapping[ClfTarget, float]
Array = NDArray[np.float64]
Places = NDArray[np.intp]

_CLIP = 1e-6  # smaller probabilities are replaced by this
_NAMES = ("model", "temperature", "bias", "one-vs-rest", "matrix", "fast matrix")
_ONE_VS_REST = _NAMES.index("one-vs-rest")
_ROWS = 2  # logs: of the model, of one-vs-rest
_LIMIT = 100.0  # of the parameters of matrices
_PRIORS = (10.0, 30.0, 100.0)  # curvatures before the first sample, of the last kinds of maps
_MOST_LABELS = 256  # in the matrices, whose cost is quadratic


class JointHedge(Locked):
    """Mix the model's probabilities, those of one-vs-rest, and maps of both.

    ``one_vs_rest`` are always the probabilities by the calibrators of single labels, in the order
    of the model's. Labels may be added at any time.

    Parameters
    ----------
    shares : tuple of float or timedelta
    clip : float
        As for `streamcal.HedgedCalibrator`. If a share is a timedelta, each sample needs its time
        in seconds.

    Examples
    --------
    The model mistakes dogs for cats:

    >>> hedge = JointHedge((0.0, 0.001, 0.01), 1e-6)
    >>> raw = {"cat": 0.8, "dog": 0.1, "bird": 0.1}
    >>> for i in range(300):
    ...     hedge.learn_one(raw, raw, "cat" if i % 2 else "dog", 1.0)
    >>> {label: round(p, 1) for label, p in hedge.predict_one(raw, raw).items()}
    {'cat': 0.5, 'dog': 0.5, 'bird': 0.0}
    """

    def __init__(self, shares: tuple[float | timedelta, ...], clip: float) -> None:
        n = len(_NAMES)
        prior = np.full(n, 1.0 / n)
        self._mixture = Mixture([Expert()] * n, shares, prior, clip, 0)
        self._places: dict[ClfTarget, int] = {}
        self._temperature = TemperatureCalibrator(clip=_CLIP)
        bias, slow, fast = _PRIORS
        fade = decay_per_sample(5_000.0)
        matrices = (
            Matrix(0, 0, 1.0, bias, _LIMIT, 1.0, int(MOST_COUNT)),
            Matrix(1, _ROWS, 1.0, slow, _LIMIT, fade, _MOST_LABELS),
            Matrix(1, _ROWS, 0.5, fast, _LIMIT, fade, _MOST_LABELS),
        )
        self._maps = JointMaps(self._temperature._kernel, matrices, _CLIP)

    @property
    def n_samples(self) -> int:
        """How many samples have been learned."""
        return self._mixture.n_samples

    @property
    def weights(self) -> dict[str, float]:
        """The current weight of each map."""
        return dict(zip(_NAMES, self._mixture.weights, strict=True))

    # One sample -----------------------------------------------------------------------------------

    def predict_one(self, raw: Raw, one_vs_rest: Raw) -> dict[ClfTarget, float]:
        """Return the mixture's probabilities; before anything is learned, those of one-vs-rest."""
        with self._mutex:
            if not self.n_samples:
                return dict(one_vs_rest)
            vectors = _vectors(raw, one_vs_rest, self._places)
            mixture = self._maps.predict(self._mixture.kernel, *vectors)
        return dict(zip(raw, mixture.tolist(), strict=True))

    def serve_one(self, raw: Raw, one_vs_rest: Raw) -> tuple[dict[ClfTarget, float], Ticket]:
        """Return `predict_one`, and the ticket to pass back with the label."""
        with self._mutex:
            return self._serve(self._maps, self._places, raw, one_vs_rest)

    def _serve(
        self, maps: JointMaps, places: Mapping[ClfTarget, int], raw: Raw, one_vs_rest: Raw
    ) -> tuple[dict[ClfTarget, float], Ticket]:
        """Return what `serve_one` does, by these maps."""
        n_samples = self.n_samples
        mixture, kept = maps.serve(self._mixture.kernel, *_vectors(raw, one_vs_rest, places))
        ticket = Ticket((n_samples, tuple(map(tuple, kept.tolist()))))
        served = mixture.tolist() if n_samples else one_vs_rest.values()
        return dict(zip(raw, served, strict=True)), ticket

    def learn_one(
        self,
        raw: Raw,
        one_vs_rest: Raw,
        y: ClfTarget,
        w: float,
        ticket: Ticket | None = None,
        t: float = math.nan,
    ) -> None:
        """Update the weights by the served predictions for the true label, then teach the maps.

        Without a ticket, the current predictions count. Nothing is learned from a label without a
        probability. Labels that come together are learned one by one; for rows that share an
        outcome there is `learn_group`.
        """
        with self._mutex:
            do_all(*self.learn_steps(raw, one_vs_rest, y, w, ticket, t))

    def learn_steps(
        self,
        raw: Raw,
        one_vs_rest: Raw,
        y: ClfTarget,
        w: float,
        ticket: Ticket | None = None,
        t: float = math.nan,
    ) -> list[Step]:
        """Return what learns a sample, as `learn_one` does, for `do_all`."""
        column = _column_of(raw, y)
        if column is None:
            return []
        served = None if ticket is None else _of_label(ticket, column)
        maps, places, steps = self._with_labels([raw])
        answers = np.empty(len(_NAMES))  # what the maps answer now
        learn = partial(maps.learn, *_vectors(raw, one_vs_rest, places), column, w)
        steps.append(write_to(answers, slice(None), learn))
        steps += self._mixture.learn_steps(1.0, w, served, current=answers, t=t)
        return steps

    def learn_group(
        self,
        rows: Sequence[tuple[Raw, Raw, ClfTarget, Ticket | None]],
        w: float,
        t: float = math.nan,
    ) -> None:
        """Learn rows that share an outcome as one sample of weight ``w``.

        A row is the first arguments of `learn_one`; each has an equal part of the weight.
        """
        with self._mutex:
            do_all(*self.group_steps(rows, w, t))

    def group_steps(
        self,
        rows: Sequence[tuple[Raw, Raw, ClfTarget, Ticket | None]],
        w: float,
        t: float = math.nan,
    ) -> list[Step]:
        """Return what learns a group, as `learn_group` does, for `do_all`."""
        known = [
            (*row, column) for row in rows if (column := _column_of(row[0], row[2])) is not None
        ]
        maps, places, steps = self._with_labels([raw for raw, *_ in known])
        if not known:
            return steps
        tickets = [
            _of_label(ticket or self._serve(maps, places, raw, one_vs_rest)[1], column)
            for raw, one_vs_rest, _, ticket, column in known
        ]
        answers = np.empty(len(_NAMES))  # what the maps answer now
        for raw, one_vs_rest, _, _, column in known:
            vectors = _vectors(raw, one_vs_rest, places)
            learn = partial(maps.learn, *vectors, column, w / len(rows))
            steps.append(write_to(answers, slice(None), learn))
        ones = [1.0] * len(known)
        return [*steps, *self._mixture.group_steps(ones, w, tickets, current=answers, t=t)]

    @staticmethod
    def served_one_vs_rest(raw: Raw, ticket: Ticket) -> dict[ClfTarget, float]:
        """Return what one-vs-rest answered, from a ticket that was checked."""
        return {label: answers[_ONE_VS_REST] for label, answers in zip(raw, ticket[1], strict=True)}

    def check_ticket(self, ticket: Any, n_labels: int) -> None:
        """Raise unless this hedge made the ticket for so many labels, now or earlier."""
        try:
            n_samples, answers = ticket
            if type(answers) is not tuple or len(answers) != n_labels:
                raise TypeError
        except (TypeError, ValueError):
            raise TypeError(f"`ticket` must have answers for each label, got {ticket!r}") from None
        for of_label in answers:
            self._mixture.read(Ticket((n_samples, of_label)))

    def _with_labels(
        self, raws: Sequence[Raw]
    ) -> tuple[JointMaps, dict[ClfTarget, int], list[Step]]:
        """Return maps and places that have all these labels, and the steps that put them in use."""
        if all(raw.keys() <= self._places.keys() for raw in raws):
            return self._maps, self._places, []
        places = dict(self._places)
        for raw in raws:
            for label in raw:
                places.setdefault(label, len(places))
        matrices = tuple(matrix.grown(len(places)) for matrix in self._maps.matrices)
        maps = JointMaps(self._temperature._kernel, matrices, _CLIP)
        return maps, places, [partial(vars(self).update, _maps=maps, _places=places)]

    # State ----------------------------------------------------------------------------------------

    def freeze(self) -> tuple[Fields, Arrays]:
        """Return the state as fields for JSON and arrays, for `thaw`."""
        with self._mutex:
            arrays: Arrays = {"temperature": nested(self._temperature)}
            for i, matrix in enumerate(self._maps.matrices):
                arrays |= {
                    f"{name}{i}": part for name, part in zip(_PARTS, matrix.state(), strict=True)
                }
            mixture, of_mixture, _ = self._mixture.freeze()
            labels = [pack(label) for label in self._places]
            return {"labels": labels, "mixture": mixture}, arrays | prefixed("mixture", of_mixture)

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        """Restore a state that `freeze` returned, or raise."""
        labels = as_names(fields["labels"], "labels", none=True)
        temperature = fill(self._temperature.clone(), arrays, "temperature")
        states = [_read_matrix(arrays, i, len(labels)) for i in range(len(self._maps.matrices))]
        self._mixture.thaw(fields["mixture"], without_prefix("mixture", arrays))
        self._temperature = temperature
        self._maps = JointMaps(temperature._kernel, self._maps.matrices, _CLIP)
        self._places = {label: i for i, label in enumerate(labels)}
        for matrix, state in zip(self._maps.matrices, states, strict=True):
            matrix.restore(*state)


def _vectors(
    raw: Raw, one_vs_rest: Raw, places: Mapping[ClfTarget, int]
) -> tuple[Array, Array, Places]:
    """Return both probabilities as vectors, and the places of the labels."""
    n = len(raw)
    found = np.fromiter(map(places.get, raw, repeat(int(MOST_COUNT))), np.intp, n)
    model = np.fromiter(raw.values(), np.float64, n)
    return model, np.fromiter(one_vs_rest.values(), np.float64, n), found


def _column_of(raw: Raw, y: ClfTarget) -> int | None:
    """Return the place of the label among those of the model, None if it has no probability."""
    for i, label in enumerate(raw):
        if label == y:
            return i
    return None


def _of_label(ticket: Ticket, column: int) -> Ticket:
    """Return the part of a ticket that is of one label."""
    n_samples, answers = ticket
    return Ticket((n_samples, answers[column]))


_PARTS = ("numbers", "weights", "inverse")  # of a matrix


def _read_matrix(arrays: Arrays, i: int, n_labels: int) -> list[Array]:
    """Return the state of a matrix, or raise."""
    n = n_labels if i == 0 else min(n_labels, _MOST_LABELS)
    d = 1 if i == 0 else 1 + _ROWS * n
    numbers = array_of(arrays, f"numbers{i}", 3)
    weights, inverse = (
        array_of(arrays, f"weights{i}", d, n),
        array_of(arrays, f"inverse{i}", d * (d + 1) // 2),
    )
    slope, curvature, restored = numbers.tolist()
    require(1.0 / _LIMIT <= slope <= _LIMIT, "the slope must be within the limit")
    require(
        curvature >= (1.0 - 1e-6) * SLOPE_PRIOR,
        f"the slope's curvature must be at least {SLOPE_PRIOR}",
    )
    require(
        restored.is_integer() and 0.0 <= restored < d, "the restored place must be in the matrix"
    )
    require((np.abs(weights) <= _LIMIT).all(), "weights must be within the limit")
    full = np.zeros((d, d))
    full[np.tril_indices(d)] = inverse
    diagonal = np.diagonal(full)
    # A tenth of what the prior loses is restored, so the curvature stays near that or above.
    require(
        (diagonal >= 0.0).all() and (diagonal <= 20.0 / _PRIORS[i]).all(),
        "variances must be in range",
    )
    # Samples add up to at most 1e10 times the prior; without forgetting there is no such bound.
    least = 1e-11 / _PRIORS[i] if i else np.finfo(np.float64).tiny
    # `eigvalsh` reads the lower triangle.
    require((np.linalg.eigvalsh(full) >= least).all(), "the curvature must be positive definite")
    return [numbers, weights, inverse]
