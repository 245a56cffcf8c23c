"""The log loss that the command line, the report and the demo show, with one rule of clipping."""

import numpy as np
from numpy.typing import NDArray

LEAST = 1e-15
RULE = f"probabilities below {LEAST:g} count as {LEAST:g}"
"""The rule in words, shown with the loss; river's ``LogLoss`` has the same."""
RULE_OF_MEANS = f"predictions below {LEAST:g} count as {LEAST:g}"
"""The same rule of deviances that are infinite at 0."""


def log_losses(happened: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log loss of each probability, in nats; arrays of shape ``(n_samples,)``.

    Probabilities are clipped to [`LEAST`, 1 − `LEAST`]: otherwise a single wrong 0 or 1 would make
    the mean infinite.

    Examples
    --------
    >>> log_losses(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 1.0])).round(2)
    array([ 0.69,  0.69, 34.54])
    """
    p = np.clip(p, LEAST, 1.0 - LEAST)
    return -np.log(np.where(happened == 1.0, p, 1.0 - p))
