"""Miscalibration over time: when a model became worse, and whether recalibration helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from streamcal._advice import shown
from streamcal._validation import check_choice
from streamcal.metrics.rolling_corp import RollingCORP, RollingPoint
from streamcal.plot._axes import figure_of, line_style, muted, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from streamcal.plot._fitted import FittedBox

Part = Literal["mcb", "dsc", "unc", "mean_score"]
_PARTS: dict[Part, str] = {
    "mcb": "Miscalibration (MCB)",
    "dsc": "Discrimination (DSC)",
    "unc": "Uncertainty (UNC)",
    "mean_score": "Mean score",
}


class MiscalibrationDisplay:
    """A part of the score of a sliding window over the stream, for one model or several.

    Make one with `from_metrics`; `plot` draws again elsewhere. Nothing is shown or saved. A dotted
    line shows the miscalibration that the same predictions have by chance if they are calibrated:
    only what is clearly above it is a fault of the model.

    Parameters
    ----------
    histories : mapping from name to sequence of RollingPoint
        The values of `streamcal.metrics.RollingCORP.history`.
    part
        ``"mcb"``, ``"dsc"``, ``"unc"`` or ``"mean_score"``.
    times : sequence of datetime, optional
        The time of each sample, in their order: the axis then has dates.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        One for each model.
    chance_lines_ : list of matplotlib Line2D
        One for each model, dotted; none for another part than ``"mcb"``.
    legend_ : matplotlib Artist or None
        The names, if there are any, above the lines.

    Examples
    --------
    >>> from streamcal.metrics import RollingCORP
    >>> from streamcal.plot import MiscalibrationDisplay
    >>> metric = RollingCORP(window=50, every=25)
    >>> for i in range(100):
    ...     metric.update(i % 10 < 3, 0.2 if i < 50 else 0.3)
    >>> display = MiscalibrationDisplay.from_metrics({"model": metric})
    >>> display.lines_[0].get_ydata().round(4)
    array([0.0256, 0.01  , 0.0026, 0.    ])
    >>> display.chance_lines_[0].get_ydata().round(4)
    array([0.0104, 0.0008, 0.0037, 0.007 ])
    """

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]
    chance_lines_: list[Line2D]
    legend_: FittedBox | None

    def __init__(
        self,
        histories: Mapping[str, Sequence[RollingPoint]],
        *,
        part: Part = "mcb",
        times: Sequence[Any] | None = None,
    ) -> None:
        check_choice(part, "part", tuple(_PARTS))
        if not histories:
            raise ValueError("`histories` must hold at least one model, got none")
        self.histories = {name: tuple(history) for name, history in histories.items()}
        self.part = part
        self.times = None if times is None else np.asarray(times)
        points = (point for history in self.histories.values() for point in history)
        n = max((point.n_samples for point in points), default=0)
        if self.times is not None:
            _check_times(self.times, n)

    @classmethod
    def from_metrics(
        cls,
        metrics: RollingCORP | Mapping[str, RollingCORP],
        *,
        part: Part = "mcb",
        times: Sequence[Any] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the histories of metrics.

        Parameters
        ----------
        metrics
            A `RollingCORP`, or several by name, such as of raw and calibrated predictions.
        part
            ``"mcb"``, ``"dsc"``, ``"unc"`` or ``"mean_score"``.
        times : sequence of datetime, optional
            The time of each sample, in their order: the axis then has dates.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Raises
        ------
        ValueError
            If there is no metric, the part is unknown, or ``times`` are too few.
        ImportError
            If matplotlib is not installed.
        """
        if isinstance(metrics, RollingCORP):
            metrics = {"": metrics}
        if not hasattr(metrics, "items"):
            raise TypeError(
                f"`metrics` must be a RollingCORP, or several by name, got {shown(metrics)}"
            )
        for metric in metrics.values():
            if not hasattr(metric, "history"):
                raise TypeError(f"`metrics` must be of RollingCORP, got {shown(metric)}")
        histories = {name: metric.history for name, metric in metrics.items()}
        return cls(histories, part=part, times=times).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on ``ax``, or on new axes, and return this object."""
        if ax is None:
            ax = new_axes(7.2, 3.2)
        self.lines_, self.chance_lines_ = [], []
        for i, (name, history) in enumerate(self.histories.items()):
            places, style = self._places(history), line_style(ax, i)
            if self.part == "mcb" and any(point.chance == point.chance for point in history):
                chance = [point.chance for point in history]
                self.chance_lines_ += ax.plot(
                    places, chance, color=style["color"], linestyle=":", linewidth=1.2
                )
            (line,) = ax.plot(
                places,
                [getattr(point, self.part) for point in history],
                **style,
                linewidth=1.6,
                label=name or None,
            )
            self.lines_.append(line)
        if self.times is not None:
            from matplotlib.dates import ConciseDateFormatter

            dates: Any = ConciseDateFormatter
            ax.xaxis.set_major_formatter(dates(ax.xaxis.get_major_locator()))
        xlabel = "Samples" if self.times is None else "Time"
        ax.set(xlabel=xlabel, ylabel=_PARTS[self.part], ylim=(0.0, None))
        ax.spines[["top", "right"]].set_visible(False)
        from matplotlib.lines import Line2D

        from streamcal.plot._fitted import Entry, add_legend

        pairs = zip(self.lines_, self.histories, strict=True)
        entries = [Entry(line, name) for line, name in pairs if name]
        if self.chance_lines_:
            alone = len(self.histories) == 1
            color: Any = self.chance_lines_[0].get_color() if alone else muted(ax)
            sample = Line2D([], [], color=color, linestyle=":", linewidth=1.2)
            entries.append(Entry(sample, "by chance, if calibrated"))
        self.legend_ = add_legend(ax, entries)
        self.ax_ = ax
        self.figure_ = figure_of(ax)
        return self

    def _places(self, history: Sequence[RollingPoint]) -> Any:
        """Return where the points of a model are on the horizontal axis."""
        counts = np.array([point.n_samples for point in history], np.int64)
        return counts if self.times is None else self.times[counts - 1]


def _check_times(times: NDArray[Any], n: int) -> None:
    """Raise ``ValueError`` unless an array has the datetime of each of ``n`` samples."""
    got = f"{len(times):,} of type {times.dtype}" if times.ndim == 1 else f"shape {times.shape}"
    good = times.ndim == 1 and times.dtype.kind in "MO" and len(times) >= n
    if good and times.dtype.kind == "M":
        bad: Any = np.isnat(times)
    else:
        bad = [not isinstance(time, date) or time != time for time in times] if good else ()
    if good and np.any(bad):
        at = int(np.argmax(bad))
        good, got = False, f"{times[at]!r} at position {at}"
    if not good:
        raise ValueError(f"`times` must be the datetimes of all {n:,} samples, got {got}")
