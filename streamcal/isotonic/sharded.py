"""The isotonic regression of samples that lie in several places, in parallel and exactly.

1. *Cut points.* Scores of every shard are sampled; their quantiles cut the scores into ranges.
2. *Ranges.* The samples of a range, from all shards, are sorted and pooled into blocks.
3. *Pooling.* The few blocks of all ranges are pooled once more.

Ranges can be fitted separately because adjacent violators may be pooled in any order
(`streamcal.isotonic.blocks`); equal scores fall into one range. Fitting the *shards* and merging
their maps is wrong: two samples of one block may be in two shards, and no shard shows that they
violate the order.

The caller need not read files: the process that fits a range maps them into memory and reads the
rows in the range.
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._processes import Pool, check_pool, run_in, size_of
from streamcal._validation import as_vector, as_weights, check_choice, check_count, check_no_mask
from streamcal.isotonic.blocks import fit_blocks, pool_samples
from streamcal.isotonic.staircase import (
    INTERPOLATIONS,
    OUTSIDE,
    Interpolation,
    Outside,
    Staircase,
    as_samples,
)
from streamcal.losses.names import get_mean

Column: TypeAlias = "ArrayLike | os.PathLike[str]"
Shard: TypeAlias = "Sequence[Column]"

_SAMPLED = 4096  # at most this many scores of a shard determine the cut points


def isotonic_fit_sharded(
    shards: Sequence[Shard],
    *,
    loss: losses.MeanLossName | losses.Loss = "squared",
    interpolation: Interpolation = "linear",
    outside: Outside = "clip",
    pool: Pool | None = None,
    n_ranges: int | None = None,
) -> Staircase:
    """Return the isotonic regression of samples in several shards.

    The result is equal to `isotonic_fit` on all samples if sums are exact (labels 0 and 1, integer
    weights), else up to rounding.

    Parameters
    ----------
    shards : sequence of (scores, y) or (scores, y, w)
        Each an array of shape ``(n_samples,)``, or the path (a `pathlib.Path`) of a ``.npy`` file
        that holds one and that the processes of the pool can read. Shards may be empty.
    loss, interpolation, outside
        As for `isotonic_fit`: a mean-type loss.
    pool : object with ``map``, optional
        Where ranges are fitted: a `multiprocess.Pool`, Ray's pool, an executor. None: this process.
    n_ranges : int, optional
        The number of ranges, by default one for each process of the pool. One process holds the
        samples of a range in memory, about 100 bytes each.

    Returns
    -------
    Staircase

    Raises
    ------
    ValueError
        If there are no samples, lengths differ, or a value is out of range; it names the shard.
    TypeError
        If the loss is not a mean-type loss, or ``pool`` has no ``map``.

    Notes
    -----
    Arrays are cut into ranges here and sent to the pool once. The process of each range reads the
    scores of all files, which costs far less than sorting.

    Examples
    --------
    >>> shards = [([1, 3], [0.0, 1.0]), ([2, 4], [2.0, 4.0]), ([], [])]
    >>> isotonic_fit_sharded(shards).values
    array([0. , 1.5, 4. ])
    """
    mean_loss = get_mean(loss)
    check_choice(interpolation, "interpolation", INTERPOLATIONS)
    check_choice(outside, "outside", OUTSIDE)
    check_pool(pool)
    check_count(n_ranges, "n_ranges", optional=True)
    columns = [_check_shard(shard, at) for at, shard in enumerate(shards)]
    n = sum(len(_open_column(shard[0])) for shard in columns)
    if not n:
        raise ValueError("`shards` must hold at least one sample, got none")
    cuts = _find_cuts(columns, size_of(pool) if n_ranges is None else n_ranges)
    tasks = [
        ([_select_rows(shard, low, high) for shard in columns], low, high, mean_loss)
        for low, high in pairwise([-np.inf, *cuts, np.inf])
    ]
    blocks = np.concatenate(run_in(pool, _fit_range, tasks))
    return fit_blocks(blocks, loss=mean_loss, interpolation=interpolation, outside=outside)


def _check_shard(shard: Any, at: int) -> list[Any]:
    """Return scores, labels and weights of a shard, arrays or paths; raise for anything else."""
    path = isinstance(shard, str | os.PathLike)
    if path or not hasattr(shard, "__len__") or not 2 <= len(shard) <= 3:
        raise ValueError(f"`shards` must hold (scores, y) or (scores, y, w), got {shard!r} at {at}")
    for column in shard:
        check_no_mask(column, "shards")
    columns = [c if isinstance(c, os.PathLike) else np.asarray(c) for c in shard]
    lengths = {np.shape(_open_column(column)) for column in columns}
    if len(lengths) > 1 or len(next(iter(lengths))) != 1:
        shapes = [np.shape(_open_column(column)) for column in columns]
        raise ValueError(f"`shards` must hold equally long vectors, got shapes {shapes} at {at}")
    return columns


def _open_column(column: Any) -> NDArray[Any]:
    """Return a column as an array; a file is mapped, not read."""
    if isinstance(column, os.PathLike):
        try:
            array: Any = np.load(column, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError):
            array = None
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise ValueError(f"`shards` must hold `.npy` files of numbers, got {column}")
        return array
    return np.asarray(column)


def _find_cuts(columns: list[list[Any]], n_ranges: int) -> NDArray[np.float64]:
    """Return scores that cut all samples into about equally full ranges, ascending."""
    sampled = []
    for at, shard in enumerate(columns):
        scores = _open_column(shard[0])
        step = max(1, len(scores) // _SAMPLED)
        try:
            sampled.append(as_vector(scores[::step], "scores", finite=False))
        except TypeError as error:
            raise TypeError(f"in shard {at}: {error}") from None
    scores = np.sort(np.concatenate(sampled))
    scores = scores[np.isfinite(scores)]  # NaN and infinite scores are refused when they are fitted
    if not len(scores):
        return np.empty(0)
    places = np.arange(1, n_ranges) * len(scores) // n_ranges
    return np.unique(scores[places])


def _select_rows(shard: list[Any], low: float, high: float) -> list[Any]:
    """Return the part of a shard for the process of a range: rows of arrays, paths of files."""
    if any(isinstance(column, os.PathLike) for column in shard):
        return shard
    inside = _find_rows(shard[0], low, high)
    return [column[inside] for column in shard]


def _find_rows(scores: NDArray[Any], low: float, high: float) -> Any:
    """Return where scores are in [low, high). NaN is in the lowest range, which refuses it."""
    scores = np.asarray(scores, np.float64)  # as in the fit: longdouble distinguishes more scores
    if low == -np.inf:
        return slice(None) if high == np.inf else np.flatnonzero(~(scores >= high))
    inside = scores >= low
    # For several columns, places are three times as fast as a mask.
    return np.flatnonzero(inside if high == np.inf else inside & (scores < high))


def _fit_range(task: tuple[list[list[Any]], float, float, losses.MeanLoss]) -> NDArray[np.float64]:
    """Return the blocks of the samples in a range."""
    shards, low, high, loss = task
    parts: list[tuple[NDArray[np.float64], ...]] = []
    for at, shard in enumerate(shards):
        columns = [_open_column(column) for column in shard]
        inside = _find_rows(columns[0], low, high)
        rows = [np.asarray(column[inside]) for column in columns]
        if not len(rows[0]):
            continue
        try:
            as_vector(rows[0], "scores")
            x, w, s = as_samples(rows[0], rows[1], rows[2] if len(rows) == 3 else None, loss)
        except (ValueError, TypeError) as error:
            raise type(error)(f"in shard {at}: {error}") from None
        parts.append((x, as_weights(w, len(x)), s))
    if not parts:
        parts = [(np.empty(0),) * 3]
    x, w, s = map(np.concatenate, zip(*parts, strict=True))
    return pool_samples(x, w, s)
