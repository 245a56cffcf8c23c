"""Performance before the labels: the expected metric beside other estimates, on real streams.

    python benchmarks/expected_metrics.py [DATA] [--keep FOLDER] [--late 500] [--window 1000]

``DATA`` and ``--keep`` are those of ``study.py``. The default hedge serves each stream with labels
that come late. The served label is 1 from the probability 0.5 up. After each half window, the
metric of the last window, of which half of the labels are still unknown, is estimated by

* streamcal: `expected_metric` with the labels that are there;
* probabilities: the same without any label;
* CBPE: probabilities alone, of an isotonic map that was fitted once to the first window (the rule
  of NannyML, written down here: its package needs other versions of what this project needs);
* last labels: the metric of the last window of samples whose labels are there;
* last window: that of the last of the windows that follow each other whose labels are all there.

The error is the mean absolute difference from the metric of the window with all labels. The last
columns say on how many streams streamcal's error is the least but one of the others, and how often
the interval of 90 % holds.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression
from streams import Vector, serve
from study import streams

from streamcal import HedgedCalibrator
from streamcal.metrics import ExpectedMetric, expected_metric

METRICS = ("f1", "precision", "auc", "brier")
RULES = ("streamcal", "probabilities", "CBPE", "last labels", "last window")


def estimates(
    scores: Vector, p: Vector, y: Vector, late: int, window: int
) -> Iterator[tuple[str, dict[str, float], tuple[float, float]]]:
    """Yield the name of a metric, its error by each rule, and the interval around the truth."""
    first = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
    first.fit(scores[:window], y[:window])
    once = first.predict(scores)
    chosen = p >= 0.5
    for end in range(2 * window + late, len(y) + 1, window // 2):
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
                of(once, now, None).value,
                of(p, labelled, y[labelled]).value,
                of(p, slice(whole - window, whole), y[whole - window : whole]).value,
            )
            errors = {rule: abs(value - truth) for rule, value in zip(RULES, found, strict=True)}
            yield metric, errors, (float(ours.low <= truth <= ours.high), truth)


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--late", type=int, default=500)
    parser.add_argument("--window", type=int, default=1000)
    given = parser.parse_args()
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
            stream.scores, p, stream.y, given.late, given.window
        ):
            rows[metric].append(found)
            held[metric].append(holds)
        cells = []
        for metric in METRICS:
            means = [float(np.mean([row[rule] for row in rows[metric]])) for rule in RULES]
            errors[metric].append(means)
            covered[metric].append(float(np.mean(held[metric])))
            cells.append(
                " / ".join(f"{mean:.4f}" for mean in means) + f" ({covered[metric][-1]:.0%})"
            )
        print(f"| {stream.name} | {' | '.join(cells)} |", flush=True)
    print("\n| metric | " + " | ".join(RULES) + " | best on | interval holds |")
    print("|---|" + "--:|" * (len(RULES) + 2))
    for metric in METRICS:
        table = np.array(errors[metric])
        best = np.mean(table[:, 0] <= table[:, 2:].min(axis=1))
        means = " | ".join(f"{mean:.4f}" for mean in table.mean(axis=0))
        print(f"| {metric} | {means} | {best:.0%} | {np.mean(covered[metric]):.0%} |")


if __name__ == "__main__":
    main()
