"""The weights of a hedge over time, as areas that add up to 1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._advice import in_words, shown
from streamcal._validation import as_vector, check_same_length
from streamcal.plot._axes import figure_of, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    from streamcal.plot._fitted import FittedBox

# Okabe and Ito's colours in an order in which neighbouring areas differ in grey too.
_COLORS = ("#BBBBBB", "#E69F00", "#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#F0E442")


class HedgeWeightsDisplay:
    """The weight of each calibrator of a `streamcal.HedgedCalibrator` over the stream.

    Make one with `from_history`; `plot` draws again elsewhere. Nothing is shown or saved.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        When the weights were read, ascending; for example the number of samples learned.
    weights : ndarray of shape (n_times, n_calibrators)
        The weights; each row sums to 1.
    names : sequence of str
        The calibrators' names.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    areas_ : list of matplotlib PolyCollection
        One for each calibrator, from below.
    legend_ : matplotlib Artist
        The calibrators' names in short, above the areas.

    Examples
    --------
    >>> from streamcal import HedgedCalibrator
    >>> from streamcal.plot import HedgeWeightsDisplay
    >>> calibrator, history = HedgedCalibrator(), []
    >>> for i in range(300):
    ...     calibrator.learn_one(0.6, i % 10 > 0)
    ...     history.append(calibrator.weights)
    >>> display = HedgeWeightsDisplay.from_history(history)
    >>> display.weights.shape
    (300, 7)
    """

    ax_: Axes
    figure_: Figure
    areas_: list[PolyCollection]
    legend_: FittedBox | None

    def __init__(
        self, times: NDArray[np.float64], weights: NDArray[np.float64], names: Sequence[str]
    ) -> None:
        self.times = times
        self.weights = weights
        self.names: tuple[str, ...] = tuple(names)

    @classmethod
    def from_history(
        cls,
        history: Sequence[Mapping[str, float]],
        *,
        times: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw values of `HedgedCalibrator.weights` over time.

        Parameters
        ----------
        history : sequence of mapping from name to weight
            At least one, all of the same names.
        times : array of shape (n_times,), optional
            When each was read; by default 1, 2, …
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Raises
        ------
        ValueError
            If the history is empty, its names differ, a weight is negative, or times do not ascend.
        """
        if hasattr(history, "weights") or isinstance(history, Mapping):
            raise TypeError(
                "`history` must be a list of the `weights` that a hedge had, such as"
                f" [hedge.weights], got {shown(history)}"
            )
        if not len(history) or not history[0]:
            raise ValueError("`history` must hold weights, got none")
        names = tuple(history[0])
        for at, weights in enumerate(history):
            if tuple(weights) != names:
                raise ValueError(
                    f"`history` must be of the same calibrators throughout, got {tuple(weights)}"
                    f" at position {at}"
                )
        moments = np.arange(1.0, len(history) + 1) if times is None else as_vector(times, "times")
        check_same_length(moments, len(history), "times")
        if (np.diff(moments) < 0.0).any():
            raise ValueError("`times` must ascend")
        rows = np.array([list(weights.values()) for weights in history], dtype=np.float64)
        if not (rows >= 0.0).all():
            raise ValueError("`history` must hold no negative weights and no NaN")
        return cls(moments, rows, names).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on ``ax``, or on new axes, and return this object."""
        if ax is None:
            ax = new_axes(7.2, 3.6)
        colors = [_COLORS[i % len(_COLORS)] for i in range(len(self.names))]
        self.areas_ = ax.stackplot(self.times, self.weights.T, colors=colors, linewidth=0)
        ax.set(
            xlabel="Samples learned",
            ylabel="Weight",
            ylim=(0.0, 1.0),
            xlim=(self.times[0], self.times[-1]) if np.ptp(self.times) > 0.0 else None,
        )
        from streamcal.plot._fitted import Entry, add_legend

        # The legend has the order of the areas, from above.
        entries = [*map(Entry, self.areas_, short_names(self.names))][::-1]
        self.legend_ = add_legend(ax, entries)
        ax.set_yticks(np.linspace(0.0, 1.0, 6))
        ax.spines["left"].set_bounds(0.0, 1.0)
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_ = ax
        self.figure_ = figure_of(ax)
        return self


def short_names(names: Sequence[str]) -> list[str]:
    """Return the calibrators' names for a legend: kinds, and a parameter that tells them apart.

    Examples
    --------
    >>> short_names(["PlattCalibrator()", "PlattCalibrator(gamma=0.5, half_life=100.0)", "mine"])
    ['Platt', 'Platt, half_life=100', 'mine']
    >>> short_names([f"PlattCalibrator(half_life={timedelta(hours=h)!r})" for h in (24, 36)])
    ['Platt, half_life=1d', 'Platt, half_life=36h']
    """
    parts = [_parse(name) for name in names]
    kinds = Counter(kind for kind, _ in parts)
    short = [kind if kinds[kind] == 1 else ", ".join([kind, *given]) for kind, given in parts]
    for memory in ("window", "half_life"):
        telling = [[text for text in given if text.startswith(memory)] for _, given in parts]
        tried = [
            ", ".join([kind, *found]) if found and kinds[kind] > 1 else shown
            for (kind, _), found, shown in zip(parts, telling, short, strict=True)
        ]
        if len(set(tried)) == len(set(names)):
            short = tried
    return short


def _duration(found: re.Match[str]) -> str:
    """Return a timedelta, as it is written in a name, in words."""
    parts = (part.split("=") for part in found[1].split(", "))
    return in_words(timedelta(**{unit: int(number) for unit, number in parts}))


def _parse(name: str) -> tuple[str, list[str]]:
    """Return the kind of a calibrator and its parameters, from its name."""
    found = re.fullmatch(r"(\w+?)(?:Calibrator)?\((.*)\)(.*)", name)
    if found is None:
        return name, []
    kind, given, number = found.groups()
    given = re.sub(r"datetime\.timedelta\(([a-z]+=-?\d+(?:, [a-z]+=-?\d+)*)\)", _duration, given)
    texts = [re.sub(r"\.0$", "", text) for text in given.split(", ") if text]
    return kind + number, texts
