"""Prequential log loss of the hedge and of single calibrators.

    python benchmarks/hedge_streams.py DATA [--delays 0 48 500] [--keep FOLDER]

``DATA`` holds ``streams/elec.csv.gz`` (Elec2: 45,312 half-hours, six features, the class in the
last column), ``forecasts/538_mlb_games.csv`` and ``forecasts/538_mlb_make_playoffs.csv`` (columns
score and label, in time order). On Elec2 four river models give the scores, each trained as the
labels come at once; the others are forecasts as published. Scores are clipped to [1e-6, 1 − 1e-6].

For each delay d a calibrator learns a sample after d others have been served. Its loss is that of
the served predictions. The default hedge runs with its tickets, and without them ("delay
unknown"). ``--keep`` writes the models' scores to a folder and reads them from there again.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from streams import MODELS, log_loss, read, serve

from streamcal import (
    Calibrator,
    HedgedCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
)

STREAMS = (*MODELS, "MLB games", "make the playoffs")
SINGLES: dict[str, Callable[[], Calibrator]] = {
    "raw": IdentityCalibrator,
    "Platt": PlattCalibrator,
    "Platt, 500": lambda: PlattCalibrator(gamma=0.5, prior=10.0, half_life=500.0),
    "Platt, 100": lambda: PlattCalibrator(prior=10.0, half_life=100.0),
    "200": lambda: IsotonicCalibrator(window=200),
    "1000": lambda: IsotonicCalibrator(window=1_000),
    "2000": lambda: IsotonicCalibrator(window=2_000),
    "5000": lambda: IsotonicCalibrator(window=5_000),
    "all": IsotonicCalibrator,
}


def main() -> None:
    """Print a table for each delay, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 48, 500])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--streams", nargs="+", default=STREAMS)
    arguments = parser.parse_args()
    streams = {name: read(arguments.data, name, arguments.keep) for name in arguments.streams}
    for delay in arguments.delays:
        hedges = ["hedge"] if delay == 0 else ["hedge", "delay unknown"]
        print(f"\nLabels {delay} samples late\n")
        print("| stream | " + " | ".join([*SINGLES, *hedges, "hedge − best"]) + " |")
        print("|---|" + "--:|" * (len(SINGLES) + len(hedges) + 1), flush=True)
        for name, (scores, y) in streams.items():
            losses = {
                single: log_loss(serve(make(), scores, y, delay), y)
                for single, make in SINGLES.items()
            }
            best = min(losses.values())
            losses["hedge"] = log_loss(serve(HedgedCalibrator(), scores, y, delay, True), y)
            if delay:
                losses["nothing"] = log_loss(serve(HedgedCalibrator(), scores, y, delay), y)
            cells = [f"{loss:.4f}" for loss in losses.values()]
            print(f"| {name} | {' | '.join(cells)} | {losses['hedge'] - best:+.4f} |", flush=True)


if __name__ == "__main__":
    main()
