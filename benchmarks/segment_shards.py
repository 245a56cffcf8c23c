"""What it costs to divide a stream among several `SegmentCalibrator`s, each with its own terms.

    python -m benchmarks.segment_shards [--samples 100000]

On Spark each key has a calibrator of its own. The stream has 100,000 campaigns (Zipf) whose effects
on the log odds drift, 50 countries, four devices, and an effect of each pair of a country and a
device. The model knows none of them. The table has the prequential log loss of one calibrator for
all samples, of one for each of several keys, and of a hedge for each key, which has no segments.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from streamcal import Calibrator, HedgedCalibrator, SegmentCalibrator
from streamcal.metrics.log_loss import log_losses

Vector = NDArray[np.float64]
Columns = dict[str, NDArray[np.int64]]
N_CAMPAIGNS, N_COUNTRIES, N_DEVICES = 100_000, 50, 4
DRIFT, DRIFTS_EVERY = 0.1, 1_000  # a share of the deviation of campaigns, and samples


def make_stream(n: int) -> tuple[Columns, Vector, Vector]:
    """Return the fields, the model's probabilities and the labels."""
    draw = np.random.default_rng(0)
    campaign = draw.zipf(1.2, n) % N_CAMPAIGNS
    country = np.minimum(draw.geometric(0.08, n) - 1, N_COUNTRIES - 1)
    device = draw.integers(0, N_DEVICES, n)
    effects = draw.normal(0.0, 0.7, N_CAMPAIGNS)
    of_countries, of_devices = draw.normal(0.0, 0.4, N_COUNTRIES), draw.normal(0.0, 0.3, N_DEVICES)
    of_pairs = draw.normal(0.0, 0.2, (N_COUNTRIES, N_DEVICES))
    known = draw.normal(-1.0, 1.2, n)
    log_odds = known + of_countries[country] + of_devices[device] + of_pairs[country, device]
    for start in range(0, n, DRIFTS_EVERY):
        rows = slice(start, start + DRIFTS_EVERY)
        log_odds[rows] += effects[campaign[rows]]
        effects *= np.sqrt(1.0 - DRIFT**2)
        effects += DRIFT * draw.normal(0.0, 0.7, N_CAMPAIGNS)
    labels = (draw.random(n) < expit(log_odds)).astype(float)
    return {"campaign": campaign, "country": country, "device": device}, expit(known), labels


def keyed(
    calibrator: Calibrator, keys: NDArray[np.int64], columns: Columns, p: Vector, y: Vector
) -> Vector:
    """Return the predictions of one calibrator for each key; keys do not affect each other."""
    out = np.empty(len(p))
    in_order = np.argsort(keys, kind="stable")
    for rows in np.split(in_order, np.flatnonzero(np.diff(keys[in_order])) + 1):
        fields = {name: column[rows] for name, column in columns.items()}
        out[rows] = calibrator.clone().predict_learn_many(p[rows], y[rows], x=fields)
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100_000)
    columns, p, y = make_stream(parser.parse_args(arguments).samples)
    campaign, country = columns["campaign"], columns["country"]
    segments, hedge = SegmentCalibrator(list(columns)), HedgedCalibrator()
    one = np.zeros_like(campaign)
    found = np.unique(np.stack(list(columns.values())), axis=1).shape[1]
    print(f"{len(p):,} samples of {found:,} segments; the log loss of")
    for name, calibrator, keys in (
        ("one hedge", hedge, one),
        ("a hedge for each campaign", hedge, campaign),
        ("a hedge for each country", hedge, country),
        ("segments, one calibrator", segments, one),
        ("segments, one for each country", segments, country),
        ("segments, campaigns in 4 shards", segments, campaign % 4),
        ("segments, campaigns in 16 shards", segments, campaign % 16),
        ("segments, campaigns in 64 shards", segments, campaign % 64),
    ):
        losses = log_losses(y, keyed(calibrator, keys, columns, p, y))
        print(f"{name:34}{losses.mean():.4f}", flush=True)


if __name__ == "__main__":
    main()
