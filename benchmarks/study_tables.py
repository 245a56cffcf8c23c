"""The tables and pictures of the study, from its rows. See ``study.py``, which measures them."""

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from streams import Vector

from streamcal.plot import HedgeWeightsDisplay

DELAYS = (0, 48, 500)
DEFAULT = "default, tickets"
AT_ONCE, LATE, LONG = 0.0007, 0.003, 15_000  # the goals, and the least length of a stream for LATE
QUOTED = ("Elec2, adaptive random forest", "make the playoffs", "MLB games")


@dataclass(frozen=True)
class Row:
    """The results of a method on a stream.

    Attributes
    ----------
    stream, method, kind : str
        As in `Stream` and `Method`.
    n : int
        Samples of the stream.
    delay : int
        The number of samples between a sample and its label.
    log_loss, brier : float
        Mean scores; the log loss in nats.
    mcb : float
        The part of the log loss that recalibrating all of it in hindsight would save (CORP).
    excess : float
        Mean divergence from the true probabilities; NaN if these are not known.
    us : float
        Processor time per sample, µs, learning included.
    memory : int
        Bytes of the pickled objects at the end.
    """

    stream: str
    n: int
    method: str
    kind: str
    delay: int
    log_loss: float
    brier: float
    mcb: float
    excess: float
    us: float
    memory: int


