"""The moving picture of the README: a score whose meaning changes, and the default calibrator.

Its frames are groups of one SVG file, which CSS shows one after the other. Where nothing may move,
the last frame stays.
"""

import numpy as np
from numpy.typing import NDArray

import streamcal

N, DRIFT, STEP = 6_000, 3_000, 150  # labels; where the meaning changes; labels between two frames
LATEST = 600  # labels that a frame is about
SECONDS = 9.0  # of a turn; the last frame stays for as long as six others
WIDTH, HEIGHT, SIDE = 600, 330, 230  # of the picture; of a panel
LEFT, RIGHT, TOP = (44, 350, 68)  # where the panels begin
LOWEST, HIGHEST = 0.3, 0.8  # log loss

Vector = NDArray[np.float64]

_HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<title>After a drift the log loss of the score rises, that of the calibrated values falls
again.</title>
<style>
svg {{ font: 16px system-ui, sans-serif; --ink: #1b1d22; --muted: #666b75; --grid: #d6d9de;
  --score: #0072b2; --new: #d55e00; background: #fff; }}
@media (prefers-color-scheme: dark) {{
  svg {{ --ink: #e7e9ee; --muted: #a0a6b2; --grid: #343943; --score: #56b4e9; --new: #ff9a4d;
    background: #0d1117; }}
}}
text {{ fill: var(--ink); }} .muted {{ fill: var(--muted); }}
polyline, line {{ fill: none; stroke-width: 2.5; stroke-linejoin: round; }}
.axis, .drift, .diagonal {{ stroke: var(--grid); stroke-width: 1.5; }}
.drift, .diagonal {{ stroke: var(--muted); stroke-dasharray: 5 4; }}
.score {{ stroke: var(--score); }} .new {{ stroke: var(--new); }}
text.score {{ fill: var(--score); stroke: none; }} text.new {{ fill: var(--new); stroke: none; }}
.f {{ visibility: hidden; animation: shown {SECONDS}s step-end infinite; }}
.f:last-of-type {{ visibility: visible; animation-name: last; }}
@keyframes shown {{ 0% {{ visibility: visible; }} SHARE% {{ visibility: hidden; }} }}
@keyframes last {{ 0% {{ visibility: visible; }} LONG% {{ visibility: hidden; }} }}
@media (prefers-reduced-motion: reduce) {{ .f {{ animation: none; }} }}
</style>
"""


def drift() -> str:
    """Return the picture as SVG."""
    random = np.random.default_rng(0)
    p = random.random(N)
    true = np.where(np.arange(N) < DRIFT, p**2, p**0.4)
    y = (random.random(N) < true).astype(np.float64)
    served = streamcal.HedgedCalibrator().predict_learn_many(p, y)
    ends = list(range(LATEST, N + 1, STEP))
    losses = {
        name: [log_loss(y[end - LATEST : end], values[end - LATEST : end]) for end in ends]
        for name, values in (("score", p), ("new", served))
    }
    share = SECONDS / (len(ends) + 5)
    parts = [
        _HEAD.replace("SHARE", f"{100 * share / SECONDS:.3f}").replace(
            "LONG", f"{600 * share / SECONDS:.3f}"
        ),
        axes(LEFT, f"Log loss, last {LATEST} labels", "labels", ("0", f"{N:,}")),
        axes(RIGHT, f"Reliability, last {LATEST} labels", "predicted", ("0", "1")),
        text(LEFT - 6, TOP + 5, f"{HIGHEST}", "muted", "end"),
        text(LEFT - 6, TOP + SIDE, f"{LOWEST}", "muted", "end"),
        text(RIGHT - 6, TOP + 5, "1", "muted", "end"),
        text(RIGHT - 6, TOP + SIDE, "0", "muted", "end"),
        text(LEFT, 22, "score", "score"),
        text(LEFT + 56, 22, "calibrated by streamcal", "new"),
        f'<line class="drift" {ends_of(LEFT + SIDE * DRIFT / N, TOP, 0, SIDE)}/>',
        text(LEFT + SIDE * DRIFT / N + 5, TOP + SIDE - 8, "drift", "muted"),
        f'<line class="diagonal" {ends_of(RIGHT, TOP + SIDE, SIDE, -SIDE)}/>',
    ]
    for frame, end in enumerate(ends):
        latest = slice(end - LATEST, end)
        wait = share * (frame + 1 - len(ends))  # it begins with the last frame, which is complete
        parts.append(f'<g class="f" style="animation-delay: {wait:.3f}s">')
        for name, values in (("score", p), ("new", served)):
            past = (np.array(losses[name][: frame + 1]) - LOWEST) / (HIGHEST - LOWEST)
            parts.append(line(name, LEFT, np.array(ends[: frame + 1]) / N, past))
            parts.append(line(name, RIGHT, *reliability(values[latest], y[latest])))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def log_loss(y: Vector, p: Vector) -> float:
    """Return the mean log loss."""
    return float(-np.log(np.where(y == 1.0, p, 1.0 - p)).mean())


def reliability(p: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return the corners of the isotonic fit of labels to predictions."""
    stairs = streamcal.isotonic_fit(p, y)
    x = np.column_stack([stairs.lower, stairs.upper]).ravel()
    return x, np.repeat(stairs.values, 2)


def line(name: str, left: float, x: Vector, y: Vector) -> str:
    """Return a line in the panel that begins at ``left``; x and y are in [0, 1]."""
    across, down = left + SIDE * x, TOP + SIDE * (1.0 - np.minimum(y, 1.0))
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    return f'<polyline class="{name}" points="{points}"/>'


def axes(left: float, title: str, name: str, limits: tuple[str, str]) -> str:
    """Return the frame of a panel, its title and the name of its horizontal axis."""
    bottom = TOP + SIDE
    return "\n".join(
        [
            text(left, TOP - 12, title),
            f'<line class="axis" {ends_of(left, TOP, 0, SIDE)}/>',
            f'<line class="axis" {ends_of(left, bottom, SIDE, 0)}/>',
            text(left, bottom + 20, limits[0], "muted", "middle"),
            text(left + SIDE, bottom + 20, limits[1], "muted", "middle"),
            text(left + SIDE / 2, bottom + 20, name, "muted", "middle"),
        ]
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def ends_of(x: float, y: float, across: float, down: float) -> str:
    """Return the attributes of a line from a place."""
    return f'x1="{x:g}" y1="{y:g}" x2="{x + across:g}" y2="{y + down:g}"'
