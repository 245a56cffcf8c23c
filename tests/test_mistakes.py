"""Typical mistakes of users: each message says what to write instead, and nothing has changed.

A row has the mistake as code, and what its message must contain. ``it`` in the code is the object
that ``given`` makes; its bytes must be the same after the error. `_names` has the other names.
"""

import contextlib
import gzip
import os
import re
import shlex
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from river import drift, linear_model, preprocessing

import streamcal
from streamcal import decision, durable, losses, metrics, monitoring
from tests.runner import run as run_command

# Packages of the library are not touched: some of them need an extra.
PACKAGES = {path.name for path in Path(streamcal.__file__).parent.iterdir() if path.is_dir()}
MEMBERS = [
    (module, sorted(set(module.__all__) - PACKAGES)) for module in (streamcal, durable, monitoring)
]


class Mistake(NamedTuple):
    """A call that is refused, and words of the message."""

    code: str
    words: tuple[str, ...]
    given: str = ""


def of(given: str, *rows: tuple[str, ...]) -> list[Mistake]:
    """Return mistakes with one object; each row has the code, then words of the message."""
    return [Mistake(code, words, given) for code, *rest in rows for words in [tuple(rest)]]


LOGISTIC = "apply the logistic function 1 / (1 + exp(-z)) to logits"
PERCENT = "divide percentages by 100"
SWAPPED = "labels come first, then predictions"
UNLABELLED = "leave out samples without a label"

