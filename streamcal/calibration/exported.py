"""A map that was exported as JSON, read back: it answers, and learns nothing."""

import os
from pathlib import Path
from typing import Any, Never, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._advice import shown
from streamcal._frames import like_given
from streamcal._state import Arrays, Fields
from streamcal._validation import as_probabilities, as_probability, as_score, as_vector
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import NO_CONTEXT, Context, FieldValues
from streamcal.calibration.tickets import Ticket
from streamcal.export import as_json
from streamcal.export.curve import linear, logistic
from streamcal.export.description import Description
from streamcal.export.maps import Knots

_BLANK = " \t\r\n\ufeff"  # before JSON; the last one is a byte order mark


class ExportedCalibrator(Calibrator):
    """A map of `streamcal.Calibrator.export`, which only answers; made by `read_export`.

    Parameters
    ----------
    text : str
        The JSON of the map.

    Raises
    ------
    ValueError
        If the text is not such JSON.
    """

    def __init__(self, text: str) -> None:
        self._exported = as_json.read(text)
        self.text = text

    @property
    def n_samples(self) -> int:
        """The number of samples that the calibrator counted when it was exported."""
        if self._exported.n_samples is None:
            raise AttributeError("the calibrator did not count samples")
        return self._exported.n_samples

    @property
    def error(self) -> float:
        """The greatest distance from the answers of the calibrator, but for rounding."""
        return self._exported.error

    def __repr__(self) -> str:
        of = self._exported
        size = f"{len(of.map):,} knots" if isinstance(of.map, Knots) else of.map.kind
        return f"ExportedCalibrator({of.kind}, {size}, error={of.error:g})"

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
    ) -> NoReturn:
        """Raise ``TypeError``: an exported map is read-only."""
        _refuse()

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> NoReturn:
        _refuse()

    def _check_labels(self, y: ArrayLike) -> NoReturn:
        _refuse()

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the value of a score.

        Raises
        ------
        ValueError, TypeError
            As the calibrator that was exported: the score must be a finite number, and from 0 to 1
            if that calibrator takes probabilities.
        """
        of_probabilities = self._exported.of_probabilities
        number = as_probability(score) if of_probabilities else as_score(score)
        return float(self._exported.map.at(np.array([number]))[0])

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the values of scores, shape ``(n_samples,)``."""
        if self._exported.of_probabilities:
            vector = as_probabilities(scores, "scores")
        else:
            vector = as_vector(scores, "scores")
        return like_given(self._exported.map.at(vector), scores)

    def _describe(self) -> Description:
        of = self._exported
        if isinstance(of.map, Knots):
            curve = linear(of.map.at, of.map.scores)
            return Description(curve, None, of.of_probabilities, of.error)
        curve = logistic(of.map.at, (of.map.low, of.map.high), (of.map.a, of.map.b, of.map.c))
        return Description(curve, of.map, of.of_probabilities, of.error)

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {}  # the text is a parameter

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        pass


def _refuse() -> Never:
    raise TypeError(
        "an exported map is read-only: teach the calibrator that it was exported from, and export"
        " that again"
    )


def read_export(source: str | os.PathLike[str]) -> ExportedCalibrator:
    """Return the map of `Calibrator.export`, as a calibrator that answers and can't learn.

    Parameters
    ----------
    source : str or path
        The JSON, or the name of a file of it. Text that begins with a brace is JSON.

    Returns
    -------
    Calibrator
        Its answers are those of the calibrator that was exported, but for its ``error`` and for
        rounding; that is 0 for isotonic maps. It can be exported again, in other formats.

    Raises
    ------
    ValueError
        If the JSON is not that of an exported map, or of another version.
    TypeError
        If ``source`` is neither text nor a path.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> from streamcal import IsotonicCalibrator
    >>> calibrator = IsotonicCalibrator()
    >>> calibrator.learn_many([0.2, 0.8, 0.6], [0, 1, 1])
    >>> served = read_export(calibrator.export("json"))
    >>> served.predict_one(0.7) == calibrator.predict_one(0.7)
    True
    >>> served
    ExportedCalibrator(IsotonicCalibrator, 2 knots, error=0)
    >>> served.learn_one(0.7, 1)
    Traceback (most recent call last):
    ...
    TypeError: an exported map is read-only: teach the calibrator that it was exported from, and ...
    """
    if isinstance(source, str) and source.lstrip(_BLANK).startswith("{"):
        return ExportedCalibrator(source.lstrip(_BLANK))
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"`source` must be JSON or the path of a file, got {shown(source)}")
    data = Path(source).read_bytes()
    try:
        return ExportedCalibrator(data.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise ValueError(
            f"`source` must be the JSON of an exported map: {os.fspath(source)} is no text in UTF-8"
            f" ({fault.reason} at byte {fault.start})"
        ) from None
