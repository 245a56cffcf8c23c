"""A map as JSON, and back: `map_schema.json` describes the form.

A float is written with as many digits as it needs to be the same float again.
"""

import json
import math
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from streamcal.export.exported import Exported
from streamcal.export.maps import Knots, Logistic
from streamcal.kernels.exclusive import no_fork

FORMAT, VERSION = "streamcal map", 1
_NAMES = ("format", "version", "written_by", "calibrator", "n_samples", "scores", "error", "map")
_SCORES = ("probabilities", "numbers")
_PARAMETERS = {
    "platt": ("slope", "intercept", "low", "high"),
    "beta": ("a", "b", "c", "low", "high"),
}


def write(exported: Exported) -> str:
    """Return the text of a map.

    Examples
    --------
    >>> table = Knots(np.array([0.25, 0.5]), np.array([0.5, 0.75]))
    >>> text = write(Exported(table, 0.0, True, "IsotonicCalibrator", 3))
    >>> json.loads(text)["map"]
    {'kind': 'knots', 'scores': [0.25, 0.5], 'values': [0.5, 0.75]}
    """
    of = exported.map
    if isinstance(of, Knots):
        described: dict[str, Any] = {
            "kind": of.kind,
            "scores": of.scores.tolist(),
            "values": of.values.tolist(),
        }
    else:
        parameters = (of.a, of.c) if of.kind == "platt" else (of.a, of.b, of.c)
        named = zip(_PARAMETERS[of.kind], (*parameters, of.low, of.high), strict=True)
        described = {"kind": of.kind, **dict(named)}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"streamcal {own_version()}",
        "calibrator": exported.kind,
        "n_samples": exported.n_samples,
        "scores": _SCORES[0] if exported.of_probabilities else _SCORES[1],
        "error": exported.error,
        "map": described,
    }
    return json.dumps(content, allow_nan=False)


def own_version() -> str:
    """Return the version of the package."""
    with no_fork:  # it imports modules the first time, see `Calibrator.export`
        return version("streamcal-river")


def schema() -> dict[str, Any]:
    """Return the JSON schema of the form.

    Examples
    --------
    >>> schema()["properties"]["version"]
    {'const': 1}
    """
    text = files("streamcal.export").joinpath("map_schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def read(text: str) -> Exported:
    """Return the map of a text; raise ``ValueError`` if it is not one that `write` may write.

    Examples
    --------
    >>> read("[1, 2]")
    Traceback (most recent call last):
    ...
    ValueError: `source` must be the JSON of an exported map: it is no object
    """
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise _wrong("it is nested too deeply") from None
    except ValueError as fault:
        if str(fault).startswith("`source`"):
            raise
        raise _wrong(f"it is no JSON ({fault})") from None
    if not isinstance(content, dict):
        raise _wrong("it is no object")
    if content.get("format") != FORMAT:
        raise _wrong(f'its "format" is not "{FORMAT}"')
    given = content.get("version")
    if type(given) is not int or given != VERSION:
        raise _wrong(f"its version is {given!r:.40}, and this streamcal reads {VERSION}")
    _check_names(content, _NAMES, "the object")
    n_samples = content["n_samples"]
    if n_samples is not None and (type(n_samples) is not int or not 0 <= n_samples <= 2**53):
        raise _wrong(f'"n_samples" must be a count or null, got {n_samples!r:.40}')
    for name in ("written_by", "calibrator"):
        if not isinstance(content[name], str):
            raise _wrong(f'"{name}" must be text, got {content[name]!r:.40}')
    if content["scores"] not in _SCORES:
        raise _wrong(f'"scores" must be one of {_SCORES}, got {content["scores"]!r:.40}')
    error = _number(content["error"], '"error"')
    if not 0.0 <= error <= 1.0:
        raise _wrong(f'"error" must be in [0, 1], got {error}')
    of_probabilities = content["scores"] == _SCORES[0]
    return Exported(
        _read_map(content["map"]), error, of_probabilities, content["calibrator"], n_samples
    )


def _read_map(described: Any) -> Knots | Logistic:
    if not isinstance(described, dict):
        raise _wrong('"map" must be an object')
    kind = described.get("kind")
    if kind == "knots":
        _check_names(described, ("kind", "scores", "values"), '"map"')
        scores, values = _numbers(described, "scores"), _numbers(described, "values")
        if not len(scores) or len(scores) != len(values):
            raise _wrong(
                f'"scores" and "values" must be as many, and some, got {len(scores)} and'
                f" {len(values)}"
            )
        with np.errstate(over="ignore"):
            gaps = np.diff(scores)
            rises = np.diff(values)
        if not ((gaps > 0.0) & (gaps < math.inf)).all() or not np.isfinite(rises).all():
            raise _wrong('"scores" must ascend, and gaps must be finite')
        return Knots(scores, values)
    if not isinstance(kind, str) or kind not in _PARAMETERS:
        raise _wrong(f'"kind" must be one of knots, platt, beta, got {kind!r:.40}')
    names = _PARAMETERS[kind]
    _check_names(described, ("kind", *names), '"map"')
    *of, low, high = (_number(described[name], f'"{name}"') for name in names)
    if not 0.0 < low < high < 1.0:
        raise _wrong(f'"low" and "high" must be ascending and in (0, 1), got {low} and {high}')
    a, b, c = (of[0], *of) if kind == "platt" else of
    if kind == "beta" and min(a, b) < 0.0:
        raise _wrong(f'"a" and "b" must not be negative, got {a} and {b}')
    found = Logistic("platt" if kind == "platt" else "beta", a, b, c, low, high)
    with np.errstate(all="ignore"):
        if not (np.abs(found.log_odds(np.array([low, high]))) <= 100.0).all():
            raise _wrong("log odds of answers must be from -100 to 100")
    return found


def _wrong(reason: str) -> ValueError:
    return ValueError(f"`source` must be the JSON of an exported map: {reason}")


def _no_constant(name: str) -> float:
    raise _wrong(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise if a name is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _wrong("a name is there twice")
    return found


def _check_names(found: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    if set(found) != set(names):
        listed = ", ".join(names)
        raise _wrong(f"{where} must have the names {listed}, got {', '.join(found)!s:.200}")


def _number(value: Any, name: str) -> float:
    if type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _wrong(f"{name} must be a finite number, got {value!r:.40}")


def _numbers(described: dict[str, Any], name: str) -> Any:
    values = described[name]
    if not isinstance(values, list):
        raise _wrong(f'"{name}" must be a list, got {values!r:.40}')
    return np.array([_number(value, f'each of "{name}"') for value in values], dtype=np.float64)
