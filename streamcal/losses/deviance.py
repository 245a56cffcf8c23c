"""Deviances: the losses of predicted means, 0 where the prediction is the label.

A loss whose minimiser is the mean scores predictions of a mean consistently (Gneiting, *Making and
Evaluating Point Forecasts*, JASA 2011, theorem 7). Its deviance d(z, y) is the loss without the
terms in y alone, doubled for Poisson, gamma and Tweedie as is usual in statistics and in
scikit-learn. It is a Bregman divergence, so for any c the deviances from c of labels with the mean
m have the mean

    mean d(c, y) = mean d(m, y) + d(c, m).

The last term is the gain of predicting m in place of c. With c near m both sides are sums without
cancellation, so the mean deviance from m is found from one running sum.
"""

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._advice import did_you_mean, shown
from streamcal._validation import LARGEST, as_number, as_vector, check_label, check_same_length
from streamcal.losses._base import MeanLoss
from streamcal.losses._mean import Gamma, Poisson, Squared, Tweedie
from streamcal.losses.names import aliases_of

DevianceName = Literal["squared", "poisson", "gamma", "tweedie"]
NAMES: tuple[DevianceName, ...] = get_args(DevianceName)
HINT = (
    "; for counts or amounts write loss='poisson' (labels not negative), 'gamma' (positive),"
    " 'tweedie' or 'squared' (any numbers)"
)
"""What to write for labels that are neither 0 nor 1."""

_BY_NAME = {loss.name: loss for loss in (Squared(), Poisson(), Gamma(), Tweedie())}

_LEAST_CENTER, _MOST_CENTER = 1e-100, 1e100  # quotients of labels and these do not overflow

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Deviance:
    """The deviance of a loss; call it with predicted means and labels.

    Parameters
    ----------
    loss : Squared, Poisson, Gamma or Tweedie
        The loss, which has the ranges of labels and predictions.

    Examples
    --------
    >>> poisson = get_deviance("poisson")
    >>> poisson([2.0, 0.0, 0.0], [3.0, 0.0, 1.0]).round(4)
    array([0.4328, 0.    ,    inf])
    >>> get_deviance("gamma").title
    'gamma deviance'
    """

    loss: MeanLoss

    @property
    def name(self) -> str:
        """The name of the loss."""
        return self.loss.name

    @property
    def title(self) -> str:
        """The name in words."""
        if isinstance(self.loss, Squared):
            return "squared error"
        if isinstance(self.loss, Tweedie):
            return f"Tweedie deviance (power {self.loss.power:g})"
        return "Poisson deviance" if isinstance(self.loss, Poisson) else "gamma deviance"

    @property
    def power(self) -> float:
        """The power of the mean that the variance is proportional to, in the family of the loss."""
        powers = {"squared": 0.0, "poisson": 1.0, "gamma": 2.0}
        return self.loss.power if isinstance(self.loss, Tweedie) else powers[self.name]

    @property
    def may_be_zero(self) -> bool:
        """Whether a prediction of 0 is allowed though it costs inf where the label is positive."""
        return isinstance(self.loss, Poisson | Tweedie)

    @np.errstate(all="ignore")
    def __call__(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return d(z, y) element by element, in the ranges of the loss; the arguments broadcast."""
        z, y = np.asarray(z, np.float64), np.asarray(y, np.float64)
        loss = self.loss
        if isinstance(loss, Squared):
            return np.asarray(np.square(z - y))
        if isinstance(loss, Poisson):
            value = np.where(y == 0.0, z, y * np.log(y / z) - y + z)
        elif isinstance(loss, Gamma):
            ratio = y / z
            log_ratio = np.where(ratio > 0.0, np.log(ratio), np.log(y) - np.log(z))
            value = ratio - 1.0 - log_ratio
        else:
            assert isinstance(loss, Tweedie)
            p = loss.power
            own = np.power(y, 2.0 - p) / ((1.0 - p) * (2.0 - p))
            pull = np.where(y == 0.0, 0.0, y * np.power(z, 1.0 - p) / (p - 1.0))
            value = own + pull + np.power(z, 2.0 - p) / (2.0 - p)
        return np.asarray(np.maximum(2.0 * value, 0.0))  # rounding may leave less than 0

    def center(self, y: float) -> float:
        """Return a number near a label, from which any label has a finite deviance."""
        if isinstance(self.loss, Squared):
            return y
        return min(max(y, _LEAST_CENTER), _MOST_CENTER) if y else 1.0

    def clip(self, means: Array) -> Array:
        """Return means in the range of the labels, which rounding errors may leave."""
        return np.clip(means, *self.loss.mean_range)

    def as_pair(self, y_true: Any, y_pred: Any) -> tuple[float, float]:
        """Return a prediction and a label as floats, or raise if one is out of range."""
        check_label(y_true, "y_true")
        y, z = as_number(y_true, "y_true"), as_number(y_pred, "y_pred")
        self.loss.check_labels(y, "y_true")
        if z not in self.loss.z_range:
            self._raise_prediction(z)
        for name, number in (("y_true", y), ("y_pred", z)):
            if abs(number) > LARGEST:
                raise ValueError(f"`{name}` must be at most {LARGEST:g} in size, got {number}")
        return z, y

    def as_arrays(self, y_true: ArrayLike, y_pred: ArrayLike) -> tuple[Array, Array]:
        """Return labels and predictions as vectors, or raise if one is out of range."""
        z = as_vector(y_pred, "y_prob")
        if not len(z):
            raise ValueError("`y_prob` must hold at least one prediction, got none")
        y = as_vector(y_true, "y_true", finite=False)
        check_same_length(y, len(z), "y_true")
        self.loss.check_labels(y, "y_true")
        inside = self.loss.z_range.contains(z)
        if not inside.all():
            at = int(np.argmin(inside))
            self._raise_prediction(z[at], "y_prob", f" at position {at}")
        for name, numbers in (("y_true", y), ("y_prob", z)):
            if (most := float(np.abs(numbers).max())) > LARGEST:
                raise ValueError(f"`{name}` must be at most {LARGEST:g} in size, got {most}")
        return y, z

    def _raise_prediction(self, z: float, argument: str = "y_pred", where: str = "") -> NoReturn:
        raise ValueError(
            f"`{argument}` must lie in {self.loss.z_range} for the {self.name} loss, got {z}{where}"
        )


def get_deviance(loss: Any) -> Deviance:
    """Return the deviance of a loss, which is a name or an object.

    Raises
    ------
    ValueError
        If it is no loss of means.
    TypeError
        If it is neither a name nor a loss.

    Examples
    --------
    >>> from streamcal.losses import Tweedie
    >>> round(float(get_deviance(Tweedie(power=1.25))(1.0, 2.0)), 4)
    0.7275
    >>> get_deviance("log")
    Traceback (most recent call last):
    ...
    ValueError: `loss` must be one of 'squared', 'poisson', 'gamma', 'tweedie', or a Tweedie, for \
means of labels, got 'log'
    """
    if isinstance(loss, Squared | Poisson | Gamma | Tweedie):
        return Deviance(loss)
    rule = f"`loss` must be one of {', '.join(map(repr, NAMES))}, or a Tweedie, for means of labels"
    if isinstance(loss, str):
        if loss not in _BY_NAME:
            hint = did_you_mean(loss, NAMES, aliases_of(NAMES))
            raise ValueError(f"{rule}, got {loss!r}{hint}")
        return Deviance(_BY_NAME[loss])
    if isinstance(loss, MeanLoss):
        raise ValueError(f"{rule}, got {loss!r}")
    raise TypeError(f"{rule}, got {shown(loss)}")
