"""Mixing calibrators by their likelihood, and the usual ones of them in one call.

The *table* of a hedge of N calibrators and K shares is a matrix of K + 2 rows and N + 2 columns. In
row k: the share α_k, the log weight of that share, and N weights of the calibrators under it; as
logarithms where α_k = 0, since without sharing a weight may fall below any float and still come
back. Then the row of the prior: the clip of answers, whether the scores themselves are in the team
(1 or 0), and the weights of the calibrators at the start. The last row holds those that mix what is
served.

Of log loss, a mixture by weights proportional to prior times likelihood is Bayes' rule: its total
loss is −log of the mean likelihood, hence at most that of any calibrator plus log of one over its
prior (Vovk, *Aggregating Strategies*, COLT 1990). Dealing α of the weight out by the prior after
each sample is Bayes' rule for sequences of calibrators that switch with probability α (Herbster &
Warmuth, *Tracking the Best Expert*, Machine Learning 1998). The same rule mixes the shares.

Answers come from outside, but for the *team*: the score itself, up to three Platt calibrators, up
to three staircases of `streamcal.kernels.isotonic`, last among the calibrators in this order.
Calling a kernel costs as much as the work it does, so one call asks and teaches them all. A place
in the team that is not taken has empty arrays.
"""

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels import platt
from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.isotonic import OK, STATUS, Queue, _learn, blended, bracket
from streamcal.kernels.score_index import Data, Links

Matrix = NDArray[np.float64]

N_STACKS = 3
N_PLATTS = 3
SHARE, LOG_SHARE, FIRST = range(3)  # columns of the table; weights from FIRST on
CLIP, IDENTITY = SHARE, LOG_SHARE  # in the row of the prior, the last but one

_STACKS = ", ".join(["float64[::1], int64[::1], float64[:, ::1]"] * N_STACKS)
_STATES = ", ".join(["float64[::1]"] * N_PLATTS)
_READ_STACKS = ", ".join(["float64[::1], int64[::1]"] * N_STACKS)


@helper
def _clipped(table: Matrix, answer: float) -> float:
    clip = table[table.shape[0] - 2, CLIP]
    return min(max(answer, clip), 1.0 - clip)


@helper
def _log_likelihood(p: float, y: float) -> float:
    if y == 1.0:
        return log(p)
    if y == 0.0:
        return log(1.0 - p)
    return y * log(p) + (1.0 - y) * log(1.0 - p)


# ------------------------------------------------------------------------------ weighing


@helper
def weigh(table: Matrix, answers: Data, y: float, power: float) -> None:
    """Weigh the calibrators by their answers to a sample of label ``y``.

    Likelihoods are raised to ``power``, the sample's weight times the step. ``answers`` is left
    with the powers, the largest 1.
    """
    n, n_shares, prior = len(answers), table.shape[0] - 2, table.shape[0] - 2
    for k in range(n_shares):
        p = 0.0
        if table[k, SHARE] == 0.0:
            total = 0.0
            for i in range(n):
                v = exp(table[k, FIRST + i])
                total += v
                p += v * _clipped(table, answers[i])
            p /= total
        else:
            for i in range(n):
                p += table[k, FIRST + i] * _clipped(table, answers[i])
        # Rounding may make a mean of equal numbers a little more than 1 − clip.
        table[k, LOG_SHARE] += power * _log_likelihood(_clipped(table, p), y)
    best = -np.inf
    for i in range(n):
        answers[i] = power * _log_likelihood(_clipped(table, answers[i]), y)
        best = max(best, answers[i])
    for k in range(n_shares):
        if table[k, SHARE] == 0.0:
            top = -np.inf
            for i in range(n):
                table[k, FIRST + i] += answers[i]
                top = max(top, table[k, FIRST + i])
            for i in range(n):
                table[k, FIRST + i] -= top
    for i in range(n):
        answers[i] = exp(answers[i] - best)
    for k in range(n_shares):
        share = table[k, SHARE]
        if share > 0.0:
            total = 0.0
            for i in range(n):
                table[k, FIRST + i] *= answers[i]
                total += table[k, FIRST + i]
            for i in range(n):
                kept = (1.0 - share) * (table[k, FIRST + i] / total)
                table[k, FIRST + i] = kept + share * table[prior, FIRST + i]
    _mix(table, n, n_shares)


@helper
def _mix(table: Matrix, n: int, n_shares: int) -> None:
    """Mix the shares' weights into those that are served."""
    best, last = -np.inf, n_shares + 1
    for k in range(n_shares):
        best = max(best, table[k, LOG_SHARE])
    for i in range(n):
        table[last, FIRST + i] = 0.0
    whole = 0.0
    for k in range(n_shares):
        table[k, LOG_SHARE] -= best
        whole += exp(table[k, LOG_SHARE])
    for k in range(n_shares):
        u = exp(table[k, LOG_SHARE]) / whole
        if table[k, SHARE] > 0.0:
            for i in range(n):
                table[last, FIRST + i] += u * table[k, FIRST + i]
        else:
            total = 0.0
            for i in range(n):
                total += exp(table[k, FIRST + i])
            for i in range(n):
                table[last, FIRST + i] += u * exp(table[k, FIRST + i]) / total


