"""A Venn-Abers calibrator in the default set of the hedge: what it gains and costs.

    python benchmarks/venn_abers_member.py [DATA] [--keep FOLDER] [--delays 0 48 500]

The streams are those of ``study.py``, which also says what ``DATA`` and ``--keep`` are. Each number
is the log loss of the default set with one more calibrator, minus that of the default set; labels
come with tickets. An isotonic calibrator as eighth is there for comparison. At last the means and
extremes of all streams, and the time of a sample divided by that of the default set, after 10,000
samples of uniform scores (the least of 15 turns).
"""

import argparse
import copy
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from streams import log_loss, serve
from study import streams

from streamcal import Calibrator, HedgedCalibrator, IsotonicCalibrator, VennAbersCalibrator
from streamcal.calibration.hedged import DEFAULT_PRIOR, default_calibrators

# With the prior of an isotonic calibrator of the default set that has a similar window.
EIGHTH: dict[str, tuple[Callable[[], Calibrator], float]] = {
    "Venn–Abers 200": (lambda: VennAbersCalibrator(window=200), 0.3),
    "Venn–Abers 1,000": (lambda: VennAbersCalibrator(window=1_000), 0.5),
    "Venn–Abers": (VennAbersCalibrator, 1.0),
    "isotonic 500": (lambda: IsotonicCalibrator(window=500), 0.5),
    "isotonic 3,000": (lambda: IsotonicCalibrator(window=3_000), 0.5),
}


def with_eighth(name: str) -> HedgedCalibrator:
    """Return a hedge of the default set and one more calibrator."""
    make, prior = EIGHTH[name]
    return HedgedCalibrator([*default_calibrators(), make()], prior=[*DEFAULT_PRIOR, prior])


def predict_learn_many(hedge: HedgedCalibrator, scores: list[float], y: list[float]) -> None:
    """Predict and learn samples in one call."""
    hedge.predict_learn_many(scores, y)


def predict_one(hedge: HedgedCalibrator, scores: list[float], _: list[float]) -> None:
    """Predict samples one by one."""
    for score in scores:
        hedge.predict_one(score)


def learn_one(hedge: HedgedCalibrator, scores: list[float], y: list[float]) -> None:
    """Learn samples one by one."""
    for score, label in zip(scores, y, strict=True):
        hedge.learn_one(score, label)


def ratios(run: Callable[[HedgedCalibrator, list[float], list[float]], None]) -> list[str]:
    """Return the time of each hedge by that of the default."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=12_000)
    y = (rng.uniform(size=12_000) < scores).astype(float)
    hedges = [HedgedCalibrator(), *map(with_eighth, EIGHTH)]
    for hedge in hedges:
        hedge.predict_learn_many(scores[:10_000], y[:10_000])
    least = [np.inf] * len(hedges)
    rest = scores[10_000:].tolist(), y[10_000:].tolist()
    for _ in range(15):
        for i, hedge in enumerate(hedges):
            fresh = copy.deepcopy(hedge)
            start = time.process_time()
            run(fresh, *rest)
            least[i] = min(least[i], time.process_time() - start)
    return [f"{t / least[0]:.2f}" for t in least[1:]]


def main() -> None:
    """Print tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 48, 500])
    given = parser.parse_args()
    rule = "|---|" + "--:|" * (1 + len(EIGHTH))
    every_stream = list(streams(given.data, given.keep))
    all_found = {}
    for delay in given.delays:
        print(f"\n| {delay} late | default | {' | '.join(EIGHTH)} |\n{rule}", flush=True)
        all_found[delay] = []
        for stream in every_stream:
            hedges = [HedgedCalibrator(), *map(with_eighth, EIGHTH)]
            default, *others = (
                log_loss(serve(hedge, stream.scores, stream.y, delay, True), stream.y)
                for hedge in hedges
            )
            found = [loss - default for loss in others]
            all_found[delay].append(found)
            cells = [f"{default:.4f}", *(f"{each:+.4f}" for each in found)]
            print(f"| {stream.name} | {' | '.join(cells)} |", flush=True)
    print(f"\n| all {len(every_stream)} streams | | {' | '.join(EIGHTH)} |\n{rule}")
    for delay, found in all_found.items():
        for name, of in (("mean", np.mean), ("least", np.min), ("most", np.max)):
            cells = [f"{each:+.4f}" for each in of(found, axis=0)]
            print(f"| {delay} late | {name} | {' | '.join(cells)} |")
    for run in (predict_learn_many, predict_one, learn_one):
        print(f"| time | `{run.__name__}` | {' | '.join(ratios(run))} |", flush=True)


if __name__ == "__main__":
    main()
