"""ThresholdClassifier: exact on its window, labels of any kind, re-solves here and elsewhere."""

import copy
import math
import os
import pickle
import signal
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from river import base, dummy, linear_model, naive_bayes, preprocessing, stats

from streamcal import ThresholdClassifier, losses, optimal_thresholds
from streamcal.metrics import MAE
from streamcal.ordinal import _jobs
from streamcal.ordinal._score_model import RESOLVED
from tests.contract import BAD, BAD_WEIGHTS, river_checks, state

WORDS = ("low", "medium", "high", "extreme")
KINDS = {
    "stated": (WORDS, WORDS),
    "ints": (None, (1, 2, 3, 4)),
    "sorted words": (None, ("a", "b", "c", "d")),
    "bool": (None, (False, True)),
}


def model(labels: Any = None, **options: Any) -> Any:
    regressor = preprocessing.StandardScaler() | linear_model.LinearRegression()
    return ThresholdClassifier(regressor, labels, **options)


def stream(labels: Any, n: Any, seed: int = 0) -> Iterator[Any]:
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.normal(size=3)
        z = x.sum() / math.sqrt(3) + rng.normal() / 4
        rank = int(np.clip(np.floor(len(labels) * (0.5 + z / 4)), 0, len(labels) - 1))
        yield dict(zip("abc", x.tolist(), strict=True)), labels[rank]


def recorded(classifier: Any) -> tuple[Any, Any, Any]:
    _, labels, scores, w, _ = zip(*classifier._samples, strict=True)
    return np.array(scores), np.array([classifier._order.ranks[y] for y in labels]), np.array(w)


def check_layer(classifier: Any) -> None:
    """Streaming thresholds are optimal on the window, staircases are those of its boundaries."""
    scores, ranks, w = recorded(classifier)
    n_labels = len(classifier._order)
    best = optimal_thresholds(scores, ranks + 1, n_labels, loss=classifier.loss, w=w)
    assert classifier._score_model.streaming.risk == pytest.approx(best.risk, rel=1e-9)
    assert classifier._score_model.streaming.n_samples == len(scores)
    assert all(
        staircase.n_samples == len(scores) for staircase in classifier._score_model.calibrators
    )


def answers(classifier: Any, labels: Any, n: int = 30) -> list[Any]:
    queries = [x for x, _ in stream(labels, n, seed=9)]
    return [(classifier.predict_one(x), classifier.predict_proba_one(x)) for x in queries]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["absolute", "zero-one"])
def test_learns_labels_of_any_kind(kind: Any, loss: str) -> None:
    stated, labels = KINDS[kind]
    classifier = model(stated, loss=loss, window=150, every=100)
    metric, chance = MAE(labels=labels), MAE(labels=labels)
    for i, (x, y) in enumerate(stream(labels, 500)):
        if i >= 200:
            metric.update(y, classifier.predict_one(x))
            chance.update(y, labels[1])
        assert classifier.learn_one(x, y) is None
        if i % 60 == 59:
            check_layer(classifier)
    assert metric.get() < 0.7 * chance.get()
    for label, probabilities in answers(classifier, labels):
        assert list(probabilities) == list(labels)
        assert all(type(p) is float and 0.0 <= p <= 1.0 for p in probabilities.values())
        assert math.isclose(sum(probabilities.values()), 1.0, abs_tol=1e-9)
        assert label in labels
    assert {type(label) for label, _ in answers(classifier, labels)} == {type(labels[0])}


def test_probabilities_are_calibrated_cumulatively() -> None:
    classifier = model(WORDS, window=2_000, every=500)
    for x, y in stream(WORDS, 4_000):  # the first scores are those of a beginner
        classifier.learn_one(x, y)
    total = np.zeros(4)
    hits = np.zeros(4)
    for x, y in stream(WORDS, 1_500, seed=4):
        p = np.array(list(classifier.predict_proba_one(x).values()))
        total += np.cumsum(p[::-1])[::-1]
        hits += np.arange(4) <= WORDS.index(y)
    np.testing.assert_allclose(total / 1_500, hits / 1_500, atol=0.03)


