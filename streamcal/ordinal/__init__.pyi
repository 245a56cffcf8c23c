# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.ordinal import cusum_layer as cusum_layer
from streamcal.ordinal.classifier import ThresholdClassifier as ThresholdClassifier
from streamcal.ordinal.cusum import CuSumRank as CuSumRank
from streamcal.ordinal.cusum import PACuSumRank as PACuSumRank
from streamcal.ordinal.cusum import PRank as PRank
from streamcal.ordinal.cusum import mistake_bound as mistake_bound
from streamcal.ordinal.fourier import RandomFourierFeatures as RandomFourierFeatures
from streamcal.ordinal.kernel_cusum import KernelCuSumRank as KernelCuSumRank
from streamcal.ordinal.streaming import StreamingThresholds as StreamingThresholds
from streamcal.ordinal.thresholds import Thresholds as Thresholds
from streamcal.ordinal.thresholds import optimal_thresholds as optimal_thresholds

__all__: list[str]
