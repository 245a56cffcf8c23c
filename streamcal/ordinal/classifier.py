"""A river classifier of ordinal labels around a river regressor.

The regressor gives a score, thresholds cut it into labels (`StreamingThresholds`), and an isotonic
calibrator for each boundary turns it into probabilities (`IsotonicCalibrator`). All of them are
exact on the recorded scores. But the regressor keeps learning, so recorded scores become outdated.
From time to time the window is therefore scored again, and thresholds and calibrators are solved
again, in this process or in another one, and replaced together.
"""

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget, FeatureName

from streamcal._routing import Routing, last_step, name_of
from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_float,
    as_int,
    as_list,
    as_name,
    as_names,
    check_alike,
    nest,
    pack,
    require,
    state_of,
    unpack,
)
from streamcal._validation import (
    LARGEST,
    SMALLEST,
    as_weight,
    check_bool,
    check_label,
    check_window,
)
from streamcal._worker import Worker
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.losses import (
    AbsoluteError,
    AsymmetricError,
    SquaredError,
    TaskLoss,
    ZeroOneError,
    get_task,
)
from streamcal.losses._task import check_n_labels
from streamcal.ordinal.streaming import StreamingThresholds
from streamcal.ordinal.thresholds import METHODS, Thresholds, optimal_thresholds

Features = dict[FeatureName, Any]
Sample = tuple[Features, ClfTarget, float, float]
"""Features, label, recorded score, weight."""

_LOSSES_OF_ANY_SIZE = (AbsoluteError, SquaredError, ZeroOneError, AsymmetricError)
_RETRY_SAMPLES = 100  # until the next attempt, if the background process is not ready


class _ScoreModel:
    """Thresholds, and an isotonic calibrator for each boundary, fitted to recorded scores."""

    def __init__(
        self,
        scores: NDArray[np.float64],
        ranks: NDArray[np.int64],
        w: NDArray[np.float64],
        n_labels: int,
        loss: str | TaskLoss,
        window: int,
        n_jobs: int | None = None,
    ):
        self.solution: Thresholds | None = None
        if n_jobs is not None:
            self.solution = optimal_thresholds(
                scores, ranks + 1, n_labels, loss=loss, w=w, n_jobs=n_jobs
            )
        self.thresholds = StreamingThresholds(n_labels, loss, window=window)
        self.thresholds.learn_many(scores, ranks + 1, w)
        self.stairs = [IsotonicCalibrator(window=window) for _ in range(n_labels - 1)]
        for k, staircase in enumerate(self.stairs):
            staircase.learn_many(scores, ranks > k, w)

    def learn_one(self, score: float, rank: int, w: float) -> None:
        self.thresholds.learn_one(score, rank + 1, w)
        for k, staircase in enumerate(self.stairs):
            staircase.learn_one(score, rank > k, w)


