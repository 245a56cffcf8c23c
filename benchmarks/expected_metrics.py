"""Performance before the labels: the expected metric beside other estimates, on real streams.

    python benchmarks/expected_metrics.py [DATA] [--keep FOLDER] [--late 500] [--window 1000]
                                          [--nannyml PYTHON]

``DATA`` and ``--keep`` are those of ``study.py``. The default hedge serves each stream with labels
that come late. The served label is 1 from the probability 0.5 up. After each half window, the
metric of the last window, of which half of the labels are still unknown, is estimated by

* streamcal: `expected_metric` with the labels that are there;
* probabilities: the same without any label;
* CBPE: probabilities alone, of an isotonic map that was fitted once: to the served probabilities
  of the first two windows, whose labels are there at the first estimate (the rule of NannyML,
  written down here; fitted to one window, or to the model's scores, it is worse);
* last labels: the metric of the last window of samples whose labels are there;
* last window: that of the last of the windows that follow each other whose labels are all there.

With ``--nannyml`` its package is run, too, by a Python in whose environment it is installed (see
``nannyml_cbpe.py``; it needs other versions than this project). It has no Brier score.

The error is the mean absolute difference from the metric of the window with all labels. The last
columns say on how many streams streamcal's error is the least but that of the probabilities alone,
and how often the interval of 90 % holds.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression
from streams import Vector, serve
from study import streams

from streamcal import HedgedCalibrator
from streamcal.metrics import ExpectedMetric, expected_metric
from streamcal.metrics.expected import _auc, _mean_score

METRICS = ("f1", "precision", "auc", "brier")
RULES = ("streamcal", "probabilities", "CBPE", "last labels", "last window")
NANNYML = "NannyML"


def estimates(
    p: Vector, y: Vector, late: int, window: int, nannyml: str | None
) -> Iterator[tuple[str, dict[str, float], tuple[float, float]]]:
    """Yield the name of a metric, its error by each rule, and the interval around the truth."""
    first = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
    first.fit(p[: 2 * window], y[: 2 * window])
    once = first.predict(p)
    chosen = p >= 0.5
    ends = range(2 * window + late, len(y) + 1, window // 2)
    theirs = of_nannyml(nannyml, p, y, ends, window) if nannyml else {}
    for number, end in enumerate(ends):
        now = slice(end - window, end)
        labelled = slice(end - late - window, end - late)
        whole = (end - late) // window * window
        for metric in METRICS:

            def of(p: Vector, at: slice, y: Any, metric: str = metric) -> Any:
                return expected_metric(p[at], y, metric, decisions=chosen[at])

            truth = of(p, now, y[now]).value
            if metric == "auc" and y[now].min() == y[now].max():
                continue
            window_of = ExpectedMetric(metric, window)
            for i in range(end - window - late, end):
                window_of.add(i, p[i], int(chosen[i]))
                if i - late >= end - window - late:
                    window_of.add_label(i - late, int(y[i - late]))
            ours = window_of.expected()
            found = (
                ours.value,
                of(p, now, None).value,
                of_cbpe(metric, p[now], once[now], chosen[now]),
                of(p, labelled, y[labelled]).value,
                of(p, slice(whole - window, whole), y[whole - window : whole]).value,
            )
            errors = {rule: abs(value - truth) for rule, value in zip(RULES, found, strict=True)}
            if nannyml:
                errors[NANNYML] = abs(theirs.get(metric, {}).get(number, np.nan) - truth)
            yield metric, errors, (float(ours.low <= truth <= ours.high), truth)


def of_cbpe(metric: str, p: Vector, once: Vector, chosen: Any) -> float:
    """Return the metric of served probabilities ``p`` that CBPE's probabilities let expect."""
    if metric == "auc":
        return _auc(p, once)[0]
    if metric == "brier":
        return _mean_score(p, once, "brier")[0]
    return expected_metric(once, None, metric, decisions=chosen).value


def of_nannyml(
    python: str, p: Vector, y: Vector, ends: range, window: int
) -> dict[str, dict[int, float]]:
    """Return what NannyML estimates, by metric and number of the window."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npz"
        np.savez(
            path,
            p=p,
            y=y.astype(int),
            chosen=(p >= 0.5).astype(int),
            reference=(0, 2 * window),
            ends=list(ends),
            window=window,
        )
        script = Path(__file__).with_name("nannyml_cbpe.py")
        run = subprocess.run([python, script, path], check=True, capture_output=True, text=True)
    found = json.loads(run.stdout.splitlines()[-1])
    return {metric: dict(enumerate(found[metric])) for metric in METRICS if metric in found}


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--late", type=int, default=500)
    parser.add_argument("--window", type=int, default=1000)
    parser.add_argument("--nannyml", help="a Python in whose environment NannyML is installed")
    given = parser.parse_args()
    rules = (*RULES, NANNYML) if given.nannyml else RULES
    errors: dict[str, list[list[float]]] = {metric: [] for metric in METRICS}
    covered: dict[str, list[float]] = {metric: [] for metric in METRICS}
    print("| stream | " + " | ".join(METRICS) + " |")
    print("|---|" + "--:|" * len(METRICS))
    for stream in streams(given.data, given.keep):
        if len(stream.y) < 4 * given.window + given.late:
            continue
        p = serve(HedgedCalibrator(), stream.scores, stream.y, given.late, tickets=True)
        rows: dict[str, list[dict[str, float]]] = {metric: [] for metric in METRICS}
        held: dict[str, list[float]] = {metric: [] for metric in METRICS}
        for metric, found, (holds, _) in estimates(
            p, stream.y, given.late, given.window, given.nannyml
        ):
            rows[metric].append(found)
            held[metric].append(holds)
        cells = []
        for metric in METRICS:
            means = [float(np.mean([row[rule] for row in rows[metric]])) for rule in rules]
            errors[metric].append(means)
            covered[metric].append(float(np.mean(held[metric])))
            cells.append(
                " / ".join(f"{mean:.4f}" for mean in means) + f" ({covered[metric][-1]:.0%})"
            )
        print(f"| {stream.name} | {' | '.join(cells)} |", flush=True)
    print("\n| metric | " + " | ".join(rules) + " | best on | interval holds |")
    print("|---|" + "--:|" * (len(rules) + 2))
    for metric in METRICS:
        table = np.array(errors[metric])
        best = np.mean(table[:, 0] <= np.nanmin(table[:, 2:], axis=1))
        means = " | ".join(f"{mean:.4f}" for mean in table.mean(axis=0))
        print(f"| {metric} | {means} | {best:.0%} | {np.mean(covered[metric]):.0%} |")


if __name__ == "__main__":
    main()