CALIBRATORS = [
    *of(
        "PlattCalibrator()",
        (
            "it.learn_many([1, 0, 1], [0.2, 0.7, 0.4])",
            "`scores` must come before `y`",
            "if that is meant, scores must be floats",
        ),
        ("it.learn_many(np.array([True, False]), [0.2, 0.7])", "`scores` must come before `y`"),
        ("it.learn_one(0.3, 'yes')", "`y` must be a number, got 'yes'", "`y == 'yes'`"),
        ("it.learn_many([0.3, 0.4], ['yes', 'no'])", "`y` must hold real", "`y == 'yes'`"),
        ("it.learn_one(0.3, 2)", "`y` must lie in [0, 1]", "write 1 for the positive label"),
        ("it.learn_many([0.3, 0.4], [1, 2])", "at position 1; write 1 for the positive label"),
        ("it.learn_one('0.3', 1)", "`score` must be a number", "float('0.3')"),
        ("it.learn_one('0,3', 1)", "`score` must be a number", "decimals need a point"),
        ("it.learn_one(None, 1)", "`score` must be a number, got None; leave such samples out"),
        ("it.learn_one(0.3, None)", "`y` must be a number, got None; leave such samples out"),
        ("it.learn_one(NAN, 1)", "`score` must be", "got nan; leave such samples out"),
        ("it.learn_one(0.3, NAN)", "`y` must", "got nan", UNLABELLED),
        ("it.learn_many([0.3, NAN], [1, 0])", "got nan at position 1; leave such samples out"),
        ("it.learn_many([0.3, 0.4], [1, None])", "`y`", "leave out", "position 1, which has None"),
        ("it.learn_one({True: 0.3}, 1)", "`score` must be a number", "such as score[True]"),
        ("it.learn_one(70, 1)", "`score`", PERCENT, LOGISTIC),
        ("it.learn_many([0.7, 70], [1, 0])", "got 70.0 at position 1", PERCENT),
        ("it.learn_one(-2.3, 1)", "`score`", LOGISTIC, "or use IsotonicCalibrator"),
        ("it.predict_many([-2.3, 1.4])", "`scores`", LOGISTIC, "or use IsotonicCalibrator"),
        ("it.learn_one([0.3, 0.4], [1, 0])", "`score`", "`_many` take arrays"),
        ("it.learn_many(0.3, 1)", "`scores`", "put a single number into a list"),
        ("it.predict_many(pd.DataFrame({'a': [0.1], 'b': [0.9]}))", "`scores['b']`"),
        ("it.predict_many(np.array([[0.1], [0.9]]))", "pass its only column, `scores[:, 0]`"),
        ("it.predict_many(np.array([[0.1, 0.9]]))", "such as `scores[:, 1]`"),
        ("it.predict_many(['0.1', '0.2'])", "`scores`", "float('0.1')"),
    ),
    *of(
        "PlattCalibrator(half_life=timedelta(days=7))",
        ("it.learn_one(0.3, 1, t=date(2026, 3, 1))", "write datetime.datetime(2026, 3, 1, 0, 0)"),
        ("it.learn_many([0.3], [1], t=[date(2026, 3, 1)])", "write datetime.datetime(2026, 3,"),
        ("it.learn_one(0.3, 1, t=np.timedelta64(7, 's'))", "`t` must be a datetime or a number"),
        ("it.learn_many([0.3], [1], t=np.array([7], 'm8[ns]'))", "`t` must be", "timedelta64[ns]"),
        ("it.learn_one(0.3, 1)", "forgets by time; pass t=datetime.now(UTC), got None"),
    ),
    *of(
        "IsotonicCalibrator()",
        ("it.learn_many([1, 0, 1], [0.2, 0.7, 0.4])", "`scores` must come before `y`"),
        ("it.learn_one('high', 1)", "`score` must be a number, got 'high'"),
    ),
    *of(
        "HedgedCalibrator()",
        ("it.learn_many([1, 0, 1], [0.2, 0.7, 0.4])", "`scores` must come before `y`"),
        ("it.predict_one(-2.3)", LOGISTIC, "or use IsotonicCalibrator"),
    ),
    *of(
        "SegmentCalibrator(['country'])",
        ("it.learn_one(0.3, 1)", "`x` must have the values of the", "pass x={'country': …}"),
        ("it.learn_one(0.3, 1, x='DE')", "`x` must be a mapping from fields to values, got 'DE'"),
        ("it.learn_many([0.3], [1], x={'land': ['DE']})", "got none for 'country'"),
    ),
    *of(
        "",
        ("IsotonicCalibrator(window=0)", "`window` must be a positive int or None, got 0"),
        ("IsotonicCalibrator(window=1.5)", "`window` must be a positive int or None, got 1.5"),
        ("IsotonicCalibrator(window=1000.0)", "`window` must be a positive int", "; write 1000"),
        ("IsotonicCalibrator(window='100')", "`window` must be a positive int", "; write 100"),
        ("IsotonicCalibrator(half_life=-1)", "`half_life` must lie in [0.1, inf) or None, got -1"),
        ("IsotonicCalibrator(half_life='9')", "`half_life` must be a number", "float('9')"),
        ("PlattCalibrator(half_life='7d')", "`half_life` must be a number", "timedelta(days=7)"),
        ("IsotonicCalibrator(window='7d')", "`window` must be a positive int", "timedelta(days=7)"),
        ("SegmentCalibrator(['a'], half_life='7d')", "`half_life` must be", "timedelta(days=7)"),
        ("HedgedCalibrator(share='7d')", "`share` must be a number", "timedelta(days=7)"),
        *(
            (f"{made}np.timedelta64(7, 'D'))", "must be a number or a timedelta", "(days=7)")
            for made in (
                "PlattCalibrator(half_life=",
                "IsotonicCalibrator(window=",
                "SegmentCalibrator(['a'], half_life=",
                "HedgedCalibrator(share=",
            )
        ),
        ("IsotonicCalibrator('Squared')", "got 'Squared'; did you mean 'squared'?"),
        ("IsotonicCalibrator('mse')", "got 'mse'; did you mean 'squared'?"),
        ("IsotonicCalibrator('absolute')", "AnytimeCalibrator"),
        ("IsotonicCalibrator(losses.Squared)", "without brackets: write Squared()"),
        ("IsotonicCalibrator(interpolation='Linear')", "did you mean 'linear'?"),
        ("AnytimeCalibrator('quantile')", "did you mean 'pinball'?"),
        ("losses.get('log_loss')", "did you mean 'log'?"),
        ("PlattCalibrator(half_life=timedelta(0))", "`half_life` must be a timedelta of at least"),
        ("HedgedCalibrator(share=timedelta(0))", "`share` must be a timedelta of at least"),
        ("HistogramCalibrator(10.0)", "`n_bins` must be an int", "; write 10"),
        ("HedgedCalibrator([PlattCalibrator])", "position 0 without brackets: write PlattCali"),
        ("HedgedCalibrator(['platt'])", "did you mean PlattCalibrator()?"),
        ("HedgedCalibrator([SegmentCalibrator(['a'])])", "got a SegmentCalibrator at position 0"),
        ("HedgedCalibrator(PlattCalibrator())", "`calibrators`", "; put it into a list"),
        ("SegmentCalibrator('country')", "`fields` must be a sequence of names, got 'country'"),
        ("SegmentCalibrator(['a'], base=PlattCalibrator)", "`base`", "write PlattCalibrator()"),
    ),
]