class ThresholdClassifier(Routing, Stateful, base.Wrapper[base.Regressor], base.Classifier):
    """Ordinal classification: a regressor's score, cut by optimal thresholds.

    The regressor learns the rank of the label. Its score of a sample, taken *before* the sample is
    learned, is added to a window of the last ``window`` scores. After every sample the thresholds
    minimise the task loss on this window exactly.

    Parameters
    ----------
    regressor : river regressor or pipeline
        Used as it is, not copied.
    labels : sequence, optional
        All labels in their order, of any kind; a label that is not among them is refused. By
        default labels are added when they first occur, in their natural order. The regressor then
        learns the values of ints. Give labels of other kinds here: their ranks change when a new
        label sorts before them.
    loss : str or TaskLoss
        What to minimise: "absolute", "squared", "zero-one", "asymmetric" or a `TaskLoss`; a table
        of costs needs ``labels``.
    window : int
        How many samples the thresholds and probabilities rest on.
    every : int or None
        After how many samples the window is scored again with the current regressor, and solved
        again. None: never.
    n_jobs : int
        The number of jobs that solve for the thresholds again; see `optimal_thresholds`.
    background : bool
        Whether to do that in another process. The process is *spawned*, so a script must keep its
        work under ``if __name__ == "__main__":``; jobs are threads there. Learning continues
        meanwhile. When the result arrives, the samples learned since are added with their recorded
        scores. When it arrives depends on the machine.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``regressor`` is not a river regressor, or the loss not a task loss.

    Notes
    -----
    `predict_one` returns the label that the thresholds give, which minimises the task loss; it need
    not be the most probable label of `predict_proba_one`. Those probabilities are differences of
    calibrated P(y > k | score), with one calibrator for each boundary. Isotonic regression
    preserves order, so P(y > k) ≥ P(y > k + 1) at every score; rounding errors are clipped.

    Learning costs O(K log² window), and one predict_one and learn_one of the regressor.

    References
    ----------
    Yamasaki & Tanaka, *Parallel Algorithm for Optimal Threshold Labeling of Ordinal Regression
    Methods*. The regressor is what they call the one-dimensional transformation.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> from streamcal.metrics import MAE
    >>> model = ThresholdClassifier(
    ...     preprocessing.StandardScaler() | linear_model.LinearRegression(),
    ...     labels=("light", "medium", "heavy"),
    ... )
    >>> metric = MAE(labels=model.labels)
    >>> for x, grams in datasets.ChickWeights():
    ...     y = "light" if grams < 70 else "medium" if grams < 140 else "heavy"
    ...     metric.update(y, model.predict_one(x))
    ...     model.learn_one(x, y)
    >>> metric
    MAE: 0.17...
    >>> model.predict_one(x)
    'heavy'
    >>> {label: round(p, 1) for label, p in model.predict_proba_one(x).items()}
    {'light': 0.0, 'medium': 0.0, 'heavy': 1.0}
    """

    def __init__(
        self,
        regressor: base.Regressor,
        labels: Sequence[ClfTarget] | None = None,
        *,
        loss: str | TaskLoss = "absolute",
        window: int = 10_000,
        every: int | None = 1_000,
        n_jobs: int = 1,
        background: bool = False,
    ):
        _check_regressor(regressor)
        for name, value in (("window", window), ("every", every), ("n_jobs", n_jobs)):
            check_window(value, name)
            if value is None and name != "every":
                raise ValueError(f"`{name}` must be a positive int, got None")
        check_bool(background, "background")
        self.regressor = regressor
        self.labels = labels
        self.loss = loss
        self.window = window
        self.every = every
        self.n_jobs = n_jobs
        self.background = background

        self._order: list[ClfTarget] = [] if labels is None else _check_labels(labels)
        self._ranks = {label: rank for rank, label in enumerate(self._order)}
        task = get_task(loss)
        if type(task) in _LOSSES_OF_ANY_SIZE:  # no need to make a table to check the size
            check_n_labels(max(len(self._order), 2))
        elif labels is not None:
            task.table(len(self._order))
        self._samples: deque[Sample] = deque(maxlen=window)
        self._score_model: _ScoreModel | None = None
        self._solution: Thresholds | None = None
        self._n_samples = 0
        self._due = every
        self._set_routes(regressor, "learn_one", "predict_one")
        self._worker = Worker(_run_job) if background else None
        # For the job in the background: the numbers of samples and of labels at its start.
        self._job: tuple[int, int] | None = None

    _given = ("regressor",)

    def _freeze(self) -> tuple[Fields, Arrays]:
        features = [
            [[pack(name), pack(value)] for name, value in s[0].items()] for s in self._samples
        ]
        fields: Fields = {
            "order": pack(self._order),
            "features": features,
            "n_samples": self._n_samples,
            "due": self._due,
            "solution": None,
        }
        arrays: Arrays = {
            "ranks": np.array([self._ranks[y] for _, y, _, _ in self._samples], np.int64),
            "samples": np.array([s[2:] for s in self._samples], np.float64).reshape(-1, 2),
        }
        if self._score_model is not None:
            arrays["thresholds"] = nest(self._score_model.thresholds.to_bytes())
            for k, staircase in enumerate(self._score_model.stairs):
                arrays[f"staircase {k}"] = nest(staircase.to_bytes())
        if self._solution is not None:
            found = self._solution
            fields["solution"] = [found.risk, found.method, found.certified]
            arrays["solution"] = found.thresholds
        return fields, arrays

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        order = self._read_labels(fields["order"])
        n_labels = len(order)
        ranks = array_of(arrays, "ranks", None, dtype=np.int64)
        samples = array_of(arrays, "samples", len(ranks), 2)
        require(len(ranks) <= self.window, "there must be no more samples than the window holds")
        require(((ranks >= 0) & (ranks < n_labels)).all(), "ranks must be those of labels")
        w = samples[:, 1]
        require(((w >= SMALLEST) & (w <= LARGEST)).all(), "weights must be in range")
        features = [_read_features(x) for x in as_list(fields["features"], "features", len(ranks))]
        n_samples = as_int(fields["n_samples"], "n_samples", len(ranks))
        due = fields["due"]
        require((due is None) == (self.every is None), "`due` must be None where `every` is")
        layer = self._read_score_model(arrays, order)
        require(layer is None or len(ranks), "thresholds must rest on samples")
        if fields["solution"] is not None:
            self._solution = _read_solution(fields["solution"], arrays, n_labels)
        self._due = None if due is None else as_int(due, "due")
        self._n_samples, self._score_model, self._order = n_samples, layer, order
        self._ranks = {label: rank for rank, label in enumerate(order)}
        rows = zip(features, ranks.tolist(), samples.tolist(), strict=True)
        self._samples.extend((x, order[rank], score, w) for x, rank, (score, w) in rows)

    def _read_labels(self, packed: Any) -> list[ClfTarget]:
        """Return the labels in a state in their order; raise unless they are possible."""
        order: list[ClfTarget] = unpack(packed)
        require(isinstance(order, list), "labels must be a list")
        require(len(set(order)) == len(order), "labels must be different")
        if self.labels is not None:
            require(order == self._order, "labels must be those given")
        else:
            require(order == sorted(order), "labels must be in order")
            for label in order:
                as_name(label, "labels")
        return order

    def _read_score_model(self, arrays: Arrays, order: list[ClfTarget]) -> "_ScoreModel | None":
        """Return the thresholds and calibrators in a state, None without any; or raise."""
        if "thresholds" not in arrays:
            return None
        layer = _ScoreModel.__new__(_ScoreModel)
        layer.solution = None
        layer.thresholds = StreamingThresholds.from_bytes(state_of(arrays, "thresholds"))
        n, window = len(order), self.window
        require(n == layer.thresholds.n_labels, "thresholds must fit labels")
        check_alike([layer.thresholds], [StreamingThresholds(n, self.loss, window=window)])
        states = (state_of(arrays, f"staircase {k}") for k in range(n - 1))
        layer.stairs = [IsotonicCalibrator.from_bytes(state) for state in states]
        check_alike(layer.stairs, [IsotonicCalibrator(window=window)] * (n - 1))
        held = [layer.thresholds.n_samples, *(stairs.n_samples for stairs in layer.stairs)]
        require(min(held) > 0, "thresholds must rest on samples")
        return layer

    @property
    def _wrapped_model(self) -> base.Regressor:
        return self.regressor

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression()}

    def __getstate__(self) -> dict[str, Any]:
        # A copy has no job in the background.
        return {**self.__dict__, "_job": None}

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The thresholds between the labels known so far, shape ``(n_labels - 1,)``.

        Raises
        ------
        ValueError
            If not two labels are known, or nothing has been learned.
        """
        if self._score_model is None:
            raise ValueError("`thresholds` need two known labels and a learned sample")
        return self._score_model.thresholds.thresholds

    @property
    def solution(self) -> Thresholds | None:
        """The result of the last repeated solve, for the scores at that time; None before."""
        return self._solution

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0, **kwargs: Any) -> None:
        """Score a sample, teach the regressor its rank, and record the score.

        Parameters
        ----------
        x : dict
            The features.
        y : int, str or bool
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60. The regressor gets it if its ``learn_one``
            takes ``w``.
        **kwargs
            The regressor gets those that its ``learn_one`` takes.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None, NaN or not one of the given labels, ``w`` is not positive, or the
            regressor predicts a value that is not finite. An error of the background process is
            raised here too, once. In all cases nothing is learned.
        """
        w = as_weight(w)
        check_label(y)
        if self.labels is not None and y not in self._ranks:
            raise ValueError(f"`y` must be one of {self._order}, got {y!r}")
        if self._job is not None:
            self._poll_worker()
        score = self._score(x, {})
        if y not in self._ranks:
            self._add_label(y)
        rank = self._ranks[y]
        target = y if self.labels is None and isinstance(y, int | np.integer | np.bool_) else rank
        if kwargs or w != 1.0:
            kwargs = self._route("learn_one", {**kwargs, "w": w})
        self.regressor.learn_one(x, float(target), **kwargs)

        self._samples.append((x.copy(), y, score, w))
        self._n_samples += 1
        if self._score_model is not None:
            self._score_model.learn_one(score, rank, w)
        elif len(self._order) > 1:
            self._refit()
        if self._due is not None and self._n_samples >= self._due:
            self._rescore_window()

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label of least task loss; None while no label is known.

        Raises
        ------
        ValueError
            If the regressor predicts a value that is not finite.
        """
        if self._score_model is None:
            return self._samples[-1][1] if self._samples else None
        label = self._score_model.thresholds.predict_one(self._score(x, kwargs))
        return None if label is None else self._order[label - 1]

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label; empty while nothing is learned.

        Raises
        ------
        ValueError
            If the regressor predicts a value that is not finite.
        """
        if self._score_model is None:
            return {self._samples[-1][1]: 1.0} if self._samples else {}
        score = self._score(x, kwargs)
        answer: dict[ClfTarget, float] = {}
        above = 1.0  # the probability of this label and all higher ones
        for label, staircase in zip(self._order[:-1], self._score_model.stairs, strict=True):
            beyond = min(staircase.predict_one(score), above)
            answer[label] = above - beyond
            above = beyond
        answer[self._order[-1]] = above
        return answer

    def _score(self, x: Features, kwargs: dict[str, Any]) -> float:
        routed = self._route("predict_one", kwargs) if kwargs else kwargs
        score = float(self.regressor.predict_one(x, **routed))
        if not -np.inf < score < np.inf:
            raise ValueError(f"`regressor` must predict finite numbers, got {score}")
        return score

    # Labels that are not given ---------------------------------------------------------------

    def _add_label(self, y: ClfTarget) -> None:
        """Insert a new label into the order of the known ones."""
        try:
            order = sorted([*self._order, y])
        except TypeError:
            raise TypeError(
                f"`labels` must be given where labels have no natural order, got {y!r}"
                f" beside {self._order}"
            ) from None
        self._order = order
        self._ranks = {label: rank for rank, label in enumerate(order)}
        if self._score_model is not None:
            self._refit()

    # Solving ----------------------------------------------------------------------------------

    def _refit(self) -> None:
        """Fit thresholds and calibrators to the recorded scores."""
        _, labels, scores, w = zip(*self._samples, strict=True)
        ranks = np.array([self._ranks[label] for label in labels])
        self._score_model = _ScoreModel(
            np.array(scores), ranks, np.array(w), len(self._order), self.loss, self.window
        )

    def _rescore_window(self) -> None:
        """Score the window again and solve, in this process or in the background."""
        assert self.every is not None
        if self._score_model is None:
            self._due = self._n_samples + self.every
            return
        if self._worker is not None:
            if self._job is not None or not self._worker.ready():
                self._due = self._n_samples + _RETRY_SAMPLES
                return
        features, labels, _, w = zip(*self._samples, strict=True)
        ranks = np.array([self._ranks[label] for label in labels])
        data = (features, ranks, np.array(w), len(self._order), self.loss, self.window, self.n_jobs)
        if self._worker is None:
            scores, layer = _score_and_solve(self.regressor, *data)
            self._replace_score_model(scores, layer, 0)
        elif self._worker.submit(_pickle_if_possible(self.regressor), _pickle_if_possible(data)):
            self._job = (self._n_samples, len(self._order))
        self._due = self._n_samples + self.every

    def _poll_worker(self) -> None:
        """Take over the result of the background process, if it is ready."""
        assert self._worker is not None
        assert self._job is not None
        asked, n_labels = self._job
        try:
            result = self._worker.poll()
        except Exception:
            self._job = None
            raise
        if result is not None:
            self._job = None
            if n_labels == len(self._order):  # else there is a new label: the next job has it
                scores, layer = pickle.loads(result)
                self._replace_score_model(scores, layer, self._n_samples - asked)
        elif self._n_samples % _RETRY_SAMPLES == 0 and not self._worker.busy:  # it was killed
            self._job = None
            self._due = self._n_samples

    def _replace_score_model(
        self, scores: NDArray[np.float64], model: _ScoreModel, n_since: int
    ) -> None:
        """Replace thresholds and scores; add the ``n_since`` samples learned in the meantime."""
        n_old = len(self._samples) - n_since
        since = list(islice(self._samples, max(n_old, 0), None))
        fresh = scores[len(scores) - n_old :].tolist() if n_old > 0 else []
        again = [
            (x, y, score, w)
            for (x, y, _, w), score in zip(islice(self._samples, len(fresh)), fresh, strict=True)
        ]
        for _, y, score, w in since:
            model.learn_one(score, self._ranks[y], w)
        self._samples = deque([*again, *since], maxlen=self.window)
        self._score_model, self._solution = model, model.solution


def _score_and_solve(
    regressor: base.Regressor,
    features: Sequence[Features],
    ranks: NDArray[np.int64],
    w: NDArray[np.float64],
    n_labels: int,
    loss: str | TaskLoss,
    window: int,
    n_jobs: int,
) -> tuple[NDArray[np.float64], _ScoreModel]:
    """Score samples with a regressor and solve; the background process runs this too."""
    scores = np.array([regressor.predict_one(x) for x in features], dtype=np.float64)
    if not np.isfinite(scores).all():
        bad = scores[~np.isfinite(scores)][0]
        raise ValueError(f"`regressor` must predict finite numbers, got {bad}")
    return scores, _ScoreModel(scores, ranks, w, n_labels, loss, window, n_jobs)


def _pickle_if_possible(thing: Any) -> Any:
    """Return an object as bytes, or itself if pickle can't, such as a pipeline with a lambda.

    The worker then pickles it with dill, which takes far longer.
    """
    try:
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return thing


def _run_job(regressor: Any, data: Any) -> bytes:
    """Run a job in the background process."""
    if isinstance(regressor, bytes):
        regressor = pickle.loads(regressor)
    if isinstance(data, bytes):
        data = pickle.loads(data)
    return pickle.dumps(_score_and_solve(regressor, *data), pickle.HIGHEST_PROTOCOL)


def _check_regressor(regressor: Any) -> None:
    """Raise ``TypeError`` unless ``regressor`` is a river regressor."""
    final = last_step(regressor)
    if not isinstance(final, base.Regressor):
        raise TypeError(f"`regressor` must be a river regressor, got {name_of(final)}")


def _check_labels(labels: Any) -> list[ClfTarget]:
    """Return the given labels as a list; raise unless they are two or more different ones."""
    if isinstance(labels, str):
        raise TypeError(f"`labels` must be a sequence of labels, got {labels!r}")
    order = list(labels)
    if len(order) < 2 or len(set(order)) < len(order):
        raise ValueError(f"`labels` must be two or more different labels, got {labels!r}")
    return order


def _read_features(packed: Any) -> Features:
    """Return the features of a sample in a state, or raise."""
    pairs = [as_list(pair, "features", 2) for pair in as_list(packed, "features")]
    names = as_names([name for name, _ in pairs], "features", none=True)
    return dict(zip(names, (unpack(value) for _, value in pairs), strict=True))


def _read_solution(packed: Any, arrays: Arrays, n_labels: int) -> Thresholds:
    """Return the solution in a state, or raise."""
    risk, method, certified = as_list(packed, "solution", 3)
    thresholds = array_of(arrays, "solution", None, finite=False)
    require(1 <= len(thresholds) < max(n_labels, 2), "a solution must be of known labels")
    require((thresholds[1:] >= thresholds[:-1]).all(), "thresholds must be in order")
    require(not np.isnan(thresholds[0]), "thresholds must be numbers")
    require(method in METHODS, "a solution must have a known method")
    require(isinstance(certified, bool), "a solution is certified or is not")
    return Thresholds(thresholds, as_float(risk, "risk", 0.0), method, certified)
