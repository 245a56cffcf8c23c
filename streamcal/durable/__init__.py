"""Crash-safe streams: states and the stream's offset in one file, and one calibrator per key."""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
