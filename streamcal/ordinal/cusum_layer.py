"""Cumulative sum ranking as the last layer of a JAX network.

A network for unordered classes ends in K logits and a softmax. A network for ordered classes ends
in K − 1 *boundary logits* z_k, for rank k or more against lower ranks. Their cumulative sums are
the scores of the ranks, and the rank of the highest score is predicted (*Cumulative Sum Ranking*,
section 3). Two losses train it: the margin loss, max_r [s(r) + margin · ℓ(r, y)] − s(y), whose
subgradient is the perceptron step of `CuSumRank`; and the likelihood, log Σ_r exp s(r) − s(y), for
which the z_k are the log-odds of neighbouring ranks, log p(k) / p(k − 1).

All functions are pure, take any leading shape, and work under ``jit``, ``grad`` and ``vmap``. They
compute in the precision of the logits and do not change JAX's settings. Ranks count from 0.

>>> import jax.numpy as jnp
>>> from streamcal.ordinal import cusum_layer
>>> logits = jnp.array([2.0, -1.0, 0.5])  # of four ranks
>>> cusum_layer.scores(logits).tolist()
[0.0, 2.0, 1.0, 1.5]
>>> int(cusum_layer.predict(logits))
1
"""

from typing import TYPE_CHECKING

from streamcal import losses

# JAX is imported by each function: without it, the other names of `streamcal.ordinal` are not in
# the way of ``from streamcal.ordinal import *``.
if TYPE_CHECKING:
    import jax

__all__ = ["likelihood_loss", "margin_loss", "predict", "probabilities", "scores"]


def scores(logits: "jax.Array") -> "jax.Array":
    """Return the scores of all ranks: cumulative sums that begin at 0.

    Parameters
    ----------
    logits : array of shape (..., n_labels - 1)
        One for each boundary.

    Returns
    -------
    array of shape (..., n_labels)

    Raises
    ------
    ValueError
        If ``logits`` are not an array of floats with at least one boundary.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> scores(jnp.array([2.0, -1.0, 0.5])).tolist()
    [0.0, 2.0, 1.0, 1.5]
    """
    from streamcal._extras import jnp

    logits = jnp.asarray(logits)
    if logits.ndim < 1 or logits.shape[-1] < 1:
        raise ValueError(
            f"`logits` must have a last axis of at least one boundary, got shape {logits.shape}"
        )
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise ValueError(f"`logits` must be floats, got dtype {logits.dtype}")
    sums = jnp.cumsum(logits, axis=-1)
    return jnp.concatenate([jnp.zeros_like(sums[..., :1]), sums], axis=-1)


def predict(logits: "jax.Array") -> "jax.Array":
    """Return the rank of the highest score, the lowest of equal ones, as ints of shape (...).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> int(predict(jnp.array([2.0, -1.0, 0.5])))
    1
    """
    from streamcal._extras import jnp

    return jnp.argmax(scores(logits), axis=-1)


def probabilities(logits: "jax.Array") -> "jax.Array":
    """Return the model's probabilities, the softmax of the scores, shape (..., n_labels).

    They are those of `likelihood_loss`, calibrated as far as the training was; after `margin_loss`
    they mean nothing.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> [round(p, 2) for p in probabilities(jnp.array([2.0, -1.0, 0.5])).tolist()]
    [0.06, 0.47, 0.17, 0.29]
    """
    from streamcal._extras import jax

    return jax.nn.softmax(scores(logits), axis=-1)


def margin_loss(
    logits: "jax.Array",
    y: "jax.Array",
    *,
    margin: float = 1.0,
    loss: "losses.TaskLossName | losses.TaskLoss" = "absolute",
) -> "jax.Array":
    """Return max_r [s(r) + margin · ℓ(r, y)] − s(y), convex in the logits, of shape (...).

    An upper bound of ``margin`` times the task loss of `predict`, for a task loss that is 0 on the
    right answer.

    Parameters
    ----------
    logits : array of shape (..., n_labels - 1)
        One for each boundary.
    y : array of ints of shape (...)
        The ranks, from 0 to n_labels − 1. Ranks outside are not noticed.
    margin : float
        What a task loss of 1 must be worth.
    loss : str or TaskLoss
        The task loss ℓ; see `streamcal.losses.get_task`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> float(margin_loss(jnp.array([2.0, -1.0, 0.5]), 3))
    2.5
    """
    from streamcal._extras import jnp

    s = scores(logits)
    y = jnp.asarray(y)
    table = losses.get_task(loss).table(s.shape[-1])  # answer by truth
    costs = jnp.asarray(table.T, s.dtype)[y]
    return jnp.max(s + margin * costs, axis=-1) - _at(s, y)


def likelihood_loss(logits: "jax.Array", y: "jax.Array") -> "jax.Array":
    """Return −log of the probability of the ranks ``y``, of shape (...).

    Parameters
    ----------
    logits : array of shape (..., n_labels - 1)
        One for each boundary.
    y : array of ints of shape (...)
        The ranks, from 0 to n_labels − 1. Others are not detected.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> round(float(likelihood_loss(jnp.zeros(3), 3)), 4)  # log 4
    1.3863
    """
    from streamcal._extras import jax, jnp

    s = scores(logits)
    return jax.nn.logsumexp(s, axis=-1) - _at(s, jnp.asarray(y))


def _at(s: "jax.Array", y: "jax.Array") -> "jax.Array":
    from streamcal._extras import jnp

    return jnp.take_along_axis(s, y[..., None], axis=-1)[..., 0]
