"""Columns of probabilities, one for each label: what ``--prob a,b,c`` means, and how it is read."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamcal.cli.rows import Check, Column, Requirement, Vector, probability_column

if TYPE_CHECKING:
    from streamcal.tables.base import Chunk

_MOST_LABELS = 1_000
_MOST_NAMED = 8  # in a message


def columns_of_labels(prob: str, option: str = "--prob") -> dict[str, str] | None:
    """Return the label of each column that an option names; None if it names only one column.

    Raises
    ------
    ValueError
        If a name is empty, or a column or a label is given twice.

    Examples
    --------
    >>> columns_of_labels("cat,dog")
    {'cat': 'cat', 'dog': 'dog'}
    >>> columns_of_labels("p_cat=cat,p_dog=dog")
    {'p_cat': 'cat', 'p_dog': 'dog'}
    >>> columns_of_labels('"big, brown",dog')
    {'big, brown': 'big, brown', 'dog': 'dog'}
    >>> columns_of_labels("calibrated")
    """
    parts = _parts(prob)
    if len(parts) < 2:
        return None
    pairs = list(map(_split, parts))
    if not all(name and label for name, label in pairs):
        raise ValueError(
            f"{option} must be a column, or columns as in `a,b,c` or `p_a=a,p_b=b`, got {prob!r}"
        )
    labels = dict(pairs)
    if len(labels) < len(pairs) or len(set(labels.values())) < len(pairs):
        raise ValueError(f"{option} must name each column and each label once, got {prob!r}")
    if len(pairs) > _MOST_LABELS:
        raise ValueError(f"{option} must name at most {_MOST_LABELS:,} columns, got {len(pairs):,}")
    return labels


def columns_before(score: str, prob: Mapping[str, str]) -> dict[str, str]:
    """Return the label of each column before calibration, in the order of those after it.

    Raises
    ------
    ValueError
        If ``--score`` does not name another column for each label of ``--prob``.

    Examples
    --------
    >>> columns_before("raw_dog=dog,raw_cat=cat", {"p_cat": "cat", "p_dog": "dog"})
    {'raw_cat': 'cat', 'raw_dog': 'dog'}
    """
    found = columns_of_labels(score, "--score") or {score: score}
    columns = {label: name for name, label in found.items()}
    if set(columns) != set(prob.values()):
        labels = _listed(list(prob.values()))
        raise ValueError(
            f"--score must have a column for each label of --prob, here {labels}, as in"
            f" `raw_a=a,raw_b=b`, got {score!r}"
        )
    if both := set(found) & set(prob):
        raise ValueError(
            f"--score must name other columns than --prob, got {_listed(sorted(both))}"
        )
    return {columns[label]: label for label in prob.values()}


def name_of_column(prob: str) -> str:
    """Return the name of the only column that ``--prob`` names: one with commas stands in quotes.

    Examples
    --------
    >>> name_of_column('"big, brown"'), name_of_column('"dog"')
    ('big, brown', '"dog"')
    """
    parts = _parts(prob)
    return parts[0] if len(parts) == 1 and "," in parts[0] else prob


def _parts(prob: str) -> list[str]:
    try:
        parts = next(csv.reader([prob], skipinitialspace=True))
    except csv.Error:  # several lines
        parts = prob.split(",")
    # Quotes keep the spaces of a name, such as those after the commas of "a, b, c" in a file.
    return parts if '"' in prob else [part.strip() for part in parts]


def _split(part: str) -> tuple[str, str]:
    """Return the name of a column and its label; cells of labels are read without spaces."""
    name, mark, label = part.partition("=")
    return (name.rstrip(), label.strip()) if mark else (name, name.strip())


@contextmanager
def one_column(command: str, prob: str) -> Iterator[None]:
    """Say which commands take several columns, if a table has none of this name."""
    from streamcal.tables.base import TableError

    try:
        yield
    except TableError as error:
        if "," not in prob or not str(error).startswith(f"has no column `{prob}`"):
            raise
        raise TableError(
            f"has no column `{prob}`: `{command}` takes one column of probabilities; `report`,"
            " `watch`, `check` and `plot` take one for each label"
        ) from None


def check_alone(labels: Mapping[str, str] | None, **options: object) -> None:
    """Raise ``ValueError`` if there are several columns, and an option that they do not go with.

    Examples
    --------
    >>> check_alone({"a": "a", "b": "b"}, key="country")
    Traceback (most recent call last):
        ...
    ValueError: --key does not go with several columns of --prob, here a, b
    """
    for name, value in options.items():
        if labels is not None and value not in (None, ()):
            raise ValueError(
                f"--{name} does not go with several columns of --prob, here {_listed(list(labels))}"
            )


def check_known(label: str | None, **options: Iterable[str | None]) -> None:
    """Raise ``ValueError`` if rows are grouped by their label: each group looks wrong then.

    Examples
    --------
    >>> check_known("y", key=["y"])
    Traceback (most recent call last):
        ...
    ValueError: --key must be another column than --label, got 'y'
    """
    for name, columns in options.items():
        if label is not None and label in columns:
            raise ValueError(f"--{name} must be another column than --label, got {label!r}")


def reader_columns(prob: Mapping[str, str], label: str) -> list[Column]:
    """Return the columns that are read: the probability of each label, and the true label."""
    return [*map(probability_column, prob), _LabelColumn.of(label, tuple(prob.values()))]


@dataclass(frozen=True)
class _LabelColumn(Column):
    """A column with names of labels, which become numbers from 0."""

    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, labels: tuple[str, ...]) -> "_LabelColumn":
        text = f"one of the labels of --prob, {_listed(labels)}"
        known = Requirement(text, lambda codes: codes >= 0.0)
        return cls(name, (known,), is_label=True, labels=labels)

    def read(self, chunk: "Chunk") -> tuple[Vector, list[Check]]:
        """Return the place of the label of each row, NaN for none, -1 for an unknown one."""
        assert self.name is not None
        places = {label: float(i) for i, label in enumerate(self.labels)}
        places[""] = np.nan
        cells = chunk.columns[self.name]
        values = cells if isinstance(cells, list) else cells.to_pylist()
        codes = np.array([_code_of(value, places) for value in values])
        (requirement,) = self.requirements
        good = np.isnan(codes) | (codes >= 0.0)
        return codes, [Check(self.name, requirement, good, is_label=True)]


def _code_of(value: object, places: Mapping[str, float]) -> float:
    """Return the place of the label in a cell, -1 if it is unknown.

    Booleans are written as in Python or as in JSON. A column of ints with empty cells is one of
    floats in other programs, so 1.0 is the label 1 unless there is a label 1.0.

    Examples
    --------
    >>> [_code_of(value, {"1": 0.0, "True": 1.0, "": 2.0}) for value in ("1.0", " 1", 1.0)]
    [0.0, 0.0, 0.0]
    >>> [_code_of(value, {"1": 0.0, "True": 1.0, "": 2.0}) for value in (True, False, None)]
    [1.0, -1.0, 2.0]
    """
    text = "" if value is None else str(value).strip()
    if isinstance(value, bool):
        other = text.lower()
    elif isinstance(value, float) and value.is_integer():
        other = str(int(value))
    else:
        other = text.removesuffix(".0")
    return places.get(text, places.get(other, -1.0))


def _listed(names: "list[str] | tuple[str, ...]") -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
