"""The weights of a hedge over time, as areas that add up to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import as_vector, check_same_length
from streamcal.plot._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure, SubFigure

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
    figure_: Figure | SubFigure
    areas_: list[PolyCollection]

    def __init__(
        self, times: NDArray[np.float64], weights: NDArray[np.float64], names: Sequence[str]
    ) -> None:
        self.times = times
        self.weights = weights
        self.names = tuple(names)

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
        self.areas_ = ax.stackplot(
            self.times, self.weights.T, labels=self.names, colors=colors, linewidth=0
        )
        ax.set(
            xlabel="Samples learned",
            ylabel="Weight",
            ylim=(0.0, 1.0),
            xlim=(self.times[0], self.times[-1]) if len(self.times) > 1 else None,
        )
        # The legend has the order of the areas, from above.
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(
            handles[::-1],
            labels[::-1],
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            frameon=False,
            fontsize="small",
        )
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
