"""The calibrators that the options of ``streamcal calibrate`` ask for."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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


_ALL = ("loss", "prior", "window", "half_life", "max_scores", "interpolation")
# The class of each calibrator in the package `calibration`, and the options that it takes.
_CALIBRATORS: dict[Method, tuple[Callable[[Any], "type[Calibrator]"], tuple[str, ...]]] = {
    Method.hedge: (lambda package: package.HedgedCalibrator, ()),
    Method.isotonic: (lambda package: package.IsotonicCalibrator, _ALL),
    Method.platt: (lambda package: package.PlattCalibrator, ("half_life",)),
    Method.beta: (lambda package: package.BetaCalibrator, ("half_life",)),
    Method.histogram: (lambda package: package.HistogramCalibrator, ("half_life",)),
}
LOSSES = ("log", "squared", "poisson", "gamma", "tweedie", "linex", "logistic", "exponential")


@dataclass(frozen=True)
class Settings:
    """The parameters of the calibrators."""

    calibrator: Method
    loss: str | None
    prior: float | None
    window: int | None
    half_life: float | None
    max_scores: int | None
    interpolation: Interpolation | None

    def check(self, columns: Columns) -> None:
        """Raise ``ValueError`` if a parameter is wrong, or does not fit the columns."""
        segment = columns.segment
        if columns.label in (columns.key, *(segment or ())):
            option = "--key" if columns.label == columns.key else "--segment"
            raise ValueError(
                f"{option} must be another column than --label, whose value is not known when a row"
                f" is predicted, got {columns.label!r}"
            )
        if columns.group is not None and (segment is not None or self.calibrator != Method.hedge):
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
        self.make_calibrator(segment)

    def make_calibrator(self, segment: list[str] | None) -> "Calibrator":
        """Return a new calibrator; raise ``ValueError`` if a parameter is wrong."""
        from streamcal import calibration

        given = {name: value for name, value in asdict(self).items() if value is not None}
        del given["calibrator"]
        class_of, options = _CALIBRATORS[self.calibrator]
        for name in given:
            if name not in options:
                option = name.replace("_", "-")
                fit = " or ".join(each for each, (_, its) in _CALIBRATORS.items() if name in its)
                raise ValueError(f"--{option} needs --calibrator {fit}, got {self.calibrator}")
        if self.loss is not None:
            check_choice(self.loss, "loss", LOSSES)
        made: calibration.Calibrator = class_of(calibration)(**given)
        if segment is None:
            return made
        # Without a base, the parameters are those of `SegmentCalibrator(segment)` in Python.
        base = None if self.calibrator is Method.hedge else made
        return calibration.SegmentCalibrator(segment, base=base)

    @property
    def found_loss(self) -> str:
        """The name of the loss that is minimised."""
        return self.loss or "log"

    def new_totals(self) -> Totals:
        """Return empty totals of the loss."""
        from streamcal.losses.names import get_mean

        return Totals(get_mean(self.found_loss))
