"""Estimators for scikit-learn: a calibrated classifier, and isotonic regression with `partial_fit`.

They need the extra ``sklearn``: ``pip install '.[sklearn]'`` in the checkout.
"""

from streamcal._extras import missing
from streamcal._lazy import attach

try:
    import sklearn  # noqa: F401  (the modules below import its parts)
except ImportError:
    raise missing("streamcal.sklearn", "scikit-learn", "sklearn") from None

__getattr__, __dir__, __all__ = attach(__name__)
