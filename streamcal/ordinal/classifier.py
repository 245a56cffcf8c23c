"""A river classifier of ordinal labels around a river regressor.

The regressor gives a score, thresholds cut it into labels (`StreamingThresholds`), and a staircase
for each boundary turns it into probabilities (`IsotonicCalibrator`). All of them are exact on the
scores as they were recorded; because the regressor goes on learning, recorded scores go stale, so
the window is scored again from time to time and everything on top of it is solved again, here or
in a process of its own, and swapped in whole.
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
from streamcal._validation import LARGEST, SMALLEST, as_weight, check_bool, check_window
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

_OF_ANY_SIZE = (AbsoluteError, SquaredError, ZeroOneError, AsymmetricError)
_RETRY = 100  # samples, when the background process is not ready


class _Layer:
    """What stands on top of scores: thresholds, and a staircase for each boundary.

    Built in whatever process has the scores, swapped in whole.
    """

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
    learned, joins the last ``window`` of them, and the thresholds minimise the task loss on these
    exactly after every sample.

    Parameters
    ----------
    regressor : river regressor or pipeline
        Used as it is, not copied.
    labels : sequence, optional
        All labels in their order, of any kind; a label that is not among them is refused. By
        default labels are known as they come, in their natural order: ints are their own ranks
        (the regressor learns their values), others should rather be stated, since the ranks of
        those known so far change when another one sorts before them.
    loss : str or TaskLoss
        What to minimise: "absolute", "squared", "zero-one", "asymmetric" or a `TaskLoss`; a table
        of costs needs ``labels``.
    window : int
        How many samples the thresholds and probabilities rest on.
    every : int or None
        Score the window again with the current regressor, and solve again, each time so many
        samples have been learned. None: never.
    n_jobs : int
        How many jobs the thresholds are solved in again; see `optimal_thresholds`.
    background : bool
        Do that in a process of its own (one that is *spawned*, so a script keeps its work under
        ``if __name__ == "__main__":``), where jobs run in threads. The stream goes on meanwhile;
        samples that come in the meantime are added when the result is swapped in, with the scores
        they were recorded with. When that is depends on the machine.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``regressor`` is not a river regressor, or the loss not a task loss.

    Notes
    -----
    The label that `predict_one` answers is the one that thresholds give, which minimises the task
    loss; it need not be the most probable one of `predict_proba_one`. Those probabilities are
    differences of calibrated P(y > k | score), one staircase for each boundary. As isotonic
    regression preserves order, P(y > k) ≥ P(y > k + 1) at every score; rounding is clipped.

    Learning costs, beyond the regressor's own predict_one and learn_one, O(K log² window).

    References
    ----------
    Yamasaki & Tanaka, *Parallel Algorithm for Optimal Threshold Labeling of Ordinal Regression
    Methods*. The regressor plays the part of the one-dimensional transformation there.

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
        if type(task) in _OF_ANY_SIZE:  # whose table need not be made to be sure of it
            check_n_labels(max(len(self._order), 2))
        elif labels is not None:
            task.table(len(self._order))
        self._samples: deque[Sample] = deque(maxlen=window)
        self._layer: _Layer | None = None
        self._solution: Thresholds | None = None
        self._n_samples = 0
        self._due = every
        self._set_routes(regressor, "learn_one", "predict_one")
        self._worker = Worker(_solve_packed) if background else None
        # While a job is under way: how many samples had been learned, and labels known.
        self._asked: tuple[int, int] | None = None

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
        if self._layer is not None:
            arrays["thresholds"] = nest(self._layer.thresholds.to_bytes())
            for k, staircase in enumerate(self._layer.stairs):
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
        require(len(ranks) <= self.window, "there must be no more samples than the window takes")
        require(((ranks >= 0) & (ranks < n_labels)).all(), "ranks must be those of labels")
        w = samples[:, 1]
        require(((w >= SMALLEST) & (w <= LARGEST)).all(), "weights must be in range")
        features = [_read_features(x) for x in as_list(fields["features"], "features", len(ranks))]
        n_samples = as_int(fields["n_samples"], "n_samples", len(ranks))
        due = fields["due"]
        require((due is None) == (self.every is None), "what is due must be that of `every`")
        layer = self._read_layer(arrays, order)
        require(layer is None or len(ranks), "a layer must rest on samples")
        if fields["solution"] is not None:
            self._solution = _read_solution(fields["solution"], arrays, n_labels)
        self._due = None if due is None else as_int(due, "due")
        self._n_samples, self._layer, self._order = n_samples, layer, order
        self._ranks = {label: rank for rank, label in enumerate(order)}
        rows = zip(features, ranks.tolist(), samples.tolist(), strict=True)
        self._samples.extend((x, order[rank], score, w) for x, rank, (score, w) in rows)

    def _read_labels(self, packed: Any) -> list[ClfTarget]:
        """Return the labels in a state in their order, or raise unless they can be these."""
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

    def _read_layer(self, arrays: Arrays, order: list[ClfTarget]) -> "_Layer | None":
        """Return what stands on top of scores in a state, or raise."""
        if "thresholds" not in arrays:
            return None
        layer = _Layer.__new__(_Layer)
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
        # A job under way stays with the process that is waiting for it.
        return {**self.__dict__, "_asked": None}

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The thresholds between the labels known so far, shape ``(n_labels - 1,)``.

        Raises
        ------
        ValueError
            If not two labels are known, or nothing has been learned.
        """
        if self._layer is None:
            raise ValueError("`thresholds` need two known labels and a learned sample")
        return self._layer.thresholds.thresholds

    @property
    def solution(self) -> Thresholds | None:
        """What the last re-solve found on the window as it was scored then; None before."""
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
            Weight of the sample, from 1e-60 to 1e60; it reaches the regressor where that takes one.
        **kwargs
            For the regressor, where its ``learn_one`` takes them.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is None, NaN or not one of the stated labels, ``w`` is not positive, or the
            regressor answers with something not finite. Nothing has been learned then. What has
            gone wrong in the background is raised here as well, once, before anything is learned.
        """
        w = as_weight(w)
        missing: Any = y
        if missing is None or missing != missing:
            raise ValueError(f"`y` must be a label, got {y}")
        if self.labels is not None and y not in self._ranks:
            raise ValueError(f"`y` must be one of {self._order}, got {y!r}")
        if self._asked is not None:
            self._look()
        score = self._score(x, {})
        if y not in self._ranks:
            self._meet(y)
        rank = self._ranks[y]
        target = y if self.labels is None and isinstance(y, int | np.integer | np.bool_) else rank
        if kwargs or w != 1.0:
            kwargs = self._route("learn_one", {**kwargs, "w": w})
        self.regressor.learn_one(x, float(target), **kwargs)

        self._samples.append((x.copy(), y, score, w))
        self._n_samples += 1
        if self._layer is not None:
            self._layer.learn_one(score, rank, w)
        elif len(self._order) > 1:
            self._rebuild()
        if self._due is not None and self._n_samples >= self._due:
            self._resolve()

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label of least task loss; None while no label is known.

        Raises
        ------
        ValueError
            If the regressor answers with something not finite.
        """
        if self._layer is None:
            return self._samples[-1][1] if self._samples else None
        label = self._layer.thresholds.predict_one(self._score(x, kwargs))
        return None if label is None else self._order[label - 1]

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label; empty while nothing is learned.

        Raises
        ------
        ValueError
            If the regressor answers with something not finite.
        """
        if self._layer is None:
            return {self._samples[-1][1]: 1.0} if self._samples else {}
        score = self._score(x, kwargs)
        answer: dict[ClfTarget, float] = {}
        above = 1.0  # the probability of this label and all above it
        for label, staircase in zip(self._order[:-1], self._layer.stairs, strict=True):
            beyond = min(staircase.predict_one(score), above)
            answer[label] = above - beyond
            above = beyond
        answer[self._order[-1]] = above
        return answer

    def _score(self, x: Features, kwargs: dict[str, Any]) -> float:
        routed = self._route("predict_one", kwargs) if kwargs else kwargs
        score = float(self.regressor.predict_one(x, **routed))
        if not -np.inf < score < np.inf:
            raise ValueError(f"`regressor` must answer with a finite number, got {score}")
        return score

    # Labels that are not stated ---------------------------------------------------------------

    def _meet(self, y: ClfTarget) -> None:
        """Put a new label into the order of those known."""
        try:
            order = sorted([*self._order, y])
        except TypeError:
            raise TypeError(
                f"`labels` must be given where labels have no natural order, got {y!r}"
                f" beside {self._order}"
            ) from None
        self._order = order
        self._ranks = {label: rank for rank, label in enumerate(order)}
        if self._layer is not None:
            self._rebuild()

    # Solving ----------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """Put thresholds and staircases on the recorded scores."""
        _, labels, scores, w = zip(*self._samples, strict=True)
        ranks = np.array([self._ranks[label] for label in labels])
        self._layer = _Layer(
            np.array(scores), ranks, np.array(w), len(self._order), self.loss, self.window
        )

    def _resolve(self) -> None:
        """Score the window again and solve, or have it done."""
        assert self.every is not None
        if self._layer is None:
            self._due = self._n_samples + self.every
            return
        if self._worker is not None:
            if self._asked is not None or not self._worker.ready():
                self._due = self._n_samples + _RETRY
                return
        features, labels, _, w = zip(*self._samples, strict=True)
        ranks = np.array([self._ranks[label] for label in labels])
        data = (features, ranks, np.array(w), len(self._order), self.loss, self.window, self.n_jobs)
        if self._worker is None:
            scores, layer = _solve_again(self.regressor, *data)
            self._swap_in(scores, layer, 0)
        elif self._worker.submit(_packed(self.regressor), _packed(data)):
            self._asked = (self._n_samples, len(self._order))
        self._due = self._n_samples + self.every

    def _look(self) -> None:
        """Swap in what the background process has solved, if it is ready."""
        assert self._worker is not None
        assert self._asked is not None
        asked, n_labels = self._asked
        try:
            result = self._worker.poll()
        except Exception:
            self._asked = None
            raise
        if result is not None:
            self._asked = None
            if n_labels == len(self._order):  # else a new label came meanwhile: next time
                scores, layer = pickle.loads(result)
                self._swap_in(scores, layer, self._n_samples - asked)
        elif self._n_samples % _RETRY == 0 and not self._worker.busy:  # it was killed
            self._asked = None
            self._due = self._n_samples

    def _swap_in(self, scores: NDArray[np.float64], layer: _Layer, n_since: int) -> None:
        """Replace what stands on the old scores; ``n_since`` samples have come since."""
        n_old = len(self._samples) - n_since
        since = list(islice(self._samples, max(n_old, 0), None))
        fresh = scores[len(scores) - n_old :].tolist() if n_old > 0 else []
        again = [
            (x, y, score, w)
            for (x, y, _, w), score in zip(islice(self._samples, len(fresh)), fresh, strict=True)
        ]
        for _, y, score, w in since:
            layer.learn_one(score, self._ranks[y], w)
        self._samples = deque([*again, *since], maxlen=self.window)
        self._layer, self._solution = layer, layer.solution


def _solve_again(
    regressor: base.Regressor,
    features: Sequence[Features],
    ranks: NDArray[np.int64],
    w: NDArray[np.float64],
    n_labels: int,
    loss: str | TaskLoss,
    window: int,
    n_jobs: int,
) -> tuple[NDArray[np.float64], _Layer]:
    """Score samples with a regressor and solve; what the background process computes."""
    scores = np.array([regressor.predict_one(x) for x in features], dtype=np.float64)
    if not np.isfinite(scores).all():
        bad = scores[~np.isfinite(scores)][0]
        raise ValueError(f"`regressor` must answer with a finite number, got {bad}")
    return scores, _Layer(scores, ranks, w, n_labels, loss, window, n_jobs)


def _packed(thing: Any) -> Any:
    """Return bytes, which the worker's own way of pickling passes on; it takes far longer itself.

    What pickle refuses, such as a pipeline with a lambda, is left to that.
    """
    try:
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return thing


def _solve_packed(regressor: Any, data: Any) -> bytes:
    """Do a job of the background process."""
    if isinstance(regressor, bytes):
        regressor = pickle.loads(regressor)
    if isinstance(data, bytes):
        data = pickle.loads(data)
    return pickle.dumps(_solve_again(regressor, *data), pickle.HIGHEST_PROTOCOL)


def _check_regressor(regressor: Any) -> None:
    """Raise ``TypeError`` unless ``regressor`` is a river regressor."""
    final = last_step(regressor)
    if not isinstance(final, base.Regressor):
        raise TypeError(f"`regressor` must be a river regressor, got {name_of(final)}")


def _check_labels(labels: Any) -> list[ClfTarget]:
    """Return stated labels as a list, or raise unless they are two or more different ones."""
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
