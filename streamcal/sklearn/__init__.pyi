# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.sklearn.classifier import OnlineCalibratedClassifier as OnlineCalibratedClassifier
from streamcal.sklearn.isotonic import StreamingIsotonicRegression as StreamingIsotonicRegression

__all__: list[str]
