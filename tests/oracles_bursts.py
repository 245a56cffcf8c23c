"""A slow reference of bursts: all bursts are kept, and everything is computed from them anew."""

import math
from statistics import mean
from typing import Any, NamedTuple

from streamcal import HedgedCalibrator


class Row(NamedTuple):
    score: float
    y: float
    w: float
    ticket: Any


class Burst(NamedTuple):
    """``p`` are the predictions, ``y`` the labels; ``late`` is whether 100 labels came before."""

    p: list[float]
    y: list[float]
    late: bool

    @property
    def residual(self) -> float:
        return math.fsum(y - p for p, y in zip(self.p, self.y, strict=True))


class BurstHedge:
    """A hedge that is told by the bursts so far how to learn: `learn_one` or `learn_group`."""

    def __init__(self, hedge: HedgedCalibrator) -> None:
        self.hedge = hedge
        self.open: list[Row] = []
        self.bursts: list[Burst] = []
        self.n_labels = 0
        self.hundred: int | None = None  # samples at the end of the first burst after 100 labels

    def serve_one(self, score: float) -> tuple[float, Any]:
        self.close()
        return self.hedge.serve_one(score)

    def predict_one(self, score: float) -> float:
        self.close()
        return self.hedge.predict_one(score)

    def learn_one(self, score: float, y: float, w: float = 1.0, *, ticket: Any = None) -> None:
        if ticket is None:
            self.close()
            self.hedge.learn_one(score, y, w)
            self.n_labels += 1
        else:
            self.open.append(Row(score, y, w, ticket))

    def close(self) -> None:
        rows, self.open = self.open, []
        if len(rows) > 1 or any(row.y not in (0.0, 1.0) for row in rows):
            self.bursts.append(self.burst_of(rows))
        if len(rows) > 1 and shares_outcomes(self.bursts):
            scores, y, w, tickets = zip(*rows, strict=True)
            self.hedge.learn_group(scores, y, sum(w) / len(w), tickets=tickets)
        else:
            for row in rows:
                self.hedge.learn_one(row.score, row.y, row.w, ticket=row.ticket)
                self.hedge.predict_one(0.5)  # a burst of one row
        self.n_labels += len(rows)

    def burst_of(self, rows: list[Row]) -> Burst:
        weights = self.hedge.weights.values()
        clip = self.hedge.clip
        p = [
            math.fsum(
                weight * min(max(answer, clip), 1.0 - clip)
                for weight, answer in zip(weights, row.ticket[1], strict=False)
            )
            for row in rows
        ]
        if self.hundred is None and self.n_labels >= 100 and len(rows) > 1:
            self.hundred = self.hedge.n_samples
        served = min(row.ticket[0] for row in rows)
        late = self.hundred is not None and served >= self.hundred
        return Burst(p, [row.y for row in rows], late)


def shares_outcomes(bursts: list[Burst]) -> bool:
    """Return whether the last of these bursts, the first of which came first, is a group."""
    nats = 0.0
    found = False
    for n, burst in enumerate(bursts, 1):
        effects = [effect(bursts[:i], bursts[i]) for i in range(1, n) if bursts[i].late]
        known = found and len(effects) >= 5
        if (known or len(effects) >= 5) and mean([1.0, *effects]) <= 3.0:
            return False
        if not found and len({*burst.y, 0.0, 1.0}) > 2:
            return False
        if not known and len(set(burst.y)) > 1:
            return False  # and so are all later ones
        others = [1.0 - p if y else p for p, y in zip(burst.p, burst.y, strict=True)]
        if not found and mean(others) >= 0.1:
            # The log odds of each label are 2 more than was served.
            nats += math.fsum(math.log1p(math.exp(math.log(q / (1.0 - q)) - 2)) for q in others)
        found = found or nats > 1.0
    return found


def effect(others: list[Burst], burst: Burst) -> float:
    """Return the effect of a burst that the mean residual of other bursts does not explain."""
    rows = sum(len(other.p) for other in others)
    expected = math.fsum(other.residual for other in others) / rows * len(burst.p)
    left = burst.residual
    if left * expected > 0.0:
        left = math.copysign(max(abs(left) - abs(expected), 0.0), left)
    return min(left**2 / math.fsum(p * (1.0 - p) for p in burst.p), len(burst.p))
