"""A warning for late labels whose prediction could not be remembered."""

import warnings
from typing import Any

from streamcal.wrappers._features import is_alike, shallow


class LateLabels:
    """Warns once if features that cannot be remembered come with a late label.

    It holds the features of the latest such prediction, and those of an earlier one, until that
    label comes. There is no false alarm: a label is late if its features are those of the earlier
    prediction, and not of the latest.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.waiting = False
        self._warned = False
        self._latest: Any = None
        self._earlier: Any = None
        self._n_later = 0  # predictions after the earlier one

    def add(self, x: Any) -> None:
        """Note that ``x`` was predicted."""
        latest = self._latest
        if self._warned or (latest is not None and is_alike(latest, x)):
            return
        self._n_later += 1
        if latest is not None and (self._earlier is None or self._n_later > self._limit):
            self._earlier, self._n_later = latest, 1
        self._latest = shallow(x)
        self.waiting = True

    def learn(self, x: Any) -> None:
        """Warn if the label of ``x`` is late."""
        if is_alike(self._latest, x):
            self._latest = None
        elif self._earlier is not None and is_alike(self._earlier, x):
            self._warned, self.waiting, self._latest, self._earlier = True, False, None, None
            warnings.warn(
                "the label is late, and its prediction was not remembered, because a feature may"
                " change (a list, an array or a dict) or has a class with its own comparison; call"
                " `serve_one`, and pass its result as `served` with the label",
                RuntimeWarning,
                stacklevel=4,
            )
