"""Checks of input, with one message for each kind of error.

A message names the argument, the requirement and the value, in that order. Checks of arrays add the
position of the first bad value, so that its row in a file can be found.
"""

import json
import math
import sys
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._advice import (
    NO_ALIASES,
    about_number,
    about_probability,
    about_shape,
    about_text,
    about_values,
    did_you_mean,
    shown,
)

# Sums, products and quotients of weights up to LARGEST are finite.
SMALLEST, LARGEST = 1e-60, 1e60
# Kernels count in floats, which are exact for integers up to this one.
MOST_COUNT = 2**53
_FLOAT64 = np.dtype(np.float64)
# The range of probabilities: sums of probabilities may leave [0, 1] by rounding errors.
LEAST_PROBABILITY, MOST_PROBABILITY = -1e-9, 1.0 + 1e-9
_MOST_BITS = 14_284  # of an int with 4,300 digits, the most that Python reads
SHORTEST_HALF_LIFE = 0.1  # a sample reduces earlier weights by a factor of 2**10 at most


def as_score(value: Any, name: str = "score") -> float:
    """Return ``value`` as a finite Python float.

    Raises
    ------
    TypeError
        If ``value`` is not a real number.
    ValueError
        If ``value`` is NaN or infinite.

    Examples
    --------
    >>> as_score(3)
    3.0
    """
    number = value if type(value) is float else as_number(value, name)
    if not math.isfinite(number):
        raise ValueError(f"`{name}` must be a finite number, got {number}")
    return number


def as_weight(value: Any, name: str = "w") -> float:
    """Return ``value`` as a Python float from 1e-60 to 1e60, or raise as `as_score` does.

    Examples
    --------
    >>> as_weight(2)
    2.0
    """
    number = value if type(value) is float else as_number(value, name)
    if not SMALLEST <= number <= LARGEST:
        raise ValueError(_weight_rule(name, number))
    return number


def _weight_rule(name: str, number: float, where: str = "") -> str:
    if 0.0 < number < math.inf:
        return f"`{name}` must be from {SMALLEST:g} to {LARGEST:g}, got {number}{where}"
    return f"`{name}` must be a positive finite number, got {number}{where}"


