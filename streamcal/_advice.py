"""What a message adds about a value that is refused: what to write instead."""

import difflib
import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, NoReturn

import numpy as np

NO_ALIASES: Mapping[str, str] = {}

UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "min": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}


def in_words(span: timedelta) -> str:
    """Return a duration as the command line reads it, in the largest unit that divides it.

    Examples
    --------
    >>> in_words(timedelta(hours=36)), in_words(timedelta(seconds=1.5))
    ('36h', '1.5s')
    """
    for unit, length in UNITS.items():
        if not span % length:
            return f"{span // length}{unit}"
    return f"{span.total_seconds()!r}s"


def shown(value: Any, wanted: type | tuple[type, ...] = (), where: str = "") -> str:
    """Return a value for a message, in one line; a class that lacks its brackets says so.

    Parameters
    ----------
    value : object
    wanted : type or tuple of types
        What objects of the class should be: if they are not, brackets would not help.
    where : str
        Follows the value, such as " at position 3".

    Examples
    --------
    >>> shown("x"), shown(list), shown(list, Iterable)
    ("'x'", 'the class list', 'the class list without brackets: write list()')
    """
    if isinstance(value, type):
        hint = f" without brackets: write {value.__name__}()" if issubclass(value, wanted) else ""
        return f"the class {value.__name__}{where}{hint}"
    text = repr(value)
    name = type(value).__name__
    article = "an" if name[:1] in "AEIOU" else "a"
    short = text if "\n" not in text and len(text) <= 200 else f"{article} {name}"
    return f"{short}{where}"


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.casefold())


def did_you_mean(
    name: Any, choices: Iterable[str], aliases: Mapping[str, str] = NO_ALIASES, *, mark: str = "'"
) -> str:
    """Return a question about the choice that is nearest to a name; nothing if none is near.

    Case and punctuation do not count. ``aliases`` are other words for choices, in small letters
    without punctuation. The suggestion stands between two marks.

    Examples
    --------
    >>> did_you_mean("F1", ("f1", "mcc")), did_you_mean("log_loss", ["log"], {"logloss": "log"})
    ("; did you mean 'f1'?", "; did you mean 'log'?")
    >>> did_you_mean("hinge", ("f1", "mcc"))
    ''
    """
    if not isinstance(name, str):
        return ""
    by_plain = {**aliases, **{_plain(choice): choice for choice in choices}}
    found = difflib.get_close_matches(_plain(name), by_plain, 1, 0.75)
    return f"; did you mean {mark}{by_plain[found[0]]}{mark}?" if found else ""


def about_probability(p: float, name: str) -> str:
    """Return what to do with a number that is no probability.

    Examples
    --------
    >>> about_probability(70.0, "y_pred")
    '; divide percentages by 100, and apply the logistic function 1 / (1 + exp(-z)) to logits'
    >>> about_probability(-1.5, "y_pred")
    '; apply the logistic function 1 / (1 + exp(-z)) to logits'
    """
    if p != p:
        return "; leave such samples out"
    percent = "divide percentages by 100, and " if 1.0 < p <= 100.0 else ""
    any_score = ", or use IsotonicCalibrator, which takes any" if name.startswith("score") else ""
    return f"; {percent}apply the logistic function 1 / (1 + exp(-z)) to logits{any_score}"


def about_text(text: Any, name: str) -> str:
    """Return what to do with text in the place of a number.

    Examples
    --------
    >>> about_text("0.5", "score"), about_text("0,5", "score")
    ("; convert text first, as by float('0.5')", '; decimals need a point')
    >>> about_text("yes", "y")
    "; replace words by numbers, two labels as by `y == 'yes'`"
    """
    if not isinstance(text, str):
        return ""
    try:
        float(text)
    except ValueError:
        if re.fullmatch(r"\s*-?\d+,\d+\s*", text):
            return "; decimals need a point"
        if name in ("y", "y_true"):
            return f"; replace words by numbers, two labels as by `{name} == {text!r}`"
        return ""
    return f"; convert text first, as by float({text!r})"


