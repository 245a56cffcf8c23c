"""A map as a model of ONNX.

Knots are found by bisection: log2 n times, a score is compared with one knot. All is computed in
double precision, also where scores and answers have 32 bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._extras import missing
from streamcal.export.as_json import own_version
from streamcal.export.maps import Knots, Logistic, Map
from streamcal.kernels.exclusive import no_fork

Vector = NDArray[np.float64]

OPSET, IR_VERSION = 17, 8
_OF_ANSWERS = 2.0**-24  # by which rounding to 32 bits changes an answer, relative to it, at most


def write(of: Map, dtype: str) -> bytes:
    """Return the bytes of the model of a map.

    Raises
    ------
    ImportError
        If the package onnx is missing.
    """
    try:
        with no_fork:
            import onnx
    except ImportError:
        raise missing("a model of ONNX", "onnx", "onnx") from None
    graph = _Graph(onnx)
    kind = onnx.TensorProto.DOUBLE if dtype == "float64" else onnx.TensorProto.FLOAT
    given = "score"
    if dtype == "float32":
        given = graph.add("Cast", "score", to=onnx.TensorProto.DOUBLE)
    found = _knots(graph, of, given) if isinstance(of, Knots) else _formula(graph, of, given)
    # 0 for finite scores; NaN for NaN and infinite ones.
    found = graph.add("Add", found, graph.add("Sub", given, given))
    if dtype == "float32":
        graph.add("Cast", found, to=kind, name="calibrated")
    else:
        graph.add("Identity", found, name="calibrated")
    helper = onnx.helper
    made = helper.make_graph(
        graph.nodes,
        "calibrated",
        [helper.make_tensor_value_info("score", kind, ["n"])],
        [helper.make_tensor_value_info("calibrated", kind, ["n"])],
        graph.constants,
    )
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="streamcal",
        producer_version=own_version(),
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


class _Graph:
    """Nodes and constants of a graph, with names that are numbers."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, name: str | None = None, **more: Any) -> str:
        """Add a node; return the name of its result."""
        name = name or f"{operator}_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, [*inputs], [name], **more))
        return name

    def constant(self, values: Any) -> str:
        """Add an array; return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name


def _knots(graph: _Graph, of: Knots, given: str) -> str:
    n = len(of)
    steps = [2**k for k in reversed(range(max(n - 1, 1).bit_length()))]
    room = sum(steps) + 1
    padded = np.concatenate([of.scores, np.full(room - n, np.inf)])
    scores = graph.constant(padded)
    ends = [graph.constant(end) for end in of.scores[[0, -1]]]
    inside = graph.add("Clip", given, *ends)
    place = graph.constant(np.int64(0))
    for step in steps:
        further = graph.add("Add", place, graph.constant(np.int64(step)))
        reached = graph.add("LessOrEqual", graph.add("Gather", scores, further), inside)
        place = graph.add("Where", reached, further, place)
    gaps, rises = np.append(np.diff(of.scores), 1.0), np.append(np.diff(of.values), 0.0)
    tables = of.values, of.scores, gaps, rises
    value, start, gap, rise = (
        graph.add("Gather", graph.constant(table), place) for table in tables
    )
    share = graph.add("Div", graph.add("Sub", inside, start), gap)
    return graph.add("Add", value, graph.add("Mul", share, rise))


def _formula(graph: _Graph, of: Logistic, given: str) -> str:
    p = graph.add("Clip", given, *(graph.constant(np.float64(end)) for end in (of.low, of.high)))
    c, one = (graph.constant(np.float64(number)) for number in (-of.c, 1.0))
    rest = graph.add("Sub", one, p)
    # Factors are negative: onnxruntime leaves out one that is 1 as a float of 32 bits.
    if of.kind == "platt":
        a = graph.constant(np.float64(-abs(of.a)))
        odds = graph.add("Div", p, rest) if of.a >= 0.0 else graph.add("Div", rest, p)
        terms = graph.add("Mul", a, graph.add("Log", odds))
    else:
        a, b = (graph.constant(np.float64(-number)) for number in (of.a, of.b))
        high = graph.add("Mul", b, graph.add("Log", rest))
        terms = graph.add("Sub", graph.add("Mul", a, graph.add("Log", p)), high)
    small = graph.add("Exp", graph.add("Add", terms, c))
    return graph.add("Div", one, graph.add("Add", one, small))


def check_rounding(table: Knots, bound: float, table_error: float, *, own: float) -> None:
    """Raise unless rounding scores and answers to 32 bits keeps a map within a bound.

    Parameters
    ----------
    table : Knots
        A table of the map.
    bound : float
        What was asked for.
    table_error : float
        How far the table is from the map whose rounding is asked for.
    own : float
        The error that the map has anyway.
    """
    change = rounding_error(table) + 2.0 * table_error
    largest = float(np.max(np.abs(table.values)))
    total = change + own + largest * _OF_ANSWERS
    if total > bound:
        raise ValueError(
            f"`dtype` float32 rounds scores, which changes answers of this map by up to"
            f" {total:.2g}, got `error` {bound:g}: use float64, or allow this error"
        )


def rounding_error(table: Knots) -> float:
    """Return a bound of how much a map changes where scores are rounded to 32 bits.

    Where a segment of the map is wider than what is rounded to one float, that is its slope times
    half of the distance of floats; around each knot all is looked up.

    Examples
    --------
    Two scores that are 1e-9 apart, with answers .02 and .98:

    >>> jump = Knots(np.array([0.5, 0.5 + 1e-9]), np.array([0.02, 0.98]))
    >>> round(rounding_error(jump), 2)
    0.96
    """
    x, y = table.scores, table.values
    if len(x) == 1:
        return 0.0
    with np.errstate(over="ignore"):
        rounded = x.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(
            f"`dtype` must be float64 for scores beyond 3.4e38, got float32 and {np.abs(x).max():g}"
        )
    # The floats around each knot, what is rounded to them, and the knots that are rounded to them.
    up, down = np.float32(np.inf), np.float32(-np.inf)
    around = rounded, np.nextafter(rounded, up), np.nextafter(rounded, down)
    cells = np.unique(np.concatenate(around))
    cells = cells[np.isfinite(cells)]
    center = cells.astype(np.float64)
    with np.errstate(over="ignore"):
        above, below = (np.nextafter(cells, to).astype(np.float64) for to in (up, down))
    at_center = table.at(center)
    found = [0.0]
    for end in (above, below):
        middle = np.where(np.isfinite(end), 0.5 * center + 0.5 * end, center)
        found.append(float(np.max(np.abs(table.at(middle) - at_center))))
    own = at_center[np.searchsorted(cells, rounded)]
    found.append(float(np.max(np.abs(y - own))))
    # Between knots, where no knot is rounded to the same float. The distance of floats is that at
    # the greater end.
    far = np.maximum(np.abs(x[:-1]), np.abs(x[1:])).astype(np.float32)
    half = 0.5 * np.spacing(far).astype(np.float64)
    gaps = np.diff(x)
    wide = gaps > 2.0 * half
    with np.errstate(over="ignore"):  # an infinite slope is above any bound
        slopes = np.abs(np.diff(y))[wide] / gaps[wide]
    found.append(float(np.max(slopes * half[wide], initial=0.0)))
    return max(found)