def as_number(value: Any, name: str) -> float:
    """Return ``value`` as a Python float; strings and other non-numbers raise ``TypeError``.

    Examples
    --------
    >>> as_number(True, "y")
    1.0
    """
    if isinstance(value, (str, bytes)):  # a tuple is faster than a union
        raise TypeError(f"`{name}` must be a number, got {value!r}{about_text(value, name)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"`{name}` must be a finite number, got one beyond 1e308") from None
    except (TypeError, ValueError):
        hint = about_number(value, name)
        raise TypeError(f"`{name}` must be a number, got {shown(value)}{hint}") from None


def as_probability(value: Any, name: str = "score") -> float:
    """Return ``value`` as a Python float in [0, 1], or raise; rounding errors are clipped.

    Examples
    --------
    >>> as_probability(1.0 + 1e-12)
    1.0
    """
    p = value if type(value) is float else as_number(value, name)
    if 0.0 <= p <= 1.0:
        return p
    if LEAST_PROBABILITY <= p <= MOST_PROBABILITY:
        return min(max(p, 0.0), 1.0)
    hint = about_probability(p, name)
    raise ValueError(f"`{name}` must be a probability in [0, 1], got {p}{hint}")


def as_propensity(propensity: Any, floor: float) -> float:
    """Return the probability with which a label was asked for, or raise.

    Examples
    --------
    >>> as_propensity(1, 0.02)
    1.0
    """
    if propensity is None:
        raise TypeError(
            "`propensity` must be the probability with which the label was asked for, got None;"
            " pass propensity=1.0 for a sample that is always labelled"
        )
    number = as_number(propensity, "propensity")
    if not floor <= number <= 1.0:
        raise ValueError(
            f"`propensity` must be from {floor:g}, the `floor`, to 1, got {propensity}"
        )
    return number


def check_mapping(raw: Any) -> None:
    """Raise ``TypeError`` unless what a model predicts is a mapping from labels.

    Examples
    --------
    >>> check_mapping([0.25, 0.75])
    Traceback (most recent call last):
    ...
    TypeError: `predict_proba_one` of the model must return a dict from labels, got [0.25, 0.75]
    """
    if not isinstance(raw, Mapping):
        raise TypeError(
            f"`predict_proba_one` of the model must return a dict from labels, got {raw!r}"
        )


def check_probability_range(probabilities: Mapping[Any, float]) -> None:
    """Raise unless all probabilities of one sample lie in [0, 1], up to rounding errors.

    Examples
    --------
    >>> check_probability_range({"spam": -1.5})
    Traceback (most recent call last):
    ...
    ValueError: probabilities must lie in [0, 1], got {'spam': -1.5}; apply the logistic function \
1 / (1 + exp(-z)) to logits
    """
    for p in probabilities.values():
        if not LEAST_PROBABILITY <= p <= MOST_PROBABILITY:
            hint = "" if p != p else about_probability(p, "")
            raise ValueError(f"probabilities must lie in [0, 1], got {probabilities}{hint}")


def as_vector(values: ArrayLike, name: str, *, finite: bool = True) -> NDArray[np.float64]:
    """Return ``values`` as a contiguous float64 vector of shape ``(n_samples,)``.

    Raises
    ------
    TypeError
        If ``values`` are not real numbers.
    ValueError
        If they are not one-dimensional, one of them is masked or, with ``finite``, one of them is
        NaN or infinite.

    Examples
    --------
    >>> as_vector([1, 2], "scores")
    array([1., 2.])
    """
    array = np.asarray(values)
    if array is not values:
        check_no_mask(values, name)
    if array.dtype is _FLOAT64 and array.ndim == 1 and array.flags.carray:
        return _finite(array, name) if finite else array
    if array.dtype.kind not in "fiub":
        if array.size:
            hint = about_values(array, name)
            raise TypeError(f"`{name}` must hold real numbers, got dtype {array.dtype}{hint}")
        array = array.astype(np.float64)
    if array.ndim != 1:
        hint = about_shape(values, array.shape, name)
        raise ValueError(f"`{name}` must be one-dimensional, got shape {array.shape}{hint}")
    # Columns of data frames are often read-only, which some kernels do not take.
    vector = np.require(array, dtype=np.float64, requirements=["C", "W"])
    return _finite(vector, name) if finite else vector


def _finite(vector: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    finite = np.isfinite(vector)
    if not finite.all():
        at = int(np.argmin(finite))
        raise ValueError(
            f"`{name}` must be finite, got {vector[at]} at position {at}; leave such samples out"
        )
    return vector


def as_probabilities(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return ``values`` as a vector in [0, 1], or raise; rounding errors are clipped.

    Examples
    --------
    >>> as_probabilities([0.5, 1.0 + 1e-12], "scores")
    array([0.5, 1. ])
    """
    vector = as_vector(values, name)
    outside = (vector < 0.0) | (vector > 1.0)
    if not outside.any():
        return vector
    far = (vector < LEAST_PROBABILITY) | (vector > MOST_PROBABILITY)
    if far.any():
        at = int(np.argmax(far))
        hint = about_probability(float(vector[at]), name)
        raise ValueError(f"`{name}` must lie in [0, 1], got {vector[at]} at position {at}{hint}")
    return vector.clip(0.0, 1.0)


def check_no_mask(values: Any, name: str) -> None:
    """Raise ``ValueError`` if a value of an array is masked: `numpy.asarray` would uncover it.

    Examples
    --------
    >>> check_no_mask(np.ma.array([1.0, 2.0], mask=[False, True]), "scores")
    Traceback (most recent call last):
    ...
    ValueError: `scores` must have no masked values, got one at position 1
    """
    # Anything but an array may have an attribute of this name that means something else.
    masked = getattr(values, "mask", None) if isinstance(values, np.ndarray) else None
    if isinstance(masked, np.ndarray | np.bool_) and masked.any():
        at = int(np.argmax(masked))
        raise ValueError(f"`{name}` must have no masked values, got one at position {at}")


def as_weights(w: ArrayLike | None, n_samples: int, name: str = "w") -> NDArray[np.float64]:
    """Return weights of shape ``(n_samples,)``, ones if ``w`` is None.

    Raises
    ------
    ValueError
        If a weight is not from 1e-60 to 1e60, or their number differs.

    Examples
    --------
    >>> as_weights(None, 2)
    array([1., 1.])
    """
    if w is None:
        return np.ones(n_samples)
    vector = as_vector(w, name, finite=False)
    check_same_length(vector, n_samples, name)
    good = (vector >= SMALLEST) & (vector <= LARGEST)
    if not good.all():
        at = int(np.argmin(good))
        raise ValueError(_weight_rule(name, float(vector[at]), f" at position {at}"))
    return vector


def check_same_length(vector: NDArray[Any], n_samples: int, name: str) -> None:
    """Raise ``ValueError`` unless ``vector`` holds one value per score."""
    if len(vector) != n_samples:
        raise ValueError(f"`{name}` must have one value per score ({n_samples}), got {len(vector)}")


def check_order(scores: Any, vector: NDArray[np.float64], labels: NDArray[np.float64]) -> None:
    """Raise ``ValueError`` if scores are ints or booleans, all 0 or 1, and labels are not.

    Then two arguments were swapped. ``vector`` has the scores as floats.

    Examples
    --------
    >>> check_order([1, 0, 1], np.array([1.0, 0.0, 1.0]), np.array([0.25, 0.75, 0.5]))
    Traceback (most recent call last):
    ...
    ValueError: `scores` must come before `y`, got 0 and 1 as scores, and 0.25 as a label; \
if that is meant, scores must be floats
    """
    if len(vector) < 2 or np.asarray(scores).dtype.kind not in "bui":
        return
    shares = (labels > 0.0) & (labels < 1.0)
    if shares.any() and ((vector == 0.0) | (vector == 1.0)).all():
        raise ValueError(
            "`scores` must come before `y`, got 0 and 1 as scores, and"
            f" {labels[np.argmax(shares)]} as a label; if that is meant, scores must be floats"
        )


def check_choice(
    value: Any, name: str, choices: tuple[str, ...], aliases: Mapping[str, str] = NO_ALIASES
) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``; see `did_you_mean`.

    Examples
    --------
    >>> check_choice("cubic", "interpolation", ("step", "linear"))
    Traceback (most recent call last):
    ...
    ValueError: `interpolation` must be one of 'step', 'linear', got 'cubic'
    """
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        hint = did_you_mean(value, choices, aliases)
        raise ValueError(f"`{name}` must be one of {listed}, got {shown(value)}{hint}")


def check_bool(value: Any, name: str) -> None:
    """Raise ``TypeError`` unless ``value`` is True or False.

    Examples
    --------
    >>> check_bool("no", "background")
    Traceback (most recent call last):
    ...
    TypeError: `background` must be True or False, got 'no'
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"`{name}` must be True or False, got {shown(value)}")


def check_label(y: Any, name: str = "y") -> None:
    """Raise unless ``y`` can be a label: None and NaN stand for one that is missing.

    Raises
    ------
    ValueError
        If it is missing.
    TypeError
        If it is a list, an array or a dict.

    Examples
    --------
    >>> check_label(None)
    Traceback (most recent call last):
    ...
    ValueError: `y` must be a label, got None
    """
    if y is True or y is False:  # obviously
        return
    if type(y).__hash__ is None and (isinstance(y, list | dict | set) or getattr(y, "ndim", 0) > 0):
        raise TypeError(f"`{name}` must be one label, got {shown(y)}{_about_label(y, name)}")
    if is_missing(y):
        raise ValueError(f"`{name}` must be a label, got {y}")


def _about_label(y: Any, name: str) -> str:
    """Return what to pass in the place of a value that is no single label."""
    if isinstance(y, Mapping):
        before = "the label comes before the prediction"
        return f"; {before if name == 'y_true' else 'features come before the label'}"
    return about_number(y, name)


def is_missing(y: Any) -> bool:
    """Return whether None, NaN or ``pandas.NA`` stands for a label.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    try:
        return y is None or bool(y != y)
    except (ArithmeticError, TypeError):  # a decimal that is a signaling NaN; `pandas.NA`
        return True


def check_label_kind(label: Any, pos_val: Any) -> None:
    """Raise if just one of them is a str: every sample would silently count as negative."""
    if isinstance(label, str) != isinstance(pos_val, str):
        raise _not_beside(label, pos_val)


def check_beside(label: Any, pos_val: Any) -> None:
    """Raise if a label can't be one beside ``pos_val``: it would silently count as negative.

    Just one of them is a str, or ``pos_val`` is True or False and the label neither 0 nor 1.
    """
    if not are_beside(label, pos_val):
        raise _not_beside(label, pos_val)


def are_beside(label: Any, other: Any) -> bool:
    """Return whether two labels can be of one stream; see `check_beside`.

    Examples
    --------
    >>> are_beside("a", "b"), are_beside(1, "1"), are_beside(2, True)
    (True, False, False)
    """
    if type(label) is bool and type(other) is bool:  # obviously
        return True
    if isinstance(label, str) != isinstance(other, str):
        return False
    return not (isinstance(other, bool | np.bool_) and label != 0 and label != 1)


def check_among(y: Any, labels: Collection[Any], name: str = "y", which: str = "predicted") -> None:
    """Raise if a label can't be one beside any of those predicted: it would silently be wrong.

    Examples
    --------
    >>> check_among(3, [1, 2])
    >>> check_among("1", [1, 2])
    Traceback (most recent call last):
    ...
    ValueError: `y` must be a label as those predicted, [1, 2], got '1'
    """
    if not any(are_beside(y, label) for label in labels):
        among = shown(list(labels))
        raise ValueError(f"`{name}` must be a label as those {which}, {among}, got {y!r}")


def _not_beside(label: Any, pos_val: Any) -> ValueError:
    hint = f"write pos_val={label!r} if that is the positive label"
    if isinstance(label, float | np.floating) and label % 1.0 != 0.0:
        hint = "labels come first, then predictions"
    return ValueError(
        f"`pos_val` must be one of the labels, such as {label!r}, got {pos_val!r}; {hint}"
    )


def check_count(
    n: Any, name: str, least: int = 1, most: int = MOST_COUNT, *, optional: bool = False
) -> None:
    """Raise ``ValueError`` unless ``n`` is an int from ``least`` to ``most`` or, if optional, None.

    Examples
    --------
    >>> check_count(-3, "window", optional=True)
    Traceback (most recent call last):
    ...
    ValueError: `window` must be a positive int or None, got -3
    """
    if optional and n is None:
        return
    is_int = isinstance(n, int | np.integer) and not isinstance(n, bool)
    if is_int and least <= n <= most:
        return
    if most < MOST_COUNT:
        rule = f"an int from {least} to {most}"
    elif is_int and n > most:
        rule = "an int of at most 2**53"
    else:
        rule = "a positive int" if least == 1 else f"an int of at least {least}"
    or_none = " or None" if optional else ""
    got = f"one beyond {LARGEST:g}" if is_int and abs(n) > LARGEST else shown(n)
    raise ValueError(f"`{name}` must be {rule}{or_none}, got {got}{_about_count(n)}")


def _about_count(n: Any) -> str:
    """Return what to write for a number that is whole, but no int."""
    try:
        whole = int(float(n)) if isinstance(n, str | float | np.floating) else None
    except (OverflowError, ValueError):
        return ""
    return f"; write {whole}" if whole is not None and float(n) == whole else ""


def as_within(value: Any, name: str, interval: str) -> float:
    """Return ``value`` as a Python float in an interval, written as in messages and in docstrings.

    Examples
    --------
    >>> as_within(0.5, "tau", "(0, 1)")
    0.5
    >>> as_within(1, "l2", "[0, 1)")
    Traceback (most recent call last):
    ...
    ValueError: `l2` must lie in [0, 1), got 1
    """
    low, high, has_low, has_high = _ends_of(interval)
    number = as_number(value, name)
    if low < number < high or (has_low and number == low) or (has_high and number == high):
        return number
    raise ValueError(f"`{name}` must lie in {interval}, got {shown(value)}")


def as_share(value: Any, name: str, interval: str = "(0, 1)") -> float:
    """Return a share in an interval, or raise; a percentage is told what to write.

    Examples
    --------
    >>> as_share(95, "target")
    Traceback (most recent call last):
    ...
    ValueError: `target` must lie in (0, 1), got 95; divide percentages by 100
    """
    try:
        return as_within(value, name, interval)
    except ValueError as error:
        hint = "; divide percentages by 100" if 1.0 < value <= 100.0 else ""
        raise ValueError(f"{error}{hint}") from None


def check_within(value: Any, name: str, interval: str) -> None:
    """Raise unless ``value`` is a number in an interval or, if that ends so, None.

    Examples
    --------
    >>> check_within(None, "tol", "(0, inf) or None")
    """
    if value is not None or not interval.endswith(" or None"):
        as_within(value, name, interval)


@cache
def _ends_of(interval: str) -> tuple[float, float, bool, bool]:
    """Return the ends of an interval, and whether they belong to it."""
    text = interval.removesuffix(" or None")
    low, high = map(float, text[1:-1].split(","))
    return low, high, text[0] == "[", text[-1] == "]"


def check_half_life(half_life: Any) -> None:
    """Raise unless ``half_life`` is a number of samples, of at least 0.1, or None.

    Examples
    --------
    >>> check_half_life(0)
    Traceback (most recent call last):
    ...
    ValueError: `half_life` must lie in [0.1, inf) or None, got 0
    """
    if half_life is not None:  # quicker than a call
        check_within(half_life, "half_life", f"[{SHORTEST_HALF_LIFE}, inf) or None")


def growth_per_sample(half_life: float | None) -> float:
    """Return how many times the weight of the previous sample a sample has: 2 ** (1 / half_life).

    Examples
    --------
    >>> growth_per_sample(None), growth_per_sample(1)
    (1.0, 2.0)
    """
    return 1.0 if half_life is None else float(2.0 ** (1.0 / half_life))


def decay_per_sample(half_life: float | None) -> float:
    """Return the factor by which a sample reduces earlier weights: 0.5 ** (1 / half_life).

    One divided by `growth_per_sample` may differ from it in the last bit.

    Examples
    --------
    >>> decay_per_sample(None), decay_per_sample(1)
    (1.0, 0.5)
    """
    return 1.0 if half_life is None else float(0.5 ** (1.0 / half_life))


def as_category(value: Any, field: str) -> Any:
    """Return a value of a field as plain text, number or None (also for NaN and NA), or raise."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        return plain
    if plain is None or is_na(plain):
        return None
    if not isinstance(plain, int | float):
        raise TypeError(
            f"the value of the field {field!r} must be text, a number or None, got {value!r}"
        )
    return plain if plain == plain else None


def is_na(value: Any) -> bool:
    """Return whether a value is the NA of pandas, which stands for a missing one.

    Examples
    --------
    >>> import pandas as pd
    >>> is_na(pd.NA), is_na(None)
    (True, False)
    """
    library = sys.modules.get("pandas")  # whoever passes its NA has imported it
    return library is not None and value is getattr(library, "NA", library)


def as_key(key: Any) -> Any:
    """Return the key of a decision, the same for keys that are equal, or raise.

    Examples
    --------
    >>> as_key(("a", 1.0)), as_key(True)
    (('a', 1), 1)
    """
    if isinstance(key, tuple):
        return tuple(None if part is None else as_key(part) for part in key)
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, str):
        key = str.__str__(key)  # a member of a StrEnum is equal to its text, but is shown otherwise
    elif isinstance(key, int) or (isinstance(key, float) and key.is_integer()):
        key = int(key)  # True is 1
    elif not isinstance(key, float) or key != key:
        raise TypeError(f"`key` must be text, a number or a tuple of these, got {key!r}")
    check_kept(key, "key")
    return key


def check_kept(value: Any, name: str) -> None:
    """Raise unless a state, which is JSON, can hold text or an int."""
    if isinstance(value, str) and not value.isascii() and json.loads(json.dumps(value)) != value:
        raise ValueError(f"`{name}` must have no surrogate pairs, got {value!r}")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(
            f"`{name}` must have numbers of at most 4,300 digits, got an int of"
            f" {value.bit_length():,} bits"
        )
