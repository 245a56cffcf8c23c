"""Is the default ever worse than the best? Every calibrator on every stream, prequentially.

    python benchmarks/study.py [DATA] [--keep FOLDER] [--parts …] [--quick] [--root FOLDER]

Writes the tables and pictures of ``docs/study.md``, ``docs/study.csv`` and the lines that the
README quotes, each between its markers. ``DATA`` is the folder that ``streams.py`` describes;
without it the streams that ship with river and the generated ones remain. ``--keep`` names a folder
for the models' scores, to be read from there again. ``--parts`` measures some parts anew and leaves
the rest as it stands. ``--quick`` takes generated streams of 800 samples, and writes only where
``--root`` says. ``venn-abers`` and ``model-diagnostics`` take part if they are installed.

*Serving.* The loss of a method is the log loss, in nats, of its served predictions, clipped to
[1e-6, 1 - 1e-6]. For a delay of d it learns a sample after d others have been served. The models
learn at once, so all methods get the same scores at all delays.

*The best single method* of a stream and a delay is the calibrator or peer, the raw scores included,
with the least loss over the whole stream: it is chosen in hindsight, the default is not.

*The peers* that learn one sample at a time are written in ``peers.py``, from papers and pull
requests, and run at all delays. The others have no step for one sample and only run with immediate
labels. Those of scikit-learn and venn-abers are fitted to the last ``window`` labels, anew every
``EVERY`` samples, and serve the raw score until both labels are there; PyPI's streamcal learns
``EVERY`` samples at a time. They predict ``EVERY`` samples in one call, which reduces their time.
The rows of a peer that is not installed stay as they were measured before.

*The oracle* only knows at which samples the posterior of a generated stream changes. At each change
it restarts its calibrator. This calibrator is chosen in hindsight, by its loss over the stream,
among all calibrators of the study with their default memory or windows, so it is the strictest such
oracle. The tables also have the oracles of the isotonic map over all samples and of the default
hedge.

*Excess* is the mean Kullback-Leibler divergence of the served predictions from the true
probabilities: the expected log loss minus the entropy, without the noise of the labels.
"""

import argparse
import csv
import math
import pickle
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import multiclass
import numpy as np
from numpy.typing import NDArray
from peers import Hedging, RiverSGD, Tracking, binned_isotonic
from river import base, datasets, linear_model, preprocessing
from scipy.special import entr, logit, rel_entr
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from streams import (
    ABRUPT,
    CLIP,
    FORECASTS,
    GENERATED,
    MODELS,
    N,
    Vector,
    generated,
    log_loss,
    read,
    serve,
    shipped,
)
from study_tables import (
    AT_ONCE,
    DEFAULT,
    DELAYS,
    Results,
    Row,
    calibration,
    delayed,
    draw_differences,
    draw_drift,
    drift,
    everything,
    immediate,
    least_bold,
    markdown,
    quote,
    resources,
    signed,
    summary,
)

from streamcal import (
    BetaCalibrator,
    CalibratedClassifier,
    Calibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    isotonic_fit,
)
from streamcal.isotonic.corp import Decomposition, decompose

ROOT = Path(__file__).resolve().parents[1]
EVERY = 200  # samples between two fits of a peer
QUICK = 800  # samples of a stream
ROWS = ("calibrator", "peer", "hedge", "oracle")
PARTS = (*ROWS, "multiclass", "corp", "costs")
RIVER = (
    *(("Phishing", model) for model in MODELS),
    *(("Bananas", model) for model in MODELS),
    ("Shuttle", "logistic"),
)
ONE = "generated, abrupt"
VENN_ABERS = "venn-abers 1000"
MARKERS = re.compile(r"(<!-- study: (\w+) -->)\n(.*?)(<!-- /study -->)", re.DOTALL)

CALIBRATORS: dict[str, Callable[[], Calibrator]] = {
    "raw": IdentityCalibrator,
    "Platt": PlattCalibrator,
    "Platt, half-life 500": lambda: PlattCalibrator(gamma=0.5, prior=10.0, half_life=500.0),
    "Platt, half-life 100": lambda: PlattCalibrator(prior=10.0, half_life=100.0),
    "Platt, calibeating": lambda: PlattCalibrator(calibeating=20),
    "beta": BetaCalibrator,
    "beta, half-life 500": lambda: BetaCalibrator(half_life=500.0),
    "histogram": HistogramCalibrator,
    "isotonic 200": lambda: IsotonicCalibrator(window=200),
    "isotonic 1000": lambda: IsotonicCalibrator(window=1_000),
    "isotonic 2000": lambda: IsotonicCalibrator(window=2_000),
    "isotonic 5000": lambda: IsotonicCalibrator(window=5_000),
    "isotonic": IsotonicCalibrator,
}
Map = Callable[[Vector], Vector]


