"""The curve of expected utility over the number of samples labelled 1, with the number chosen.

If it is flat around the maximum, the exact number matters little. A second line shows the
probability of the last sample labelled 1, which is the threshold for that number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.decision.goals import AnyMetric, get_metric
from streamcal.decision.maximization import Decision, maximize, utility_curve
from streamcal.decision.metric import Metric
from streamcal.plot._axes import COLORS, figure_of, muted, new_axes, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from streamcal.plot._fitted import FittedBox

_CURVE, _CHOSEN = COLORS[:2]
_MAX_POINTS = 2_000  # more points of a curve are not visible


class UtilityCurveDisplay:
    """Expected utility Ψ_k over k, the number of samples labelled 1, and the k that is best.

    Make one with `from_probabilities`; `plot` draws again elsewhere. Nothing is shown or saved.

    Parameters
    ----------
    utilities : ndarray of shape (n_samples + 1,)
        Ψ_0..Ψ_n.
    probabilities : ndarray of shape (n_samples,)
        In descending order; entry k - 1 is the threshold at k.
    decision : Decision
        The best decision.
    name : str
        The metric's name, for the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        The utilities and the probabilities.
    legend_ : matplotlib Artist
        The names of the lines, above them.

    Examples
    --------
    >>> from streamcal.plot import UtilityCurveDisplay
    >>> display = UtilityCurveDisplay.from_probabilities([0.9, 0.5, 0.3, 0.1], "f1")
    >>> display.decision.k, round(display.decision.expected, 3)
    (2, 0.716)
    """

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]
    legend_: FittedBox | None

    def __init__(
        self,
        utilities: NDArray[np.float64],
        probabilities: NDArray[np.float64],
        decision: Decision[np.bool_],
        name: str,
    ) -> None:
        self.utilities = utilities
        self.probabilities = probabilities
        self.decision = decision
        self.name = name

    @classmethod
    def from_probabilities(
        cls,
        probabilities: ArrayLike,
        metric: AnyMetric = "f1",
        *,
        counts: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Decide for probabilities, and draw the curve of expected utility.

        Parameters
        ----------
        probabilities, metric, counts
            As for `streamcal.decision.maximize`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : UtilityCurveDisplay

        Raises
        ------
        ValueError, TypeError
            As `maximize` does.
        ImportError
            If matplotlib is not installed.
        """
        kind: Metric = get_metric(metric)
        decision = maximize(probabilities, kind, counts=counts)
        utilities = utility_curve(probabilities, kind, counts=counts)
        ranked = np.sort(np.asarray(probabilities, dtype=np.float64))[::-1]
        name = metric if isinstance(metric, str) else repr(kind)
        name = name.upper() if name[1:2].isdigit() else name  # F1, as in print
        return cls(utilities, ranked, decision, name).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curve; a new figure by default."""
        if ax is None:
            ax = new_axes(6.4, 4.0)
        n = len(self.probabilities)
        shown = np.unique(np.linspace(0, n, min(n + 1, _MAX_POINTS)).astype(np.int64))
        shown = np.union1d(shown, [self.decision.k])
        chosen = visible(ax, _CHOSEN)
        (curve,) = ax.plot(shown, self.utilities[shown], color=visible(ax, _CURVE))
        below = shown[shown > 0]
        (levels,) = ax.plot(below, self.probabilities[below - 1], color=muted(ax), linestyle=":")
        k, best = self.decision.k, self.decision.expected
        (dot,) = ax.plot([k], [best], "o", color=chosen)
        ax.set_xlabel("Samples labelled 1, the likeliest first")
        ax.set_ylabel("Utility, probability")
        ax.set_xlim(0, max(n, 1))
        if self.utilities.min() >= 0.0 and self.utilities.max() <= 1.0:
            ax.set_ylim(0.0, 1.03)
        ends = ax.get_ylim()  # above are the words, which the line must not cross
        ax.vlines(k, *ends, color=chosen, linewidth=0.8)
        ax.set_ylim(ends)
        from streamcal.plot._fitted import Entry, add_legend

        words = (f"expected {self.name}", "probability of the last one labelled 1")
        entries = [*map(Entry, (curve, levels), words), Entry(dot, self._in_words())]
        self.legend_ = add_legend(ax, entries)
        self.ax_, self.figure_, self.lines_ = ax, figure_of(ax), [curve, levels]
        return self

    def _in_words(self) -> str:
        """Return the decision as a sentence."""
        k, n = self.decision.k, len(self.probabilities)
        least = f"p ≥ {self.probabilities[k - 1]:#.2g}, " if k else ""
        return f"label {k:,} of {n:,} as 1: {least}{self.name} {self.decision.expected:.3g}"
