# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.wrappers.classifier import CalibratedClassifier as CalibratedClassifier
from streamcal.wrappers.precomputed import PrecomputedClassifier as PrecomputedClassifier
from streamcal.wrappers.regressor import CalibratedRegressor as CalibratedRegressor
from streamcal.wrappers.served import Served as Served

__all__: list[str]