# ---------------------------------------------------------------------------------------- streams


@dataclass(frozen=True, eq=False)
class Stream:
    """Scores and labels in time order, with true probabilities if they are known.

    Attributes
    ----------
    name : str
        The name in the tables.
    scores, y : ndarray of shape (n_samples,)
        Probabilities of True, and labels 0 and 1.
    p : ndarray of shape (n_samples,), optional
        The true probabilities.
    changes : tuple of int
        The samples at which they change abruptly, and the first sample; empty if unknown.
    """

    name: str
    scores: Vector
    y: Vector
    p: Vector | None = None
    changes: tuple[int, ...] = ()


def streams(folder: Path | None, keep: Path | None = None, quick: bool = False) -> Iterator[Stream]:
    """Yield the streams: Elec2 and forecasts from a folder, river's own, generated ones."""
    n = QUICK if quick else N
    if not quick:
        if folder is not None:
            for model in MODELS:
                yield Stream(f"Elec2, {model}", *read(folder, model, keep))
            for name in FORECASTS:
                yield Stream(name, *read(folder, name, keep))
        for dataset, model in RIVER:
            yield Stream(f"{dataset}, {model}", *shipped(dataset, model, keep))
    for kind in GENERATED:
        changes = tuple(range(0, n, n // 4)) if kind in ABRUPT else ()
        yield Stream(f"generated, {kind}", *generated(kind, n), changes)


# ---------------------------------------------------------------------------------------- methods


@dataclass(frozen=True)
class Method:
    """A way to serve a stream with delayed labels.

    Attributes
    ----------
    name : str
        The name in the tables.
    kind : {"calibrator", "peer", "hedge", "oracle"}
        An oracle only runs on streams with known changes and immediate labels.
    run : callable
        Takes a stream and a delay; returns the served predictions and the objects in memory.
    late : bool
        Whether it can learn late labels.
    """

    name: str
    kind: str
    run: Callable[[Stream, int], tuple[Vector, Any]]
    late: bool = True


def methods() -> list[Method]:
    """Return every method that can run here; print which cannot."""
    found = [Method(name, "calibrator", online(make)) for name, make in CALIBRATORS.items()]
    found += [
        Method("scikit-learn isotonic 1000", "peer", _refit(_isotonic, 1_000), late=False),
        Method("scikit-learn isotonic 5000", "peer", _refit(_isotonic, 5_000), late=False),
        Method("scikit-learn Platt 1000", "peer", _refit(_platt, 1_000), late=False),
    ]
    if find_spec("venn_abers"):
        found.append(Method(VENN_ABERS, "peer", _refit(_venn_abers, 1_000), late=False))
    else:
        _say("venn-abers is not installed: its rows stay as they are")
    found.append(Method("PyPI streamcal 0.2.0", "peer", _binned_isotonic, late=False))
    found += [
        Method("river #1988", "peer", one_by_one(RiverSGD)),
        Method("TOPS", "peer", one_by_one(Tracking)),
        Method("HOPS", "peer", one_by_one(Hedging)),
    ]
    found.append(Method(DEFAULT, "hedge", online(HedgedCalibrator, tickets=True)))
    for name, make in {**CALIBRATORS, "default": HedgedCalibrator}.items():
        found.append(Method(f"{name}, restarted", "oracle", _restarted(make), late=False))
    return found


def online(make: Callable[[], Calibrator], tickets: bool = False) -> Any:
    """Return a method that runs one of our calibrators."""

    def run(stream: Stream, delay: int) -> tuple[Vector, Any]:
        calibrator = make()
        return serve(calibrator, stream.scores, stream.y, delay, tickets), calibrator

    return run


def _restarted(make: Callable[[], Calibrator]) -> Any:
    def run(stream: Stream, delay: int) -> tuple[Vector, Any]:
        ends = (*stream.changes[1:], len(stream.y))
        served = []
        for start, end in zip(stream.changes, ends, strict=True):
            calibrator, part = make(), slice(start, end)
            served.append(serve(calibrator, stream.scores[part], stream.y[part], delay))
        return np.concatenate(served), calibrator

    return run


def _refit(fit: Callable[[Vector, Vector], Map], window: int) -> Any:
    """Return a method that fits a map to a window after every ``EVERY`` samples."""

    def run(stream: Stream, _: int) -> tuple[Vector, Any]:
        scores, y = stream.scores, stream.y
        served = scores.copy()
        for start in range(0, len(y), EVERY):
            past = slice(max(start - window, 0), start)
            if 0.0 < y[past].sum() < start - past.start:
                now = slice(start, start + EVERY)
                served[now] = fit(scores[past], y[past])(scores[now])
        return served, np.empty((2, min(window, len(y))))

    return run


def one_by_one(make: Callable[[], Any]) -> Any:
    """Return a method that runs a peer of ``peers.py``."""

    def run(stream: Stream, delay: int) -> tuple[Vector, Any]:
        peer, served, waiting = make(), np.empty(len(stream.y)), deque()
        for t, (score, y) in enumerate(zip(stream.scores.tolist(), stream.y.tolist(), strict=True)):
            served[t], kept = peer.serve(score)
            waiting.append((kept, y))
            if len(waiting) > delay:
                peer.learn(*waiting.popleft())
        return served, peer

    return run


def _binned_isotonic(stream: Stream, _: int) -> tuple[Vector, Any]:
    return binned_isotonic(stream.scores, stream.y, EVERY), np.empty((2, 100))


def _isotonic(scores: Vector, y: Vector) -> Map:
    return IsotonicRegression(out_of_bounds="clip").fit(scores, y).predict


def _platt(scores: Vector, y: Vector) -> Map:
    def odds(scores: Vector) -> Vector:
        return logit(scores.clip(CLIP, 1.0 - CLIP)).reshape(-1, 1)

    model = LogisticRegression(C=1e6).fit(odds(scores), y)
    return lambda scores: model.predict_proba(odds(scores))[:, 1]


def _venn_abers(scores: Vector, y: Vector) -> Map:
    from venn_abers import VennAbers

    def both(scores: Vector) -> NDArray[np.float64]:
        return np.column_stack([1.0 - scores, scores])

    model = VennAbers()
    model.fit(both(scores), y)
    return lambda scores: model.predict_proba(both(scores))[0][:, 1]


# ---------------------------------------------------------------------------------------- measure


def measure(stream: Stream, method: Method, delay: int) -> Row:
    """Run a method over a stream."""
    start = time.process_time()
    served, kept = method.run(stream, delay)
    seconds = time.process_time() - start
    p, y, n = served.clip(CLIP, 1.0 - CLIP), stream.y, len(stream.y)
    excess = math.nan
    if stream.p is not None:
        excess = float(np.mean(divergence(stream, served)))
    return Row(
        stream.name,
        n,
        method.name,
        method.kind,
        delay,
        round(log_loss(p, y), 7),
        round(float(np.mean((served - y) ** 2)), 7),
        round(corp(p, y).mcb, 7),
        round(excess, 8),
        round(1e6 * seconds / n, 2),
        len(pickle.dumps(kept)),
    )


def divergence(stream: Stream, served: Vector) -> Vector:
    """Return the Kullback-Leibler divergence of served from true probabilities."""
    p, served = stream.p, served.clip(CLIP, 1.0 - CLIP)
    return np.asarray(rel_entr(p, served) + rel_entr(1.0 - p, 1.0 - served))


def corp(p: Vector, y: Vector) -> Decomposition:
    """Return the CORP parts of the mean log loss."""
    return decompose(isotonic_fit(p, y), log_loss(p, y), "log")


def entropy(p: Vector) -> float:
    """Return the mean entropy of labels with these probabilities, in nats."""
    return float(np.mean(entr(p) + entr(1.0 - p)))


def measure_all(
    all_streams: Iterable[Stream], all_methods: list[Method], kinds: Iterable[str]
) -> Iterator[Row]:
    """Yield a row for each method of these kinds, stream and delay that go together."""
    for stream in all_streams:
        start = time.perf_counter()
        for delay in DELAYS:
            for method in all_methods:
                idle = delay > 0 and not method.late
                idle |= method.kind == "oracle" and not stream.changes
                if method.kind in kinds and not idle:
                    yield measure(stream, method, delay)
        _say(f"{stream.name}: {len(stream.y)} samples, {time.perf_counter() - start:.0f} s")


# ---------------------------------------------------------------------- what needs runs of its own


def many_labels(quick: bool) -> str:
    """Return the log loss over all labels of streams with more than two labels."""
    answers = {
        f"ImageSegments, {model}": multiclass.answers_of(model, datasets.ImageSegments())
        for model in multiclass.MODELS
        if not quick
    }
    for kind in ("too sure", "too shy", "noise"):
        answers[f"ten labels, {kind}"] = multiclass.logits(kind, 60 if quick else 5_000)
    lines = []
    for name, stream in answers.items():
        samples = list(stream)
        losses = [multiclass.losses(samples, make())[0] for make in multiclass.CALIBRATORS.values()]
        default, best = losses[list(multiclass.CALIBRATORS).index("joint hedge")], min(losses)
        lines.append(
            [name, f"{len(samples):,}", *least_bold(losses), signed(default - best, AT_ONCE)]
        )
        _say(f"{name}: {len(samples)} samples")
    return markdown(["stream", "samples", *multiclass.CALIBRATORS, "default − best"], lines)


def decompositions(some_streams: Iterable[Stream]) -> str:
    """Return our decomposition of the raw log loss beside that of model-diagnostics."""
    if not find_spec("model_diagnostics"):
        _say("model-diagnostics is not installed: left out")
        return "model-diagnostics was not installed."
    from model_diagnostics.scoring import LogLoss
    from model_diagnostics.scoring import decompose as reference

    lines = []
    for stream in some_streams:
        p, y = stream.scores.clip(CLIP, 1.0 - CLIP), stream.y
        times = []
        for _ in range(3):
            at = [time.process_time()]
            ours = corp(p, y)
            at.append(time.process_time())
            theirs = reference(y, p, scoring_function=LogLoss(), functional="mean")
            at.append(time.process_time())
            times.append(np.diff(at))
        parts = ("miscalibration", "discrimination", "uncertainty")
        values = [float(theirs[part][0]) for part in parts]
        apart = max(abs(a - b) for a, b in zip(ours[1:], values, strict=True))
        ms = 1e3 * np.min(times, axis=0)
        lines.append(
            [
                stream.name,
                *(f"{value:.5f}" for value in ours[1:]),
                f"{values[0]:.5f}",
                f"{apart:.0e}",
                f"{ms[0]:.1f}",
                f"{ms[1]:.1f}",
            ]
        )
    heads = ["stream", "MCB", "DSC", "UNC", "their MCB", "largest difference", "ms", "their ms"]
    return markdown(heads, lines)


def costs(quick: bool) -> str:
    """Return what calibrating adds to a river model, µs a call; windows hold up to 10⁴ samples.

    All run in turns of 250 samples on river's SEA stream. The result is the least time of the turns
    in the second half, which reduces the effect of other processes on the machine.
    """
    n, turn = (500, 250) if quick else (10_000, 250)
    samples = list(datasets.synth.SEA(seed=1).take(n))
    ways: dict[str, Any] = {
        "the model alone": None,
        "Platt": PlattCalibrator(),
        "isotonic 10000": IsotonicCalibrator(window=10_000),
        "default": HedgedCalibrator(),
    }
    models = {}
    for name, calibrator in ways.items():
        model: base.Classifier = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        models[name] = model if calibrator is None else CalibratedClassifier(model, calibrator)
    least = {name: [math.inf, math.inf] for name in ways}
    for start in range(0, n, turn):
        part = samples[start : start + turn]
        for name, model in models.items():
            at = [time.perf_counter()]
            for x, _ in part:
                model.predict_proba_one(x)
            at.append(time.perf_counter())
            for x, y in part:
                model.learn_one(x, y)
            at.append(time.perf_counter())
            if start >= n // 2:
                us = np.diff(at) / turn * 1e6
                least[name] = [min(a, b) for a, b in zip(least[name], us[::-1], strict=True)]
    lines = []
    alone = least["the model alone"]
    for name, model in models.items():
        added = [a - b for a, b in zip(least[name], alone, strict=True)]
        ratios = [a / b for a, b in zip(least[name], alone, strict=True)]
        cells = [
            f"{a:.1f} (+{b:.1f}, × {c:.1f})"
            for a, b, c in zip(least[name], added, ratios, strict=True)
        ]
        lines.append([name, *cells, f"{model._raw_memory_usage / 1e3:,.0f}"])
    return markdown(["", "`learn_one`, µs", "`predict_proba_one`, µs", "kB"], lines)


# ------------------------------------------------------------------------------------------ write


def write(
    root: Path, results: Results, sections: dict[str, str], all_streams: Iterable[Stream]
) -> None:
    """Write tables between their markers, the rows as CSV, and the pictures."""
    stream = next(each for each in all_streams if each.name == ONE)
    sections |= tables(results, all_streams)
    for name in ("docs/study.md", "README.md"):
        text = (root / name).read_text(encoding="utf-8")
        text = MARKERS.sub(
            lambda found: f"{found[1]}\n{sections.get(found[2], found[3]).strip()}\n{found[4]}",
            text,
        )
        (root / name).write_text(text, encoding="utf-8")
    with (root / "docs" / "study.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in results.rows)
    folder = root / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    draw_differences(results, folder / "study-differences.svg")
    draw_drift(*through_changes(stream), folder / "study-drift.svg")


def tables(results: Results, all_streams: Iterable[Stream]) -> dict[str, str]:
    """Return the sections that are made of rows."""
    entropies = {each.name: entropy(each.p) for each in all_streams if each.p is not None}
    return {
        "summary": summary(results),
        "immediate": immediate(results),
        "delayed": delayed(results),
        "drift": drift(results, entropies),
        "everything": everything(results),
        "calibration": calibration(results),
        "resources": resources(results),
        "quote": quote(results),
    }


def read_rows(file: Path) -> list[Row]:
    """Return the rows of a CSV that was written before, if there is one."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return [
            Row(**{f.name: f.type(line[f.name]) for f in fields(Row)})  # type: ignore[operator]
            for line in csv.DictReader(lines)
        ]


def through_changes(stream: Stream) -> tuple[dict[str, Vector], list[dict[str, float]], int]:
    """Return the excess of three methods at each sample, the hedge's weights at each step."""
    hedge, history, served = HedgedCalibrator(), [], []
    step = len(stream.y) // 200
    for start in range(0, len(stream.y), step):
        part = slice(start, start + step)
        history.append(hedge.weights)
        served.append(hedge.predict_learn_many(stream.scores[part], stream.y[part]))
    shown = {
        "isotonic, restarted": _restarted(IsotonicCalibrator)(stream, 0)[0],
        "isotonic 2000": online(CALIBRATORS["isotonic 2000"])(stream, 0)[0],
        "default": np.concatenate(served),
    }
    return {name: divergence(stream, p) for name, p in shown.items()}, history, step


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path, help="folder for the scores of models")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="generated streams only, and short")
    parser.add_argument("--root", type=Path, help="the checkout that is written into")
    given = parser.parse_args(arguments)
    if given.data is None:
        _say("no folder of data: Elec2 and the forecasts are left out")
    root = given.root or (None if given.quick else ROOT)

    all_streams = list(streams(given.data, given.keep, given.quick))
    every_method = methods()
    absent = {VENN_ABERS} - {method.name for method in every_method}
    before = read_rows((root or ROOT) / "docs" / "study.csv")
    rows = [row for row in before if row.kind not in given.parts or row.method in absent]
    rows += measure_all(all_streams, every_method, given.parts)
    results = Results(in_order(rows, all_streams))
    sections = {}
    if "multiclass" in given.parts:
        sections["multiclass"] = many_labels(given.quick)
    if "corp" in given.parts:
        sections["corp"] = decompositions(all_streams)
    if "costs" in given.parts:
        sections["costs"] = costs(given.quick)
    if root is None:
        print("\n\n".join({**tables(results, all_streams), **sections}.values()))
    else:
        write(root, results, sections, all_streams)


def in_order(rows: list[Row], all_streams: list[Stream]) -> list[Row]:
    """Return the rows in the order of a run of all parts; drop those of other streams."""
    places = {(stream.name, len(stream.y)): at for at, stream in enumerate(all_streams)}
    methods = {method: at for at, method in enumerate(dict.fromkeys(row.method for row in rows))}

    def place(row: Row) -> tuple[int, ...]:
        return places[row.stream, row.n], row.delay, ROWS.index(row.kind), methods[row.method]

    return sorted((row for row in rows if (row.stream, row.n) in places), key=place)


if __name__ == "__main__":
    main()