WRAPPERS = [
    *of(
        "",
        ("CalibratedClassifier(model, IsotonicCalibrator)", "brackets: write IsotonicCalibrator()"),
        ("CalibratedClassifier(model, calibrator='isotonic')", "did you mean IsotonicCalibrator()"),
        ("CalibratedClassifier(model, 'Beta calibration')", "did you mean BetaCalibrator()?"),
        ("CalibratedClassifier(model, 'sigmoid')", "did you mean PlattCalibrator()?"),
        ("CalibratedClassifier(model, [PlattCalibrator()])", "HedgedCalibrator(calibrators) mixes"),
        ("CalibratedClassifier(linear_model.LogisticRegression)", "write LogisticRegression()"),
        ("CalibratedClassifier(preprocessing.StandardScaler())", "StandardScaler() | classifier"),
        ("CalibratedClassifier(linear_model.LinearRegression())", "CalibratedRegressor"),
        ("CalibratedClassifier(PlattCalibrator())", "(classifier, calibrator)"),
        ("CalibratedClassifier(skl.LogisticRegression())", "OnlineCalibratedClassifier"),
        ("CalibratedClassifier(model, labels='yes')", "`labels` must be a sequence of labels"),
        ("CalibratedClassifier(model, segments='country')", "`segments` must be a sequence"),
        ("CalibratedClassifier(model, on_drift='Reset')", "did you mean 'reset'?"),
        ("CalibratedClassifier(model, drift_detector=drift.ADWIN)", "brackets: write ADWIN()"),
        ("CalibratedRegressor(model)", "CalibratedClassifier calibrates a classifier"),
        ("CalibratedRegressor(linear_model.LinearRegression)", "write LinearRegression()"),
        ("CalibratedRegressor(regressor, 'isotonic')", "did you mean IsotonicCalibrator()?"),
        (
            "CalibratedClassifier(model, drift_detector=drift.ADWIN()).to_bytes()",
            "`drift_detector` must be",
            "got an ADWIN; pickle the object instead",
        ),
        (
            "CalibratedClassifier.from_bytes(CalibratedClassifier(model).to_bytes())",
            "`classifier` must be given",
        ),
    ),
    *of(
        "CalibratedClassifier(taught)",
        ("it.learn_one({'x': 1.0}, 'yes')", "must be False or True", "as by `y == 'yes'`"),
        ("it.learn_one({'x': NAN}, True)", "the feature 'x' is nan: leave it out, or fill it in"),
        ("it.predict_proba_one({'x': NAN})", "the feature 'x' is nan: leave it out, or fill"),
        ("it.learn_one({'x': 'red'}, True)", "the feature 'x' is 'red': encode words"),
        ("it.learn_one({'x': None}, True)", "the feature 'x' is None: leave it out"),
        ("it.learn_one([1.0], True)", "`x` must be a dict of features, got [1.0]"),
        ("it.learn_one({'x': 1.0}, [True])", "`y` must be one label, got [True]", "_many"),
        ("it.learn_one(True, {'x': 1.0})", "`y` must be one label", "features come before the"),
        ("it.learn_one({'x': 1.0}, True, served=0.3)", "`served` must map labels"),
        ("it.learn_one({'x': 1.0}, True, served={'x': 0.3})", "got those of 'x', and not of Fals"),
        ("it.learn_one({'x': 1.0}, True, served={True: 70})", PERCENT),
        ("it.learn_many(np.ones((1, 1)), pd.Series([True]))", "such as pd.DataFrame(X)"),
        ("it.learn_many(pd.DataFrame({'x': [1.0]}), [True])", "such as pd.Series(y), got [True]"),
        (
            "it.learn_many(pd.DataFrame({'x': [1.0, NAN]}), pd.Series([True, False]))",
            "position 1; the feature 'x' is nan: leave it out, or fill",
        ),
        (
            "it.learn_many(pd.DataFrame({'x': [1.0, 2.0]}), pd.Series([True]))",
            "`y` must have one label per row of `X` (2), got 1",
        ),
        ("it.learn_many(pd.DataFrame({'x': [1.0]}), pd.Series(['yes']))", "as by `y == 'yes'`"),
    ),
    *of(
        "CalibratedClassifier(taught, PlattCalibrator(half_life=timedelta(days=7)))",
        ("it.learn_one({'x': 1.0}, True)", "`t` must be given", "as by time='moment'"),
        ("it.learn_one({'x': 1.0}, True, t='2026-03-01')", "`t` must be a datetime or a number"),
        ("it.learn_group([{'x': 1.0}], [True])", "`t` must be given", "as by time='moment'"),
        ("CalibratedClassifier(taught, time='moment')", "`time` must be None unless", "timedelta("),
    ),
    *of(
        "CalibratedClassifier(linear_model.LogisticRegression())",
        ("it.learn_one({'x': 'red'}, True)", "the feature 'x' is 'red': encode words"),
    ),
    *of(
        "CalibratedRegressor(regressor)",
        ("it.learn_one({'x': 1.0}, '3')", "`y` must be a number", "float('3')"),
        ("it.learn_one({'x': NAN}, 3.0)", "`prediction`", "the feature 'x' is nan: leave it out"),
        ("it.learn_one({'x': 1.0}, NAN)", "`y` must", UNLABELLED),
    ),
]

