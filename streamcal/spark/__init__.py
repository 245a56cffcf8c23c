"""Calibration on Spark: streams with one calibrator per key, and isotonic fits of large frames.

Spark owns sources, sinks, checkpoints and recovery; here is only what it runs between them. This
package needs PySpark 4 and Java 17 or newer: ``pip install 'streamcal-river[spark]'``.
"""

try:
    import google.protobuf  # noqa: F401  (pyspark imports it when a stream starts)
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    from pyspark.sql.streaming import StatefulProcessor  # noqa: F401  (new in PySpark 4)
except ImportError as error:
    raise ImportError(
        "streamcal.spark needs PySpark 4, pandas, pyarrow and protobuf, the extra streamcal[spark]:"
        f" pip install 'streamcal-river[spark]' ({error})"
    ) from error

from streamcal.spark.stream import calibrate

__all__ = ["calibrate"]
