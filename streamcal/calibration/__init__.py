"""Calibrators map scores to calibrated values, one sample at a time.

Each name loads its module when it is first used.
"""

from typing import TYPE_CHECKING

from streamcal._lazy import attach

if TYPE_CHECKING:
    from streamcal.calibration.anytime import AnytimeCalibrator
    from streamcal.calibration.base import Calibrator
    from streamcal.calibration.beta import BetaCalibrator
    from streamcal.calibration.hedged import HedgedCalibrator
    from streamcal.calibration.histogram import HistogramCalibrator
    from streamcal.calibration.identity import IdentityCalibrator
    from streamcal.calibration.isotonic import IsotonicCalibrator
    from streamcal.calibration.joint import JointCalibrator
    from streamcal.calibration.platt import PlattCalibrator
    from streamcal.calibration.sampling import undo_sampling
    from streamcal.calibration.segments import SegmentCalibrator, SegmentTicket
    from streamcal.calibration.temperature import TemperatureCalibrator
    from streamcal.calibration.tickets import Ticket
    from streamcal.calibration.top_label import TopLabelCalibrator
    from streamcal.calibration.venn_abers import VennAbersCalibrator

__all__ = [
    "AnytimeCalibrator",
    "BetaCalibrator",
    "Calibrator",
    "HedgedCalibrator",
    "HistogramCalibrator",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "JointCalibrator",
    "PlattCalibrator",
    "SegmentCalibrator",
    "SegmentTicket",
    "TemperatureCalibrator",
    "Ticket",
    "TopLabelCalibrator",
    "VennAbersCalibrator",
    "undo_sampling",
]

_HOME = {
    "AnytimeCalibrator": "anytime",
    "BetaCalibrator": "beta",
    "Calibrator": "base",
    "HedgedCalibrator": "hedged",
    "HistogramCalibrator": "histogram",
    "IdentityCalibrator": "identity",
    "IsotonicCalibrator": "isotonic",
    "JointCalibrator": "joint",
    "PlattCalibrator": "platt",
    "SegmentCalibrator": "segments",
    "SegmentTicket": "segments",
    "TemperatureCalibrator": "temperature",
    "Ticket": "tickets",
    "TopLabelCalibrator": "top_label",
    "VennAbersCalibrator": "venn_abers",
    "undo_sampling": "sampling",
}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
