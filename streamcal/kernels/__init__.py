"""Compiled kernels: pure functions on arrays, no classes, no input checks."""
