"""Probabilities of all samples, from those of a stream without most of its negatives.

Where positives are rare, many systems keep all of them and only a share of the negatives. A model
that learns from what is kept, and a calibrator behind it, are right for what is kept. By Bayes'
rule the odds of a positive among all samples are those among the kept ones, multiplied by the
share of negatives that are kept. So what learns stays as it is, and the answer is multiplied.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._validation import as_probabilities, as_vector, as_within, check_same_length

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


def as_sampling_rate(value: object) -> float:
    """Return the share of negatives that are kept; raise unless it is in (0, 1]."""
    return as_within(value, "sampling_rate", "(0, 1]")


def among_all(p: Numbers, rate: Numbers) -> Numbers:
    """Return the probabilities among all samples for those among the kept ones."""
    positives = p * rate
    return positives / (positives + (1.0 - p))


def among_kept(p: Numbers, rate: Numbers) -> Numbers:
    """Return the probabilities among the kept samples for those among all.

    Examples
    --------
    >>> among_kept(among_all(0.5, 0.25), 0.25)
    0.5
    """
    return p / (p + rate * (1.0 - p))


def undo_sampling(p: ArrayLike, sampling_rate: ArrayLike) -> NDArray[np.float64]:
    """Return probabilities among all samples for those among samples with fewer negatives.

    Parameters
    ----------
    p : array_like of float, shape (n_samples,)
        Probabilities, in [0, 1], that are right if each positive and a share of the negatives are
        kept.
    sampling_rate : float or array_like of float, shape (n_samples,)
        The share of negatives that are kept, greater than 0 and not greater than 1.

    Returns
    -------
    numpy.ndarray, shape (n_samples,)
        ``p r / (p r + 1 - p)`` for each probability ``p`` and rate ``r``; for a Series one
        with the same index, and with its name followed by ``_among_all``.

    Raises
    ------
    ValueError, TypeError
        If a value is out of range, or the lengths differ.

    References
    ----------
    He et al., *Practical Lessons from Predicting Clicks on Ads at Facebook*, ADKDD 2014, section
    6.3.

    Examples
    --------
    Of 1,000 impressions 10 are clicked. With one of 99 negatives kept, the share of clicks is 1/2:

    >>> undo_sampling([0.5, 1.0], 1 / 99)
    array([0.01, 1.  ])
    """
    kept = as_probabilities(as_vector(p, "p"), "p")
    if np.ndim(sampling_rate) == 0:
        rates = np.full(len(kept), as_sampling_rate(sampling_rate))
    else:
        rates = as_vector(sampling_rate, "sampling_rate")
        check_same_length(rates, len(kept), "sampling_rate")
        for rate in rates[~((rates > 0.0) & (rates <= 1.0))][:1].tolist():
            as_sampling_rate(rate)
    return like_given(among_all(kept, rates), p, "among_all")
