"""Votes of rules and leaves: a small integer for each class in place of a probability."""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
