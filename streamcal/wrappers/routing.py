"""River models: their types, and which arguments their methods take, in pipelines too."""

import inspect
import sys
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from river import base, compose

from streamcal._advice import did_you_mean
from streamcal._state.clone import Cloned

Features = dict[Any, Any]
"""Features of a sample; their names are often strings, and may be any hashable values."""
AnyClassifier = base.Classifier | compose.Pipeline
AnyRegressor = base.Regressor | compose.Pipeline

OWN_ARGUMENTS = frozenset({"w", "t", "served", "decided", "propensity"})
"""The extra arguments that wrappers have; where a wrapper or its model takes none, it is ignored.

So one call fits wrappers in each other, and models with and without weights.
"""
_METHODS = (
    *("learn_one", "predict_one", "predict_proba_one", "score_one"),
    *("learn_many", "predict_many", "predict_proba_many"),
)


class Routing(Cloned):
    """Passes to each method of the wrapped model only the extra arguments that it takes.

    An argument that another one of its methods takes is ignored, since river's loops over a stream
    pass the same to all methods; so are `OWN_ARGUMENTS`. Any other name is an error, except from a
    pipeline of river: that passes what is for other steps, too, and ignores what no step takes.
    """

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
        taken = {name: value for name, value in arguments.items() if name in accepted}
        if len(taken) < len(arguments):
            self._check_arguments(arguments)
        return taken

    def _check_arguments(self, arguments: Iterable[str]) -> None:
        """Raise if an argument has a name that no method of the wrapper or of the model takes."""
        others = [name for name in arguments if name not in OWN_ARGUMENTS]
        if not others or _is_called_by_pipeline():
            return
        of_model = _all_arguments(self._wrapped_model)
        unknown = [] if of_model is None else [name for name in others if name not in of_model]
        for name in unknown:
            known = sorted(_named_arguments(type(self)) | (of_model or frozenset()))
            raise TypeError(
                f"arguments of {type(self).__name__} must be among {known}, which it or the model"
                f" takes, got {name!r}{did_you_mean(name, known)}"
            )

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
        return _union([accepted_arguments(step, method) for step in steps])
    function = getattr(type(model), method, None)
    if function is base.Classifier.predict_one:
        return accepted_arguments(model, "predict_proba_one")  # which gets them
    if function is None:
        return frozenset()
    parameters = inspect.signature(function).parameters.values()
    named = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
    named -= {"self", "x", "X", "y"}
    if all(p.kind is not p.VAR_KEYWORD for p in parameters):
        return named
    if not isinstance(model, base.Wrapper):
        # Our own classifiers have the signature of river's base class, and ignore the rest.
        return named if function.__module__.startswith("streamcal.") else None
    inside = accepted_arguments(model._wrapped_model, method)
    return None if inside is None else named | inside


def _all_arguments(model: Any) -> frozenset[str] | None:
    """Return the extra arguments that methods of a model take, None if one takes any."""
    return _union([accepted_arguments(model, method) for method in _METHODS])


def _union(accepted: list[frozenset[str] | None]) -> frozenset[str] | None:
    """Return all of these names, None if one of these takes any."""
    named = [names for names in accepted if names is not None]
    return frozenset[str]().union(*named) if len(named) == len(accepted) else None


def _named_arguments(kind: type) -> frozenset[str]:
    """Return the extra arguments that methods of a wrapper have by name."""
    functions = [getattr(kind, method) for method in _METHODS if hasattr(kind, method)]
    names = {name for function in functions for name in inspect.signature(function).parameters}
    return OWN_ARGUMENTS & names


def _is_called_by_pipeline() -> bool:
    """Return whether what calls this package is a pipeline of river."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("streamcal."):
        frame = frame.f_back
    return frame.f_globals.get("__name__") == compose.Pipeline.__module__
