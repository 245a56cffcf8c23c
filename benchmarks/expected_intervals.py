"""How often the intervals of expected metrics hold: the simulation of Kivimäki et al. 2025.

    python benchmarks/expected_intervals.py [--trials 2000] [--cbpe FOLDER]

Section 4.2 of *Performance Estimation in Binary Classification Using Calibrated Confidence* (arXiv
2505.05295): in each trial the probabilities of a window are Beta(a, b) with a and b uniform between
0.1 and 10, labels are 1 with them, and decisions are 1 from 0.5 up. The tables say how often the
intervals of 90 % and 95 % hold the metric of the labels, and how long an expectation with both
intervals takes, in time of the processor. ``FOLDER`` is a copy of the authors' repository (github:
JuhaniK/CBPE-experiments). With it their laws are run on the same trials, those of recall and F1 on
a tenth of them at 300 samples and a fiftieth at 1,000. Both laws are exact, so the intervals differ
where a law has few values: theirs is the shortest of its mass, ours cuts the same mass from both
sides.
"""

import argparse
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.metrics import expected_metric

METRICS = ("accuracy", "precision", "recall", "f1")
SIZES = (10, 30, 100, 300, 1000)
LEVELS = (0.9, 0.95)


def values(y: NDArray[np.int64], chosen: NDArray[np.bool_]) -> dict[str, float]:
    """Return the metrics of labels."""
    tp, fp, fn = (int(x.sum()) for x in (y * chosen, (1 - y) * chosen, y * ~chosen))
    return {
        "accuracy": 1.0 - (fp + fn) / len(y),
        "precision": tp / max(tp + fp, 1),
        "recall": tp / max(tp + fn, 1),
        "f1": 2 * tp / max(2 * tp + fp + fn, 1),
    }


def of_streamcal(p: Any, metric: str) -> list[tuple[float, float]]:
    """Return the intervals at both levels."""
    return [expected_metric(p, None, metric, level=level)[1:] for level in LEVELS]


def of_cbpe(module: Any, p: Any, metric: str) -> list[tuple[float, float]]:
    """Return those of the authors' code."""
    law = getattr(module, metric)(p)
    module.calculate_expectation(law)
    return [tuple(module.calculate_CI(law, alpha=1.0 - level)) for level in LEVELS]


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--cbpe", type=Path)
    given = parser.parse_args()
    rules: dict[str, Any] = {"streamcal": of_streamcal}
    if given.cbpe:
        sys.path.insert(0, str(given.cbpe))
        warnings.simplefilter("ignore")
        import estimators  # type: ignore[import-not-found]  # of the folder that is given

        rules["CBPE"] = lambda p, metric: of_cbpe(estimators, p, metric)
    print("Coverage at 90 % / 95 %, and milliseconds of an F1 with both intervals\n")
    print("| rule | samples | " + " | ".join(METRICS) + " | ms |")
    print("|---|--:|" + "--:|" * (len(METRICS) + 1))
    for n in SIZES:
        rng = np.random.default_rng(n)
        held: dict[Any, list[list[bool]]] = defaultdict(list)
        spent = defaultdict(list)
        every = {300: 10, 1000: 50}.get(n, 1)
        for trial in range(given.trials):
            p = rng.beta(*rng.uniform(0.1, 10.0, 2), n)
            truth = values((rng.random(n) < p).astype(int), p >= 0.5)
            for rule, intervals in rules.items():
                for metric in METRICS:
                    if rule == "CBPE" and metric in ("recall", "f1") and trial % every:
                        continue
                    start = time.process_time()
                    found = intervals(p, metric)
                    if metric == "f1":
                        spent[rule].append(time.process_time() - start)
                    slack = 1e-9  # rounding errors of ratios
                    held[rule, metric].append(
                        [low - slack <= truth[metric] <= high + slack for low, high in found]
                    )
        for rule in rules:
            cells = [
                " / ".join(f"{share:.1%}" for share in np.mean(held[rule, metric], axis=0))
                for metric in METRICS
            ]
            ms = 1e3 * float(np.median(spent[rule]))
            print(f"| {rule} | {n} | {' | '.join(cells)} | {ms:.2f} |", flush=True)


if __name__ == "__main__":
    main()
