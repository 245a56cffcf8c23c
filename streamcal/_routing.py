"""Which keyword arguments a river model takes: what a wrapper may hand on to the model inside."""

import inspect
from typing import Any

from river import base, compose


def accepted_arguments(model: Any, method: str) -> frozenset[str] | None:
    """Return the extra arguments that ``model`` takes in ``method``, None if it takes any.

    river's wrappers take any and hand them on, so what counts is the model inside. A pipeline hands
    each step what the step takes, but in ``learn_many`` the last step gets everything.
    """
    if isinstance(model, compose.Pipeline):
        steps = list(model.steps.values()) if method == "learn_one" else [model._last_step]
        accepted: frozenset[str] = frozenset()
        for step in steps:
            names = accepted_arguments(step, method)
            if names is None:
                return None
            accepted |= names
        return accepted
    function = getattr(type(model), method, None)
    if function is None:
        return frozenset()
    parameters = inspect.signature(function).parameters.values()
    named = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
    named -= {"self", "x", "X", "y"}
    if all(p.kind is not p.VAR_KEYWORD for p in parameters):
        return named
    if not isinstance(model, base.Wrapper):
        return None
    inside = accepted_arguments(model._wrapped_model, method)
    return None if inside is None else named | inside
