"""Compiled code: structures and algorithms that know scores, labels and weights, not river."""
