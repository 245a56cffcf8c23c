"""Votes of rules: a small integer for each class instead of a distribution over classes."""

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
