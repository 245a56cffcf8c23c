"""Train a JAX network with an ordinal last layer, then update the last layer on a stream.

The scale of the ranks drifts. `CuSumRank` on the hidden layer follows it, the fixed network can't.
"""

from collections.abc import Hashable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from streamcal.ordinal import CuSumRank, cusum_layer

HIDDEN = 24


def sensor(n_samples: int, seed: int, drift: float) -> Iterator[tuple[np.ndarray, int]]:
    rng = np.random.default_rng(seed)
    for t in range(n_samples):
        x = rng.normal(size=(2,))
        level = np.sin(2.0 * x[0]) + np.abs(x[1]) + 0.1 * rng.normal()
        yield x, int(np.searchsorted([0.2, 0.9, 1.6], level - drift * t / n_samples))


def hidden(p: dict[str, jax.Array], X: jax.Array) -> jax.Array:
    return jnp.tanh(X @ p["into"] + p["shift"])


def logits(p: dict[str, jax.Array], X: jax.Array) -> jax.Array:
    return hidden(p, X) @ p["out"] + p["bias"]


def train(X: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
    shapes = {"into": (2, HIDDEN), "shift": (HIDDEN,), "out": (HIDDEN, 3), "bias": (3,)}
    keys = dict(zip(shapes, jax.random.split(jax.random.key(0), 4), strict=True))
    p = {name: jax.random.normal(keys[name], shape) for name, shape in shapes.items()}
    slope = jax.jit(jax.grad(lambda p: cusum_layer.likelihood_loss(logits(p, X), y).mean()))
    for _ in range(600):
        p = jax.tree.map(lambda value, change: value - 0.3 * change, p, slope(p))
    return p


def main() -> None:
    batch = zip(*sensor(1_000, seed=0, drift=0.0), strict=True)
    p = train(*(jnp.asarray(np.array(part)) for part in batch))
    served = jax.jit(lambda x: (hidden(p, x), cusum_layer.predict(logits(p, x))))
    frozen = online = 0.0
    top = CuSumRank(labels=range(4), averaging=300.0, margin=3.0)
    for x, rank in sensor(3_000, seed=1, drift=1.5):
        features, answer = served(jnp.asarray(x))
        sample: dict[Hashable, float] = dict(enumerate(np.asarray(features).tolist()))
        frozen += abs(int(answer) - rank) / 3_000
        online += abs(int(top.predict_one(sample) or 0) - rank) / 3_000
        top.learn_one(sample, rank)
    print(f"mean absolute error, fixed network: {frozen:.3f}, online last layer: {online:.3f}")


if __name__ == "__main__":
    main()
