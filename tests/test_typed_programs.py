"""The programs that type checkers check also run."""

import inspect
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from streamcal import losses
from streamcal.decision.goals import METRIC_NAMES, MetricName
from streamcal.losses import names as loss_names
from tests import typed_programs

PROGRAMS = [
    each
    for name, each in vars(typed_programs).items()
    if inspect.isfunction(each) and each.__module__ == typed_programs.__name__ and name != "rows"
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_runs(program: Any, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    if program is typed_programs.draw:
        program(picture)
        assert picture.stat().st_size > 1000
    else:
        assert np.isfinite(program()).all()


def test_programs_switch_no_rule_off() -> None:
    text = Path(typed_programs.__file__).read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert "Any" not in text
    assert "ignore" not in text
    assert "pyright:" not in text
    assert "mypy:" not in text


def names(of: Any) -> list[str]:
    """Return the strings of a literal type, or of several."""
    parts = get_args(of)
    return [name for part in parts for name in ([part] if isinstance(part, str) else names(part))]


def test_names_for_type_checkers_are_those_that_are_known() -> None:
    assert names(losses.LossName) == list(loss_names._BY_NAME)
    assert names(losses.MeanLossName) == [
        name for name, loss in loss_names._BY_NAME.items() if isinstance(loss, losses.MeanLoss)
    ]
    assert names(losses.TaskLossName) == list(loss_names._TASK_BY_NAME)
    assert names(MetricName) == list(METRIC_NAMES)
