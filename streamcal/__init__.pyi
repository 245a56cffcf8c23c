# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal import calibration as calibration
from streamcal import decision as decision
from streamcal import durable as durable
from streamcal import isotonic as isotonic
from streamcal import losses as losses
from streamcal import metrics as metrics
from streamcal import monitoring as monitoring
from streamcal import ordinal as ordinal
from streamcal import plot as plot
from streamcal import sklearn as sklearn
from streamcal import spark as spark
from streamcal import voting as voting
from streamcal import wrappers as wrappers
from streamcal.calibration import AnytimeCalibrator as AnytimeCalibrator
from streamcal.calibration import BetaCalibrator as BetaCalibrator
from streamcal.calibration import Calibrator as Calibrator
from streamcal.calibration import HedgedCalibrator as HedgedCalibrator
from streamcal.calibration import HistogramCalibrator as HistogramCalibrator
from streamcal.calibration import IdentityCalibrator as IdentityCalibrator
from streamcal.calibration import IsotonicCalibrator as IsotonicCalibrator
from streamcal.calibration import JointCalibrator as JointCalibrator
from streamcal.calibration import PlattCalibrator as PlattCalibrator
from streamcal.calibration import SegmentCalibrator as SegmentCalibrator
from streamcal.calibration import TemperatureCalibrator as TemperatureCalibrator
from streamcal.calibration import Ticket as Ticket
from streamcal.calibration import TopLabelCalibrator as TopLabelCalibrator
from streamcal.calibration import VennAbersCalibrator as VennAbersCalibrator
from streamcal.calibration import undo_sampling as undo_sampling
from streamcal.decision import DecisionClassifier as DecisionClassifier
from streamcal.decision import EUMThreshold as EUMThreshold
from streamcal.decision import maximize as maximize
from streamcal.durable.keyed import KeyedCalibrator as KeyedCalibrator
from streamcal.isotonic import AnytimeStaircase as AnytimeStaircase
from streamcal.isotonic import PAVStack as PAVStack
from streamcal.isotonic import Staircase as Staircase
from streamcal.isotonic import anytime_isotonic as anytime_isotonic
from streamcal.isotonic import anytime_isotonic_refinements as anytime_isotonic_refinements
from streamcal.isotonic import isotonic_fit as isotonic_fit
from streamcal.isotonic import isotonic_fit_sharded as isotonic_fit_sharded
from streamcal.ordinal import StreamingThresholds as StreamingThresholds
from streamcal.ordinal import ThresholdClassifier as ThresholdClassifier
from streamcal.ordinal import Thresholds as Thresholds
from streamcal.ordinal import optimal_thresholds as optimal_thresholds
from streamcal.voting import VoteClassifier as VoteClassifier
from streamcal.wrappers import CalibratedClassifier as CalibratedClassifier
from streamcal.wrappers import CalibratedRegressor as CalibratedRegressor
from streamcal.wrappers import PrecomputedClassifier as PrecomputedClassifier
from streamcal.wrappers import Served as Served

__all__: list[str]
__version__: str
