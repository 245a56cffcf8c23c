"""A base of calibrators that learn by online Newton steps: parameters and states.

The parameters of the map start at the identity and follow the log loss, one step for each sample
(Hazan, Agarwal & Kale, *Logarithmic Regret Algorithms for Online Convex Optimization*, Machine
Learning 2007).
"""

from datetime import timedelta
from typing import Any

from streamcal._state import Arrays, Fields, array_of
from streamcal._validation import LARGEST, as_weight, check_within, decay_per_sample
from streamcal.calibration.clock import Timed, check_forgetting, in_samples, in_seconds
from streamcal.calibration.probability import check_clip


class NewtonSteps(Timed):
    """A second base class of a calibrator whose ``_kernel`` has ``state`` and ``read``."""

    _kernel: Any
    gamma: float
    prior: float
    limit: float
    half_life: float | timedelta | None
    clip: float

    @property
    def n_samples(self) -> int:
        """How many samples have been learned."""
        return int(self._kernel.state()[0][-1])

    def _set_up(
        self,
        gamma: float,
        prior: float,
        limit: float,
        half_life: float | timedelta | None,
        clip: float,
    ) -> tuple[float, float, float, float, float]:
        """Check and store the parameters; return those of the kernel but the last, `_seconds`."""
        as_weight(gamma, "gamma")
        as_weight(prior, "prior")
        check_within(limit, "limit", f"(1, {LARGEST:g}]")
        check_forgetting(half_life)
        check_clip(clip)
        self.gamma = gamma
        self.prior = prior
        self.limit = limit
        self.half_life = half_life
        self.clip = clip
        if isinstance(half_life, timedelta):
            self.needs_time = True
        return gamma, prior, limit, clip, decay_per_sample(in_samples(half_life))

    @property
    def _seconds(self) -> float:
        """The half-life in seconds, infinite if it is not one of time."""
        return in_seconds(self.half_life)

    def _freeze(self) -> tuple[Fields, Arrays]:
        numbers, now = self._kernel.state()
        return self._freeze_clock(now), {"numbers": numbers}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._kernel.read(array_of(arrays, "numbers", None), self._thaw_clock(fields))