def test_before_and_with_few_labels() -> None:
    classifier = model()
    assert classifier.predict_one({"a": 1.0}) is None
    assert classifier.predict_proba_one({"a": 1.0}) == {}
    with pytest.raises(ValueError, match="`thresholds` need two known labels"):
        classifier.thresholds  # noqa: B018
    classifier.learn_one({"a": 1.0}, 7)
    assert classifier.predict_one({"a": 3.0}) == 7
    assert classifier.predict_proba_one({"a": 3.0}) == {7: 1.0}
    classifier.learn_one({"a": 2.0}, 5)
    assert list(classifier.predict_proba_one({"a": 3.0})) == [5, 7]
    classifier.learn_one({"a": 2.0}, 6)
    assert list(classifier.predict_proba_one({"a": 3.0})) == [5, 6, 7]
    assert classifier.thresholds.shape == (2,)
    check_layer(classifier)


def test_stated_labels_not_seen_yet_are_improbable() -> None:
    classifier = model(WORDS)
    classifier.learn_one({"a": 1.0}, "low")
    assert classifier.predict_one({"a": 1.0}) == "low"
    probabilities = classifier.predict_proba_one({"a": 1.0})
    assert list(probabilities) == list(WORDS)
    assert max(probabilities, key=probabilities.get) == "low"


def test_resolving_scores_the_window_again() -> None:
    classifier = model(WORDS, window=100, every=150)
    samples = list(stream(WORDS, 151))
    for x, y in samples[:150]:
        assert classifier.solution is None
        classifier.learn_one(x, y)
    served, ranks, w = recorded(classifier)
    scores = np.array([classifier.regressor.predict_one(x) for x, *_ in classifier._samples])
    best = optimal_thresholds(scores, ranks + 1, 4, w=w)
    x, y = samples[150]
    score = classifier.regressor.predict_one(x)
    classifier.learn_one(x, y)
    assert classifier.solution.risk == best.risk
    np.testing.assert_array_equal(classifier.solution.thresholds, best.thresholds)
    last = optimal_thresholds([*scores[1:], score], [*ranks[1:] + 1, WORDS.index(y) + 1], 4)
    assert classifier._score_model.resolved.risk == pytest.approx(last.risk)
    # What was served is still what streaming thresholds and probabilities rest on.
    assert recorded(classifier)[0].tolist() == [*served[1:], score]
    check_layer(classifier)


def test_jobs_solve_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = [], _jobs._run_tasks
    monkeypatch.setattr(_jobs, "LEAST_CELLS", 0)  # else this process would be asked

    def run_and_count(*job: Any) -> Any:
        asked.append(job)
        return run(*job)

    monkeypatch.setattr(_jobs, "_run_tasks", run_and_count)
    ranks = np.arange(len(WORDS))
    loss = losses.CostTable(np.sqrt(np.abs(ranks - ranks[:, None])).tolist())  # not convex
    settings = {"loss": loss, "every": 100}
    one, two = model(WORDS, **settings), model(WORDS, **settings, n_jobs=2)
    for x, y in stream(WORDS, 101):
        one.learn_one(x, y)
        two.learn_one(x, y)
    np.testing.assert_array_equal(two.solution.thresholds, one.solution.thresholds)
    assert one.solution.method == two.solution.method
    assert len(asked) == 1


def wait_for(classifier: Any, seconds: float = 300.0) -> None:
    """Look until the background process has answered."""
    end = time.monotonic() + seconds
    while (found := classifier._rescorer.poll()) is None:
        assert time.monotonic() < end
        assert classifier._rescorer.worker.busy
        time.sleep(0.001)  # the processor is for the background
    classifier._serve_resolved(found)


def ask(classifier: Any, samples: Any, seconds: float = 300.0) -> None:
    """Learn until the background process has taken a job."""
    end = time.monotonic() + seconds
    for x, y in samples:
        classifier.learn_one(x, y)
        if classifier._rescorer.worker.busy:
            return
        assert time.monotonic() < end
    raise AssertionError


