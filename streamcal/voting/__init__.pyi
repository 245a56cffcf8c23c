# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.voting.classifier import VoteClassifier as VoteClassifier
from streamcal.voting.votes import multilabel_bound as multilabel_bound
from streamcal.voting.votes import multilabel_weights as multilabel_weights
from streamcal.voting.votes import optimal_votes as optimal_votes
from streamcal.voting.votes import search_votes as search_votes
from streamcal.voting.votes import two_class_votes as two_class_votes
from streamcal.voting.votes import votes_loss as votes_loss

__all__: list[str]
