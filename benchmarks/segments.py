"""Calibration for each segment: `SegmentCalibrator`, one hedge per value of a field, and MCGrad.

    python benchmarks/segments.py DATA [--only NAME] [--mcgrad]

``DATA`` is a folder with ``segments/bank-full.csv.gz`` and ``adult.data.gz`` (UCI) and
``compas.csv.gz`` (ProPublica). The scores of the first two are those of river's logistic
regression, on the numeric features alone or on all, before it learns each sample; those of COMPAS
are the vendor's. Two streams are generated: users, drawn from 100,000 by Zipf's law, whose rates
drift, and scores that are the true probabilities in all segments. Nothing is downloaded.

Everything is prequential, with labels at once. With ``--mcgrad`` also the peers of the package
`mcgrad`: MCGrad and its Platt scaling with features, fitted again every 2,000 labels to all so far,
or to the last 20,000 ("recent"). Before the first fit they return the score. For each stream:

* the log loss of each calibrator,
* "rare": `SegmentCalibrator` minus the default hedge on samples whose combination of all fields was
  seen less than 20 times before,
* the error of each calibrator by segment: the root mean square of z over all values and pairs of
  values with 100 samples or more, where z is the sum of y − p in standard deviations of a
  calibrated model, for which the expected value is 1,
* how many segments `streamcal.metrics.multicalibration_error` finds miscalibrated, of those with 10
  samples or more: p-values corrected for their number are at most 0.01.
"""

import argparse
import csv
import gzip
import importlib
import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import compose, linear_model, preprocessing
from scipy.special import expit
from streams import Vector, log_loss, scored

from streamcal import HedgedCalibrator, KeyedCalibrator, SegmentCalibrator
from streamcal.metrics import multicalibration_error

BANK_NUMBERS = ("age", "balance", "day", "campaign", "pdays", "previous")
BANK_FIELDS = (
    "job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome",
)  # fmt: skip
ADULT_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hr_per_week")
ADULT_FIELDS = (
    "type_employer", "education", "marital", "occupation", "relationship", "race", "sex", "country",
)  # fmt: skip
N = 100_000  # samples of a generated stream, and users in it
REFIT, RECENT = 2_000, 20_000  # samples between two fits of a peer, and those of a recent fit
RARE, LEAST = 20, 100
MOST_VALUES = 10_000  # of a field: with more, hours for Platt scaling with features of all samples


class Stream(NamedTuple):
    """Fields, scores and labels in time order, and the field that keys the keyed hedges."""

    columns: dict[str, list[Any]]
    scores: Vector
    y: Vector
    key: str