def endless(labels: Any) -> Iterator[Any]:
    for seed in range(10**9):
        yield from stream(labels, 100, seed)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_background_solves_while_the_stream_goes_on(
    n_jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = model(WORDS, window=200, every=100, background=True, n_jobs=n_jobs)
    samples = endless(WORDS)
    ask(classifier, samples)
    asked = classifier._n_samples - 1  # the job was sent before the last sample was learned
    job = list(classifier._samples)[:-1]
    with monkeypatch.context() as patch:  # these come between question and answer
        patch.setattr(classifier, "_update_thresholds", lambda: None)
        for x, y in islice(samples, 30):
            classifier.learn_one(x, y)
    wait_for(classifier)
    assert classifier._n_samples == asked + 31
    assert classifier.solution.certified
    assert classifier._score_model.resolved.n_samples == min(len(job) + 31, 200)
    check_layer(classifier)
    classifier._rescorer.worker.close()


def test_a_killed_worker_is_replaced() -> None:
    classifier = model(WORDS, window=200, every=100, background=True)
    samples = endless(WORDS)
    ask(classifier, samples)
    worker = classifier._rescorer.worker
    dead = worker.pid
    os.kill(dead, signal.SIGKILL)
    while worker.busy:  # it is dying
        pass
    ask(classifier, samples)  # nothing but learning replaces it
    assert worker.pid != dead
    wait_for(classifier)
    assert classifier.solution is not None
    check_layer(classifier)
    classifier._rescorer.worker.close()


def test_copies_of_one_that_waits_go_on_without_it() -> None:
    classifier = model(WORDS, window=200, every=100, background=True)
    ask(classifier, endless(WORDS))
    twin, pickled = copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))
    for other in (twin, pickled):
        assert answers(other, WORDS) == answers(classifier, WORDS)
        for x, y in stream(WORDS, 20, seed=3):
            other.learn_one(x, y)
        check_layer(other)
        other._rescorer.worker.close()
    wait_for(classifier)
    classifier._rescorer.worker.close()


class Scripted(base.Regressor):
    """A regressor whose score is a feature; after ``n_until`` samples it is another one."""

    def __init__(self, factor: float = 1.0, n_until: Any = 10**9) -> None:
        self.factor = factor
        self.n_until = n_until
        self.n_learned = 0

    def learn_one(self, x: Any, y: Any) -> None:
        self.n_learned += 1

    def predict_one(self, x: Any) -> Any:
        return x["score"] * (1.0 if self.n_learned < self.n_until else self.factor)


def errors(classifier: Any, scores: Any, ranks: Any) -> tuple[Any, Any]:
    """Return the errors of the served labels and of each way, sample by sample."""
    served, ways = [], []
    for score, rank in zip(scores.tolist(), ranks.tolist(), strict=True):
        x = {"score": score}
        score_model = classifier._score_model
        if score_model is not None:
            raw_score = classifier.regressor.predict_one(x)
            ways.append([abs(score_model._rank(way, raw_score) - rank) for way in range(3)])
            served.append(abs(WORDS.index(classifier.predict_one(x)) - rank))
        classifier.learn_one(x, WORDS[rank])
    return np.array(served, float), np.array(ways, float)


def plain_choice(losses: Any, w: Any) -> Any:
    """Return the way to follow after these losses of all ways, from the definition."""
    if not len(losses):
        return 0
    fading = 0.5 ** (np.arange(len(losses))[::-1] / 2_000.0)
    excess = (w * fading)[:, None] * (losses[:, 1:] - losses[:, :1])
    sums, errors = excess.sum(axis=0), np.sqrt((excess**2).sum(axis=0))
    k = int(sums.argmin())
    return 1 + k if sums[k] + 0.7 * errors[k] < 0.0 else 0


