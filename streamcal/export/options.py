"""The options of `streamcal.Calibrator.export`, and what they lead to."""

import copy
from typing import Any

import numpy.ma  # noqa: F401  `np.unique` would import it later, maybe while another thread forks

from streamcal._validation import as_within, check_bool, check_choice, check_count
from streamcal.export import as_json, as_sql
from streamcal.export.exported import Exported
from streamcal.export.knots import knots_of
from streamcal.export.maps import Knots
from streamcal.kernels.exclusive import no_fork

FORMATS = ("json", "sql", "onnx")
DTYPES = ("float64", "float32")
_MOST_KNOTS = 1_000_000


def export(
    calibrator: Any,
    format: str,
    *,
    error: float,
    max_knots: int,
    formula: bool,
    answer: str | None,
    column: str,
    dtype: str,
) -> str | bytes:
    """Return the map of a calibrator; see `streamcal.Calibrator.export`.

    Examples
    --------
    >>> from streamcal import PlattCalibrator
    >>> calibrator = PlattCalibrator()
    >>> calibrator.learn_one(0.75, 1)
    >>> options = {"error": 1e-6, "max_knots": 100, "answer": None, "dtype": "float64"}
    >>> export(calibrator, "sql", formula=True, column="p", **options).count("exp")
    1
    """
    check_choice(format, "format", FORMATS)
    bound = as_within(error, "error", "[1e-10, 0.1]")
    check_count(max_knots, "max_knots", 1, _MOST_KNOTS)
    check_bool(formula, "formula")
    check_choice(dtype, "dtype", DTYPES)
    quoted = as_sql.quoted(column)
    if dtype != "float64" and format != "onnx":
        raise ValueError(f"`dtype` is for ONNX: {format} has numbers of 64 bits, got {dtype!r}")
    # One moment, also if another thread learns; a prediction would end the open burst of a hedge.
    twin = copy.deepcopy(calibrator._without_burst())
    described = twin._map(answer)
    n_samples = getattr(twin, "n_samples", None)
    about = described.of_probabilities, type(calibrator).__name__, n_samples
    single = dtype == "float32"
    if formula and described.formula is not None:
        exported = Exported(described.formula, described.error, *about)
    else:
        # Half of the error is left for rounding.
        goal = 0.5 * bound if single else bound
        table, table_error = knots_of(described.curve, goal, max_knots)
        exported = Exported(table, table_error + described.error, *about)
    if format == "json":
        return as_json.write(exported)
    if format == "sql":
        return as_sql.write(exported.map, quoted)
    with no_fork:  # as for this module
        from streamcal.export import as_onnx

    if single:
        if isinstance(exported.map, Knots):
            table, table_error = exported.map, 0.0
        else:
            table, table_error = knots_of(described.curve, 0.05 * bound, _MOST_KNOTS)
        as_onnx.check_rounding(table, bound, table_error, own=exported.error)
    return as_onnx.write(exported.map, dtype)
