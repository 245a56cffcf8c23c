"""The log loss that the command line, the report and the demo show, with one rule of clipping."""

import numpy as np
from numpy.typing import NDArray

LEAST = 1e-15
RULE = f"no chance counts as less than {LEAST:g}"
"""The rule in words, for where a figure is shown; river's ``LogLoss`` has the same."""


def log_losses(happened: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log loss of each probability, in nats; arrays of shape ``(n_samples,)``.

    What was given less than `LEAST` of a chance and came true is charged as if it had been given
    that much. A single 0 of a model would otherwise make a mean infinite, and say nothing else.

    Examples
    --------
    >>> log_losses(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 1.0])).round(2)
    array([ 0.69,  0.69, 34.54])
    """
    p = np.clip(p, LEAST, 1.0 - LEAST)
    return -np.log(np.where(happened == 1.0, p, 1.0 - p))
