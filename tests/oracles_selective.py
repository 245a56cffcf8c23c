"""`SelectiveClassifier` as its documentation has it: lists of all samples, and no shortcut."""

import math
from typing import NamedTuple

ALLOWANCE, SPENT, HALF_LIFE, N_PRIOR = 20.0, 2.0, 5_000.0, 100.0
EDGES = [-5.0 + 0.25 * i for i in range(69)]  # log odds at which intervals begin


def log_odds(confidence: float) -> float:
    """Return log odds, within the intervals."""
    if confidence <= 0.0:
        return EDGES[0]
    if confidence >= 1.0:
        return EDGES[-1]
    odds = math.log(confidence / (1.0 - confidence))
    return min(max(odds, EDGES[0]), EDGES[-1])


def interval_of(confidence: float) -> int:
    """Return the interval of a confidence."""
    return max(i for i, edge in enumerate(EDGES) if edge <= log_odds(confidence) + 1e-12)


class Sample(NamedTuple):
    """A sample that was served, and its label, if it has come."""

    confidence: float
    answered: bool


class Budget:
    """The answers on any stream: all samples in the order of service, all labels as they came."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.served: list[Sample] = []
        self.labels: list[tuple[Sample, bool]] = []
        self.waiting: list[Sample] = []
        self.most_waiting = 0

    def serve(self, confidence: float, answered: bool) -> Sample:
        """Add a sample."""
        sample = Sample(confidence, answered)
        self.served.append(sample)
        if answered:
            self.most_waiting = max(self.most_waiting, len(self.waiting))
            self.waiting.append(sample)
        return sample

    def learn(self, sample: Sample, wrong: bool) -> None:
        """Add the label of a sample that was served."""
        self.labels.append((sample, wrong))
        if sample.answered:
            self.waiting.remove(sample)

    @property
    def n_errors(self) -> int:
        """How many answers were wrong."""
        return sum(wrong for sample, wrong in self.labels if sample.answered)

    @property
    def n(self) -> int:
        """How many answers were given."""
        return sum(sample.answered for sample in self.served)

    @property
    def allows_one(self) -> bool:
        """Whether one more answer keeps the promise, if it and all that wait are wrong."""
        wait = max(self.most_waiting, len(self.waiting))
        at_worst = self.n_errors + len(self.waiting) + 1
        return at_worst <= self.share * (self.n + 1) + ALLOWANCE + wait

    def place(self) -> float:
        """Return the threshold: a place among the intervals."""
        expected = sum(1.0 - sample.confidence for sample in self.waiting)
        balance = self.share * self.n + SPENT - self.n_errors - expected
        share = self.share * min(max(1.0 + balance / ALLOWANCE, 0.1), 1.5)
        place, total = float(len(EDGES)), 0.0
        for i in range(len(EDGES) - 1, -1, -1):
            seen = errors = labels = surplus = 0.0
            for age, (confidence, _) in enumerate(reversed(self.served)):
                if interval_of(confidence) == i:
                    seen += 0.5 ** (age / HALF_LIFE)
                    errors += (1.0 - confidence) * 0.5 ** (age / HALF_LIFE)
            for age, (sample, wrong) in enumerate(reversed(self.labels)):
                if interval_of(sample.confidence) == i:
                    labels += 0.5 ** (age / HALF_LIFE)
                    surplus += (wrong - (1.0 - sample.confidence)) * 0.5 ** (age / HALF_LIFE)
            middle = 1.0 / (1.0 + math.exp(EDGES[i] + 0.125))
            excess = errors + seen * surplus / (labels + N_PRIOR) - share * seen
            excess += max(middle - share, 0.0)
            if total <= 0.0 < total + excess:
                place = i + 1 + total / excess  # a part of this interval
            elif total + excess <= 0.0:
                place = float(i)
            total += excess
        return place

    def answers(self, confidence: float) -> bool:
        """Return whether a sample is answered."""
        where = (log_odds(confidence) - EDGES[0]) / 0.25
        return self.allows_one and where >= self.place()


class Bet:
    """A sample with its place in the order of service."""

    def __init__(self, confidence: float, least: float, propensity: float) -> None:
        self.confidence, self.least, self.propensity = confidence, least, propensity
        self.wrong: bool | None = None


class Tests:
    """The tests of thresholds: every bet on every label in the order of service."""

    STAKES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9)

    def __init__(
        self,
        share: float,
        chance: float,
        floor: float,
        most_ahead: int = 10_000,
        most_places: int = 1_000_000,
    ) -> None:
        self.share, self.chance, self.floor = share, chance, floor
        self.most_ahead, self.most_places = most_ahead, most_places
        self.shares = [share * 1.15 ** (k - 15) for k in range(15)] + [share]
        while self.shares[-1] < 1.0:
            self.shares.append(share * 1.15 ** (len(self.shares) - 15))
        self.wealth = [[1.0] * len(self.STAKES) for _ in self.shares]
        self.has_been = [1.0] * len(self.shares)
        self.places: list[Bet] = []
        self.n_settled = 0

    @property
    def used(self) -> int | None:
        """The loosest threshold in use."""
        used = None
        for start, chance in ((0, 0.25 * self.chance), (15, 0.75 * self.chance)):
            for k in range(start, len(self.shares)):
                if self.has_been[k] < 1.0 / chance:
                    break
                used = k if used is None else max(used, k)
        return used

    @property
    def threshold(self) -> float:
        """The confidence from which on samples are answered."""
        return math.inf if self.used is None else max(1.0 - self.shares[self.used], 0.0)

    def bet(self, confidence: float, answered: bool, propensity: float) -> Bet:
        """Return the bet on a sample."""
        least = 1.0 if self.used is None and not answered else self.floor
        return Bet(confidence, least, propensity)

    def serve(self, confidence: float, answered: bool) -> int | None:
        """Return the place of a sample, if its label is certain to come."""
        if answered and self.floor < 1.0:
            return None
        self.places.append(self.bet(confidence, answered, 1.0))
        self.settle_places()
        return len(self.places) - 1

    def ask(self, confidence: float, propensity: float) -> int:
        """Return the place of an answer whose label is asked for."""
        self.places.append(self.bet(confidence, True, propensity))
        self.settle_places()
        return len(self.places) - 1

    def learn(
        self, place: int | None, confidence: float, answered: bool, wrong: bool, propensity: float
    ) -> None:
        """Take a label."""
        bet = self.bet(confidence, answered, propensity)
        if place is None:
            place = len(self.places)
            self.places.append(bet)
        if place >= len(self.places):  # another state served it
            bet.wrong = wrong
            self.settle(bet)
        elif place >= self.n_settled and self.places[place].wrong is None:
            self.places[place].wrong = wrong
            self.settle_places()

    def settle_places(self) -> None:
        """Settle places in order, up to one without a label that is not yet taken for lost."""
        while self.n_settled < len(self.places):
            waiting = self.places[self.n_settled :]
            if waiting[0].wrong is None:
                n_ahead = sum(bet.wrong is not None for bet in waiting)
                if n_ahead <= self.most_ahead and len(waiting) <= self.most_places:
                    break
                waiting[0].wrong = True
            self.settle(waiting[0])
            self.n_settled += 1

    def settle(self, bet: Bet) -> None:
        """Settle all bets on a label."""
        assert bet.wrong is not None
        for k, share in enumerate(self.shares):
            if bet.confidence >= max(1.0 - share, 0.0):
                for at, stake in enumerate(self.STAKES):
                    gain = stake * bet.least / (1.0 - self.share)
                    self.wealth[k][at] *= 1.0 + gain * (self.share - bet.wrong) / bet.propensity
            mean = sum(self.wealth[k]) / len(self.STAKES)
            self.has_been[k] = max(self.has_been[k], mean)