METRICS = [
    *(
        Mistake("it.update(0.7, 1)", (f"such as 0.7, got True; {SWAPPED}",), f"metrics.{name}()")
        for name in ("ECE", "BrierScore", "CORP", "SmoothECE", "SpiegelhalterZ", "RollingCORP")
    ),
    *of(
        "metrics.ECE()",
        ("it.update(0.7, True)", SWAPPED),
        ("it.update(2, 0.7)", "`pos_val` must be one of the labels", "write pos_val=2"),
        ("it.update('yes', 0.7)", "`pos_val` must be one of the labels", "write pos_val='yes'"),
        ("it.update(True, {'True': 0.7})", "such as 'True', got True", "write pos_val='True'"),
        ("it.update(True, 70)", "`y_pred`", PERCENT),
        ("it.update(True, -1.2)", "`y_pred`", LOGISTIC),
        ("it.update({True: 0.7}, True)", "`y_true`", "the label comes before the prediction"),
        ("it.update([1, 0], [0.3, 0.7])", "`y_true`", "call `update` for each prediction"),
        ("it.update(True, [0.3, 0.7])", "`y_pred`", "call `update` for each prediction"),
    ),
    *of(
        "",
        ("metrics.ECE(n_bins='10')", "`n_bins` must be a positive int, got '10'; write 10"),
        ("metrics.CORP(scoring='Log')", "did you mean 'log'?"),
        ("metrics.smooth_ece([0.2, 0.8], [0, 1])", SWAPPED),
        ("metrics.smooth_ece([0.2, 0.8, 0.3], [0, 1, 1])", SWAPPED),
        ("metrics.smooth_ece(['no', 'yes'], [0.2, 0.8])", "write pos_val='"),
        ("metrics.smooth_ece([0, 1], [20, 80])", PERCENT),
    ),
]

MONITORING = [
    *of(
        "CalibrationTest()",
        ("it.update(0.7, 1)", SWAPPED),
        ("it.update(0.7, True)", SWAPPED),
        ("it.update(2, 0.5)", "write pos_val=2"),
        ("it.update('yes', 0.5)", "write pos_val='yes'"),
        ("it.update(1, 50)", PERCENT),
        ("it.update_many([0.7, 0.2], [1, 0])", SWAPPED),
        ("it.update_many([1, NAN], [0.7, 0.2])", "got nan: leave such rows out"),
        ("it.update_group(0.7, [1, 1])", SWAPPED),
        ("it.add_prediction(0.3)", "`order` must be 'interleaved' for `add_prediction`"),
    ),
    *of(
        "CalibrationTest(order='interleaved', horizon=3)",
        ("it.update_many([1, NAN], [0.7, 0.2])", "call `add_prediction` for each row"),
        ("it.add_label(True, 0)", "`number` must be of a prediction that was added"),
    ),
    *of("CalibrationDrift()", ("it.update(0.7, 1)", SWAPPED)),
    *of("ForecastComparison()", ("it.update(0.7, 0.3, 1)", SWAPPED)),
    *of(
        "",
        ("CalibrationTest(order='Interleaved', horizon=3)", "did you mean 'interleaved'?"),
        ("CalibrationTest(order='interleaved')", "`horizon` must be given", "an int from 1 to"),
        ("CalibrationTest(alpha='0.05')", "`alpha` must be a number", "float('0.05')"),
        ("e_bh({'a': CalibrationTest()})", "`log_e_values`", "for 'a'; pass its `log_e_value`"),
        ("e_bh([0.2, 3.0])", "a mapping of names, such as {'a': test.log_e_value}"),
    ),
]