SCENES = {
    "on the scale": lambda z, noise: (z, z + 0.6 * noise),
    "another scale": lambda z, noise: (np.exp(z - 1.0), z + 0.4 * noise),
    "crowded": lambda z, noise: (z, 8.0 * (z - 1.5 + 0.1 * noise)),
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_best_way_to_cut_is_served(scene: Any) -> None:
    rng = np.random.default_rng(1)
    n = 4_000
    scores, latent = SCENES[scene](rng.uniform(-0.5, 3.5, n), rng.normal(size=n))
    ranks = np.clip(np.round(latent), 0, 3).astype(int)
    served, ways = errors(ThresholdClassifier(Scripted(), WORDS, every=500), scores, ranks)
    rounding, streaming, resolved = ways.mean(axis=0)
    assert served.mean() <= min(rounding, streaming, resolved) + 0.003
    if scene == "on the scale":
        assert rounding < streaming
    else:
        assert streaming < rounding - 0.05


def test_resolved_thresholds_are_served_where_scores_change_their_scale() -> None:
    rng = np.random.default_rng(2)
    z = rng.uniform(-0.5, 3.5, 3_000)
    ranks = np.clip(np.round(z), 0, 3).astype(int)
    classifier = ThresholdClassifier(Scripted(5.0, 1_500), WORDS, every=100)
    served, ways = errors(classifier, z, ranks)
    assert classifier._score_model.way.best == RESOLVED
    assert ways[1_700:, 2].mean() < ways[1_700:, :2].mean(axis=0).min() - 0.05
    assert served[1_700:].mean() <= ways[1_700:, 2].mean() + 0.03
    np.testing.assert_array_equal(
        classifier.thresholds, classifier._score_model.resolved.thresholds
    )


@pytest.mark.parametrize("every", [None, 7])
@pytest.mark.parametrize("loss", ["absolute", "zero-one", "squared"])
def test_which_way_is_served_is_what_its_definition_says(every: int | None, loss: str) -> None:
    rng = np.random.default_rng(3)
    classifier = ThresholdClassifier(Scripted(), WORDS, loss=loss, every=every, window=60)
    table = losses.get_task(loss).table(4)
    costs: list[Any] = []
    weights: list[Any] = []
    followed = set()
    for i in range(250):
        x, w = {"score": float(rng.normal())}, float(rng.uniform(0.5, 2.0))
        rank = int(np.clip(np.round(x["score"] + (i // 125) + rng.normal() / 2), 0, 3))
        score_model = classifier._score_model
        if score_model is not None:
            best = plain_choice(np.array(costs), np.array(weights))
            followed.add(best)
            answers = [score_model._rank(way, x["score"]) for way in range(3)]
            assert classifier.predict_one(x) == WORDS[answers[best]], i
            if score_model.resolved is None:
                assert answers[2] == answers[1]
            costs.append([table[answer, rank] for answer in answers])
            weights.append(w)
        classifier.learn_one(x, WORDS[rank], w=w)
    assert len(followed) > 1
    loaded = ThresholdClassifier.from_bytes(classifier.to_bytes(), regressor=classifier.regressor)
    assert loaded.to_bytes() == classifier.to_bytes()
    assert loaded._score_model.way.best == classifier._score_model.way.best


def test_rounding_is_to_what_the_regressor_learns() -> None:
    stated = ThresholdClassifier(Scripted(), labels=(10, 20, 40))  # it learns ranks
    free = ThresholdClassifier(Scripted())  # it learns the labels
    for rank, y in enumerate((10, 20, 40)):
        stated.learn_one({"score": float(rank)}, y)
        free.learn_one({"score": float(y)}, y)
    assert stated.thresholds.tolist() == [0.5, 1.5]
    assert free.thresholds.tolist() == [15.0, 30.0]
    answers = [free.predict_one({"score": s}) for s in (-5.0, 14.0, 15.0, 31.0, 99.0)]
    assert answers == [10, 10, 20, 40, 40]


def test_ints_and_floats_are_numbers_alike() -> None:
    classifier = ThresholdClassifier(Scripted())
    for y in (3, 2.5, 2, 3.5):  # star ratings as JSON holds them
        classifier.learn_one({"score": float(y)}, y)
    assert classifier.thresholds.tolist() == [2.25, 2.75, 3.25]


@pytest.mark.parametrize("y", [10**400, -(10**400), 1e61, -math.inf], ids=str)
def test_numbers_beyond_those_of_a_regressor_change_nothing(y: Any) -> None:
    classifier = ThresholdClassifier(Scripted())
    for known in (1, 2, 3):
        classifier.learn_one({"score": float(known)}, known)
    before = classifier.to_bytes()
    with pytest.raises(ValueError, match="must be a number up to 1e"):
        classifier.learn_one({"score": 1.0}, y)
    assert classifier.to_bytes() == before
    assert classifier.predict_one({"score": 1.0}) == 1


@pytest.mark.parametrize("n_known", [0, 1, 3])
def test_a_new_label_that_the_regressor_refuses_stays_unknown(n_known: int) -> None:
    class Refuses(Scripted):
        refused: int | None = None

        def learn_one(self, x: Any, y: Any) -> None:
            if y == self.refused:
                raise RuntimeError

    regressor = Refuses()
    classifier = ThresholdClassifier(regressor)
    for known in range(1, n_known + 1):
        classifier.learn_one({"score": float(known)}, known)
    before = classifier.to_bytes()
    regressor.refused = 0
    with pytest.raises(RuntimeError):
        classifier.learn_one({"score": 0.0}, 0)
    assert classifier.to_bytes() == before


def test_a_new_label_does_not_change_which_way_is_followed() -> None:
    classifier = ThresholdClassifier(Scripted(), every=20, window=100)
    for i in range(60):
        classifier.learn_one({"score": float(i % 2)}, 5 + i % 2)
    assert classifier._score_model.way.best != 0
    classifier.learn_one({"score": 2.0}, 7)
    assert classifier._score_model.resolved is None
    assert classifier._score_model.way.best == 1
    assert [classifier.predict_one({"score": s}) for s in (0.0, 1.0, 2.0)] == [5, 6, 7]


class Broken(base.Regressor):
    """A regressor that answers from a script."""

    def __init__(self, answer: Any = 0.0) -> None:
        self.answer = answer

    def learn_one(self, x: Any, y: Any) -> None:
        pass

    def predict_one(self, x: Any) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [math.nan, math.inf])
def test_a_regressor_that_is_not_finite(answer: Any) -> None:
    classifier = ThresholdClassifier(Broken(), labels=WORDS)
    classifier.learn_one({}, "low")
    classifier.learn_one({}, "high")
    before = state(classifier)
    classifier.regressor.answer = answer
    for act in (
        lambda: classifier.learn_one({}, "low"),
        lambda: classifier.predict_one({}),
        lambda: classifier.predict_proba_one({}),
    ):
        with pytest.raises(ValueError, match="`regressor` must predict finite numbers"):
            act()
    classifier.regressor.answer = 0.0
    assert state(classifier) == before


class FailsOnLearned(Broken):
    """A regressor that raises or is not finite for samples that it has learned."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.learned: set[float] = set()

    def learn_one(self, x: Any, y: Any) -> None:
        self.learned.add(x["a"])

    def predict_one(self, x: Any) -> Any:
        if x["a"] not in self.learned:
            return float(x["a"] % 4)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if x["a"] % 2 else 1.0


def test_old_samples_without_a_finite_score_are_left_out() -> None:
    classifier = ThresholdClassifier(FailsOnLearned(math.nan), labels=WORDS, every=10)
    for i in range(25):
        classifier.learn_one({"a": i}, WORDS[i % 4])
    assert classifier._n_samples == 25
    assert classifier._score_model.resolved.n_samples == 10 + 5
    check_layer(classifier)
    for x in ({"a": 101}, {"a": 102}):
        assert classifier.predict_one(x) in WORDS


def test_an_error_of_a_repeated_score_is_raised_once_and_nothing_is_learned() -> None:
    regressor = FailsOnLearned(KeyError("a"))
    classifier = ThresholdClassifier(regressor, labels=WORDS, every=10)
    for i in range(10):
        classifier.learn_one({"a": i}, WORDS[i % 4])
    with pytest.raises(KeyError):
        classifier.learn_one({"a": 10}, "low")
    assert classifier._n_samples == 10
    assert regressor.learned == set(range(10))
    for i in range(10, 20):
        classifier.learn_one({"a": i}, WORDS[i % 4])
    assert classifier._n_samples == 20
    check_layer(classifier)


@pytest.mark.parametrize("y", [None, math.nan, "tiny", 3])
def test_bad_labels_are_refused(y: Any) -> None:
    classifier = model(WORDS)
    classifier.learn_one({"a": 1.0}, "low")
    before = state(classifier)
    with pytest.raises(ValueError, match="`y` must be"):
        classifier.learn_one({"a": 1.0}, y)
    assert state(classifier) == before


def test_labels_without_an_order_must_be_stated() -> None:
    classifier = model()
    classifier.learn_one({"a": 1.0}, 1)
    with pytest.raises(TypeError, match="`labels` must be given"):
        classifier.learn_one({"a": 1.0}, "one")


@pytest.mark.parametrize("w", BAD_WEIGHTS)
def test_a_bad_weight_is_refused(w: Any) -> None:
    classifier = model(WORDS)
    with pytest.raises(BAD, match="`w`"):
        classifier.learn_one({"a": 1.0}, "low", w=w)
    assert classifier.predict_one({"a": 1.0}) is None


def test_weights_reach_regressor_and_thresholds() -> None:
    one, two = model(WORDS, every=None), model(WORDS, every=None)
    for x, y in stream(WORDS, 60):
        one.learn_one(x, y, w=2.0)
        two.learn_one(x, y)
    assert one.regressor.predict_one(x) != two.regressor.predict_one(x)
    assert recorded(one)[2].tolist() == [2.0] * 60
    check_layer(one)
    without = ThresholdClassifier(dummy.StatisticRegressor(stats.Mean()), WORDS)
    without.learn_one({}, "low", w=3.0)  # which takes no weights


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"regressor": naive_bayes.GaussianNB()}, TypeError, "must be a river regressor, got Gau"),
        ({"regressor": 3}, TypeError, "must be a river regressor, got int"),
        ({"labels": ("a",)}, ValueError, "`labels` must be two or more different labels"),
        ({"labels": ("a", "a")}, ValueError, "`labels` must be two or more different labels"),
        ({"labels": "abc"}, TypeError, "`labels` must be a sequence of labels"),
        ({"loss": "log"}, ValueError, "`loss` must be one of 'absolute'"),
        ({"window": None}, ValueError, "`window` must be a positive int, got None"),
        ({"window": 0}, ValueError, "`window` must be a positive int, got 0"),
        ({"every": 0}, ValueError, "`every` must be a positive int or None, got 0"),
        ({"n_jobs": 0}, ValueError, "`n_jobs` must be a positive int"),
        (
            {"labels": WORDS, "loss": losses.CostTable([[0, 1], [1, 0]])},
            ValueError,
            "`n_labels` must be 2 for this table of costs, got 4",
        ),
    ],
)
def test_bad_parameters_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        ThresholdClassifier(**{"regressor": linear_model.LinearRegression(), **arguments})


def test_prediction_is_pure_and_clones_are_fresh() -> None:
    classifier = model(WORDS, loss="zero-one")
    for x, y in stream(WORDS, 80):
        classifier.learn_one(x, y)
    before = state(classifier)
    answers(classifier, WORDS)
    assert state(classifier) == before
    clone = classifier.clone()
    assert clone.predict_one({"a": 1.0}) is None
    assert repr(clone) == repr(classifier)


def test_memory_is_bounded() -> None:
    classifier, sizes = model(WORDS, window=100, every=50), []
    for seed in range(5):
        for x, y in stream(WORDS, 200, seed):
            classifier.learn_one(x, y)
        sizes.append(classifier._raw_memory_usage)
    assert max(sizes) <= 1.25 * sizes[0] + 1024


@pytest.mark.parametrize(
    ("background", "check"),
    [
        pytest.param(background, check, id=f"{background}-{check.__name__}")
        for background in (False, True)
        for check in river_checks(model())
    ],
)
def test_it_passes_the_checks_of_river(background: Any, check: Any) -> None:
    check(model(background=background))
