"""River models: their types, and which arguments their methods take, in pipelines too."""

import inspect
from abc import abstractmethod
from typing import Any

from river import base, compose

from streamcal._state.clone import Cloned

Features = dict[Any, Any]
"""Features of a sample; their names are often strings, and may be any hashable values."""
AnyClassifier = base.Classifier | compose.Pipeline
AnyRegressor = base.Regressor | compose.Pipeline


class Routing(Cloned):
    """Passes to each method of the wrapped model only the extra arguments that it takes."""

    _accepted: dict[str, frozenset[str] | None]
    _passes_probabilities = False  # on, as those of the wrapped model
    _takes_time = True  # whether a method of the wrapped model takes ``t``

    @property
    @abstractmethod
    def _wrapped_model(self) -> Any: ...

    def _set_routes(self, model: base.Estimator, *methods: str) -> None:
        self._accepted = {method: accepted_arguments(model, method) for method in methods}
        self._takes_time = any(each is None or "t" in each for each in self._accepted.values())

    def _route(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that this method of the model takes."""
        accepted = self._accepted[method]
        if accepted is None:
            return arguments
        return {name: value for name, value in arguments.items() if name in accepted}

    def _call(self, method: str, /, *inputs: Any, **arguments: Any) -> Any:
        """Call a method of the model with those of the arguments that it takes."""
        function = getattr(self._wrapped_model, method)
        return function(*inputs, **self._route(method, arguments))


class BatchRouting(Routing):
    """The same for wrappers whose ``learn_many`` predicts a whole batch before it learns."""

    def _unit_test_skips(self) -> set[str]:
        # This check learns in a loop, where each prediction uses the samples before.
        skips: set[str] = self._wrapped_model._unit_test_skips()
        return skips | {"check_learn_many_matches_learn_one"}


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    while isinstance(model, compose.Pipeline):
        model = model._last_step
    return model


def name_of(thing: Any) -> str:
    """Return the name of the class of an object; of a class, that it is one."""
    return f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__


def accepted_arguments(model: Any, method: str) -> frozenset[str] | None:
    """Return the extra arguments that ``model`` takes in ``method``, None if it takes any.

    river's wrappers take any and pass them on to the model inside, so the arguments of that model
    are returned. A pipeline passes to each step what it takes, but in ``learn_many`` the last step
    gets all.
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
