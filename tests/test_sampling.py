"""Probabilities of all samples, from a stream without most of its negatives."""

import numpy as np
import pytest

from streamcal import isotonic_fit, undo_sampling


def test_the_fit_of_kept_samples_becomes_that_of_negatives_with_larger_weights() -> None:
    """A negative that stands for 1/r others: the isotonic regression is the same, exactly."""
    draw = np.random.default_rng(0)
    scores, y = draw.random(500), draw.random(500) < 0.4
    rate = 0.07
    kept = isotonic_fit(scores, y)
    all_samples = isotonic_fit(scores, y, np.where(y, 1.0, 1.0 / rate))
    at = np.sort(scores)
    np.testing.assert_allclose(undo_sampling(kept(at), rate), all_samples(at), atol=1e-12)


def test_each_sample_may_have_a_rate_of_its_own() -> None:
    np.testing.assert_allclose(
        undo_sampling([0.5, 0.5, 0.25, 0.0, 1.0], [1.0, 0.5, 0.1, 1e-300, 1e-300]),
        [1 / 2, 1 / 3, 1 / 31, 0.0, 1.0],
    )


def test_bad_rates_are_refused() -> None:
    for rate in (0.0, -0.1, 1.5, float("nan"), [0.5, 0.0], [0.5, float("nan")], [0.5]):
        with pytest.raises(ValueError, match="`sampling_rate`"):
            undo_sampling([0.5, 0.2], rate)
    with pytest.raises(TypeError, match="`sampling_rate`"):
        undo_sampling([0.5], "half")
    with pytest.raises(ValueError, match="`p`"):
        undo_sampling([1.5], 0.5)
