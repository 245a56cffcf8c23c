"""Task losses: their tables against their formulas, convexity, errors."""

import pickle
from typing import Any

import numpy as np
import pytest

from streamcal import losses
from streamcal.losses import AsymmetricError, CostTable, TaskLoss, get_task
from streamcal.ordinal import CuSumRank, StreamingThresholds, optimal_thresholds

FORMULAS = {
    "absolute": lambda k, y: abs(k - y),
    "squared": lambda k, y: (k - y) ** 2,
    "zero-one": lambda k, y: float(k != y),
    "asymmetric": lambda k, y: abs(k - y),
}
CONVEX = {"absolute": True, "squared": True, "zero-one": False, "asymmetric": True}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("n_labels", [2, 3, 9])
def test_tables_follow_their_formulas(name: Any, n_labels: int) -> None:
    loss = get_task(name)
    table = loss.table(n_labels)
    assert table.shape == (n_labels, n_labels)
    assert table.dtype == np.float64
    for k in range(n_labels):
        for y in range(n_labels):
            assert table[k, y] == FORMULAS[name](k, y)
    assert loss.is_convex(n_labels) == (CONVEX[name] or n_labels == 2)


@pytest.mark.parametrize("name", FORMULAS)
def test_task_losses_are_values(name: Any) -> None:
    loss = get_task(name)
    assert loss.name == name
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert hash(loss) == hash(get_task(name))
    assert eval(repr(loss), vars(losses)) == loss
    assert get_task(loss) is loss


def test_asymmetric_error_charges_each_side_its_own() -> None:
    table = AsymmetricError(under=3, over=0.5).table(4)
    assert table[0].tolist() == [0.0, 3.0, 6.0, 9.0]
    assert table[3].tolist() == [1.5, 1.0, 0.5, 0.0]
    assert AsymmetricError(under=3, over=0.5).is_convex(4)


def test_cost_table_is_any_table() -> None:
    costs = np.array([[0.0, 2.0, 9.0], [0.1, 0.0, 0.2], [0.2, 0.1, 0.0]])
    loss = CostTable(costs)
    costs[0, 0] = 7.0  # the loss keeps its own
    assert loss.table(3)[0].tolist() == [0.0, 2.0, 9.0]
    loss.table(3)[0, 0] = 7.0
    assert loss.table(3)[0, 0] == 0.0
    assert loss == CostTable(loss.table(3))
    assert len({loss, pickle.loads(pickle.dumps(loss))}) == 1


def test_convexity_is_seen_through_rounding() -> None:
    step = [[0.1 * abs(k - y) for y in range(6)] for k in range(6)]
    assert CostTable(step).is_convex(6)
    step[2][0] += 0.01
    assert not CostTable(step).is_convex(6)


@pytest.mark.parametrize(
    ("costs", "error", "message"),
    [
        ([[0, 1]], ValueError, "square"),
        ([0, 1], ValueError, "square"),
        ([[0]], ValueError, "at least 2 rows"),
        ([[0, 1], [1]], ValueError, "different lengths"),
        ([[0, -1], [1, 0]], ValueError, "got -1.0"),
        ([[0, np.nan], [1, 0]], ValueError, "got nan"),
        ([[0, np.inf], [1, 0]], ValueError, "got inf"),
        ([[0, 1e101], [1, 0]], ValueError, "from 0 to 1e+100, got 1e+101"),
        ([["a", "b"], ["c", "d"]], TypeError, "numbers"),
    ],
)
def test_bad_costs_are_refused(costs: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=r"`costs`") as caught:
        CostTable(costs)
    assert message in str(caught.value)


@pytest.mark.parametrize("n_labels", [1, 0, -2, 2.0, "3", None, True, 40_000])
def test_bad_n_labels(n_labels: Any) -> None:
    with pytest.raises(ValueError, match="`n_labels` must be an int from 2 to 32767"):
        get_task("absolute").table(n_labels)


class MadeBy(TaskLoss):
    """A subclass of a user."""

    name = "made"

    def __init__(self, make: Any) -> None:
        self.make = make

    def _table(self, n_labels: Any) -> Any:
        return self.make(n_labels)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n: 1.0 - np.eye(2), "must return shape"),
        (lambda n: np.ones(n), "must return shape"),
        (lambda n: np.full((n, n), np.nan), r"must hold costs from 0 to 1e\+100, got nan"),
        (lambda n: np.eye(n) - 1.0, r"must hold costs from 0 to 1e\+100, got -1.0"),
    ],
)
def test_bad_tables_of_subclasses(make: Any, message: str) -> None:
    loss = MadeBy(make)
    for use in (
        lambda: loss.table(5),
        lambda: optimal_thresholds([0.1, 0.2], [1, 5], 5, loss=loss),
        lambda: StreamingThresholds(5, loss),
        lambda: CuSumRank(labels=range(5), loss=loss, margin=1.0),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def test_the_greatest_costs_and_weights_have_a_finite_risk() -> None:
    for loss in (CostTable(1e100 * (1.0 - np.eye(3))), AsymmetricError(under=1e95, over=1e95)):
        learner = StreamingThresholds(3, loss)
        for i in range(30):
            learner.learn_one(i % 7, 1 + i % 3, 1e60)
        assert 0.0 < learner.risk < np.inf
        assert StreamingThresholds.from_bytes(learner.to_bytes()).risk == learner.risk


@pytest.mark.parametrize("under", [-1, np.nan, np.inf, 1e96])
def test_bad_costs_of_asymmetric_errors_are_refused(under: Any) -> None:
    with pytest.raises(ValueError, match=r"`under` must lie in \[0, 1e\+95\]"):
        AsymmetricError(under=under)
    with pytest.raises(ValueError, match="must not both be 0"):
        AsymmetricError(under=0, over=0)


def test_unknown_task_loss() -> None:
    with pytest.raises(ValueError, match=r"`loss` must be one of .absolute., .* got .mae."):
        get_task("mae")
    with pytest.raises(TypeError, match="`loss` must be a name or a TaskLoss"):
        get_task(losses.Squared())
    assert not isinstance(losses.Squared(), TaskLoss)
