# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.losses._base import Loss as Loss
from streamcal.losses._base import MeanLoss as MeanLoss
from streamcal.losses._convex import Absolute as Absolute
from streamcal.losses._convex import Expectile as Expectile
from streamcal.losses._convex import FunctionLoss as FunctionLoss
from streamcal.losses._convex import Huber as Huber
from streamcal.losses._convex import LogCosh as LogCosh
from streamcal.losses._convex import Lp as Lp
from streamcal.losses._convex import Pinball as Pinball
from streamcal.losses._convex import PseudoHuber as PseudoHuber
from streamcal.losses._convex import from_function as from_function
from streamcal.losses._mean import Exponential as Exponential
from streamcal.losses._mean import Gamma as Gamma
from streamcal.losses._mean import Linex as Linex
from streamcal.losses._mean import Log as Log
from streamcal.losses._mean import Logistic as Logistic
from streamcal.losses._mean import Poisson as Poisson
from streamcal.losses._mean import Squared as Squared
from streamcal.losses._mean import Tweedie as Tweedie
from streamcal.losses.names import LossName as LossName
from streamcal.losses.names import MeanLossName as MeanLossName
from streamcal.losses.names import TaskLossName as TaskLossName
from streamcal.losses.names import get as get
from streamcal.losses.names import get_task as get_task
from streamcal.losses.task import AbsoluteError as AbsoluteError
from streamcal.losses.task import AsymmetricError as AsymmetricError
from streamcal.losses.task import CostTable as CostTable
from streamcal.losses.task import SquaredError as SquaredError
from streamcal.losses.task import TaskLoss as TaskLoss
from streamcal.losses.task import ZeroOneError as ZeroOneError

__all__: list[str]