DECISIONS = of(
    "",
    ("maximize([0.2, 0.8], 'F1')", "`metric` must be one of", "did you mean 'f1'?"),
    ("maximize([0.2, 0.8], 'F-score')", "did you mean 'f1'?"),
    ("maximize([0.2, 0.8], 'Coverage')", "did you mean 'coverage'?"),
    ("maximize([0.2, 0.8], 'positives', subject_to={'Precision': 0.9})", "mean 'precision'?"),
    (
        "maximize([0.2, 0.8], 'positives', subject_to={'precision': 95})",
        "divide percentages by 100",
    ),
    ("maximize([0.2, 0.8], 'positives', subject_to=0.95)", "a dict such as {'precision': 0.95}"),
    ("maximize([0.2, 0.8], decision.FBeta)", "without brackets: write FBeta()"),
    ("maximize([0.2, 0.8], 'f1', method='Auto')", "did you mean 'auto'?"),
    ("maximize([20, 80], 'f1')", PERCENT),
    ("maximize([-1.2, 0.8], 'f1')", LOGISTIC),
    ("maximize([0.2, NAN], 'f1')", "position 1; leave such samples out"),
    ("maximize(0.2, 'f1')", "put a single number into a list"),
    ("maximize([[0.8, 0.2]], 'f1')", "pass one of its columns, such as `probabilities[:, 1]`"),
    ("EUMThreshold('F1')", "did you mean 'f1'?"),
    ("DecisionClassifier(model, 'F1')", "did you mean 'f1'?"),
    ("DecisionClassifier(regressor, 'f1')", "`classifier`", "CalibratedRegressor"),
    ("decision.PredictionSetClassifier(model, 90)", "`coverage` must lie in (0, 1)", PERCENT),
)

ORDINAL = [
    *of(
        "",
        ("optimal_thresholds([0.2, 0.8], [0, 1])", "`y` must be ints from 1 to 32767, got 0"),
        ("optimal_thresholds([0.2, 0.8], ['low', 'high'])", "replace words by numbers"),
        ("optimal_thresholds([0.2, 0.8], [1, 2], loss='MAE')", "did you mean 'absolute'?"),
        ("StreamingThresholds(3.0)", "`n_labels` must be an int from 2 to 32767, got 3.0; write 3"),
        ("ThresholdClassifier(model)", "CalibratedClassifier calibrates a classifier"),
        ("ThresholdClassifier(linear_model.LinearRegression)", "write LinearRegression()"),
    ),
    *of(
        "StreamingThresholds(3)",
        ("it.learn_one(0.3, 'low')", "`y` must be a number", "replace words by numbers"),
        ("it.learn_one(2, 0.3)", "`y` must be an int from 1 to 3, got 0.3"),
    ),
]

DURABLE = [
    *of(
        "",
        ("Store('.')", "it is a folder; name a file in it"),
        ("Store('no/such/run.db')", "there is no such folder; make it first"),
        ("Store('text.txt')", "text.txt", "no store", "choose the name of another file"),
        ("Store('text.txt', read_only=True)", "text.txt", "no store"),
        ("Store(None)", "`path` must be the name of a file, got None"),
        ("run('x.csv', PlattCalibrator(), print, None)", "`source`", "streamcal calibrate x.csv"),
        ("run(Path('x.csv'), PlattCalibrator(), print, None)", "streamcal calibrate x.csv"),
        ("run(pd.DataFrame({'p': [0.2]}), PlattCalibrator(), print, None)", "list(zip(table["),
        ("run(iter([(0.2, 1)]), PlattCalibrator(), print, None)", "pass the function"),
        ("run([0.2], PlattCalibrator(), print, None)", "event 0", "such as (score, label)"),
        ("run([{'score': 0.2}], PlattCalibrator(), print, None)", "event 0", "Event(**event)"),
        ("run([(0.2, 'yes')], PlattCalibrator(), print, None)", "event 0", "`y == 'yes'`"),
        ("run([(70, 1)], PlattCalibrator(), print, None)", "event 0: `score`", PERCENT),
        ("run([(0.2, 1)], PlattCalibrator, print, None)", "brackets: write PlattCalibrator()"),
        ("run([(0.2, 1)], 'platt', print, None)", "did you mean PlattCalibrator()?"),
        ("run([(0.2, 1)], PlattCalibrator(), [], None)", "`sink`", "function of (offset, predic"),
        ("run([(0.2, 1)], PlattCalibrator(), print, 'run.db')", "Store('run.db')"),
        ("KeyedCalibrator('platt')", "did you mean PlattCalibrator()?"),
        ("KeyedCalibrator(PlattCalibrator(), store='run.db')", "Store('run.db')"),
    ),
    *of(
        "KeyedCalibrator(PlattCalibrator())",
        ("it.learn_one([1], 0.5, 1)", "`key` must be a string, number, boolean, None or tuple"),
        ("it.predict_one({'country': 'DE'}, 0.5)", "`key` must be a string, number"),
        ("it.learn_many('shop', [0.5], [1])", "`keys` must have one", "into a list, ['shop']"),
        ("it.learn_many([['a']], [0.5], [1])", "`keys` must be strings, numbers"),
        ("it.learn_many(['a', 'b'], [1, 0], [0.3, 0.8])", "`scores` must come before `y`"),
        ("it.learn_one('shop', 0.5, 'yes')", "`y == 'yes'`"),
        ("it.save()", "`store` must be given to save to"),
        ("it.export('json')", "`export` must have a key and a format, as export('north', 'json')"),
    ),
    *of(
        "Store('run.db')",
        ("it.save({'my': 3})", "`states` must hold learners, such as calibrators", "3 for 'my'"),
        ("it.save({'my': PlattCalibrator})", "for 'my' without brackets: write PlattCalibrator()"),
        ("it.save(PlattCalibrator())", "`states` must be a mapping", "{'all': calibrator}"),
        ("it.save({1: PlattCalibrator()})", "`states` must have str for keys, got 1"),
        ("it.save({}, offset=-1)", "`offset` must be a non-negative int, got -1"),
    ),
]