class Results:
    """Rows by stream, method and delay."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._at = {(row.stream, row.method, row.delay): row for row in self.rows}
        self.streams = list(dict.fromkeys(row.stream for row in self.rows))

    def get(self, stream: str, method: str, delay: int = 0) -> Row:
        """Return the row of a method."""
        return self._at[stream, method, delay]

    def of(self, kind: str, stream: str, delay: int = 0) -> list[Row]:
        """Return the rows of one kind."""
        found = [row for row in self.rows if (row.stream, row.delay) == (stream, delay)]
        return [row for row in found if row.kind == kind]

    def best(self, stream: str, delay: int = 0) -> Row:
        """Return the best single method in hindsight."""
        singles = self.of("calibrator", stream, delay) + self.of("peer", stream, delay)
        return min(singles, key=lambda row: row.log_loss)

    def difference(self, stream: str, delay: int = 0, method: str = DEFAULT) -> float:
        """Return the loss of the default minus that of the best single method."""
        return self.get(stream, method, delay).log_loss - self.best(stream, delay).log_loss


def markdown(heads: list[str], lines: Iterable[list[str]], n_left: int = 1) -> str:
    """Return a table; the first columns are flush left."""
    rule = ["---"] * n_left + ["--:"] * (len(heads) - n_left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *lines])


def immediate(results: Results) -> str:
    """Return the table for immediate labels."""
    heads = ["stream", "samples", "raw", "Platt", "isotonic", "best single", "which it is"]
    lines = []
    for name in results.streams:
        best, difference = results.best(name), results.difference(name)
        losses = [results.get(name, method).log_loss for method in ("raw", "Platt", "isotonic")]
        losses.append(best.log_loss)
        lines.append(
            [
                name,
                f"{best.n:,}",
                *(f"{loss:.4f}" for loss in losses),
                best.method,
                f"{results.get(name, DEFAULT).log_loss:.4f}",
                signed(difference, AT_ONCE),
            ]
        )
    return markdown([*heads, "default", "default − best"], lines)


def delayed(results: Results) -> str:
    """Return the table for delayed labels."""
    heads = ["stream", "samples"]
    for delay in DELAYS[1:]:
        heads += [f"best single, {delay} late", "which it is", "default − best"]
    lines = []
    for name in results.streams:
        cells = [name, f"{results.best(name).n:,}"]
        for delay in DELAYS[1:]:
            best = results.best(name, delay)
            limit = LATE if best.n >= LONG else math.inf
            limit = 0.0 if name.startswith("Elec2") else limit
            cells += [f"{best.log_loss:.4f}", best.method]
            cells.append(signed(results.difference(name, delay), limit))
        lines.append(cells)
    return markdown(heads, lines)


def everything(results: Results) -> str:
    """Return the log loss of every method on every stream, the least of each stream in bold."""
    names = [row.method for row in results.rows if row.stream == results.streams[0]]
    names = [name for name in dict.fromkeys(names) if not name.endswith("restarted")]
    lines = []
    for name in names:
        cells = [name]
        for stream in results.streams:
            loss = results.get(stream, name).log_loss
            least = loss <= min(results.best(stream).log_loss, *_defaults(results, stream))
            cells.append(f"**{loss:.4f}**" if least else f"{loss:.4f}")
        lines.append(cells)
    return markdown(["", *results.streams], lines)


def calibration(results: Results) -> str:
    """Return Brier scores and miscalibration."""
    shown = ("raw", "Platt", "isotonic", "isotonic 1000", "scikit-learn isotonic 1000", DEFAULT)
    lines = []
    for name in results.streams:
        rows = [results.get(name, method) for method in shown]
        cells = [least_bold([getattr(row, score) for row in rows]) for score in ("brier", "mcb")]
        lines.append([name, *cells[0], *cells[1]])
    short = ("raw", "Platt", "isotonic", "the same 1000", "scikit-learn's", "default")
    heads = [f"Brier, {short[0]}", *short[1:], f"MCB, {short[0]}", *short[1:]]
    return markdown(["stream", *heads], lines)


def drift(results: Results, entropies: dict[str, float]) -> str:
    """Return excesses on the generated streams, in 10⁻⁴ nats, and the default's over the oracle's.

    Above 1.1 the default is not within 10 % of the oracle.
    """
    lines = []
    for name, floor in entropies.items():
        default = results.get(name, DEFAULT).excess
        singles = results.of("calibrator", name) + results.of("peer", name)
        best = min(singles, key=lambda row: row.excess)
        cells = [name, f"{floor:.4f}", f"{1e4 * best.excess:.1f} ({best.method})"]
        oracles = [row for row in results.of("oracle", name) if not row.method.startswith("def")]
        if oracles:
            least = min(oracles, key=lambda row: row.excess)
            maps = [results.get(name, f"{way}, restarted") for way in ("isotonic", "default")]
            known = [f"{1e4 * row.excess:.1f}" for row in maps]
            known.append(f"{1e4 * least.excess:.1f} ({least.method.removesuffix(', restarted')})")
            ratios = [f"{default / row.excess:.2f}" for row in (maps[0], least)]
        else:
            known, ratios = [""] * 3, [""] * 2
        lines.append([*cells, *known, f"{1e4 * default:.1f}", *ratios])
    heads = ["stream", "entropy", "best single", "isotonic, restarted", "default, restarted"]
    heads += ["best restarted", "default", "÷ isotonic restarted", "÷ best restarted"]
    return markdown(heads, lines)


def resources(results: Results) -> str:
    """Return time per sample and memory of each method, on the longest stream."""
    largest = max(results.streams, key=lambda name: results.best(name).n)
    n = results.best(largest).n
    rows = [row for row in results.rows if row.stream == largest and row.kind != "oracle"]
    lines = []
    for name in dict.fromkeys(row.method for row in rows):
        found = {row.delay: row for row in rows if row.method == name}
        us = [f"{found[delay].us:.1f}" if delay in found else "" for delay in DELAYS[:2]]
        lines.append([name, *us, f"{found[max(found)].memory / 1e3:,.1f}"])
    heads = ["method", "µs, at once", f"µs, {DELAYS[1]} late", "kB"]
    return f"{largest}, {n:,} samples:\n\n{markdown(heads, lines)}"


def summary(results: Results) -> str:
    """Return in how many cases the default reaches the goals, and where it does not."""
    points = []
    gaps = {name: results.difference(name) for name in results.streams}
    missed = {name: gap for name, gap in gaps.items() if round(gap, 4) > AT_ONCE}
    points.append(
        f"Labels at once: on {len(gaps) - len(missed)} of {len(gaps)} streams the default is at"
        f" most {AT_ONCE} above the best single method in hindsight, and below it on"
        f" {sum(gap < 0.0 for gap in gaps.values())}.{_where(missed)}"
    )
    for delay in DELAYS[1:]:
        gaps = {name: results.difference(name, delay) for name in results.streams}
        long = {name: gap for name, gap in gaps.items() if results.best(name).n >= LONG}
        missed = {name: gap for name, gap in long.items() if round(gap, 4) > LATE}
        points.append(
            f"Labels {delay} samples late, with tickets: on {len(long) - len(missed)} of"
            f" {len(long)} streams of {LONG:,} samples and more it is at most {LATE} above the"
            f" best, and below it on {sum(gap < 0.0 for gap in long.values())}.{_where(missed)}"
        )
    return "\n".join(f"* {point}" for point in points)


def _where(missed: Mapping[str, float]) -> str:
    if not missed:
        return ""
    return f" More on {', '.join(f'{name} ({gap:+.4f})' for name, gap in missed.items())}."


def quote(results: Results) -> str:
    """Return three lines for the README."""
    lines = []
    for name in (name for name in QUOTED if name in results.streams):
        best, raw = results.best(name), results.get(name, "raw").log_loss
        cells = [name, f"{raw:.4f}", f"{best.log_loss:.4f} ({best.method})"]
        lines.append([*cells, f"{results.get(name, DEFAULT).log_loss:.4f}"])
    return markdown(
        ["log loss", "raw", "the best single method in hindsight", "the default"], lines
    )


def least_bold(values: list[float]) -> list[str]:
    """Return numbers to four digits, the least in bold."""
    texts = [f"{value:.4f}" for value in values]
    least = min(texts, key=float)
    return [f"**{text}**" if text == least else text for text in texts]


def _defaults(results: Results, stream: str) -> list[float]:
    return [results.get(stream, DEFAULT).log_loss]


def signed(value: float, limit: float) -> str:
    """Return a number with its sign, in bold where it is above a limit, to four digits."""
    text = f"{value:+.4f}".replace("-", "−")
    return f"**{text}**" if round(value, 4) > limit else text


def draw_differences(results: Results, path: Path) -> None:
    """Draw how far some methods are from the best single one of each stream."""
    with _style():
        figure = Figure(figsize=(7.2, 0.22 * len(results.streams) + 1.2), layout="constrained")
        ax = figure.subplots()
        marks = {"raw": ("x", "#555555"), "Platt": ("^", "#E69F00"), "isotonic": ("s", "#56B4E9")}
        at = np.arange(len(results.streams))
        for name, (mark, color) in {**marks, DEFAULT: ("o", "#D55E00")}.items():
            gaps = [1e3 * results.difference(stream, 0, name) for stream in results.streams]
            label = "default" if name == DEFAULT else name
            ax.plot(gaps, at, mark, color=color, label=label, markersize=5)
        ax.set_xscale("symlog", linthresh=1.0)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks(at, results.streams)
        ax.invert_yaxis()
        ax.grid(axis="y", linewidth=0.3)
        ax.set_xlabel("log loss above the best single method in hindsight, in 0.001 nats")
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path, metadata={"Date": None})


def draw_drift(
    excesses: Mapping[str, Vector], history: list[dict[str, float]], step: int, path: Path
) -> None:
    """Draw excess log loss through the changes of a stream, and the weights of the hedge below.

    ``excesses`` has one value for each sample, ``history`` the weights at every ``step`` of them.
    """
    colors = ("#009E73", "#0072B2", "#D55E00")
    with _style():
        figure = Figure(figsize=(7.2, 4.8), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        for (name, lost), color in zip(excesses.items(), colors, strict=True):
            mean = lost[: len(lost) // step * step].reshape(-1, step).mean(axis=1)
            above.plot(np.arange(len(mean)) * step, mean, color=color, label=name, linewidth=1.0)
        above.set_yscale("log")
        above.set_ylim(bottom=1e-4)  # less is as good as none
        above.set_ylabel("Excess log loss, nats")
        above.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
        times = step * np.arange(len(history))
        HedgeWeightsDisplay.from_history(history, times=times, ax=below)
        figure.savefig(path, metadata={"Date": None})


def _style() -> AbstractContextManager[None]:
    return rc_context({"svg.fonttype": "none", "svg.hashsalt": "study", "font.size": 8})