@kernel("void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], float64, float64[::1])")
def weigh_many(table: Matrix, answers: Matrix, y: Data, w: Data, step: float, out: Data) -> None:
    """Mix, then weigh each sample of a batch: a row of ``answers``, one column per calibrator."""
    last, n = table.shape[0] - 1, answers.shape[1]
    for t in range(len(out)):
        out[t] = 0.0
        for i in range(n):
            out[t] += table[last, FIRST + i] * _clipped(table, answers[t, i])
        weigh(table, answers[t], y[t], step * w[t])


# ------------------------------------------------------------------------------ the team


@helper
def _place(
    table: Matrix,
    states: tuple[Data, Data, Data],
    links_0: Links,
    links_1: Links,
    links_2: Links,
) -> int:
    """Return the column of the table where the team begins."""
    n = int(table[table.shape[0] - 2, IDENTITY])
    for size in (len(links_0), len(links_1), len(links_2)):
        n += size > 0
    for size in (len(states[0]), len(states[1]), len(states[2])):
        n += size > 0
    return table.shape[1] - n


@helper
def _ask(data: Data, links: Links, score: float) -> float:
    """Return a staircase's answer, the score itself where it has learned nothing."""
    value = blended(*bracket(data, links, score, False))
    return value if value == value else score


@helper
def _part(table: Matrix, place: int, data: Data, links: Links, score: float) -> float:
    """Return a staircase's part of the mixture."""
    if len(links) == 0:
        return 0.0
    return table[table.shape[0] - 1, place] * _clipped(table, _ask(data, links, score))


@helper
def _teach(
    data: Data,
    links: Links,
    queue: Queue,
    answers: Data,
    at: int,
    asking: bool,
    sample: tuple[float, float, float],
) -> bool:
    """Ask a staircase, if ``asking``, and teach it; return whether it is done."""
    if len(links) == 0:
        return True
    if asking:
        answers[at] = _ask(data, links, sample[0])
    links[STATUS] = _learn(data, links, queue, sample[0], sample[1], sample[2])
    return bool(links[STATUS] == OK)


@kernel(
    f"int64({_STACKS}, {_STATES}, float64[:, ::1], float64[::1],"
    " int64, boolean, float64, float64, float64, float64)"
)
def learn(
    data_0: Data,
    links_0: Links,
    queue_0: Queue,
    data_1: Data,
    links_1: Links,
    queue_1: Queue,
    data_2: Data,
    links_2: Links,
    queue_2: Queue,
    state_0: Data,
    state_1: Data,
    state_2: Data,
    table: Matrix,
    answers: Data,
    start: int,
    asking: bool,
    score: float,
    y: float,
    w: float,
    power: float,
) -> int:
    """Teach the team a sample, then weigh all calibrators; return N_STACKS.

    With ``start`` 0 and ``asking`` the team's answers are taken first. Where a staircase needs
    something (its status is in its links), return its place; once it has learned, go on with
    ``start`` behind it.
    """
    states = (state_0, state_1, state_2)
    at = _place(table, states, links_0, links_1, links_2) - FIRST
    if table[table.shape[0] - 2, IDENTITY] > 0.0:
        if asking and start == 0:
            answers[at] = score
        at += 1
    for i in range(N_PLATTS):
        if len(states[i]) > 0:
            if start == 0:
                if asking:
                    answers[at] = platt.answer(states[i], score)
                platt.step(states[i], score, y, w)
            at += 1
    sample = score, y, w
    if start < 1 and not _teach(data_0, links_0, queue_0, answers, at, asking, sample):
        return 0
    if start < 2 and not _teach(data_1, links_1, queue_1, answers, at + 1, asking, sample):
        return 1
    if start < 3 and not _teach(data_2, links_2, queue_2, answers, at + 2, asking, sample):
        return 2
    weigh(table, answers, y, power)
    return N_STACKS


@kernel(f"float64({_READ_STACKS}, {_STATES}, float64[:, ::1], float64)")
def predict(
    data_0: Data,
    links_0: Links,
    data_1: Data,
    links_1: Links,
    data_2: Data,
    links_2: Links,
    state_0: Data,
    state_1: Data,
    state_2: Data,
    table: Matrix,
    score: float,
) -> float:
    """Return the team's part of the mixture: the sum of its weights times its answers."""
    states = (state_0, state_1, state_2)
    last, part = table.shape[0] - 1, 0.0
    at = _place(table, states, links_0, links_1, links_2)
    if table[last - 1, IDENTITY] > 0.0:
        part += table[last, at] * _clipped(table, score)
        at += 1
    for i in range(N_PLATTS):
        if len(states[i]) > 0:
            part += table[last, at] * _clipped(table, platt.answer(states[i], score))
            at += 1
    part += _part(table, at, data_0, links_0, score)
    part += _part(table, at + 1, data_1, links_1, score)
    part += _part(table, at + 2, data_2, links_2, score)
    return part
