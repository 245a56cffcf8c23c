# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.plot.accuracy_coverage import AccuracyCoverageDisplay as AccuracyCoverageDisplay
from streamcal.plot.accuracy_coverage_curve import AccuracyCoverageCurve as AccuracyCoverageCurve
from streamcal.plot.miscalibration import MiscalibrationDisplay as MiscalibrationDisplay
from streamcal.plot.reliability import ReliabilityDisplay as ReliabilityDisplay
from streamcal.plot.reliability_curve import ReliabilityCurve as ReliabilityCurve
from streamcal.plot.thresholds import ThresholdDisplay as ThresholdDisplay
from streamcal.plot.utility import UtilityCurveDisplay as UtilityCurveDisplay
from streamcal.plot.weights import HedgeWeightsDisplay as HedgeWeightsDisplay

__all__: list[str]
