"""A base of calibrators that learn by online Newton steps: parameters and states.

The parameters of the map start at the identity and follow the log loss, one step for each sample
(Hazan, Agarwal & Kale, *Logarithmic Regret Algorithms for Online Convex Optimization*, Machine
Learning 2007).
"""

from typing import Any

from streamcal._state import Arrays, Fields, array_of
from streamcal._validation import (
    LARGEST,
    as_weight,
    check_half_life,
    check_within,
    decay_per_sample,
)
from streamcal.calibration.probability import check_clip


class NewtonSteps:
    """A second base class of a calibrator whose ``_kernel`` has ``state`` and ``read``."""

    _kernel: Any
    gamma: float
    prior: float
    limit: float
    half_life: float | None
    clip: float

    @property
    def n_samples(self) -> int:
        """How many samples have been learned."""
        return int(self._kernel.state()[0][-1])

    def _set_up(
        self, gamma: float, prior: float, limit: float, half_life: float | None, clip: float
    ) -> tuple[float, float, float, float, float]:
        """Check and store the parameters; return those of the kernel."""
        as_weight(gamma, "gamma")
        as_weight(prior, "prior")
        check_within(limit, "limit", f"(1, {LARGEST:g}]")
        check_half_life(half_life)
        check_clip(clip)
        self.gamma = gamma
        self.prior = prior
        self.limit = limit
        self.half_life = half_life
        self.clip = clip
        return gamma, prior, limit, clip, decay_per_sample(half_life)

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {"numbers": self._kernel.state()[0]}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._kernel.read(array_of(arrays, "numbers", None))
