"""Venn-Abers pairs against two fits each, and the probability that they are merged into."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import IsotonicCalibrator, VennAbersCalibrator, isotonic_fit
from tests.invariants import Structure

SAMPLES = [(0.1, 0), (0.4, 1), (0.5, 0), (0.9, 1)]


def learned(samples: list[tuple[float, int]], **parameters: float) -> VennAbersCalibrator:
    calibrator = VennAbersCalibrator(**parameters)
    for sample in samples:
        calibrator.learn_one(*sample)
    return calibrator


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), min_size=0, max_size=30))
def test_a_pair_is_two_fits(program: list[tuple[float, int]]) -> None:
    for prior in (0.0, 1.0):
        calibrator = learned(program, prior=prior)
        before = calibrator.to_bytes()
        for x in (-1.0, 0.0, 3.0, 3.5, 9.0):
            pair = calibrator.predict_interval_one(x)
            for label, value in enumerate(pair):
                samples = [*program, (x, label)]
                weights = [1.0] * len(samples)
                if prior:
                    samples += [(-9, 1), (99, 0)]
                    weights += [prior, prior]
                stairs = isotonic_fit(*zip(*samples, strict=True), weights)
                assert value == pytest.approx(stairs(x), rel=1e-12)
        assert calibrator.to_bytes() == before
        Structure(calibrator.isotonic).check()


@pytest.mark.parametrize(("half_life", "prior"), [(0.1, 1.0), (1.0, 1.0), (5.0, 0.0)])
def test_a_pair_is_what_would_be_learned(half_life: float, prior: float) -> None:
    rng = np.random.default_rng(4)
    calibrator = VennAbersCalibrator(half_life=half_life, prior=prior)
    calibrator.learn_many(scores := rng.random(30).round(1), rng.random(30) < scores)
    for x in np.linspace(-0.05, 1.05, 23):
        for label, value in enumerate(calibrator.predict_interval_one(x)):
            twin = copy.deepcopy(calibrator.isotonic)
            twin.learn_one(x, label)
            assert value == pytest.approx(twin.predict_one(x), rel=1e-9, abs=1e-12)


def test_a_pair_of_a_large_fit() -> None:
    rng = np.random.default_rng(9)
    scores = rng.random(5000)
    y = (rng.random(5000) < scores) * 1.0
    calibrator = VennAbersCalibrator(prior=0.0)
    calibrator.learn_many(scores, y)
    values = calibrator.isotonic.predict_many(scores)
    for x in [*rng.random(30), *scores[:30]]:
        pair = calibrator.predict_interval_one(x)
        fits = [isotonic_fit(np.r_[scores, x], np.r_[y, label])(x) for label in (0, 1)]
        np.testing.assert_allclose(pair, fits, rtol=1e-12)
    np.testing.assert_array_equal(calibrator.isotonic.predict_many(scores), values)
    Structure(calibrator.isotonic).check()


def test_the_answer_is_the_merged_pair() -> None:
    calibrator = learned(SAMPLES)
    assert VennAbersCalibrator().predict_one(0.3) == 0.3
    p0, p1 = calibrator.predict_interval_one(0.45)
    assert calibrator.predict_one(0.45) == p1 / (1 - p0 + p1)
    twin = calibrator.clone()
    scores, y = zip(*SAMPLES, strict=True)
    answers = twin.predict_learn_many(scores, y)
    assert answers[0] == 0.1
    assert twin.predict_many([0.45])[0] == calibrator.predict_one(0.45)


def test_the_map_is_that_of_the_same_samples() -> None:
    calibrator, alone = VennAbersCalibrator(window=3), IsotonicCalibrator(window=3)
    for sample in SAMPLES:
        calibrator.learn_one(*sample)
        alone.learn_one(*sample)
    assert calibrator.isotonic.to_bytes() == alone.to_bytes()
    assert calibrator.n_samples == alone.n_samples == 3
    twin = pickle.loads(pickle.dumps(calibrator))
    twin.learn_one(0.45, 1)
    assert twin.isotonic.to_bytes() != alone.to_bytes() == calibrator.isotonic.to_bytes()


def test_samples_are_taken_back() -> None:
    calibrator, expected = learned([*SAMPLES, (0.45, 1)]), learned(SAMPLES)
    calibrator.unlearn_one(0.45, 1)
    assert calibrator.predict_interval_one(0.45) == expected.predict_interval_one(0.45)
    with pytest.raises(ValueError, match="must have been learned together"):
        calibrator.unlearn_one(0.45, 1)


def test_merged_streams_are_one_stream() -> None:
    left, right, whole = learned(SAMPLES[:2]), learned(SAMPLES[2:]), learned(SAMPLES)
    left += right
    assert left.n_samples == 4
    assert left.predict_interval_one(0.45) == whole.predict_interval_one(0.45)
    with pytest.raises(TypeError, match="`other` must be a VennAbersCalibrator, got Isotonic"):
        left.merge(IsotonicCalibrator())
    with pytest.raises(ValueError, match="needs calibrators without a window"):
        left.merge(VennAbersCalibrator(window=5))


def test_bad_scores_and_parameters() -> None:
    with pytest.raises(ValueError, match="`score` must be a finite number"):
        VennAbersCalibrator().predict_interval_one(math.nan)
    with pytest.raises(ValueError, match="`window` must be a positive int or None, got 0"):
        VennAbersCalibrator(window=0)
    with pytest.raises(ValueError, match=r"`prior` must lie in \[0, 1e\+60\], got -1"):
        VennAbersCalibrator(prior=-1)


@pytest.mark.parametrize("seed", range(20))
def test_predictions_change_no_bit_of_the_state(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calibrator, other = VennAbersCalibrator(), VennAbersCalibrator()
    for each in (calibrator, other):
        each.learn_many(rng.integers(0, 60, 300) / 60, rng.random(300), rng.uniform(0.1, 3.0, 300))
    calibrator.merge(other)
    before, scores = calibrator.to_bytes(), rng.random(30)
    answers = [calibrator.predict_one(score) for score in scores.tolist()]
    assert calibrator.to_bytes() == before
    assert calibrator.predict_many(scores).tolist() == answers


def test_a_prediction_before_the_first_sample_is_the_score_though_another_thread_learns() -> None:
    class Interrupted(VennAbersCalibrator):
        @property
        def n_samples(self) -> int:
            """The number of samples; another thread learns right after it was read."""
            n = super().n_samples
            self.learn_many([0.2, 0.4, 0.8], [1, 0, 1])
            return n

    assert Interrupted().predict_one(0.3) == 0.3
