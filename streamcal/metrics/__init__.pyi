# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.metrics.brier import BrierScore as BrierScore
from streamcal.metrics.corp import CORP as CORP
from streamcal.metrics.ece import ECE as ECE
from streamcal.metrics.expected import ExpectedMetric as ExpectedMetric
from streamcal.metrics.expected import expected_metric as expected_metric
from streamcal.metrics.multicalibration import Multicalibration as Multicalibration
from streamcal.metrics.multicalibration import MulticalibrationError as MulticalibrationError
from streamcal.metrics.multicalibration import SegmentError as SegmentError
from streamcal.metrics.multicalibration import multicalibration_error as multicalibration_error
from streamcal.metrics.ordinal import MAE as MAE
from streamcal.metrics.ordinal import MZE as MZE
from streamcal.metrics.ordinal import MacroMAE as MacroMAE
from streamcal.metrics.ordinal import OneOffAccuracy as OneOffAccuracy
from streamcal.metrics.ordinal import QuadraticKappa as QuadraticKappa
from streamcal.metrics.ordinal import RankedProbabilityScore as RankedProbabilityScore
from streamcal.metrics.rolling_corp import RollingCORP as RollingCORP
from streamcal.metrics.smooth import SmoothECE as SmoothECE
from streamcal.metrics.smooth import smooth_ece as smooth_ece
from streamcal.metrics.spiegelhalter import SpiegelhalterZ as SpiegelhalterZ

__all__: list[str]
