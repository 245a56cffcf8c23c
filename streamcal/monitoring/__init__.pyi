# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.monitoring.audited_mean import AuditedMean as AuditedMean
from streamcal.monitoring.audited_metric import AuditedMetric as AuditedMetric
from streamcal.monitoring.audits import AuditSampler as AuditSampler
from streamcal.monitoring.calibration import CalibrationTest as CalibrationTest
from streamcal.monitoring.comparison import ForecastComparison as ForecastComparison
from streamcal.monitoring.drift import CalibrationDrift as CalibrationDrift
from streamcal.monitoring.many import e_bh as e_bh

__all__: list[str]
