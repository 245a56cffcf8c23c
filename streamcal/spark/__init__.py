"""Calibration on Spark: streams with one calibrator per key, and isotonic fits of large frames.

Spark handles sources, sinks, checkpoints and recovery; this package has the step between them. It
needs PySpark 4.1 and Java 17 or newer: ``pip install '.[spark]'`` in the checkout.
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from streamcal.spark.fit import isotonic_fit
    from streamcal.spark.stream import calibrate

__all__ = ["calibrate", "isotonic_fit"]

# Loaded at the first access: processes of Spark that only bundle rows need no calibrators.
_HOME = {"calibrate": "streamcal.spark.stream", "isotonic_fit": "streamcal.spark.fit"}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