def about_number(value: Any, name: str) -> str:
    """Return what to do with a value that is no number.

    Examples
    --------
    >>> about_number([0.1, 0.2], "score")
    '; methods whose names end in `_many` take arrays'
    """
    if isinstance(value, str):
        return about_text(value, name)
    if isinstance(value, Mapping):
        return f"; pass the probability of one label, such as {name}[True]"
    if value is None:
        return "; leave such samples out" if name in ("score", "y") else ""
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        if name in ("score", "y"):
            return "; methods whose names end in `_many` take arrays"
        if name in ("y_true", "y_pred"):
            return "; call `update` for each prediction"
    return ""


def about_shape(values: Any, shape: tuple[int, ...], name: str) -> str:
    """Return what to pass in the place of an array that is not one-dimensional.

    Examples
    --------
    >>> about_shape(0.5, (), "scores"), about_shape(None, (9, 2), "scores")
    ('; put a single number into a list', '; pass one of its columns, such as `scores[:, 1]`')
    """
    if not shape:
        return "; put a single number into a list"
    if len(shape) != 2:
        return ""
    columns = getattr(values, "columns", None)
    if columns is not None and len(columns):
        return f"; pass one of its columns, such as `{name}[{list(columns)[-1]!r}]`"
    if shape[1] == 1:
        return f"; pass its only column, `{name}[:, 0]`"
    return f"; pass one of its columns, such as `{name}[:, 1]`"


def about_values(array: Any, name: str) -> str:
    """Return what to do with an array that does not hold numbers.

    Examples
    --------
    >>> about_values(np.array(["yes", "no"]), "y")
    "; replace words by numbers, two labels as by `y == 'yes'`"
    >>> about_values(np.array([1, None]), "y")
    '; leave out samples such as that at position 1, which has None'
    """
    for at, value in enumerate(array.flat if array.ndim == 1 else ()):
        if isinstance(value, str):
            return about_text(str(value), name)
        if value is None:
            return f"; leave out samples such as that at position {at}, which has None"
        if isinstance(value, Mapping):
            return about_number(value, name)
    return ""


def about_features(x: Any) -> str:
    """Return why a model may predict NaN for a sample, and what to do about that.

    Examples
    --------
    >>> about_features({"a": 1.0, "b": float("nan")})
    "; the feature 'b' is nan: leave it out, or fill it in by river's StatImputer"
    >>> about_features({"a": 10**400})[:38]
    "; the feature 'a' is too large an int:"
    >>> about_features({"a": 1.0})
    '; perhaps the model has learned NaN or infinity: begin with a new one'
    """
    bad = _bad_features(x)
    if not bad:
        return "; perhaps the model has learned NaN or infinity: begin with a new one"
    return f"; {bad}: leave it out, or fill it in by river's StatImputer"


def raise_of_features(x: Any, error: Exception) -> NoReturn:
    """Raise an error that names the features which a model can't use; else the model's own."""
    if (fault := _fault_of_features(x, error)) is error:
        raise error
    raise fault from error


def _fault_of_features(x: Any, error: Exception) -> Exception:
    """Return what `raise_of_features` raises.

    Examples
    --------
    >>> _fault_of_features({"a": 1.0, "b": "red"}, TypeError("unsupported"))
    TypeError("`x` must have features that the model can use; the feature 'b' is 'red': encode \
words, as by river's OneHotEncoder (unsupported)")
    """
    if type(error) not in (TypeError, ValueError, AttributeError):
        return error
    if not hasattr(x, "items"):
        return TypeError(f"`x` must be a dict of features, got {shown(x)} ({error})")
    bad = _bad_features(x)
    if not bad or not (
        isinstance(error, TypeError) or re.search("convert|invalid literal", str(error))
    ):
        return error
    words = "encode words, as by river's OneHotEncoder" if "is '" in bad else "leave it out"
    if any(isinstance(value, date) for value in x.values()):
        words = "leave it out, as by river's compose.Discard, or make numbers of it"
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"`x` must have features that the model can use; {bad}: {words} ({error})")


def _bad_features(x: Any) -> str:
    """Return the first feature of a sample that is no finite number, in words; "" if all are."""
    for name, value in x.items() if isinstance(x, Mapping) else ():
        if not _is_finite(value):
            long = isinstance(value, int)  # greater than any float
            return f"the feature {name!r} is {'too large an int' if long else shown(value)}"
    return ""


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, str) and bool(np.isfinite(value))
    except (TypeError, ValueError):
        return False
