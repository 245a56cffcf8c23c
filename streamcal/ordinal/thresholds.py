"""Optimal thresholds that cut a score into ordinal labels.

A score u gets the label 1 + Σ_k 1[u ≥ t_k], of labels 1..K. Given past scores and their labels, the
sorted thresholds t_1 ≤ … ≤ t_{K−1} that minimise the summed task loss are found among the midpoints
between neighbouring scores, −inf and inf (Yamasaki & Tanaka, *Parallel Algorithm for Optimal
Threshold Labeling of Ordinal Regression Methods*):

* ``"dp"``, their Algorithm 2 (Lin & Li 2006), for any loss: O(N K), sample by sample;
* ``"io"``, their Algorithm 3: each threshold by itself. If the thresholds are *sorted*, they are
  optimal for any loss (Theorem 1); for a loss that is convex in the predicted label they always are
  (Theorem 2). The K − 1 problems are independent, so they can run in several processes;
* ``"blocked-io"``, their appendix A: as ``"io"``, with the samples divided into blocks too;
* ``"divide"``, for convex losses: the middle threshold on all samples, then the lower thresholds on
  the samples below it and the higher ones on the rest, and so on: O(N log K). Not in the paper;
* ``"subsequence"``, for the zero-one loss: the correctly labelled samples are a non-decreasing
  subsequence of the labels in score order; the heaviest such subsequence is found by prefix maxima.

Quadratic weighted kappa, 1 − Σ(h − y)² / Σ e(h) with e(k) = Σ_j (k − j)² n_j / n, is not a sum of
losses but a quotient of two sums. Dinkelbach's method starts from λ = 1, minimises
Σ[(h − y)² − λ e(h)], which is convex for every λ ≤ 1, sets λ to the quotient at the minimum, and
repeats until λ no longer changes. That takes about five solves and ends in the optimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._processes import Pool, check_pool
from streamcal._validation import as_vector, check_choice, check_count
from streamcal.losses import SquaredError, TaskLoss, TaskLossName, ZeroOneError, get_task
from streamcal.ordinal import _jobs
from streamcal.ordinal._jobs import JobOptions
from streamcal.ordinal.samples import Samples

Method = Literal["auto", "dp", "io", "blocked-io", "divide", "subsequence"]
METHODS: tuple[Method, ...] = get_args(Method)
KAPPA = "quadratic-kappa"
"""The name of the objective that is not a task loss: 1 − quadratic weighted kappa."""

_BLOCK_SAMPLES = 16_384


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds that label scores, and their loss on the samples that they were found on.

    Call it with scores to get labels 1..K.

    Attributes
    ----------
    thresholds : ndarray of shape (n_labels - 1,)
        Non-decreasing; −inf, inf and equal thresholds mean that some labels are never given.
    risk : float
        The summed task loss, samples times weights; for quadratic weighted kappa 1 − kappa.
    method : str
        The method that found them: "dp", "io", "blocked-io", "divide" or "subsequence".
    certified : bool
        Whether they are known to be optimal: whether no thresholds can have a risk that is smaller
        by more than a millionth. This is False in two cases. Only "io" and "blocked-io" with a loss
        that is not convex may find unsorted thresholds; these are then sorted. And a sum of weights
        that differ by many orders of magnitude loses light samples to rounding; a bound of this
        error may be too large, compared with the risk, for any method but "dp".

    Examples
    --------
    >>> found = optimal_thresholds([0.1, 0.2, 0.3, 0.7, 0.9], [1, 1, 2, 2, 3])
    >>> found([0.0, 0.26, 0.5, 5.0])
    array([1, 2, 2, 3])
    >>> found(0.5), found.risk, found.n_labels
    (2, 0.0, 3)
    """

    thresholds: NDArray[np.float64]
    risk: float
    method: str
    certified: bool

    @property
    def n_labels(self) -> int:
        """The number of labels, K."""
        return len(self.thresholds) + 1

    def __call__(self, scores: ArrayLike) -> Any:
        """Return the label of each score: ints of shape ``(n_samples,)``, or one int.

        Raises
        ------
        ValueError
            If a score is NaN.
        TypeError
            If scores are not numbers.
        """
        one = np.ndim(scores) == 0
        vector = as_vector(np.atleast_1d(np.asarray(scores)), "scores", finite=False)
        if np.isnan(vector).any():
            at = int(np.argmax(np.isnan(vector)))
            raise ValueError(f"`scores` must be numbers, got nan at position {at}")
        labels = 1 + np.searchsorted(self.thresholds, vector, side="right")
        return int(labels[0]) if one else labels


