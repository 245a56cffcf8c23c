"""The densities of scores for each label, and the thresholds.

Densities are histograms over common bins, scaled such that the area of a label is its share of the
weight: two of them cross where the majority changes. Colours go from dark to light with the labels,
in grey too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import as_vector, as_weights, check_same_length
from streamcal.ordinal._samples import as_ranks
from streamcal.ordinal.thresholds import Thresholds
from streamcal.plot._axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_BINS = 60
_NAMED = 12  # with more labels the legend has only the first and the last
_COLORMAP = "viridis"


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
    """

    ax_: Axes
    figure_: Figure | SubFigure

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
        import matplotlib as mpl

        n_labels = len(self.names)
        colors: Any = mpl.colormaps[_COLORMAP](np.linspace(0.0, 0.9, n_labels))
        for k, (density, name) in enumerate(zip(self.densities, self.names, strict=True)):
            named = n_labels <= _NAMED or k in (0, n_labels - 1)
            ax.stairs(density, self.edges, fill=True, color=colors[k], alpha=0.25)
            ax.stairs(density, self.edges, color=colors[k], label=name if named else None)
        for threshold in np.unique(self.thresholds[np.isfinite(self.thresholds)]).tolist():
            ax.axvline(threshold, color="black", linewidth=0.8, linestyle=(0, (4, 2)))
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("score")
        ax.set_ylabel("density × share of the label")
        ax.legend(title="label", frameon=False, fontsize="small", ncols=1 + n_labels // 7)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