PICTURES = of(
    "",
    ("plot.ReliabilityDisplay.from_predictions([0.2, 0.8], [0, 1])", SWAPPED),
    ("plot.ReliabilityDisplay.from_predictions(['no', 'yes'], [0.2, 0.8])", "write pos_val='"),
    ("plot.ReliabilityDisplay.from_predictions([0, 1], [20, 80])", PERCENT),
    ("plot.ReliabilityDisplay.from_predictions([0], [[0.8, 0.2]])", "name the labels of its"),
    (
        "plot.ReliabilityDisplay.from_predictions([0, 1], [0.2, 0.8], band='Consistency')",
        "did you mean 'consistency'?",
    ),
    (
        "plot.ReliabilityDisplay.from_models({'a': model})",
        "`models['a']`",
        "`from_estimator` draws",
    ),
    ("plot.ReliabilityDisplay.from_models([model])", "such as {'raw': (y_true, y_prob)}"),
    ("plot.ReliabilityDisplay.from_estimator(model, [[1.0]], [1])", "as zip(X, y) is"),
    ("plot.ReliabilityDisplay.from_calibrator(PlattCalibrator)", "write PlattCalibrator()"),
    ("plot.ReliabilityDisplay.from_calibrator(model)", "`from_estimator`"),
    ("plot.MiscalibrationDisplay.from_metrics({'a': metrics.ECE()})", "must be of RollingCORP"),
    ("plot.HedgeWeightsDisplay.from_history(HedgedCalibrator())", "such as [hedge.weights]"),
    (
        "plot.AccuracyCoverageDisplay.from_predictions([0, 1], [0.2, 0.8], target=95)",
        "`target` must lie in [0, 1], got 95",
        "divide percentages by 100",
    ),
    ("plot.AccuracyCoverageDisplay.from_models({'a': model})", "`models['a']`", "`from_estimator`"),
    ("plot.UtilityCurveDisplay.from_probabilities([0.2], 'F1')", "did you mean 'f1'?"),
)

SCIKIT_LEARN = of(
    "",
    ("sk.OnlineCalibratedClassifier(skl.SGDClassifier).fit(X, y)", "write SGDClassifier()"),
    ("sk.OnlineCalibratedClassifier(model).fit(X, y)", "CalibratedClassifier calibrates models of"),
    ("sk.OnlineCalibratedClassifier(sgd, 'isotonic').fit(X, y)", "did you mean IsotonicCalibrator"),
    ("sk.OnlineCalibratedClassifier(sgd, BetaCalibrator).fit(X, y)", "write BetaCalibrator()"),
    ("sk.OnlineCalibratedClassifier(sgd).partial_fit(X, y)", "such as classes=np.unique(y)"),
    ("sk.OnlineCalibratedClassifier(sgd).fit([1.0, 2.0], y)", "array.reshape(-1, 1)"),
    ("sk.OnlineCalibratedClassifier(sgd).fit([[1.0], [NAN]], y)", "imputer"),
)

