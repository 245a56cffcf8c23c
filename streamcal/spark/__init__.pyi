# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.spark.fit import isotonic_fit as isotonic_fit
from streamcal.spark.stream import calibrate as calibrate

__all__: list[str]
