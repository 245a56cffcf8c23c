"""Train a hidden layer under a layer of cumulative sums, then let the top of the network stream.

A JAX network learns a batch of ordinal samples. Its hidden layer then serves as the features of
`CuSumRank`, which goes on learning sample by sample, where the network as trained falls behind: the
scale that the ranks are read from moves. The stream is generated; four ranks of two features.
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from streamcal.ordinal import CuSumRank, cusum_layer

HIDDEN, RATE, STEPS = 24, 0.3, 600
Parameters = dict[str, jax.Array]


def sensor(n_samples: int, seed: int, drift: float) -> Iterator[tuple[np.ndarray, int]]:
    rng = np.random.default_rng(seed)
    for t in range(n_samples):
        x = rng.normal(size=2)
        level = np.sin(2.0 * x[0]) + np.abs(x[1]) + 0.1 * rng.normal()
        yield x, int(np.searchsorted([0.2, 0.9, 1.6], level - drift * t / n_samples))


def hidden(p: Parameters, X: jax.Array) -> jax.Array:
    return jnp.tanh(X @ p["into"] + p["shift"])


def logits(p: Parameters, X: jax.Array) -> jax.Array:
    return hidden(p, X) @ p["out"] + p["bias"]


def train(X: jax.Array, y: jax.Array) -> Parameters:
    a, b, c = jax.random.split(jax.random.key(0), 3)
    p = {"into": 2.0 * jax.random.normal(a, (2, HIDDEN)), "shift": jax.random.normal(b, HIDDEN)}
    p |= {"out": 0.1 * jax.random.normal(c, (HIDDEN, 3)), "bias": jnp.zeros(3)}
    slope = jax.jit(jax.grad(lambda p: cusum_layer.likelihood_loss(logits(p, X), y).mean()))
    for _ in range(STEPS):
        p = jax.tree.map(lambda value, change: value - RATE * change, p, slope(p))
    return p


def main() -> None:
    batch = list(sensor(1_000, seed=0, drift=0.0))
    X, y = (jnp.asarray(np.array(part)) for part in zip(*batch, strict=True))
    p = train(X, y)
    served = jax.jit(lambda x: (hidden(p, x), cusum_layer.predict(logits(p, x))))
    frozen = online = 0.0
    top = CuSumRank(labels=range(4), averaging=300.0, margin=3.0)
    for x, rank in sensor(3_000, seed=1, drift=1.5):
        features, answer = served(jnp.asarray(x))
        sample = dict(enumerate(np.asarray(features).tolist()))
        frozen += abs(int(answer) - rank) / 3_000
        online += abs(int(top.predict_one(sample) or 0) - rank) / 3_000
        top.learn_one(sample, rank)
    print(f"mean absolute error of the network as trained: {frozen:.3f}")
    print(f"of CuSumRank on its hidden layer: {online:.3f}")


if __name__ == "__main__":
    main()
