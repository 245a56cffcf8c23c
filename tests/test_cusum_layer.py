"""The layer of cumulative sums, under jit, grad and vmap."""

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import _state, losses
from streamcal.ordinal import CuSumRank, cusum_layer
from tests import oracles_cusum as oracles

logit = st.floats(-8, 8, width=32)
# Of few lengths, since JAX compiles for each.
logit_lists = st.sampled_from([1, 4]).flatmap(lambda n: st.lists(logit, min_size=n, max_size=n))


@given(logits=logit_lists, margin=st.sampled_from([0.0, 0.5, 2.0]), data=st.data())
def test_equals_its_definition(logits: Any, margin: float, data: st.DataObject) -> None:
    y = data.draw(st.integers(0, len(logits)))
    with jax.enable_x64(True):
        z = jnp.asarray(logits, jnp.float64)
        s = [0.0, *np.cumsum(logits).tolist()]
        assert cusum_layer.scores(z).tolist() == pytest.approx(s)
        assert s[int(cusum_layer.predict(z))] == pytest.approx(max(s))
        total = math.fsum(map(math.exp, s))
        p = cusum_layer.probabilities(z)
        assert p.tolist() == pytest.approx([math.exp(v) / total for v in s])
        nll = float(cusum_layer.likelihood_loss(z, y))
        assert nll == pytest.approx(-math.log(math.exp(s[y]) / total), abs=1e-9)
        for name in ("absolute", "squared", "asymmetric"):
            table = losses.get_task(name).table(len(s))
            worst = max(s[r] + margin * table[r, y] for r in range(len(s)))
            value = float(cusum_layer.margin_loss(z, y, margin=margin, loss=name))
            assert value == pytest.approx(worst - s[y], abs=1e-9)
            assert value >= margin * table[oracles.decode(s), y] - 1e-9


def test_subgradient_is_the_perceptron_step() -> None:
    x = jnp.array([0.5, -2.0, 1.0])
    for y in range(4):
        w = jnp.array([[0.1, 0.2, 0.0], [-0.3, 0.1, 0.2], [0.4, -0.1, -0.3]])
        slope = jax.grad(lambda w, y=y: cusum_layer.margin_loss(w @ x, y, margin=0.3))(w)
        model = CuSumRank(labels=(0, 1, 2, 3), margin=0.3, intercept=False)
        model.learn_one(dict.fromkeys("abc", 0.0), 0)
        state = _state.decode(model.to_bytes())
        arrays = {**state.arrays, "weights": np.asarray(w, float).T[:, np.newaxis]}
        model = CuSumRank.from_bytes(_state.encode(state.kind, state.fields, arrays))
        model.learn_one(dict(zip("abc", x.tolist(), strict=True)), y)
        learned = np.array([model.weights[name] for name in "abc"]).T
        np.testing.assert_allclose(learned, w - slope, atol=1e-6)


def test_jit_and_vmap_change_nothing() -> None:
    rng = np.random.default_rng(0)
    logits = jnp.asarray(rng.normal(size=(6, 4)), jnp.float32)
    y = jnp.asarray(rng.integers(0, 5, 6))
    for loss in (cusum_layer.margin_loss, cusum_layer.likelihood_loss):
        whole = loss(logits, y)
        assert whole.shape == (6,)
        assert whole.dtype == jnp.float32
        np.testing.assert_allclose(jax.vmap(loss)(logits, y), whole, rtol=1e-6)
        np.testing.assert_allclose(jax.jit(loss)(logits, y), whole, rtol=1e-6)
        slopes = jax.jit(jax.vmap(jax.grad(loss)))(logits, y)
        assert np.isfinite(slopes).all()
        for i in range(6):
            np.testing.assert_allclose(jax.grad(loss)(logits[i], y[i]), slopes[i], rtol=1e-6)
    assert cusum_layer.predict(logits[None]).shape == (1, 6)
    assert np.isfinite(jax.grad(cusum_layer.likelihood_loss)(jnp.full(3, 500.0), 0)).all()


def test_settings_of_jax_are_left_alone() -> None:
    before = jax.config.read("jax_enable_x64")
    assert cusum_layer.scores(jnp.zeros(3)).dtype == (jnp.float64 if before else jnp.float32)
    assert jax.config.read("jax_enable_x64") == before


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (jnp.float32(1.0), "at least one boundary"),
        (jnp.zeros((3, 0)), "at least one boundary"),
        (jnp.zeros(3, int), "must be floats"),
    ],
)
def test_bad_logits_are_refused(logits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"`logits` must.*{message}|{message}"):
        cusum_layer.scores(logits)


def test_ordinal_names_load_when_touched() -> None:
    import subprocess
    import sys

    from streamcal import ordinal

    assert set(ordinal.__all__) <= set(dir(ordinal))
    with pytest.raises(AttributeError, match=r"'streamcal\.ordinal' has no attribute 'nothing'"):
        getattr(ordinal, "nothing")  # noqa: B009
    code = "import sys; from streamcal.ordinal import CuSumRank; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_ordinal_names_are_imported_without_jax() -> None:
    """Only a call of the layer needs it, and says so."""
    import subprocess
    import sys

    code = (
        "from tests.only_extra import hide; hide('jax')\n"
        "from streamcal.ordinal import *\n"
        "print(CuSumRank.__name__)\n"
        "try: cusum_layer.predict([2.0, -1.0])\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    name, error = done.stdout.splitlines()
    assert name == "CuSumRank"
    assert "needs JAX" in error
