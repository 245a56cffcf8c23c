"""Calibration for all samples, where only some are labelled and the score or a segment decides.

    python benchmarks/selected_labels.py [--late 0]

Seven kinds of generated streams of 20,000 samples, each with three selections of what is always
labelled: samples of a high score, samples of one of three segments that the score does not know,
and both. Of the others an `AuditSampler` asks for 2 %, each with about the same propensity. All
calibrators are the default hedge:

* raw: the score;
* all labels: it learns all labels, also those that are not there;
* audited: an `AuditedCalibrator` with the propensities of the labels that are there;
* weighted: a hedge that learns these labels with the weights floor / propensity;
* no propensities: a hedge that learns them as they come.

Labels come ``--late`` samples after their sample, by default at once; all learn them with the
tickets of what was served. Each number is the log loss of all samples, labelled or not, predicted
before their label. The last column is that of the true probabilities.
"""

import argparse
from collections import deque
from collections.abc import Iterator

import numpy as np
from scipy.special import expit, logit
from streams import Vector, log_loss, serve

from streamcal import HedgedCalibrator
from streamcal.calibration import AuditedCalibrator
from streamcal.calibration.tickets import Ticket
from streamcal.monitoring import AuditSampler

N = 20_000
RATE, FLOOR = 0.02, 0.02
RULES = ("raw", "all labels", "audited", "weighted", "no propensities", "true")


def shifted(scores: Vector, by: Vector | float) -> Vector:
    """Return probabilities whose log odds are shifted."""
    return expit(logit(scores.clip(1e-3, 1.0 - 1e-3)) + by)


def kinds() -> Iterator[tuple[str, Vector, Vector]]:
    """Yield the name of each kind of stream, its scores, and the probabilities of the label 1."""
    rng = np.random.default_rng(0)
    u, t = rng.uniform(size=N), np.arange(N)
    yield "calibrated", u, u
    yield "overconfident", expit(3.0 * logit(u)), u
    yield "noisy labels", u, 0.2 + 0.6 * u
    yield "sine, 10,000", u, shifted(u, 1.5 * np.sin(2.0 * np.pi * t / 10_000))
    yield "random walk", u, shifted(u, np.cumsum(rng.normal(0.0, 0.01, N)))
    yield "a step at half", u, np.where(t < N // 2, u, shifted(u, 1.5))
    low = rng.beta(0.5, 2.0, N)
    yield "few ones", low, low**1.5


def selections(
    scores: Vector, p: Vector
) -> Iterator[tuple[str, Vector, np.ndarray[tuple[int], np.dtype[np.bool_]]]]:
    """Yield how labels are selected, the probabilities, and which samples are always labelled."""
    segment = np.random.default_rng(5).integers(0, 3, N)
    in_segments = shifted(p, np.array([1.0, 0.0, -1.0])[segment])
    yield "score", p, scores >= 0.6
    yield "segment", in_segments, segment == 0
    yield "both", in_segments, ((segment == 0) & (scores >= 0.3)) | (scores >= 0.8)


def served(scores: Vector, y: Vector, always: Vector, late: int) -> dict[str, Vector]:
    """Return what each calibrator serves."""
    sampler = AuditSampler(RATE, secret="selected labels", floor=FLOOR)
    audited = AuditedCalibrator(floor=FLOOR)
    weighted, plain = HedgedCalibrator(), HedgedCalibrator()
    answers = np.empty((3, N))
    waiting: deque[tuple[float, float, float | None, list[Ticket | None]]] = deque()
    for i, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        found = [each.serve_one(score) for each in (audited, weighted, plain)]
        answers[:, i] = [each.value for each in found]
        ask, propensity = (True, 1.0) if always[i] else sampler.audit_one(i, found[0].value)
        tickets = [each.ticket for each in found]
        waiting.append((score, label, propensity if ask else None, tickets))
        if len(waiting) <= late:
            continue
        score, label, asked, (first, second, third) = waiting.popleft()
        if asked is not None:
            audited.learn_one(score, label, ticket=first, propensity=asked)
            weighted.learn_one(score, label, FLOOR / asked, ticket=second)
            plain.learn_one(score, label, ticket=third)
    all_labels = serve(HedgedCalibrator(), scores, y, late, tickets=True)
    return dict(zip(RULES[:-1], (scores, all_labels, *answers), strict=True))


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--late", type=int, default=0)
    late = parser.parse_args().late
    print(f"| stream, selection | {' | '.join(RULES)} |")
    print("|---|" + "--:|" * len(RULES))
    losses = []
    for name, scores, of_all in kinds():
        for selection, p, always in selections(scores, of_all):
            y = (np.random.default_rng(1).random(N) < p).astype(float)
            answers = served(scores, y, always, late) | {"true": p}
            losses.append([log_loss(answers[rule], y) for rule in RULES])
            cells = " | ".join(f"{loss:.4f}" for loss in losses[-1])
            print(f"| {name}, {selection} | {cells} |", flush=True)
    means = np.mean(losses, axis=0)
    print(f"| mean | {' | '.join(f'{mean:.4f}' for mean in means)} |")


if __name__ == "__main__":
    main()
