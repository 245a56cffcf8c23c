"""Copies of what has learned, for every class here that derives from one of river's."""

import copy
from typing import Any, Self

from river import base


class Cloned(base.Base):
    """Gives `clone` two clear meanings: a fresh twin, or a copy that knows all that this one knows.

    river's own copies attributes one by one and makes each parameter anew. A wrapped model is a
    parameter, so it would forget what it has learned while its calibrators remember; and two
    attributes that share an array would share it no longer.
    """

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return a fresh estimator with the same parameters, or a copy with all that was learned.

        Parameters
        ----------
        new_params : dict, optional
            Parameters of the fresh estimator that differ.
        include_attributes : bool
            Whether to copy what was learned, too, that of a wrapped model included. Parameters
            cannot differ then, since what was learned depends on them.

        Raises
        ------
        ValueError
            If there are ``new_params`` together with ``include_attributes``.
        """
        if not include_attributes:
            return super().clone(new_params)
        if new_params:
            raise ValueError(
                "`new_params` must be empty where `include_attributes` is true,"
                f" got {sorted(new_params)}"
            )
        return copy.deepcopy(self)
