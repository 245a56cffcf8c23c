"""The CORP decomposition of a mean score, from a staircase (see `streamcal.metrics.CORP`)."""

from typing import NamedTuple

import numpy as np

from streamcal.isotonic.staircase import Staircase
from streamcal.losses.deviance import Deviance


class Decomposition(NamedTuple):
    """A mean score and its parts: ``mean_score == mcb - dsc + unc``."""

    mean_score: float
    mcb: float
    dsc: float
    unc: float


def decompose(stairs: Staircase, mean_score: float, scoring: str) -> Decomposition:
    """Split the mean score of binary labels by their isotonic regression on the predictions.

    Parameters
    ----------
    stairs
        The regression, its values in [0, 1].
    mean_score
        The mean score S(p) of the predictions, ≥ 0.
    scoring
        ``"brier"`` or ``"log"``.

    Examples
    --------
    >>> from streamcal import isotonic_fit
    >>> decompose(isotonic_fit([0.0, 1.0], [0.0, 1.0]), 0.0, "brier")
    Decomposition(mean_score=0.0, mcb=0.0, dsc=0.25, unc=0.25)
    """
    values = np.clip(stairs.values, 0.0, 1.0)  # removals may cause rounding errors
    shares = stairs.weights / stairs.weights.sum()
    mean = min(float(shares @ values), 1.0)
    # DSC as the mean divergence of the blocks from ȳ: no difference of two large sums.
    if scoring == "brier":
        dsc = float(shares @ (values - mean) ** 2)
        unc = mean * (1.0 - mean)
    else:
        from scipy.special import entr, rel_entr  # here, for every calibrator loads this module

        dsc = float(shares @ (rel_entr(values, mean) + rel_entr(1.0 - values, 1.0 - mean)))
        unc = float(entr(mean) + entr(1.0 - mean))
    return Decomposition(mean_score, max(mean_score - unc + dsc, 0.0), dsc, unc)


def decompose_means(
    stairs: Staircase, mean_score: float, deviance: Deviance, center: float, mean_from_center: float
) -> Decomposition:
    """Split the mean deviance of labels by their isotonic regression on predicted means.

    Parameters
    ----------
    stairs
        The regression.
    mean_score
        The mean deviance S(p) of the predictions.
    deviance
        The deviance.
    center, mean_from_center
        A number, and the mean deviance of the labels from it. With the mean label as number, the
        second is the uncertainty.

    Examples
    --------
    >>> from streamcal import isotonic_fit
    >>> from streamcal.losses.deviance import get_deviance
    >>> squared = get_deviance("squared")
    >>> decompose_means(isotonic_fit([1.0, 2.0], [1.0, 5.0]), 4.5, squared, 3.0, 4.0)
    Decomposition(mean_score=4.5, mcb=4.5, dsc=4.0, unc=4.0)
    """
    values = deviance.clip(stairs.values)  # removals may cause rounding errors
    shares = stairs.weights / stairs.weights.sum()
    mean = deviance.clip(np.asarray(shares @ values))
    dsc = float(shares @ deviance(mean, values))
    unc = max(mean_from_center - float(deviance(center, mean)), 0.0)
    return Decomposition(mean_score, max(mean_score - unc + dsc, 0.0), dsc, unc)
