"""Verdicts of judge models go out if they are surely right, and people judge the rest."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from streamcal import (
    CalibratedClassifier,
    IsotonicCalibrator,
    PrecomputedClassifier,
    SegmentCalibrator,
)
from streamcal.decision import SelectiveClassifier
from streamcal.monitoring import AuditSampler, CalibrationDrift

N, EXCHANGED_AT, N_TO_LEARN, AUDITED = 50_000, 35_000, 1_000, 0.1
rng = random.Random(4)


def log() -> Iterator[tuple[str, str, str | float, bool]]:
    """Yield judge, kind of question, how sure the judge is, and whether people agree with it."""
    for i in range(N):
        judge, kind, odds = rng.choice("abcd"), rng.choice("xyz"), math.exp(rng.gauss(3.0, 2.0))
        p = 1.0 / (1.0 + 0.2 / odds**0.6)  # mostly too high
        votes, percent = sum(rng.random() < p for _ in range(10)), min(5 * round(20 * p), 99)
        ways = {"a": f"{percent} %", "b": f"{1 + round(4 * p)}/5", "c": f"{votes} of 10"}
        said = ways.get(judge, math.log(p))
        if judge == "a" and i >= EXCHANGED_AT:  # another model behind the same name
            odds **= 0.4
        odds *= {"x": 4.0, "y": 1.0, "z": 0.25}[kind]
        yield judge, kind, said, rng.random() < odds / (1.0 + odds)


def score_of(said: str | float) -> float:
    if isinstance(said, float):  # a log probability
        return math.exp(said)
    if said.endswith("%"):
        return float(said[:-1]) / 100
    if "/" in said:  # from 1 to 5
        return (int(said[0]) - 1) / 4
    votes, runs = map(int, said.split(" of "))
    return (votes + 0.5) / (runs + 1)


class Judge:
    """The model behind a name, since its first verdict or the last alarm."""

    def __init__(self) -> None:
        self.map, self.n_learned = SegmentCalibrator(["kind"]), 0
        said = PrecomputedClassifier("p")  # by the map, which is no longer learned
        self.selective = SelectiveClassifier(
            said, "precision", target=0.95, confidence=0.95, floor=AUDITED
        )
        alarm = CalibrationDrift(run_length=100_000)
        self.watch = CalibratedClassifier(said, IsotonicCalibrator(), drift_detector=alarm)

    def sends(self, i: int, x: dict[str, Any], right: bool) -> bool:
        """Return whether a verdict goes out; only if people see it, ``right`` is used."""
        if self.n_learned < N_TO_LEARN:
            self.map.learn_one(x["score"], right, x=x)
            self.n_learned += 1
            return False
        x["p"] = self.map.predict_one(x["score"], x)
        selection = self.selective.serve_one(x)
        ask, propensity = True, 1.0
        if selection.answer:
            ask, propensity = sampler.audit_one(i, selection.served.calibrated[True])
        if ask:
            self.selective.learn_one(x, right, served=selection, propensity=propensity)
            self.watch.learn_one(x, right)
        return bool(selection.answer)


sampler = AuditSampler(AUDITED, secret="change me", floor=AUDITED)
judges = {name: Judge() for name in "abcd"}
bins, total, sent, agreed = (Counter[Any]() for _ in range(4))
for i, (name, kind, said, right) in enumerate(log()):
    score = score_of(said)
    x = {"score": score, "kind": kind}
    bin_, is_fitted = (name, kind, round(10 * score)), i >= 4 * N_TO_LEARN
    if not is_fitted:
        bins[bin_] += 1
        bins[bin_, "right"] += right
    rules = {
        "threshold": score >= 0.95,
        "bins": is_fitted and bins[bin_, "right"] > 0.95 * bins[bin_],
        "selective": judges[name].sends(i, x, right),
    }
    if judges[name].watch.n_alarms:
        print(f"event {i:,}: alarm, judge {name} starts again")
        judges[name] = Judge()
    is_exchanged = name == "a" and i >= EXCHANGED_AT
    for rule, sends in rules.items():
        total[rule, is_exchanged] += 1
        sent[rule, is_exchanged] += sends
        agreed[rule, is_exchanged] += sends and right
print(f"{sampler.n_asked:,} of {sampler.n_samples:,} sent verdicts were audited")
print(f"{'':11}all others    exchanged model")
for rule in rules:
    counts = [(sent[rule, k], total[rule, k], agreed[rule, k]) for k in (False, True)]
    print(f"{rule:11}" + "   ".join(f"{s / n:5.1%} {r / max(s, 1):5.1%}" for s, n, r in counts))
