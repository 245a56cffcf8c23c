"""The calibrators that the options of ``streamcal calibrate`` ask for."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from streamcal._advice import UNITS, in_words
from streamcal._validation import check_choice
from streamcal.cli.summary import Totals
from streamcal.cli.table_source import Columns

if TYPE_CHECKING:
    from streamcal.calibration.base import Calibrator


class Interpolation(StrEnum):
    """How values are interpolated between learned scores."""

    step = "step"
    linear = "linear"


class Method(StrEnum):
    """The calibrators, by the names that users type."""

    hedge = "hedge"
    isotonic = "isotonic"
    platt = "platt"
    beta = "beta"
    histogram = "histogram"


class _Kind(NamedTuple):
    """What the command line knows of a calibrator."""

    class_of: Callable[[Any], "type[Calibrator]"]  # in the package `calibration`
    options: tuple[str, ...]  # those that it takes
    any_score: bool = False  # it maps any scores, not only probabilities
    groups: bool = False  # it learns rows that share an outcome


_ALL = ("loss", "prior", "window", "half_life", "max_scores", "interpolation")
_CALIBRATORS = {
    Method.hedge: _Kind(lambda package: package.HedgedCalibrator, (), groups=True),
    Method.isotonic: _Kind(lambda package: package.IsotonicCalibrator, _ALL, any_score=True),
    Method.platt: _Kind(lambda package: package.PlattCalibrator, ("half_life",)),
    Method.beta: _Kind(lambda package: package.BetaCalibrator, ("half_life",)),
    Method.histogram: _Kind(lambda package: package.HistogramCalibrator, ("half_life",)),
}
LOSSES = ("log", "squared", "poisson", "gamma", "tweedie", "linex", "logistic", "exponential")


def parse_span(text: str | None, option: str, *, whole: bool = False) -> Any:
    """Return a number of samples, or a duration if there is a unit; None if nothing is given.

    Examples
    --------
    >>> parse_span("500", "--half-life"), parse_span("36h", "--half-life")
    (500.0, datetime.timedelta(days=1, seconds=43200))
    """
    if text is None:
        return None
    try:
        return int(text) if whole else float(text)
    except ValueError:
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(d|h|min|s)", text.strip())
    try:
        if found is not None and (span := float(found[1]) * UNITS[found[2]]):
            return span
    except OverflowError:
        found = None
    count = "a whole number" if whole else "a number"
    least = "" if found is None else " of at least a microsecond"
    raise ValueError(
        f"{option} must be {count} of samples, or a duration such as 7d, 12h, 30min or 45s{least},"
        f" got {text!r}"
    )


@dataclass(frozen=True)
class Settings:
    """The parameters of the calibrators."""

    calibrator: Method
    loss: str | None
    prior: float | None
    window: int | timedelta | None
    half_life: float | timedelta | None
    max_scores: int | None
    interpolation: Interpolation | None
    floor: float | None

    def check(self, columns: Columns) -> None:
        """Raise ``ValueError`` if a parameter is wrong, or does not fit the columns."""
        segment = columns.segment
        if columns.label in (columns.key, *(segment or ())):
            option = "--key" if columns.label == columns.key else "--segment"
            raise ValueError(
                f"{option} must be another column than --label, whose value is not known when a row"
                f" is predicted, got {columns.label!r}"
            )
        groups = _CALIBRATORS[self.calibrator].groups and segment is None
        if columns.group is not None and not groups:
            got = "--segment" if segment is not None else self.calibrator
            raise ValueError(f"--group needs --calibrator hedge without --segment, got {got}")
        if segment is not None:
            for name in segment:
                if segment.count(name) > 1:
                    raise ValueError(f"--segment must name different columns, got {name!r} twice")
            if self.found_loss != "log":
                raise ValueError(
                    f"--segment corrects probabilities: it needs --loss log, got {self.loss}"
                )
        if columns.sampling_rate is not None and self.found_loss != "log":
            raise ValueError(
                f"--sampling-rate corrects probabilities: it needs --loss log, got {self.loss}"
            )
        self._check_time(columns)
        self._check_propensity(columns)
        self.make_calibrator(columns)

    def _check_time(self, columns: Columns) -> None:
        """Raise ``ValueError`` unless there is a column of times, or none is needed."""
        durations = {"--half-life": self.half_life, "--window": self.window}
        given = [
            f"{option} {in_words(duration)}"
            for option, duration in durations.items()
            if isinstance(duration, timedelta)
        ]
        if given and columns.time is None:
            raise ValueError(
                f"{given[0]} is a duration: it needs --time, the column with the time of each row;"
                " without a unit it would be a number of samples"
            )
        if columns.time is not None and not given:
            raise ValueError(
                "--time needs a --half-life or --window that is a duration, such as --half-life 7d,"
                f" got --time {columns.time} without one"
            )
        _check_other("--time", columns.time, columns)

    def _check_propensity(self, columns: Columns) -> None:
        """Raise ``ValueError`` if a propensity does not fit the other options."""
        if columns.propensity is None:
            if self.floor is not None:
                raise ValueError(f"--floor needs --propensity, got {self.floor} without it")
            return
        if self.found_loss != "log":
            raise ValueError(
                "--propensity is for the labels of probabilities: it needs --loss log, got"
                f" {self.loss}"
            )
        if columns.group is not None:
            raise ValueError("--group can't be used with --propensity")
        _check_other("--propensity", columns.propensity, columns)

    def make_calibrator(self, columns: Columns) -> "Calibrator":
        """Return a new calibrator; raise ``ValueError`` if a parameter is wrong."""
        from streamcal import calibration

        made = self._make(columns.segment)
        if columns.propensity is None:
            return made
        return calibration.AuditedCalibrator(made, floor=self.found_floor)

    def _make(self, segment: list[str] | None) -> "Calibrator":
        """Return a new calibrator for labels that do not depend on propensities."""
        from streamcal import calibration

        given = {name: value for name, value in asdict(self).items() if value is not None}
        del given["calibrator"]
        given.pop("floor", None)
        kind = _CALIBRATORS[self.calibrator]
        for name in given:
            if name not in kind.options:
                option = name.replace("_", "-")
                fits = [each for each, its in _CALIBRATORS.items() if name in its.options]
                raise ValueError(
                    f"--{option} needs --calibrator {' or '.join(fits)}, got {self.calibrator}"
                )
        if self.loss is not None:
            from streamcal.losses.names import aliases_of

            check_choice(self.loss, "loss", LOSSES, aliases_of(LOSSES))
        made: calibration.Calibrator = kind.class_of(calibration)(**given)
        if segment is None:
            return made
        # Without a base, the parameters are those of `SegmentCalibrator(segment)` in Python.
        base = None if self.calibrator is Method.hedge else made
        return calibration.SegmentCalibrator(segment, base=base)

    @property
    def any_score(self) -> bool:
        """Whether any number may be a score; else it must be a probability."""
        return _CALIBRATORS[self.calibrator].any_score

    @property
    def found_floor(self) -> float:
        """The least propensity."""
        return 0.01 if self.floor is None else self.floor

    @property
    def found_loss(self) -> str:
        """The name of the loss that is minimised."""
        return self.loss or "log"

    def new_totals(self) -> Totals:
        """Return empty totals of the loss."""
        from streamcal.losses.names import get_mean

        return Totals(get_mean(self.found_loss))


def _check_other(option: str, name: str | None, columns: Columns) -> None:
    """Raise ``ValueError`` if the column of an option is that of the scores or of the labels."""
    for other, taken in {"--score": columns.score, "--label": columns.label}.items():
        if name == taken:
            raise ValueError(f"{option} must be another column than {other}, got {taken!r}")
