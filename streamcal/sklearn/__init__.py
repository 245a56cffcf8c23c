"""Estimators for scikit-learn: a calibrated classifier, and isotonic regression with `partial_fit`.

They need the extra ``sklearn``: ``pip install '.[sklearn]'`` in the checkout.
"""

from streamcal._extras import missing

try:
    import sklearn  # noqa: F401  (the modules below import its parts)
except ImportError:
    raise missing("streamcal.sklearn", "scikit-learn", "sklearn") from None

from streamcal.sklearn.classifier import OnlineCalibratedClassifier
from streamcal.sklearn.isotonic import StreamingIsotonicRegression

__all__ = ["OnlineCalibratedClassifier", "StreamingIsotonicRegression"]