ARGUMENTS = "scores.csv --score p --label y"
COMMANDS = of(
    "",
    ("cli('calibrate scores.csv --score prob --label y', 'prop,y\\n0.5,1\\n')", "mean `prop`?"),
    ("cli('calibrate scores.csv --score P --label y', 'p,y\\n0.5,1\\n')", "did you mean `p`?"),
    ("cli('calibrate scores.csv --label y', 'p,y\\n0.5,1\\n')", "Write --score COLUMN: The model"),
    ("cli('calibrate scores.csv --score p', 'p,y\\n0.5,1\\n')", "Write --label COLUMN: The true"),
    ("cli('check scores.csv --label y', 'p,y\\n0.5,1\\n')", "Write --prob COLUMN"),
    ("cli('calibrate ' + ARGUMENTS, '0.5,1\\n0.4,0\\n')", "begins with a line of column names"),
    ("cli('calibrate ' + ARGUMENTS, '')", "is empty: a CSV file begins with a line of column"),
    ("cli('calibrate ' + ARGUMENTS, 'p;y\\n0,5;1\\n')", "row 1: `p`", "decimals need a point"),
    ("cli('calibrate ' + ARGUMENTS, 'p,y\\n50,1\\n')", "row 1: `p`", PERCENT),
    ("cli('calibrate ' + ARGUMENTS, 'p,y\\n50%,1\\n')", "row 1: `p`", PERCENT),
    ("cli('calibrate ' + ARGUMENTS, 'p,y\\n-1.5,1\\n')", "numbers need --calibrator isotonic"),
    ("cli('calibrate ' + ARGUMENTS, 'p,y\\n0.5,yes\\n')", "row 1: `y`", "replace words by 1 and 0"),
    ("cli('calibrate ' + ARGUMENTS, 'p,y\\n0.5,NA\\n')", "leave the cell of an unknown label emp"),
    ("cli('calibrate ' + ARGUMENTS, 'p,y\\nnan,1\\n')", "--on-error skip leaves such rows out"),
    ("cli('calibrate scores.csv.gz --score p --label y')", "zcat scores.csv.gz | streamcal calib"),
    ("cli('calibrate scores.csv.gz --score p --label y --format csv')", "decompress it first"),
    ("cli('report scores.csv.gz --score p --label y')", "zcat scores.csv.gz | streamcal calibrat"),
    ("cli('calibrate renamed.csv --score p --label y')", "renamed.csv is compressed: decompress"),
    ("cli('calibrate s.xlsx --score p --label y', 'p')", "save the sheet as CSV"),
    ("cli('calibrate s.tsv --score p --label y', 'p')", "--format csv also reads tabs"),
    ("cli('calibrate s.json --score p --label y', 'p')", "--format ndjson reads one object a line"),
    ("cli('calibrate nothing.csv --score p --label y')", "there is no file nothing.csv"),
    ("cli('calibrate . --score p --label y')", "is a folder, not a file"),
    ("cli('calibrate ' + ARGUMENTS + ' --calibrator isotonik', 'p,y\\n')", "'isotonic'"),
    (
        "cli('report ' + ARGUMENTS + ' --prob p --time t', 'p,y,t\\n0.5,1,1792886400000\\n')",
        "divide milliseconds by 1000",
    ),
    (
        "cli('report ' + ARGUMENTS + ' --prob p --time t --since 2026-01-01',"
        " 'p,y,t\\n0.5,1,60\\n')",
        "must be one with a zone, too, such as 2026-03-01T00:00Z",
    ),
    ("cli('calibrate ' + ARGUMENTS + ' --window 9', 'p,y\\n')", "needs --calibrator isotonic"),
    (
        "cli('calibrate ' + ARGUMENTS + ' --calibrator platt --half-life 7d', 'p,y\\n')",
        "--half-life 7d is a duration: it needs --time",
    ),
    (
        "cli('calibrate ' + ARGUMENTS + ' --calibrator platt --half-life 1w', 'p,y\\n')",
        "or a duration such as 7d, 12h, 30min or 45s",
    ),
    (
        "cli('calibrate ' + ARGUMENTS + ' --calibrator isotonic --loss MSE', 'p,y\\n')",
        "did you mean 'squared'?",
    ),
    ("cli('calibrate scores.csv --scores p --label y', 'p,y\\n')", "--score"),
    ("cli('calibrat scores.csv', 'p,y\\n')", "Did you mean 'calibrate'?"),
    ("cli('decide scores.csv --prob p --metric F1', 'p,y\\n0.5,1\\n')", "did you mean 'f1'?"),
    ("cli('decide s.csv --prob p --at-least precision:0.9', 'p\\n')", "as in precision=0.95, got"),
    ("cli('decide s.csv --prob p --at-least positives=9', 'p\\n')", "--at-most positives=200"),
    ("cli('decide s.csv --prob p --at-most precision=0.9', 'p\\n')", "as in positives=200, got"),
    ("cli('thresholds ' + ARGUMENTS + ' --loss MAE', 'p,y\\n0.5,1\\n')", "mean 'absolute'?"),
    ("cli('thresholds ' + ARGUMENTS, 'p,y\\n0.5,0\\n')", "`y` must be an int from 1 to 32767"),
    ("cli('plot ' + 'scores.csv --prob q --label y --out x.bmp', 'p,y\\n')", ".png, .pdf, .svg"),
    ("cli('report scores.csv', 'p,y\\n0.5,0\\n')", "a table needs --score and --label"),
    (
        "cli('report scores.csv --prob a --prob b --label y', 'a,b,y\\n0.5,0.5,a\\n')",
        "a table needs --score, unless --prob names several columns, as in a,b,c; got 'b'",
    ),
    (
        "cli('check scores.csv --prob a --prob b --label y', 'a,b,y\\n0.5,0.5,a\\n')",
        "got 'a'; several labels need a column of probabilities each, as in --prob a,b,c",
    ),
)

