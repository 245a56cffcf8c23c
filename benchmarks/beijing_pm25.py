"""Prequential MAE on the PM2.5 levels of Beijing, beside what river has for such labels.

    python benchmarks/beijing_pm25.py beijing_pm25_hourly.csv.gz [--tune 10000]

Hourly readings of 2010 to 2014 (UCI id 381) in six levels, cut at 35, 75, 115, 150 and 250 µg/m³;
hours without a reading are left out. Features: weather, hour and month as points on a circle, the
logarithm of the last three readings (the last known one where it is missing), and for each of
these whether it reached each cut. Every model gets the same, standardised as the stream goes by
river's ``StandardScaler``; "+ Fourier" adds 100 random Fourier features of the last three readings.

A sample is predicted, then learned. A number that is regressed is rounded to the nearest level.
Options are chosen from the values in ``MODELS`` by the error on the first ``--tune`` samples; the
error that is printed is that on the whole stream. The last line needs no model: the last reading.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river import compose, forest, linear_model, multiclass, optim, preprocessing, tree

from streamcal.ordinal import (
    CuSumRank,
    PACuSumRank,
    PRank,
    RandomFourierFeatures,
    ThresholdClassifier,
)

CUTS = (35, 75, 115, 150, 250)
LABELS = range(len(CUTS) + 1)
LAGS = ("lag1", "lag2", "lag3")
Sample = tuple[dict[str, float], int]


def read(path: Path) -> list[Sample]:
    """Return the samples in time order."""
    table = pd.read_csv(path)
    lags = ["pm2.5_1ago", "pm2.5_2ago", "pm2.5_3ago"]
    table[lags] = table[lags].ffill().bfill()
    table = table[table["pm2.5"].notna()]
    levels = np.searchsorted(CUTS, table["pm2.5"].to_numpy(), side="right")
    features = pd.DataFrame({name.lower(): table[name] for name in ("DEWP", "TEMP", "PRES")})
    for name in ("Iws", "Is", "Ir"):
        features[name.lower()] = np.log1p(table[name])
    for name, period in (("hour", 24), ("month", 12)):
        angle = 2.0 * np.pi * table[name] / period
        features[f"{name}_sin"], features[f"{name}_cos"] = np.sin(angle), np.cos(angle)
    for direction in ("NE", "NW", "SE"):
        features[direction] = (table["cbwd"] == direction) * 1.0
    for column, lag in zip(lags, LAGS, strict=True):
        features[lag] = np.log1p(table[column])
        for cut in CUTS:
            features[f"{lag}>={cut}"] = (table[column] >= cut) * 1.0
    return list(zip(features.to_dict("records"), levels.tolist(), strict=True))


def _tenfold(x: dict[Any, float]) -> dict[Any, float]:
    return {name: 10.0 * value for name, value in x.items()}


def scaled(model: Any) -> Any:
    """Return a pipeline that standardises."""
    return preprocessing.StandardScaler() | model


def lifted(model: Any) -> Any:
    """Return a pipeline that standardises and adds Fourier features of the last readings."""
    lags = compose.Select(*LAGS) | preprocessing.StandardScaler()
    fourier = lags | RandomFourierFeatures(100, gamma=0.3) | compose.FuncTransformer(_tenfold)
    return compose.TransformerUnion(preprocessing.StandardScaler(), fourier) | model


def each(model: Any) -> Any:
    """Return one model for each label against the rest."""
    return multiclass.OneVsRestClassifier(model)


def cut(model: Any) -> Any:
    """Return a regressor whose score optimal thresholds cut, instead of rounding."""
    return ThresholdClassifier(model, tuple(LABELS))


RATES = (0.001, 0.003, 0.01, 0.03)
MARGINS = (8.0, 32.0, 128.0, 512.0)
MODELS: dict[str, tuple[Callable[[float], Any], tuple[float, ...]]] = {
    "PRank": (lambda m: scaled(PRank(LABELS, margin=m)), MARGINS),
    "CuSumRank": (lambda m: scaled(CuSumRank(LABELS, margin=m)), MARGINS),
    "PACuSumRank": (lambda C: scaled(PACuSumRank(LABELS, mode="PA-I", C=C)), RATES),
    "CuSumRank + Fourier": (lambda m: lifted(CuSumRank(LABELS, margin=m)), MARGINS),
    "PACuSumRank + Fourier": (lambda C: lifted(PACuSumRank(LABELS, mode="PA-I", C=C)), RATES),
    "one-vs-rest PA": (lambda C: scaled(each(linear_model.PAClassifier(C))), RATES),
    "one-vs-rest PA + Fourier": (lambda C: lifted(each(linear_model.PAClassifier(C))), RATES),
    "one-vs-rest logistic": (
        lambda rate: scaled(each(linear_model.LogisticRegression(optim.SGD(rate)))),
        RATES,
    ),
    "one-vs-rest logistic + Fourier": (
        lambda rate: lifted(each(linear_model.LogisticRegression(optim.SGD(rate)))),
        RATES,
    ),
    "one-vs-rest ALMA": (lambda _: scaled(each(linear_model.ALMAClassifier())), (0.0,)),
    "softmax": (lambda rate: scaled(linear_model.SoftmaxRegression(optim.SGD(rate))), RATES),
    "linear, rounded": (
        lambda rate: scaled(linear_model.LinearRegression(optim.SGD(rate / 10.0))),
        RATES,
    ),
    "linear + Fourier, rounded": (
        lambda rate: lifted(linear_model.LinearRegression(optim.SGD(rate / 10.0))),
        RATES,
    ),
    "linear, thresholds": (
        lambda rate: cut(scaled(linear_model.LinearRegression(optim.SGD(rate / 10.0)))),
        RATES,
    ),
    "linear + Fourier, thresholds": (
        lambda rate: cut(lifted(linear_model.LinearRegression(optim.SGD(rate / 10.0)))),
        RATES,
    ),
    "PA, rounded": (lambda C: scaled(linear_model.PARegressor(C)), RATES),
    "Hoeffding tree, rounded": (lambda _: tree.HoeffdingTreeRegressor(), (0.0,)),
    "adaptive random forest, rounded": (lambda _: forest.ARFRegressor(seed=1), (0.0,)),
    "Mondrian forest, rounded": (lambda _: forest.AMFRegressor(seed=1), (0.0,)),
    "adaptive random forest": (lambda _: forest.ARFClassifier(seed=1), (0.0,)),
}


def errors(model: Any, samples: list[Sample]) -> Iterator[int]:
    """Yield by how many levels each sample is missed before it is learned."""
    for x, y in samples:
        answer = model.predict_one(x)
        yield abs(min(max(round(answer or 0), 0), LABELS[-1]) - y)
        model.learn_one(x, y)


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tune", type=int, default=10_000)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    samples = read(arguments.file)
    for name in arguments.models:
        make, options = MODELS[name]
        start = time.perf_counter()
        chosen = options[0]
        if len(options) > 1:
            first = samples[: arguments.tune]
            tuned = {option: sum(errors(make(option), first)) for option in options}
            chosen = min(tuned, key=tuned.__getitem__)
        mae = sum(errors(make(chosen), samples)) / len(samples)
        seconds = time.perf_counter() - start
        print(f"{name:32}{mae:.4f}  (option {chosen:g}, {seconds:.0f} s)", flush=True)
    last = [(sum(x[f"lag1>={cut}"] for cut in CUTS), y) for x, y in samples]
    print(f"{'the last reading':32}{np.mean([abs(level - y) for level, y in last]):.4f}")


if __name__ == "__main__":
    main()
