"""Segments where the base is right on the whole, and a few rare segments are wrong.

    python benchmarks/rare_segments.py [--seeds 6] [--data DATA]

The corrected models of `SegmentCalibrator` cost more in the many segments that are right than they
gain in the few that are wrong, so a mixture with one weight for all segments serves the base. Ways
to mix the same answers, which are those on the tickets of `serve_one`:

* base: the default hedge, without segments,
* one weight: the base and the two dense models by their likelihood, with the shares of
  `SegmentCalibrator`,
* one for each value: each value of a field has a weight of the two dense models' mixture against
  the base, ½ at first, with a share of 0.001; a sample is answered with the mean over its values,
* half and half: the two above by their likelihood,
* served: `SegmentCalibrator`, which has the sparse models too,
* served, and by value: half and half with a weight for each value of the mean of the sparse models
  against that of the dense ones.

For each kind of stream the mean over seeds: the log loss, and the root mean square of z over the
values of all fields in the second half of the stream, where z is the sum of y − p in standard
deviations of a calibrated model. Its expected value is 1 if all segments are calibrated. With
``--data`` also the streams of `segments.py`.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from segments import STREAMS, Stream
from streams import Vector, log_loss

from streamcal import SegmentCalibrator

SHARES, SHARE_PRIOR = (0.0, 0.001), np.array([0.75, 0.25])
BASE, OTHER = 2.0 / 3.0, 1.0 / 6.0
SHARE = 0.001  # of a value's weights
LEAST = 20  # samples of a value, to count its error


class Shape(NamedTuple):
    """A kind of stream, whose score is right but for some values or crossings.

    Attributes
    ----------
    n : int
        Samples.
    sizes : tuple of int
        Values of each field.
    n_wrong : int
        Values of the first field that are wrong.
    share : float
        Of the samples, for each value that is wrong.
    shift : float
        By how much the log odds are wrong.
    since : float
        From which part of the stream on they are wrong.
    n_crossings : int
        Crossings of two values that are wrong by the shift.
    dense : float
        The deviation of the effects of all values of the second field.
    """

    n: int
    sizes: tuple[int, ...]
    n_wrong: int = 0
    share: float = 0.01
    shift: float = 1.0
    since: float = 0.0
    n_crossings: int = 0
    dense: float = 0.0


SHAPES = {
    "one of 5": Shape(20_000, (5,), 1, 0.02, 0.8),
    "one of 6, three fields": Shape(20_000, (6, 4, 3), 1, 0.02, 0.8),
    "two of 20, two fields": Shape(30_000, (20, 10), 2, 0.01),
    "three of 50, four fields": Shape(30_000, (50, 8, 6, 4), 3, 0.006, 1.2),
    "one of 8, a short stream": Shape(8_000, (8, 3), 1, 0.02),
    "two of 10, from 0.4 on": Shape(30_000, (10, 5), 2, 0.02, since=0.4),
    "three crossings": Shape(25_000, (8, 6, 5), shift=0.9, n_crossings=3),
    "three crossings, one field": Shape(25_000, (10, 12, 5), shift=0.9, n_crossings=3, dense=0.25),
    "one field of 20": Shape(20_000, (10, 20, 10), dense=0.15),
    "none": Shape(20_000, (20, 8, 5)),
}


def generated(shape: Shape, seed: int) -> Stream:
    """Return a stream of a shape."""
    rng = np.random.default_rng(seed)
    codes = []
    for size in shape.sizes:
        often = 1.0 / np.sqrt(np.arange(1.0, size + 1.0))
        if not codes and shape.n_wrong:
            often *= (1.0 - shape.share * shape.n_wrong) / often[: -shape.n_wrong].sum()
            often[-shape.n_wrong :] = shape.share
        codes.append(rng.choice(size, shape.n, p=often / often.sum()))
    u = rng.normal(-1.4, 1.0, shape.n)
    effects = np.zeros(shape.sizes[0])
    if shape.n_wrong:
        effects[-shape.n_wrong :] = shape.shift * rng.choice([-1.0, 1.0], shape.n_wrong)
    z = u + np.where(np.arange(shape.n) >= shape.since * shape.n, effects[codes[0]], 0.0)
    for _ in range(shape.n_crossings):
        i, j = rng.choice(len(codes), 2, replace=False)
        inside = codes[i] == rng.integers(shape.sizes[i])
        inside &= codes[j] == rng.integers(shape.sizes[j])
        z += np.where(inside, shape.shift * rng.choice([-1.0, 1.0]), 0.0)
    if shape.dense:
        z += rng.normal(0.0, shape.dense, shape.sizes[1])[codes[1]]
    y = (rng.random(shape.n) < expit(z)).astype(float)
    return Stream({f"field {i}": c.tolist() for i, c in enumerate(codes)}, expit(u), y, "field 0")


def served(stream: Stream) -> tuple[Vector, Vector]:
    """Return the predictions of `SegmentCalibrator`, and those of its base and models."""
    calibrator = SegmentCalibrator(list(stream.columns))
    predictions, answers = np.empty(len(stream.y)), np.empty((len(stream.y), 5))
    rows = zip(*stream.columns.values(), stream.scores.tolist(), stream.y.tolist(), strict=True)
    for t, (*values, score, y) in enumerate(rows):
        x = dict(zip(stream.columns, values, strict=True))
        predictions[t], ticket = calibrator.serve_one(score, x)
        _, (_, of_models) = ticket
        answers[t] = of_models[:5]
        calibrator.learn_one(score, y, x=x)
    return predictions, answers


def mixture(answers: Vector, y: Vector, prior: list[float]) -> Vector:
    """Return the mixture of answers by their likelihood, with the shares of the calibrator."""
    rows, of_rows = np.array([prior] * len(SHARES)), SHARE_PRIOR
    shares, out = np.array(SHARES)[:, None], np.empty(len(y))
    for t, (p, label) in enumerate(zip(answers, y.tolist(), strict=True)):
        by_rows = rows @ p
        out[t] = of_rows @ by_rows
        of_rows = of_rows * (by_rows if label else 1.0 - by_rows)
        of_rows /= of_rows.sum()
        rows = rows * (p if label else 1.0 - p)
        rows /= rows.sum(axis=1, keepdims=True)
        rows = (1.0 - shares) * rows + shares * np.array(prior)
    return out


def by_value(stream: Stream, base: Vector, corrected: Vector) -> Vector:
    """Return the mean over the fields of mixtures with a weight for each value."""
    weights: list[dict[object, float]] = [{} for _ in stream.columns]
    out = np.empty(len(base))
    rows = zip(zip(*stream.columns.values(), strict=True), base, corrected, stream.y, strict=True)
    for t, (values, p, q, y) in enumerate(rows):
        likelihoods = (p, q) if y else (1.0 - p, 1.0 - q)
        out[t] = 0.0
        for of_field, value in zip(weights, values, strict=True):
            w = of_field.get(value, 0.5)
            out[t] += ((1.0 - w) * p + w * q) / len(values)
            w *= likelihoods[1] / ((1.0 - w) * likelihoods[0] + w * likelihoods[1])
            of_field[value] = (1.0 - SHARE) * w + SHARE * 0.5
    return out


def error_of_values(stream: Stream, p: Vector) -> float:
    """Return the root mean square of z over the values of all fields, in the second half."""
    late = slice(len(p) // 2, None)
    y, p = stream.y[late], p[late]
    errors: list[float] = []
    for column in stream.columns.values():
        _, codes = np.unique(column[late], return_inverse=True)
        often = np.bincount(codes) >= LEAST
        variances = np.bincount(codes, p * (1.0 - p))
        errors.extend((np.bincount(codes, y - p)[often] / np.sqrt(variances[often])).tolist())
    return float(np.sqrt(np.mean(np.square(errors))))


def results(stream: Stream) -> Iterator[tuple[str, float, float]]:
    """Yield the log loss and the error of each way."""
    p, answers = served(stream)
    base, dense, sparse = answers[:, 0], answers[:, 1:3], answers[:, 3:]
    one = mixture(answers[:, :3], stream.y, [BASE, OTHER, OTHER])
    each = by_value(stream, base, mixture(dense, stream.y, [0.5, 0.5]))
    both = mixture(np.column_stack([one, each]), stream.y, [0.5, 0.5])
    either = by_value(stream, dense.mean(axis=1), sparse.mean(axis=1))
    ways = {
        "base": base,
        "one weight": one,
        "one for each value": each,
        "half and half": both,
        "served": p,
        "served, and by value": mixture(np.column_stack([p, either]), stream.y, [0.5, 0.5]),
    }
    for name, answer in ways.items():
        yield name, log_loss(answer, stream.y), error_of_values(stream, answer)


def main() -> None:
    """Measure all streams."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--data", type=Path, help="also the streams of segments.py")
    options = parser.parse_args()
    kinds = {
        name: [generated(shape, seed) for seed in range(options.seeds)]
        for name, shape in SHAPES.items()
    }
    if options.data:
        kinds |= {name: [make(options.data)] for name, make in STREAMS.items()}
    for name, streams in kinds.items():
        found = [list(results(stream)) for stream in streams]
        print(f"\n{name}: log loss, error of values")
        for way in zip(*found, strict=True):
            loss, error = np.mean([values for _, *values in way], axis=0)
            print(f"{way[0][0]:20} {loss:.5f} {error:5.2f}", flush=True)


if __name__ == "__main__":
    main()
