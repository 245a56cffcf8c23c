"""Fits in parts: by ranges they are exact, by shards they would not be; in any pool."""

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import multiprocess
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamcal import isotonic_fit, isotonic_fit_sharded, losses, optimal_thresholds
from streamcal.isotonic.blocks import blocks_of, fit_blocks

FIELDS = ("lower", "upper", "values", "weights", "centers")


@contextlib.contextmanager
def ray_pool() -> Iterator[Any]:
    """Yield a pool of Ray, whose files (one of them in the home directory) are deleted.

    The folder has a short name, since sockets are in it.
    """
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.util.multiprocessing import Pool

    with (
        tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HOME", folder)
        ray.init(
            num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=folder
        )
        made = Pool(2)
        yield made
        made.terminate()
        ray.shutdown()


@pytest.fixture(scope="module", params=["none", "threads", "multiprocess", "ray"])
def pool(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "none":
        yield None
    elif request.param == "threads":
        with ThreadPoolExecutor(3) as executor:
            yield executor
    elif request.param == "multiprocess":
        with multiprocess.get_context("spawn").Pool(2) as processes:
            yield processes
    else:
        with ray_pool() as made:
            yield made


def samples(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n).round(3)
    y = (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(np.float64)
    return scores, y, rng.integers(1, 4, n).astype(np.float64)


def assert_same(a: Any, b: Any) -> None:
    for name in FIELDS[:4]:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_allclose(a.centers, b.centers, rtol=1e-12, atol=1e-12)


def test_it_is_the_fit_of_all_samples(pool: Any, tmp_path: Path) -> None:
    scores, y, w = samples(20_000)
    whole = isotonic_fit(scores, y, w, loss="log")
    parts = np.array_split(np.arange(len(scores)), 5)
    shards: list[Any] = [(scores[at], y[at], w[at]) for at in parts]
    assert_same(isotonic_fit_sharded(shards, loss="log", pool=pool), whole)
    for i, shard in enumerate(shards[:3]):  # some in files
        for name, column in zip("xyw", shard, strict=True):
            np.save(tmp_path / f"{name}{i}.npy", column)
        shards[i] = tuple(tmp_path / f"{name}{i}.npy" for name in "xyw")
    assert_same(isotonic_fit_sharded(shards, loss="log", pool=pool), whole)
    assert_same(isotonic_fit_sharded(shards, loss="log", pool=pool, n_ranges=17), whole)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3), st.integers(1, 3)), max_size=9),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 6),
)
def test_any_shards_and_ranges(shards: list[list[tuple[int, int, int]]], n_ranges: int) -> None:
    columns = [np.array(shard, np.float64).reshape(-1, 3).T for shard in shards]
    every = np.concatenate(columns, axis=1)
    if not every.size:
        with pytest.raises(ValueError, match="at least one sample"):
            isotonic_fit_sharded(columns)
        return
    found = isotonic_fit_sharded(columns, n_ranges=n_ranges)
    assert_same(found, isotonic_fit(*every))


@pytest.mark.parametrize("loss", ["squared", "poisson", losses.Linex(a=0.3), "tweedie"])
def test_each_loss_gives_the_fit_of_one_process(loss: Any) -> None:
    scores, y, w = samples(800, seed=1)
    y += 1.0
    found = isotonic_fit_sharded(
        [(scores[:300], y[:300], w[:300]), (scores[300:], y[300:], w[300:])], loss=loss, n_ranges=4
    )
    expected = isotonic_fit(scores, y, w, loss=loss)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int64])
def test_types_of_scores(kind: Any, tmp_path: Path) -> None:
    """Shards of several types, some of which tell apart what are equal scores as floats."""
    scores, y, _ = samples(600)
    wide = (scores * 9).round().astype(np.longdouble) + np.longdouble(1e-18) * np.arange(600)
    typed = wide.astype(kind)
    np.save(tmp_path / "y.npy", y[400:])
    shards: list[Any] = [
        (typed[:200], y[:200].astype(bool)),
        (wide[200:400].tolist(), y[200:400]),
        (typed[400:], tmp_path / "y.npy"),
    ]
    everything = np.concatenate([np.asarray(shard[0], np.float64) for shard in shards])
    assert_same(isotonic_fit_sharded(shards, n_ranges=5), isotonic_fit(everything, y))


