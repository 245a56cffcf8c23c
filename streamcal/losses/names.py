"""Losses by their names."""

from collections.abc import Collection
from typing import Any, Literal, TypeVar

from streamcal._advice import did_you_mean, shown
from streamcal.losses._base import Loss, MeanLoss
from streamcal.losses._convex import Absolute, Expectile, Huber, LogCosh, Lp, Pinball, PseudoHuber
from streamcal.losses._mean import (
    Exponential,
    Gamma,
    Linex,
    Log,
    Logistic,
    Poisson,
    Squared,
    Tweedie,
)
from streamcal.losses.task import (
    AbsoluteError,
    AsymmetricError,
    SquaredError,
    TaskLoss,
    ZeroOneError,
)

_AnyLoss = TypeVar("_AnyLoss", Loss, TaskLoss)

MeanLossName = Literal[
    "squared", "log", "poisson", "gamma", "tweedie", "logistic", "exponential", "linex"
]
"""What `get_mean` knows, for type checkers."""
LossName = (
    MeanLossName
    | Literal["absolute", "pinball", "expectile", "huber", "pseudo-huber", "log-cosh", "lp"]
)
"""What `get` knows, for type checkers."""
TaskLossName = Literal["absolute", "squared", "zero-one", "asymmetric"]
"""What `get_task` knows, for type checkers."""

_BY_NAME: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Squared(),
        Log(),
        Poisson(),
        Gamma(),
        Tweedie(),
        Logistic(),
        Exponential(),
        Linex(),
        Absolute(),
        Pinball(),
        Expectile(),
        Huber(),
        PseudoHuber(),
        LogCosh(),
        Lp(),
    )
}


def get(loss: str | Loss) -> Loss:
    """Return a loss by its lower-case name, with default parameters; a `Loss` is returned as is.

    Raises
    ------
    ValueError
        If there is no loss of that name.
    TypeError
        If ``loss`` is neither a name nor a `Loss`.

    Examples
    --------
    >>> get("tweedie")
    Tweedie(power=1.5)
    >>> get("brier")
    Traceback (most recent call last):
    ...
    ValueError: `loss` must be one of 'squared', 'log', 'poisson', 'gamma', 'tweedie', \
'logistic', 'exponential', 'linex', 'absolute', 'pinball', 'expectile', 'huber', 'pseudo-huber', \
'log-cosh', 'lp' or a Loss, got 'brier'; did you mean 'squared'?
    """
    return loss if isinstance(loss, Loss) else _find(loss, _BY_NAME, "Loss")


def get_mean(loss: str | Loss) -> MeanLoss:
    """Return a loss as `get` does; it must be a `MeanLoss`.

    Raises
    ------
    TypeError
        If it is not a `MeanLoss`; the message names what accepts it.

    Examples
    --------
    >>> get_mean("logistic").link(0.75)
    1.0986
    """
    found = get(loss)
    if not isinstance(found, MeanLoss):
        raise TypeError(
            f"`loss` must be a mean-type loss (MeanLoss) here, got {found!r};"
            " AnytimeCalibrator, anytime_isotonic and PAVStack take any convex loss"
        )
    return found


_TASK_BY_NAME: dict[str, TaskLoss] = {
    loss.name: loss for loss in (AbsoluteError(), SquaredError(), ZeroOneError(), AsymmetricError())
}


def get_task(loss: str | TaskLoss) -> TaskLoss:
    """Return a task loss by its lower-case name; a `TaskLoss` is returned as is.

    Raises
    ------
    ValueError
        If there is no task loss of that name.
    TypeError
        If ``loss`` is neither a name nor a `TaskLoss`.

    Examples
    --------
    >>> get_task("zero-one")
    ZeroOneError()
    >>> get_task("log")
    Traceback (most recent call last):
    ...
    ValueError: `loss` must be one of 'absolute', 'squared', 'zero-one', 'asymmetric' or a \
TaskLoss, got 'log'
    """
    return loss if isinstance(loss, TaskLoss) else _find(loss, _TASK_BY_NAME, "TaskLoss")


_ALIASES = {
    "mse": "squared",
    "brier": "squared",
    "logloss": "log",
    "crossentropy": "log",
    "quantile": "pinball",
    "mae": "absolute",
}
"""Other words for losses, for suggestions only."""


def aliases_of(names: Collection[str]) -> dict[str, str]:
    """Return other words for some of the losses, for `did_you_mean`.

    Examples
    --------
    >>> aliases_of(["log"])
    {'logloss': 'log', 'crossentropy': 'log'}
    """
    return {word: name for word, name in _ALIASES.items() if name in names}


def _find(name: Any, losses: dict[str, _AnyLoss], kind: str) -> _AnyLoss:
    """Return the loss of a name, or raise."""
    if not isinstance(name, str):
        wanted = Loss if kind == "Loss" else TaskLoss
        raise TypeError(f"`loss` must be a name or a {kind}, got {shown(name, wanted)}")
    if name not in losses:
        names, hint = ", ".join(map(repr, losses)), did_you_mean(name, losses, aliases_of(losses))
        raise ValueError(f"`loss` must be one of {names} or a {kind}, got {name!r}{hint}")
    return losses[name]
