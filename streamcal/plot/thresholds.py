"""The densities of scores for each label, and the thresholds.

Densities are histograms over common bins. Each label has a row of its own, scaled to its highest
bin, so that a frequent label does not hide the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import as_vector, as_weights, check_same_length
from streamcal.ordinal.samples import as_ranks
from streamcal.ordinal.thresholds import Thresholds
from streamcal.plot._axes import COLORS, figure_of, foreground, muted, new_axes, opacity, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from streamcal.plot._fitted import FittedBox

_BINS = 60
_NAMED = 12  # of more labels only every second, third, … has a name


class ThresholdDisplay:
    """Score densities per label, and the thresholds between labels.

    Make one with `from_predictions`; `plot` draws again on other axes. Nothing is shown or saved:
    use ``matplotlib.pyplot.show()`` or ``display.figure_.savefig``.

    Parameters
    ----------
    densities : ndarray of shape (n_labels, n_bins)
        The density of the scores of each label, times its share of the weight.
    edges : ndarray of shape (n_bins + 1,)
        The ends of the bins.
    thresholds : ndarray of shape (n_labels - 1,)
        Sorted; infinite ones are not drawn.
    names : sequence of str
        The labels' names, in order.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture, once drawn.
    figure_ : matplotlib Figure
        Its figure.
    lines_ : list of matplotlib Line2D
        The finite thresholds.
    legend_ : matplotlib Artist or None
        The key of the thresholds, above the densities.

    Examples
    --------
    >>> from streamcal.plot import ThresholdDisplay
    >>> display = ThresholdDisplay.from_predictions([0.1, 0.2, 0.6, 0.9], [1, 1, 2, 2], [0.4])
    >>> display.thresholds, display.names
    (array([0.4]), ['1', '2'])
    """

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]
    legend_: FittedBox | None

    def __init__(
        self,
        densities: NDArray[np.float64],
        edges: NDArray[np.float64],
        thresholds: NDArray[np.float64],
        names: Sequence[str],
    ):
        self.densities = densities
        self.edges = edges
        self.thresholds = thresholds
        self.names = names

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike,
        y: ArrayLike,
        thresholds: Thresholds | ArrayLike,
        *,
        w: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        n_bins: int = _BINS,
        ax: Axes | None = None,
    ) -> Self:
        """Draw scores, their labels and thresholds.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            Finite.
        y : array-like of shape (n_samples,)
            Labels, ints from 1 to the number of thresholds plus 1.
        thresholds : Thresholds or array-like of shape (n_labels - 1,)
            As from `streamcal.optimal_thresholds`.
        w : array-like of shape (n_samples,), optional
            Weights.
        names : sequence of str, optional
            Names of the labels; by default their numbers.
        n_bins : int
            The number of bins between the least and the greatest score.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Raises
        ------
        ValueError
            If there are no scores, thresholds are not sorted, or lengths differ.

        Examples
        --------
        >>> from streamcal import optimal_thresholds
        >>> scores, y = [0.1, 0.2, 0.6, 0.5, 0.9], [1, 1, 2, 2, 3]
        >>> found = optimal_thresholds(scores, y)
        >>> display = ThresholdDisplay.from_predictions(scores, y, found)
        >>> display.thresholds
        array([0.35, 0.75])
        """
        vector = as_vector(scores, "scores")
        if not len(vector):
            raise ValueError("`scores` must hold at least one sample, got none")
        cuts = as_vector(
            thresholds.thresholds if isinstance(thresholds, Thresholds) else thresholds,
            "thresholds",
            finite=False,
        )
        if not len(cuts) or not (cuts[1:] >= cuts[:-1]).all() or np.isnan(cuts).any():
            raise ValueError(f"`thresholds` must be one or more sorted numbers, got {cuts}")
        ranks, n_labels = as_ranks(y, len(cuts) + 1)
        check_same_length(ranks, len(vector), "y")
        weights = as_weights(w, len(vector))
        if names is None:
            names = [str(1 + k) for k in range(n_labels)]
        if len(names) != n_labels:
            raise ValueError(f"`names` must be one per label ({n_labels}), got {len(names)}")
        edges = np.histogram_bin_edges(vector, n_bins)
        counts = np.array(
            [
                np.histogram(vector[ranks == k], edges, weights=weights[ranks == k])[0]
                for k in range(n_labels)
            ]
        )
        densities = counts / weights.sum() / np.diff(edges)
        return cls(densities, edges, cuts, names).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on ``ax``, or on new axes, and return this object."""
        if ax is None:
            ax = new_axes(6.4, 4.0)
        shares = self.densities @ np.diff(self.edges)
        color, ends = visible(ax, COLORS[0]), self.edges[[0, -1]]
        for k, density in enumerate(self.densities):
            height = 0.9 * density / max(float(density.max()), 1e-300)
            ax.stairs(
                k + height, self.edges, baseline=k, fill=True, color=color, alpha=opacity(ax, 0.3)
            )
            ax.stairs(k + height, self.edges, baseline=k, color=color, linewidth=1.0)
        ax.hlines(np.arange(len(shares)), *ends, color=muted(ax, 0.7), linewidth=0.6, zorder=0.5)
        finite = self.thresholds[np.isfinite(self.thresholds)]
        style: Any = {"color": foreground(ax), "linewidth": 0.8, "linestyle": (0, (4, 2))}
        rows = [0.0, len(shares)]
        self.lines_ = [ax.plot([at, at], rows, **style)[0] for at in np.unique(finite).tolist()]
        names = [f"{name} ({share:.0%})" for name, share in zip(self.names, shares, strict=True)]
        every = -(-len(names) // _NAMED)
        ax.set_yticks(np.arange(len(names))[::every] + 0.3, names[::every])
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel="Score", ylabel="Label (share)", ylim=(-0.02, len(names)))
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.grid(False, axis="y")
        from streamcal.plot._fitted import Entry, add_legend

        words = "threshold" if len(self.lines_) == 1 else "thresholds"
        self.legend_ = add_legend(ax, [Entry(line, words) for line in self.lines_[:1]])
        self.ax_ = ax
        self.figure_ = figure_of(ax)
        return self