def test_fitting_the_shards_alone_would_be_wrong() -> None:
    """Violators in different shards do not meet: neither maps nor blocks can be put together."""
    scores = np.arange(400.0)
    y = np.random.default_rng(2).random(400) + 0.002 * scores
    whole = isotonic_fit(scores, y)
    hashed = [scores % 2 == 0, scores % 2 == 1]
    maps = [isotonic_fit(scores[at], y[at]) for at in hashed]
    averaged = np.mean([each(scores) for each in maps], axis=0)
    assert np.abs(averaged - whole(scores)).max() > 0.05
    merged = isotonic_fit(
        np.concatenate([each.centers for each in maps]),
        np.concatenate([each.values for each in maps]),
        np.concatenate([each.weights for each in maps]),
    )
    assert np.abs(merged(scores) - whole(scores)).max() > 0.05
    blocks = np.concatenate([blocks_of(scores[at], y[at]) for at in hashed])
    with pytest.raises(ValueError, match="`blocks` must not overlap"):
        fit_blocks(blocks)
    ranges = np.concatenate([blocks_of(scores[:150], y[:150]), blocks_of(scores[150:], y[150:])])
    np.testing.assert_allclose(fit_blocks(ranges).values, whole.values)


def test_bad_shards_are_named(tmp_path: Path) -> None:
    good = ([1.0, 2.0], [0.0, 1.0])
    fit = functools.partial(isotonic_fit_sharded, n_ranges=2)
    with pytest.raises(ValueError, match="in shard 1: `scores` must be finite"):
        fit([good, ([1.0, np.nan], [0.0, 1.0])])
    with pytest.raises(ValueError, match="in shard 1: `y` must"):
        fit([good, ([1.0, 3.0], [0.0, np.nan])])
    with pytest.raises(ValueError, match="in shard 0: `w` must"):
        fit([(*good, [1.0, -1.0]), good])
    with pytest.raises(ValueError, match=r"equally long vectors, got shapes .* at 1"):
        fit([good, ([1.0], [0.0, 1.0])])
    with pytest.raises(ValueError, match=r"must hold \(scores, y\) or \(scores, y, w\)"):
        fit([good, ([1.0],)])
    with pytest.raises(ValueError, match="at least one sample, got none"):
        fit([])
    with pytest.raises(TypeError, match="`pool` must have a `map`"):
        fit([good], pool=2)
    with pytest.raises(TypeError):
        fit([good], loss="absolute")
    with pytest.raises(TypeError, match="in shard 1: `scores` must hold real numbers"):
        fit([good, (["a", "b"], [0.0, 1.0])])
    anything: Any = 3
    with pytest.raises(ValueError, match=r"must hold \(scores, y\) or .*, got 3 at 0"):
        fit([anything])
    np.save(tmp_path / "objects.npy", np.array([None, 1.0]), allow_pickle=True)
    np.savez(tmp_path / "several.npz", np.ones(2), np.ones(2))
    (tmp_path / "junk.npy").write_bytes(b"junk")
    (tmp_path / "empty.npy").touch()
    for name in ("objects.npy", "several.npz", "junk.npy", "empty.npy"):
        with pytest.raises(ValueError, match=r"must hold `.npy` files of numbers, got .*" + name):
            fit([good, (tmp_path / name, [0.0, 1.0])])
    with pytest.raises(FileNotFoundError):
        fit([(tmp_path / "no.npy", tmp_path / "no.npy")])


def test_bad_blocks_are_refused() -> None:
    block = [1.0, 2.0, 3.0, 4.0, 5.0]
    for at, value in ((0, np.nan), (1, 0.5), (2, 0.0), (3, np.inf)):
        bad = [*block]
        bad[at] = value
        with pytest.raises(ValueError, match="`blocks` must have finite ends"):
            fit_blocks([bad])
    for shape in ((0, 5), (1, 4)):
        with pytest.raises(ValueError, match=r"`blocks` must have shape \(n_blocks, 5\)"):
            fit_blocks(np.ones(shape))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["io", "blocked-io", "auto"])
def test_thresholds_in_a_pool(pool: Any, method: str, weighted: bool) -> None:
    scores, _, w = samples(5_000, seed=3)
    labels = np.random.default_rng(4).binomial(6, 1 / (1 + np.exp(-scores))) + 1
    weights = w if weighted else None
    expected = optimal_thresholds(scores, labels, w=weights, method=method)
    found = optimal_thresholds(scores, labels, w=weights, method=method, pool=pool)
    np.testing.assert_array_equal(found.thresholds, expected.thresholds)
    assert found.risk == expected.risk
    small = optimal_thresholds(scores, labels, w=weights, method="io", pool=pool, block_size=700)
    np.testing.assert_array_equal(small.thresholds, expected.thresholds)


def test_a_pool_and_processes_of_its_own_exclude_each_other() -> None:
    message = "`n_jobs` must be 1 where there is a `pool`, got 2"
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match=message):
        optimal_thresholds([1, 2], [1, 2], pool=pool, n_jobs=2)
    with pytest.raises(TypeError, match="`pool` must have a `map`"):
        optimal_thresholds([1, 2], [1, 2], pool="four")
