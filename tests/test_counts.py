"""What `tests.counts` counts, and that it does not grow."""

from tests import counts


def test_lines_are_those_of_code(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""A module\nof two lines."""\n\n# words\nimport os  # more\n\n'
        'def f(\n    x,\n):\n    """Words."""\n    return """\n    a"""\n'
    )
    assert counts.lines_of_code(path) == 6
    kernel = tmp_path / "kernel.pyx"
    kernel.write_text(
        "from libc.math cimport exp\n\ncdef double f(double* x) noexcept nogil:\n"
        "    # words\n    return exp((<double*> x)[0]) if x is not NULL else 1.0\n"
    )
    assert counts.lines_of_code(kernel) == 3


def test_questions_of_kind_are_found():
    text = (
        "from streamcal import A as B, HedgedCalibrator as H, Staircase, Ticket\n"
        "Any = Ticket | None\n"
        "isinstance(x, H)\n"
        "isinstance(x, Staircase)\n"
        "isinstance(x, (int, Any))\n"
        "issubclass(kind, module.ModelSnapshot)\n"
        "print(x, H)\n"
    )
    assert counts.questions_of_kind(text) == [3, 5, 6]


def test_questions_of_kind_do_not_grow_in_number():
    """A calibrator says by attributes what it is; where fewer are left, lower the number."""
    questions = counts.all_questions()
    assert sum(map(len, questions.values())) <= 1, questions


def test_a_public_name_is_listed_by_its_package_and_perhaps_at_the_top():
    names = counts.public_names()
    assert len(names) > 100
    assert {"CORP", "KeyedCalibrator", "cusum_layer"} <= names.keys()
    found = counts.places(names)
    assert found["CORP"] == 1
    assert found["IsotonicCalibrator"] == 2
    assert {name: count for name, count in found.items() if count > 2} == {}


def test_public_names_do_not_grow_in_number():
    """Ask who would type a new one; where fewer are left, lower the number."""
    # The last ones are `read_export`, with which a map in JSON is read; what people type whose
    # labels are few or late: `ExpectedMetric`, `expected_metric`, `AuditSampler`, `AuditedMean`,
    # `AuditedMetric`, `AuditedCalibrator`, `PriorShiftCalibrator`; and for answers where one is
    # sure: `SelectiveClassifier`, `Selection`, `Promise`, `ReviewBudget`,
    # `PredictionSetClassifier`, `AccuracyCoverageDisplay` and the numbers of its curve; and
    # `PrecomputedClassifier`, for whom the model is elsewhere.
    assert len(counts.public_names()) <= 153
