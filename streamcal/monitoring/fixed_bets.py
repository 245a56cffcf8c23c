"""The bets of the tests of calibration: maps of a probability, fixed before the first sample.

They cover what calibration is usually lost by: a shift of the log odds (another base rate), another
slope (scores that are too extreme or not extreme enough), a curve, and all combinations of these;
and a shift in a part of the scores alone. The logarithm of a mean over bets is at most that of
their number, here 4.4, below the logarithm of the best one. `CalibrationTest`, which stakes one
half before the first sample, loses at most ln 2 more. So bets that are nearer to each other would
gain little. Samples cost O(number of bets).
"""

import math
from functools import cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.bets import Bets

SHIFTS = (-0.8, -0.3, 0.0, 0.3, 0.8)
SLOPES = (0.55, 0.8, 1.0, 1.25, 1.8)
CURVES = (-0.12, 0.0, 0.12)
ENDS = (-np.inf, -2.0, -0.5, 0.5, 2.0, np.inf)  # log odds between which a local bet shifts
LOCAL_SHIFTS = (-0.7, 0.7)

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@cache
def all_bets() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bets, shape ``(n_bets, 5)``, and the share of each; see `Bets`."""
    bets = [
        (shift, slope, curve, -np.inf, np.inf)
        for shift, slope, curve in product(SHIFTS, SLOPES, CURVES)
        if (shift, slope, curve) != (0.0, 1.0, 0.0)
    ]
    bets += [(shift, 1.0, 0.0, low, high) for low, high in pairwise(ENDS) for shift in LOCAL_SHIFTS]
    return np.array(bets), np.full(len(bets), 1.0 / len(bets))


def new_bets(*, spends: bool) -> Bets:
    """Return the bets before the first sample; see `Bets` for ``spends``."""
    return Bets(*all_bets(), spends)


def e_value_in_words(log_e_value: float) -> str:
    """Return an e-value from its natural logarithm.

    Examples
    --------
    >>> e_value_in_words(1.0), e_value_in_words(2137.0), e_value_in_words(math.inf)
    ('2.72', '10⁹²⁸', 'infinite (a label had the probability 0)')
    """
    if math.isinf(log_e_value):
        return "infinite (a label had the probability 0)" if log_e_value > 0.0 else "0"
    digits = log_e_value / math.log(10.0)
    if digits < 4.0:
        return f"{math.exp(log_e_value):.3g}"
    return "10" + f"{digits:.0f}".translate(_SUPERSCRIPTS)


def leader_in_words(bets: Bets) -> str:
    """Return what the probabilities should be by the bet that has gained most.

    Examples
    --------
    >>> bets = new_bets(spends=True)
    >>> for _ in range(50):
    ...     bets.update(0.9, False, 1.0)
    >>> leader_in_words(bets)
    '0.1 should be 0.07, 0.5 should be 0.31, 0.9 should be 0.46'
    """
    shift, slope, curve, low, high = all_bets()[0][bets.leader()]
    if np.isfinite(low) or np.isfinite(high):
        ends = [f"{1.0 / (1.0 + np.exp(-z)):.2f}" for z in (low, high) if np.isfinite(z)]
        where = f"from {ends[0]} to {ends[-1]}" if len(ends) == 2 else f"below {ends[0]}"
        where = f"above {ends[0]}" if high == np.inf else where
        return f"probabilities {where} should be {'higher' if shift > 0.0 else 'lower'}"
    shown = []
    for p in (0.1, 0.5, 0.9):
        z = np.log(p / (1.0 - p))
        q = 1.0 / (1.0 + np.exp(-(shift + slope * z + curve * z * z)))
        shown.append(f"{p} should be {q:.2f}")
    return ", ".join(shown)