MISTAKES = [
    *CALIBRATORS,
    *WRAPPERS,
    *METRICS,
    *MONITORING,
    *DECISIONS,
    *ORDINAL,
    *DURABLE,
    *PICTURES,
    *SCIKIT_LEARN,
    *COMMANDS,
]


class Refused(Exception):  # noqa: N818  (it stands for what is printed)
    """A command that has failed, with its message."""


def cli(line: str, text: str | None = None) -> None:
    """Run a command about a file with this text; raise if it fails."""
    command, name, *options = shlex.split(line)
    if text is not None:
        Path(name).write_text(text)
    result = run_command(command, name, *options, status=None)
    if result.exit_code:  # a box of Typer breaks lines
        raise Refused(re.sub(r"[\s│]+", " ", result.output))


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what the code of a mistake may use, in a folder with some files."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("hello\n")
    for name in ("scores.csv.gz", "renamed.csv"):
        Path(name).write_bytes(gzip.compress(b"p,y\n0.5,1\n"))
    taught = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    regressor = preprocessing.StandardScaler() | linear_model.LinearRegression()
    for i in range(3):
        taught.learn_one({"x": float(i)}, i == 1)
        regressor.learn_one({"x": float(i)}, float(i))
    found = {name: getattr(module, name) for module, names in MEMBERS for name in names}
    return found | {
        "np": np,
        "NAN": float("nan"),
        "Path": Path,
        "cli": cli,
        "ARGUMENTS": ARGUMENTS,
        "model": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "taught": taught,
        "regressor": regressor,
        "X": [[1.0], [2.0]],
        "y": [0, 1],
        "drift": drift,
        "linear_model": linear_model,
        "preprocessing": preprocessing,
        "date": date,
        "timedelta": timedelta,
        "decision": decision,
        "losses": losses,
        "metrics": metrics,
    }


def add_extras(names: dict[str, Any], code: str) -> None:
    """Add what needs packages of an extra, if a mistake uses it."""
    if "pd." in code:
        import pandas

        names["pd"] = pandas
    if "plot." in code:
        from streamcal import plot

        names["plot"] = plot
    if "sk." in code or "skl." in code:
        from sklearn import linear_model as models

        from streamcal import sklearn

        names |= {"sk": sklearn, "skl": models, "sgd": models.SGDClassifier(loss="log_loss")}


@contextlib.contextmanager
def made(given: str, names: dict[str, Any]) -> Iterator[Any]:
    """Give the object of a mistake, if there is one; close a store."""
    it = eval(given, names) if given else None
    with it if isinstance(it, durable.Store) else contextlib.nullcontext():
        yield it


def state_of(it: Any) -> Any:
    """Return what an error must not change."""
    if isinstance(it, durable.Store):
        return it.keys(), it.offset, it.n_saves
    if isinstance(it, durable.KeyedCalibrator):
        return it.states()
    return it.to_bytes() if hasattr(it, "to_bytes") else repr(it)


def test_there_are_many_mistakes() -> None:
    assert len(MISTAKES) >= 60
    assert len({(mistake.given, mistake.code) for mistake in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize(
    "mistake", MISTAKES, ids=[f"{mistake.given} {mistake.code}" for mistake in MISTAKES]
)
@pytest.mark.filterwarnings("ignore")
def test_a_message_says_what_to_write_instead(mistake: Mistake, names: dict[str, Any]) -> None:
    add_extras(names, mistake.code)
    with made(mistake.given, names) as it:
        names["it"] = it
        before, files = state_of(it), sorted(os.listdir())
        with pytest.raises((TypeError, ValueError, durable.StoreError, Refused)) as refused:
            eval(mistake.code, names)
        message = str(refused.value)
        for words in mistake.words:
            assert words in message
        if not isinstance(refused.value, Refused) and "sk." not in mistake.code:
            assert "\n" not in message
        assert state_of(it) == before
        if "cli" not in mistake.code:
            assert sorted(os.listdir()) == files
