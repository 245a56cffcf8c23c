"""Does a hedge need a drift detector? Log loss with and without one, on streams with drift.

    python benchmarks/drift_detectors.py DATA [--keep FOLDER]

The Elec2 streams of ``hedge_streams.py`` (see there for ``DATA`` and ``--keep``), and three streams
of 40,000 uniform scores whose meaning is known: the probability of a label is a logistic map of
the score's log odds that changes at once every 10,000 samples, or turns slowly all the time, or
stays. Labels are immediate. "at the changes" restarts the calibrator where the map changes, which
no detector can know; "the truth" is the loss of the true probabilities.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from river import drift
from streams import MODELS, FixedModel, N, Vector, generated, log_loss, read

from streamcal import CalibratedClassifier, Calibrator, HedgedCalibrator, IsotonicCalibrator

SEGMENT = N // 4
DETECTORS = {"ADWIN": drift.ADWIN, "Page-Hinkley": drift.PageHinkley}


def serve(
    scores: Vector, y: Vector, calibrator: Calibrator, detector: Any, on_drift: str
) -> tuple[float, int]:
    """Return the log loss of what is served, and the number of alarms."""
    model = CalibratedClassifier(
        FixedModel(), calibrator, drift_detector=detector, on_drift=on_drift
    )
    served = np.empty(len(y))
    for t, (score, label) in enumerate(zip(scores.tolist(), (y == 1.0).tolist(), strict=True)):
        x = {False: 1.0 - score, True: score}
        served[t] = model.predict_proba_one(x)[True]
        model.learn_one(x, label)
    return log_loss(served, y), model.n_alarms


def main() -> None:
    """Print a table as Markdown: log losses, and in brackets the alarms."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    streams = {name: (*read(arguments.data, name, arguments.keep), None) for name in MODELS}
    streams |= {kind: generated(kind) for kind in ("abrupt", "gradual", "stationary")}
    ways = [("none", "none")] + [(name, what) for name in DETECTORS for what in ("reset", "shrink")]
    heads = [name if name == "none" else f"{name}, {what}" for name, what in ways]
    print("| stream | calibrator | " + " | ".join(heads) + " | at the changes | the truth |")
    print("|---|---|" + "--:|" * (len(heads) + 2), flush=True)
    for stream, (scores, y, p) in streams.items():
        truth = f"{log_loss(p, y):.4f}" if p is not None else ""
        for calibrator in (IsotonicCalibrator(), HedgedCalibrator()):
            cells = []
            for name, what in ways:
                detector = None if name == "none" else DETECTORS[name]()
                loss, alarms = serve(scores, y, calibrator.clone(), detector, what)
                cells.append(f"{loss:.4f}" + (f" ({alarms})" if detector else ""))
            changes = ""
            if stream == "abrupt":
                parts = [slice(at, at + SEGMENT) for at in range(0, N, SEGMENT)]
                anew = [calibrator.clone().predict_learn_many(scores[a], y[a]) for a in parts]
                changes = f"{log_loss(np.concatenate(anew), y):.4f}"
            kind = "all samples" if isinstance(calibrator, IsotonicCalibrator) else "hedge"
            print(f"| {stream} | {kind} | {' | '.join(cells)} | {changes} | {truth} |", flush=True)


if __name__ == "__main__":
    main()
