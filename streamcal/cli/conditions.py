"""Conditions of ``streamcal check`` on metrics that are expected before all labels are there."""

import math
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from streamcal.metrics.expected import AnyExpected
    from streamcal.report.expected_sections import Latest

_FORM = re.compile(r"\s*([^<>=]*[^<>=\s])\s*([<>]=)\s*([^<>=\s]+)\s*")


class Condition(NamedTuple):
    """A bound of a metric; ``level`` is that of the interval which decides.

    Examples
    --------
    >>> Condition.parse("f1 >= .7", alpha=0.05)
    Condition(text='f1 >= .7', metric='f1', sign='>=', bound=0.7, level=0.9)
    """

    text: str
    metric: "AnyExpected"
    sign: Literal[">=", "<="]
    bound: float
    level: float

    @classmethod
    def parse(cls, text: str, alpha: float, *, several: bool = False) -> "Condition":
        """Return the condition that an option has, or raise ``ValueError``.

        ``alpha`` is the chance that the metric lies beyond the end of the interval which decides.
        With ``several`` labels only accuracy is a metric.
        """
        from streamcal.metrics.expected import as_goal

        found = _FORM.fullmatch(text)
        bound = math.nan
        if found is not None:
            try:
                bound = float(found[3])
            except ValueError:
                found = None
        if found is None or not math.isfinite(bound):
            raise ValueError(
                "--expected must be a metric and a bound in quotes, as in 'f1>=0.7' or"
                f" 'brier<=0.2', got {text!r}"
            )
        metric, sign = found[1], found[2]
        try:
            as_goal(metric)
        except ValueError as error:
            words = str(error).replace("`metric`", "the metric of --expected")
            raise ValueError(words) from None
        if several and metric != "accuracy":
            raise ValueError(
                f"--expected must be about accuracy where --prob has several columns, got {text!r}"
            )
        if alpha >= 0.5:
            raise ValueError(f"--alpha must be below 0.5 with --expected, got {alpha}")
        return cls(text, cast("AnyExpected", metric), cast(Any, sign), bound, 1.0 - 2.0 * alpha)

    def judge(self, latest: "Latest") -> "Judged":
        """Return what is expected of rows, and whether the whole interval is beyond the bound."""
        expected = latest.expected(self.metric, self.level)
        is_low = self.sign == ">="
        is_alarm = expected.high < self.bound if is_low else expected.low > self.bound
        value, low, high = (f"{number:.4f}" for number in expected)
        words = (
            f"{self.metric} of {latest.in_words} is expected to be {value}"
            f" ({100.0 * self.level:g} %: {low} to {high})"
        )
        if is_alarm:
            words += f", {'below' if is_low else 'above'} {self.bound:g}"
        labels = f"{latest.n_known:,} of them {'has' if latest.n_known == 1 else 'have'} a label"
        numbers = {"rows": len(latest.y), "labelled": latest.n_known, "alarm": is_alarm}
        return Judged(f"{words}; {labels}", is_alarm, {**expected._asdict(), **numbers})


class Judged(NamedTuple):
    """A condition in words, whether it raises an alarm, and its numbers by name."""

    in_words: str
    is_alarm: bool
    numbers: dict[str, float]
