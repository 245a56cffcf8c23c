# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.calibration.anytime import AnytimeCalibrator as AnytimeCalibrator
from streamcal.calibration.audited import AuditedCalibrator as AuditedCalibrator
from streamcal.calibration.base import Calibrator as Calibrator
from streamcal.calibration.beta import BetaCalibrator as BetaCalibrator
from streamcal.calibration.exported import read_export as read_export
from streamcal.calibration.hedged import HedgedCalibrator as HedgedCalibrator
from streamcal.calibration.histogram import HistogramCalibrator as HistogramCalibrator
from streamcal.calibration.identity import IdentityCalibrator as IdentityCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator as IsotonicCalibrator
from streamcal.calibration.joint import JointCalibrator as JointCalibrator
from streamcal.calibration.platt import PlattCalibrator as PlattCalibrator
from streamcal.calibration.sampling import undo_sampling as undo_sampling
from streamcal.calibration.segments import SegmentCalibrator as SegmentCalibrator
from streamcal.calibration.temperature import TemperatureCalibrator as TemperatureCalibrator
from streamcal.calibration.tickets import Ticket as Ticket
from streamcal.calibration.top_label import TopLabelCalibrator as TopLabelCalibrator
from streamcal.calibration.venn_abers import VennAbersCalibrator as VennAbersCalibrator

__all__: list[str]
