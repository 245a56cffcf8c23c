"""No calibration: a baseline for comparisons."""

from streamcal._state import Arrays, Fields
from streamcal.calibration.probability import CompiledCalibrator
from streamcal.export.curve import identity
from streamcal.export.description import Description
from streamcal.kernels.expert import Expert


class IdentityCalibrator(CompiledCalibrator):
    """Return the score itself; learn nothing.

    Use it as a baseline, and in a `streamcal.HedgedCalibrator` for models that are already
    calibrated.

    Examples
    --------
    >>> calibrator = IdentityCalibrator()
    >>> calibrator.learn_one(0.9, 0)
    >>> calibrator.predict_one(0.9)
    0.9
    """

    def __init__(self) -> None:
        self._kernel = Expert()

    def _describe(self) -> Description:
        return Description(identity())

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        pass
