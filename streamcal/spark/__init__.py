"""Calibration on Spark: streams with one calibrator per key, and isotonic fits of large frames.

Spark handles sources, sinks, checkpoints and recovery; this package has the step between them. It
needs PySpark 4.1 and Java 17 or newer: ``pip install '.[spark]'`` in the checkout.
"""

from streamcal._extras import missing
from streamcal._lazy import attach

try:
    import google.protobuf  # noqa: F401  (pyspark imports it when a stream starts)
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    from pyspark.sql import GroupedData

    GroupedData.transformWithState  # noqa: B018  (new in PySpark 4.1)
except (AttributeError, ImportError) as error:
    needs = f"PySpark 4.1, pandas, pyarrow and protobuf ({error})"
    raise missing("streamcal.spark", needs, "spark") from error

__getattr__, __dir__, __all__ = attach(__name__)
