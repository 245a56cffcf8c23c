"""The sections of a report about a store of states: the states, and what their learners learned."""

import math
from itertools import islice
from typing import Any

from streamcal._state import decode, restore
from streamcal.calibration.base import is_calibrator
from streamcal.durable.expiry import EXPIRY
from streamcal.durable.keys import PREFIX, key_of
from streamcal.durable.store import Store
from streamcal.durable.timeline import TIMELINE
from streamcal.report.content import Cells, Section, Table
from streamcal.report.learner_sections import of_learners
from streamcal.wrappers import CalibratedClassifier

MAX_STATES = 12
"""If there are more states, the largest are shown."""

_MAX_NAME_LENGTH = 100


def of_store(store: Store, max_states: int = MAX_STATES) -> list[Section]:
    """Return the sections of a store, for each kind of states.

    Parameters
    ----------
    store : Store
        The store.
    max_states : int
        Only this many states are shown, the largest ones in bytes.

    Raises
    ------
    StoreError
        If it is damaged.
    """
    sizes = store.sizes()
    sizes.pop(TIMELINE, None)  # it has sections of its own
    sizes.pop(EXPIRY, None)
    # In the order of their names, so that rows keep their places on a page that is updated.
    largest = sorted(sorted(sizes, key=lambda key: (-sizes[key], key))[:max_states])
    states: dict[str, Any] = {}
    names: set[str] = set()
    rows: list[Cells] = []
    for key in largest:
        name, data = _unique_name(_key_text(key), names), store.get_bytes(key)
        names.add(name)
        kind = decode(data).kind
        state = _restore_state(data)
        if state is not None:
            states |= _learners_in(name, state)
        rows.append((name, kind, _n_samples(state), sizes[key]))
    header = ("Key", "Kind", "Samples", "Bytes")
    which = (
        f"the {max_states} largest of {len(sizes):,}"
        if len(sizes) > max_states
        else f"{len(sizes):,}"
    )
    text = f"{store.offset:,} samples of the stream are learned. States: {which}."
    if len(states) > max_states:
        text += (
            f" They hold {len(states):,} learners, of which the first {max_states} are shown below."
        )
        states = dict(islice(states.items(), max_states))
    sizes_table = Table("sizes", "States", header, tuple(rows), sortable=True)
    return [Section("states", "States", text, (), (sizes_table,)), *of_learners(states)]


def facts_of_store(store: Store) -> tuple[tuple[str, str], ...]:
    """Return class and parameters of the first calibrator in a store, if there is one."""
    key = store.first_key(PREFIX)
    state = None if key is None else _restore_state(store.get_bytes(key))
    if state is None or not is_calibrator(state):
        return ()
    listed = ", ".join(f"{name}={value!r}" for name, value in state._parameters().items())
    return (("Calibrator", f"{type(state).__name__}({listed})"),)


def _learners_in(name: str, state: Any) -> dict[str, Any]:
    """Return the learners in a state: the calibrators of a wrapper, or the learner itself."""
    if not isinstance(state, CalibratedClassifier):
        return {name: state}
    parts = state.calibrators
    return {name if len(parts) == 1 else f"{name}: {label}": part for label, part in parts.items()}


def _key_text(key: str) -> str:
    """Return the key of a state as text for users."""
    if not key.startswith(PREFIX):
        return key
    try:
        plain = key_of(key)
    except ValueError:
        return key
    return "all" if plain is None else str(plain)


def _unique_name(name: str, taken: set[str]) -> str:
    """Return a short name, with a number if it is taken: the keys 1 and "1" have the same text."""
    if len(name) > _MAX_NAME_LENGTH:
        name = f"{name[: _MAX_NAME_LENGTH - 1]}…"
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} #{number}"
    return free


def _restore_state(data: bytes) -> Any:
    """Return the learner in a state, with a placeholder for its model; None if that fails."""
    from river import dummy, stats

    placeholders: tuple[dict[str, Any], ...] = (
        {},
        {"classifier": dummy.NoChangeClassifier()},
        {"regressor": dummy.StatisticRegressor(stats.Mean())},
    )
    for given in placeholders:
        try:
            return restore(data, **given)
        except (TypeError, ValueError):
            continue
    return None


def _n_samples(state: Any) -> int | float:
    """Return how many samples a learner has, or holds until their labels come; NaN if unknown."""
    for name in ("n_samples", "n_waiting"):
        found = getattr(state, name, None)
        if found is not None:
            return int(found)
    return math.nan
