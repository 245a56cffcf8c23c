"""Votes of rules and leaves: a small integer for each class in place of a probability."""

from streamcal.voting.classifier import VoteClassifier
from streamcal.voting.votes import (
    multilabel_bound,
    multilabel_weights,
    optimal_votes,
    search_votes,
    two_class_votes,
    votes_loss,
)

__all__ = [
    "VoteClassifier",
    "multilabel_bound",
    "multilabel_weights",
    "optimal_votes",
    "search_votes",
    "two_class_votes",
    "votes_loss",
]
