# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.decision.budget import ReviewBudget as ReviewBudget
from streamcal.decision.classifier import DecisionClassifier as DecisionClassifier
from streamcal.decision.classifier import claim_gap as claim_gap
from streamcal.decision.eum import EUMThreshold as EUMThreshold
from streamcal.decision.goals import AM as AM
from streamcal.decision.goals import GTPPR as GTPPR
from streamcal.decision.goals import MCC as MCC
from streamcal.decision.goals import SEC as SEC
from streamcal.decision.goals import Accuracy as Accuracy
from streamcal.decision.goals import FBeta as FBeta
from streamcal.decision.goals import FractionalLinear as FractionalLinear
from streamcal.decision.goals import GMean as GMean
from streamcal.decision.goals import HMean as HMean
from streamcal.decision.goals import Jaccard as Jaccard
from streamcal.decision.goals import Kappa as Kappa
from streamcal.decision.goals import QMean as QMean
from streamcal.decision.goals import Tversky as Tversky
from streamcal.decision.goals import get_metric as get_metric
from streamcal.decision.maximization import Counts as Counts
from streamcal.decision.maximization import Decision as Decision
from streamcal.decision.maximization import expected_utility as expected_utility
from streamcal.decision.maximization import maximize as maximize
from streamcal.decision.maximization import utility_curve as utility_curve
from streamcal.decision.metric import Metric as Metric
from streamcal.decision.prediction_sets import PredictionSetClassifier as PredictionSetClassifier
from streamcal.decision.selective import Promise as Promise
from streamcal.decision.selective import Selection as Selection
from streamcal.decision.selective import SelectiveClassifier as SelectiveClassifier
from streamcal.decision.stream import MicroBatcher as MicroBatcher
from streamcal.decision.stream import evaluate as evaluate

__all__: list[str]
