"""Blocks of samples: how fits of parts are combined.

``blocks_of`` pools the samples of a *range* of scores into blocks. If ranges do not overlap,
``fit_blocks`` pools their blocks further, into the staircase of all their samples. This is exact,
because adjacent violators may be pooled in any order, and because weight and weighted sum of
statistics describe a block of a mean-type loss completely.

This only works for ranges of scores. If samples are split at random, or by a key, blocks of the
parts overlap. A block does not contain the positions of its samples, so neither pooling such blocks
nor averaging their maps gives the staircase of all samples. `fit_blocks` refuses them.

Blocks are rows of plain numbers, so that any engine can pass them on:

=========  ================================================================
lower      the least score
upper      the greatest score
weight     Σ w
sum        Σ w · statistic(y)
moment     Σ w · score, for the center; may be infinite where it overflows
=========  ================================================================
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._validation import SMALLEST, check_choice
from streamcal.isotonic.staircase import (
    INTERPOLATIONS,
    OUTSIDE,
    Interpolation,
    Outside,
    Staircase,
    as_samples,
    as_stack,
    from_stack,
)
from streamcal.kernels.pav import Stack
from streamcal.losses.names import get_mean

BLOCK_COLUMNS = ("lower", "upper", "weight", "sum", "moment")


def blocks_of(
    scores: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    *,
    loss: losses.MeanLossName | losses.Loss = "squared",
) -> NDArray[np.float64]:
    """Return the blocks of the staircase of some samples.

    Parameters
    ----------
    scores, y, w : array_like of shape (n_samples,)
        As in `isotonic_fit`; there may be none.
    loss : str or MeanLoss
        The loss.

    Returns
    -------
    ndarray of shape (n_blocks, 5)
        In score order; the columns are ``BLOCK_COLUMNS``.

    Raises
    ------
    ValueError, TypeError
        As in `isotonic_fit`.

    Examples
    --------
    >>> blocks_of([1, 2, 3, 4], [0.0, 2.0, 1.0, 4.0])
    array([[1., 1., 1., 0., 1.],
           [2., 3., 2., 3., 5.],
           [4., 4., 1., 4., 4.]])
    """
    return pool_samples(*as_samples(scores, y, w, get_mean(loss)))


def pool_samples(
    x: NDArray[np.float64], weights: NDArray[np.float64] | None, sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the blocks of samples that `as_samples` returned."""
    if not len(x):
        return np.empty((0, len(BLOCK_COLUMNS)))
    return as_stack(x, weights, sums).closed()


def fit_blocks(
    blocks: ArrayLike,
    *,
    loss: losses.MeanLossName | losses.Loss = "squared",
    interpolation: Interpolation = "linear",
    outside: Outside = "clip",
) -> Staircase:
    """Return the staircase of the samples in some blocks; O(n_blocks log n_blocks).

    Parameters
    ----------
    blocks : array_like of shape (n_blocks, 5)
        The results of `blocks_of` for ranges of scores that do not overlap, in any order.
    loss : str or MeanLoss
        The loss that they were found with.
    interpolation, outside : str
        See `Staircase`.

    Raises
    ------
    ValueError
        If there are no blocks, a number in them is impossible, blocks overlap, or their sums
        overflow.
    TypeError
        If the loss is not a mean-type loss.

    Examples
    --------
    >>> low, high = blocks_of([1, 2], [0.0, 2.0]), blocks_of([3, 4], [1.0, 4.0])
    >>> fit_blocks(np.concatenate([low, high])).values
    array([0. , 1.5, 4. ])
    """
    mean_loss = get_mean(loss)
    check_choice(interpolation, "interpolation", INTERPOLATIONS)
    check_choice(outside, "outside", OUTSIDE)
    stack = Stack.of_blocks(_sort_blocks(blocks))
    return from_stack(stack, mean_loss, interpolation, outside)


def _sort_blocks(blocks: ArrayLike) -> NDArray[np.float64]:
    """Return blocks in score order; raise unless they are disjoint."""
    rows = np.asarray(blocks, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(BLOCK_COLUMNS) or not len(rows):
        raise ValueError(
            f"`blocks` must have shape (n_blocks, {len(BLOCK_COLUMNS)}), at least one block,"
            f" got shape {rows.shape}"
        )
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    lower, upper, weight, _, _ = rows.T
    good = np.isfinite(rows[:, :4]).all(axis=1) & (lower <= upper)
    good &= weight >= SMALLEST
    if not good.all():
        bad = rows[int(np.argmin(good))]
        raise ValueError(
            "`blocks` must have finite ends, lower <= upper, positive weights and finite sums,"
            f" got {dict(zip(BLOCK_COLUMNS, bad.tolist(), strict=True))}"
        )
    apart = upper[:-1] < lower[1:]
    if not apart.all():
        at = int(np.argmin(apart))
        raise ValueError(
            "`blocks` must not overlap, as those of ranges of scores do not, got one from"
            f" {lower[at]} to {upper[at]} and one from {lower[at + 1]} to {upper[at + 1]}"
        )
    return rows