def rows_of(file: Path) -> list[dict[str, str]]:
    """Return the rows of a compressed CSV."""
    with gzip.open(file, "rt", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def columns_of(rows: list[dict[str, str]], fields: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return some columns of a table."""
    return {field: [row[field] for row in rows] for field in fields}


def logistic(
    rows: list[dict[str, str]],
    y: list[bool],
    numbers: tuple[str, ...],
    fields: tuple[str, ...],
    knows_fields: bool,
    key: str,
) -> Stream:
    """Return a table with the scores of a logistic regression."""
    model = compose.SelectType(float) | preprocessing.StandardScaler()
    if knows_fields:
        model += compose.SelectType(str) | preprocessing.OneHotEncoder()
    model |= linear_model.LogisticRegression()
    known = fields if knows_fields else ()
    samples = (
        {**{name: float(row[name]) for name in numbers}, **{name: row[name] for name in known}}
        for row in rows
    )
    scores, labels = scored(model, zip(samples, y, strict=True))
    return Stream(columns_of(rows, fields), scores, labels, key)


def bank(data: Path, knows_fields: bool) -> Stream:
    """Return the calls of a bank's campaign; the label says whether the customer agreed."""
    rows = rows_of(data / "segments" / "bank-full.csv.gz")
    y = [row["y"] == "yes" for row in rows]
    return logistic(rows, y, BANK_NUMBERS, BANK_FIELDS, knows_fields, "poutcome")


def adult(data: Path, knows_fields: bool) -> Stream:
    """Return the people of a census; the label says whether one earned more than 50,000."""
    rows = rows_of(data / "segments" / "adult.data.gz")
    y = [row["income"].strip() == ">50K" for row in rows]
    return logistic(rows, y, ADULT_NUMBERS, ADULT_FIELDS, knows_fields, "relationship")


def compas(data: Path) -> Stream:
    """Return defendants in order of screening; the label says whether they offended again."""
    rows = rows_of(data / "segments" / "compas.csv.gz")
    columns = columns_of(rows, ("sex", "age_cat", "race", "c_charge_degree"))
    columns["priors"] = [min(int(row["priors_count"]), 5) for row in rows]
    scores = np.array([float(row["decile_score"]) for row in rows]) / 11.0
    y = np.array([float(row["two_year_recid"]) for row in rows])
    return Stream(columns, scores, y, "priors")


def generated(n_users: int, exponent: float, deviation: float, drift: float = 0.0) -> Stream:
    """Return samples of users (Zipf), whose log odds deviate from those of the score."""
    rng = np.random.default_rng(0)
    users, places = rng.zipf(exponent, N) % n_users, rng.integers(0, 50, N)
    of_users = rng.normal(0.0, deviation, n_users)
    of_places = rng.normal(0.0, 0.3 if deviation else 0.0, 50)
    u = rng.normal(-1.0, 1.2, N)
    z = np.empty(N)
    for start in range(0, N, 1_000):
        part = slice(start, start + 1_000)
        of_users *= np.sqrt(1.0 - drift**2)
        of_users += drift * rng.normal(0.0, deviation, n_users)
        z[part] = u[part] + of_users[users[part]] + of_places[places[part]]
    y = (rng.random(N) < expit(z)).astype(float)
    return Stream({"user": users.tolist(), "place": places.tolist()}, expit(u), y, "user")


STREAMS: dict[str, Callable[[Path], Stream]] = {
    "bank, model of the numbers": partial(bank, knows_fields=False),
    "bank, model of all fields": partial(bank, knows_fields=True),
    "adult, model of the numbers": partial(adult, knows_fields=False),
    "adult, model of all fields": partial(adult, knows_fields=True),
    "COMPAS, the vendor's score": compas,
    "100,000 segments that drift": lambda data: generated(N, 1.08, 0.7, 0.1),
    "a model that is calibrated": lambda data: generated(1_000, 1.2, 0.0),
}


def peer(name: str, stream: Stream, window: int) -> Vector:
    """Return the answers of a class of `mcgrad.methods`, fitted again to the last samples."""
    import pandas as pd

    methods = importlib.import_module("mcgrad.methods")
    logging.disable(logging.WARNING)
    fields = [f"in {name}" for name in stream.columns]
    table = pd.DataFrame(dict(zip(fields, stream.columns.values(), strict=True))).astype(str)
    table["score"], table["label"] = stream.scores.clip(1e-6, 1.0 - 1e-6), stream.y
    names = {"prediction_column_name": "score", "categorical_feature_column_names": fields}
    answers = stream.scores.copy()
    for start in range(REFIT, len(table), REFIT):
        seen, part = slice(max(0, start - window), start), slice(start, start + REFIT)
        method = getattr(methods, name)()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method.fit(table[seen], label_column_name="label", **names)
            answers[part] = method.predict(table[part].drop(columns="label"), **names)
    return answers


def answers_of(stream: Stream, mcgrad: bool) -> Iterator[tuple[str, Vector]]:
    """Yield the answers of each calibrator, by its name."""
    columns, scores, y, key = stream
    yield "raw", scores
    yield "default", HedgedCalibrator().predict_learn_many(scores, y)
    yield "keyed", KeyedCalibrator(HedgedCalibrator()).predict_learn_many(columns[key], scores, y)
    if mcgrad:
        yield "MCGrad", peer("MCGrad", stream, len(y))
        yield "MCGrad, recent", peer("MCGrad", stream, RECENT)
        if max(len(set(values)) for values in columns.values()) < MOST_VALUES:
            yield "Platt with features", peer("PlattScalingWithFeatures", stream, len(y))
        yield "Platt with features, recent", peer("PlattScalingWithFeatures", stream, RECENT)
    yield "segments", SegmentCalibrator(list(columns)).predict_learn_many(scores, y, x=columns)


def is_rare(columns: dict[str, list[Any]]) -> Any:
    """Return for each sample whether its combination of all fields was seen less than 20 times."""
    counts: Counter[Any] = Counter()
    rare = []
    for values in zip(*columns.values(), strict=True):
        rare.append(counts[values] < RARE)
        counts[values] += 1
    return np.array(rare)


def error_by_segment(stream: Stream, p: Vector) -> float:
    """Return the root mean square of the errors of values and pairs of values."""
    codes = [np.unique(column, return_inverse=True)[1] for column in stream.columns.values()]
    pairs = [a * (b.max() + 1) + b for a, b in combinations(codes, 2)]
    errors: list[float] = []
    for code in (*codes, *pairs):
        _, code = np.unique(code, return_inverse=True)
        often = np.bincount(code) >= LEAST
        variances = np.bincount(code, p * (1.0 - p))
        errors.extend((np.bincount(code, stream.y - p)[often] / np.sqrt(variances[often])).tolist())
    return float(np.sqrt(np.mean(np.square(errors))))


def measure(name: str, stream: Stream, mcgrad: bool) -> None:
    """Print the loss and the error of each calibrator on a stream."""
    print(f"\n{name}: {len(stream.y):,} samples; log loss, error by segment, wrong segments")
    rare, losses = is_rare(stream.columns), {}
    begun = time.perf_counter()
    for calibrator, p in answers_of(stream, mcgrad):
        took = time.perf_counter() - begun
        losses[calibrator] = log_loss(p[rare], stream.y[rare])
        loss, error = log_loss(p, stream.y), error_by_segment(stream, p)
        found = multicalibration_error(stream.y, p, stream.columns, pos_val=1.0)
        wrong = f"{len(found.miscalibrated(0.01)):,} of {len(found.segments):,}"
        print(f"{calibrator:28} {loss:.4f} {error:6.2f} {wrong:>14} {took:6.1f} s", flush=True)
        begun = time.perf_counter()
    excess = losses["segments"] - losses["default"]
    print(f"rare: {excess:+.4f} ({rare.sum():,} samples)", flush=True)


def main() -> None:
    """Measure all streams."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", default="", help="part of the name of a stream")
    parser.add_argument("--mcgrad", action="store_true")
    options = parser.parse_args()
    for name, make in STREAMS.items():
        if options.only in name:
            measure(name, make(options.data), options.mcgrad)


if __name__ == "__main__":
    main()
