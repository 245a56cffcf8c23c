"""Numbers of a report in the text format of Prometheus, which `watch` serves under ``/metrics``."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4"


class Metric(NamedTuple):
    """A metric: its name without the prefix, ``"counter"`` or ``"gauge"``, and its samples.

    ``samples`` are values, each with labels by name.
    """

    name: str
    kind: str
    help: str
    samples: tuple[tuple[dict[str, str], float], ...]


def gauge(name: str, help: str, value: float) -> Metric:
    """Return a metric that may fall, without labels."""
    return Metric(name, "gauge", help, (({}, value),))


def counter(name: str, help: str, value: float) -> Metric:
    """Return a metric that only grows, without labels."""
    return Metric(f"{name}_total", "counter", help, (({}, value),))


def loss_metrics(
    n: float, sums: Mapping[str, float], loss: str | None = None, *, weighted: bool = False
) -> list[Metric]:
    """Return the number of labels and the sums of log losses by column, if they are known.

    Or of deviances of a ``loss``. If ``weighted``, a label counts 1 / propensity times in all.
    """
    each = ", each 1 / propensity times" if weighted else ""
    known = tuple(({"column": name}, total) for name, total in sums.items() if total == total)
    if loss is not None:
        text = f"Sum of the deviances of a column over all labels{each}."
        summed = tuple(({**labels, "loss": loss}, total) for labels, total in known)
        return [
            counter("labels", f"Labels in the deviance{each}.", n),
            Metric("deviance_sum_total", "counter", text, summed),
        ]
    text = f"Sum of the log losses of a column over all labels{each}."
    return [
        counter("labels", f"Labels in the log loss{each}.", n),
        Metric("log_loss_sum_total", "counter", text, known),
    ]


def exposition(metrics: Iterable[Metric]) -> str:
    r"""Return metrics as text.

    Examples
    --------
    >>> print(exposition([Metric("a", "gauge", "An a.", (({"b": 'x"y'}, 0.5),))]), end="")
    # HELP streamcal_a An a.
    # TYPE streamcal_a gauge
    streamcal_a{b="x\"y"} 0.5
    """
    lines = []
    for metric in metrics:
        name = f"streamcal_{metric.name}"
        lines.append(f"# HELP {name} {metric.help}")
        lines.append(f"# TYPE {name} {metric.kind}")
        for labels, value in metric.samples:
            listed = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
            lines.append(f"{name}{f'{{{listed}}}' if listed else ''} {float(value)!r}")
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