def optimal_thresholds(
    scores: ArrayLike,
    y: ArrayLike,
    n_labels: int | None = None,
    *,
    loss: TaskLossName | Literal["quadratic-kappa"] | TaskLoss = "absolute",
    w: ArrayLike | None = None,
    class_weight: Literal["balanced"] | Sequence[float] | None = None,
    method: Method = "auto",
    n_jobs: int = 1,
    block_size: int | None = None,
    pool: Pool | None = None,
) -> Thresholds:
    """Find the thresholds that label scores with the least total task loss.

    Parameters
    ----------
    scores : array-like of shape (n_samples,)
        Finite. Equal scores get equal labels.
    y : array-like of shape (n_samples,)
        Labels, ints from 1 to ``n_labels``.
    n_labels : int, optional
        The number of labels, K; at least 2. By default the greatest label in ``y``.
    loss : str or TaskLoss
        What to minimise: "absolute", "squared", "zero-one", "asymmetric", a `TaskLoss` such as
        ``losses.CostTable(...)``, or "quadratic-kappa" to maximise quadratic weighted kappa.
    w : array-like of shape (n_samples,), optional
        Weights of samples, from 1e-60 to 1e60.
    class_weight : "balanced" or array-like of shape (n_labels,), optional
        Weights of labels, multiplied with those of samples. "balanced" is Σ w / (number of labels
        that occur × Σ w of the label), so that risk / Σ w is the macro-averaged loss.
    method : str
        "auto" takes the fastest method that is certain to be optimal: "divide" for convex losses
        and kappa, "subsequence" for zero-one loss, else "io", and "dp" if "io" finds unsorted
        thresholds. Or "dp", "io", "blocked-io", "divide" or "subsequence", see the module.
    n_jobs : int
        If more than 1, "io" and "blocked-io" run in this many processes, from 10^9 cells on
        (samples times thresholds); fewer cells take less time in this process. What they gain there
        depends on the machine: measure it. They stay for the next call. For convex losses "auto"
        takes "divide" in this process, which does less work.
    block_size : int, optional
        The number of samples in a block of "blocked-io" or a job of "io"; by default 16,384 for
        "blocked-io" in one process, else all samples divided by the number of processes.
    pool : object with ``map``, optional
        Runs "io" and "blocked-io" in place of own processes: a `multiprocess.Pool`,
        ``ray.util.multiprocessing.Pool`` or an executor, on one machine or on many. Each block is
        sent once; by default there is one block for each process.

    Returns
    -------
    Thresholds

    Raises
    ------
    ValueError
        If there are no samples, an argument is out of range, or ``method`` does not fit the loss:
        "divide" needs a convex loss, "subsequence" the zero-one loss; kappa excludes "subsequence".
    TypeError
        If scores or labels are not numbers, or the loss is not one.

    Notes
    -----
    Sums of integers are exact, such as absolute errors without weights. Otherwise two methods may
    find different thresholds whose risks are equal up to rounding.

    Examples
    --------
    >>> scores = [0.2, 0.4, 0.5, 0.6, 0.7, 0.9]
    >>> y = [1, 2, 1, 2, 3, 3]
    >>> found = optimal_thresholds(scores, y)
    >>> found.thresholds, found.risk, found.method
    (array([0.3 , 0.65]), 1.0, 'divide')
    >>> optimal_thresholds(scores, y, loss="zero-one").method
    'subsequence'
    >>> kappa = 1.0 - optimal_thresholds(scores, y, loss="quadratic-kappa").risk
    >>> round(kappa, 3)
    0.889
    """
    check_choice(method, "method", METHODS)
    check_count(n_jobs, "n_jobs")
    check_count(block_size, "block_size", optional=True)
    check_pool(pool)
    if pool is not None and n_jobs != 1:
        raise ValueError(f"`n_jobs` must be 1 where there is a `pool`, got {n_jobs}")
    samples = Samples.of(scores, y, n_labels, w, class_weight)
    n_cells = len(samples.labels) * (samples.n_labels - 1)
    options = JobOptions(n_jobs, block_size, pool).for_size(n_cells)
    if isinstance(loss, str) and loss == KAPPA:
        return _maximise_kappa(samples, method, options)
    task = get_task(loss)
    _check_method(method, task, samples.n_labels)
    return _minimise(samples, task, method, options)


def _check_method(method: str, task: TaskLoss, n_labels: int) -> None:
    """Raise unless a method finds the thresholds of a loss."""
    if method == "divide" and not task.is_convex(n_labels):
        raise ValueError(
            f"`method` 'divide' needs a loss that is convex in the predicted label, got {task}"
        )
    if method == "subsequence" and not isinstance(task, ZeroOneError):
        raise ValueError(f"`method` 'subsequence' needs the zero-one loss, got {task}")


def find_cuts(
    samples: Samples,
    table: NDArray[np.float64],
    method: str,
    options: JobOptions = JobOptions(),  # noqa: B008  (a tuple)
) -> NDArray[np.int64]:
    """Return the cut of each boundary by a method, for a table of costs."""
    from streamcal.kernels import thresholds as kernels

    n, n_labels = len(samples.labels), samples.n_labels
    cuts = np.empty(n_labels - 1, np.int64)
    if method == "dp":
        stays = np.empty((n + 1, (n_labels + 63) // 64), np.uint64)
        costs = np.ascontiguousarray(table.T)
        kernels.find_cuts_dp(samples.labels, samples.w, costs, stays, cuts)
    elif method == "subsequence":
        kernels.find_cuts_subsequence(samples.labels, samples.w, np.empty(n, np.uint16), cuts)
    elif method == "divide":
        kernels.find_cuts_divide(samples.labels, samples.w, table[:-1] - table[1:], cuts)
    else:
        differences = np.ascontiguousarray((table[:-1] - table[1:]).T)
        if method == "blocked-io" and options.block_size is None and options.pool is None:
            options = options._replace(
                block_size=_BLOCK_SAMPLES if options.in_process else -(-n // options.n_jobs)
            )
        cuts = _jobs.solve(samples.labels, samples.w, differences, options)
    return cuts


def _minimise(samples: Samples, task: TaskLoss, method: str, options: JobOptions) -> Thresholds:
    """Minimise a task loss."""
    table = task.table(samples.n_labels)
    convex = task.is_convex(samples.n_labels)
    auto = method == "auto"
    if auto:
        method = _fastest_method(task, convex, options)
    cuts = find_cuts(samples, table, method, options)
    if auto and not convex and (np.diff(cuts) < 0).any():
        method = "dp"
        cuts = find_cuts(samples, table, method, options)
    # With a convex loss only rounding unsorts them; sorting changes the risk no more than rounding.
    certified = convex or not (np.diff(cuts) < 0).any()
    cuts.sort()
    risk = samples.risk(table, cuts)
    if method != "dp":  # which adds costs only, and none is negative
        certified &= samples.is_accurate(risk, table)
    return Thresholds(samples.thresholds(cuts), risk, method, certified)


def _fastest_method(task: TaskLoss, convex: bool, options: JobOptions) -> str:
    """Return the method that "auto" tries first."""
    if isinstance(task, ZeroOneError):
        return "subsequence"
    return "divide" if convex and options.pool is None else "io"


def _maximise_kappa(samples: Samples, method: str, options: JobOptions) -> Thresholds:
    """Maximise quadratic weighted kappa by Dinkelbach's method."""
    if method == "auto":
        method = _fastest_method(SquaredError(), True, options)
    check_choice(method, "method", ("dp", "io", "blocked-io", "divide"))
    error = SquaredError().table(samples.n_labels)
    expected = np.repeat((error @ (samples.totals / samples.totals.sum()))[:, None], len(error), 1)
    # Start from one label for all samples, whose quotient is 1.
    quotient, cuts = 1.0, np.zeros(samples.n_labels - 1, np.int64)
    if np.count_nonzero(samples.totals) == 1:  # 0/0: predict the one label that occurs
        quotient = 0.0
        cuts[int(np.argmax(samples.totals)) :] = len(samples.labels)
    while quotient > 0.0:
        better = np.sort(find_cuts(samples, error - quotient * expected, method, options))
        by_chance = samples.risk(expected, better)
        ratio = samples.risk(error, better) / by_chance if by_chance > 0.0 else quotient
        if not ratio < quotient:
            break
        quotient, cuts = ratio, better
    costs = error - quotient * expected
    found = samples.risk(error, cuts)
    certified = samples.is_accurate(found, costs)
    return Thresholds(samples.thresholds(cuts), quotient, method, certified)
