"""Compare the accuracy of this working tree with that of a revision, offline.

    python benchmarks/accuracy.py BASE [--tolerance NATS]

Both sides run the calibrators of the study, of *this* tree's ``study.py``, over the same small
streams: those that ship with river, and generated ones. Only the package differs. Each mean log
loss that is not the same on both sides is printed, as Markdown, the worst change first. Without a
change of the algorithms all are equal to the last digit. The status is 1 if a loss got worse by
more than the tolerance, or if a method that ran before fails now, and 2 if a side could not be
measured.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "asv_bench"))

import compare  # noqa: E402  (in the folder that is named above)

N = 4_000  # samples of a generated stream
DELAYS = (0, 100)
SHIPPED = (("Phishing", "logistic"), ("Phishing", "naive Bayes"), ("Bananas", "logistic"))
TOLERANCE = 1e-3  # nats a sample
Key = tuple[str, int, str]  # stream, delay, method


def runs() -> Iterator[tuple[Key, Callable[[], float]]]:
    """Yield what is measured: a key, and what returns the mean log loss."""
    import study
    from river import datasets, evaluate, metrics, naive_bayes
    from streams import ABRUPT, GENERATED, generated, log_loss, shipped

    from streamcal import CalibratedClassifier

    streams = [
        study.Stream(f"{name}, {model}", *shipped(name, model, None)) for name, model in SHIPPED
    ]
    for kind in GENERATED:
        changes = tuple(range(0, N, N // 4)) if kind in ABRUPT else ()
        streams.append(study.Stream(f"generated, {kind}", *generated(kind, N), changes))
    ours = ("calibrator", "hedge")
    methods = [method for method in study.methods() if method.kind in ours]
    for stream in streams:
        for delay in DELAYS:
            for method in methods:
                yield (
                    (stream.name, delay, method.name),
                    lambda m=method, s=stream, d=delay: log_loss(m.run(s, d)[0], s.y),
                )

    def many_labels() -> float:
        model = CalibratedClassifier(naive_bayes.GaussianNB())
        metric = metrics.CrossEntropy()
        evaluate.progressive_val_score(datasets.ImageSegments(), model, metric)
        return float(metric.get())

    yield ("ImageSegments, naive Bayes", 0, "CalibratedClassifier"), many_labels


def measure(file: Path) -> None:
    """Write the losses of the package that is on the path; None where a method fails."""
    rows: list[tuple[Key, float | None]] = []
    for key, run in runs():
        try:
            rows.append((key, run()))
        except Exception as error:
            print(f"{key} fails: {error!r}", file=sys.stderr)
            rows.append((key, None))
    file.write_text(json.dumps(rows))


def changes(
    base: dict[Key, float | None], tree: dict[Key, float | None]
) -> list[tuple[Key, float | None, float | None]]:
    """Return what is not the same on both sides: what fails first, then the worst change."""

    def order(row: tuple[Key, float | None, float | None]) -> tuple[bool, float]:
        before, now = row[1:]
        return (now is not None, 0.0 if before is None or now is None else before - now)

    rows = [(key, base.get(key), loss) for key, loss in tree.items() if loss != base.get(key)]
    return sorted(rows, key=order)


def is_worse(before: float | None, now: float | None, tolerance: float) -> bool:
    """Return whether a change is a regression, which what is new is not."""
    return before is not None and (now is None or now - before > tolerance)


def table(rows: Sequence[tuple[Key, float | None, float | None]]) -> str:
    """Return the changes as a table in Markdown."""

    def show(loss: float | None) -> str:
        return "–" if loss is None else f"{loss:.6f}"

    lines = ["| stream | delay | method | base | this tree | change |", "|---|---|---|---|---|---|"]
    for (stream, delay, method), before, now in rows:
        change = "–" if before is None or now is None else f"{now - before:+.2e}"
        lines.append(f"| {stream} | {delay} | {method} | {show(before)} | {show(now)} | {change} |")
    return "\n".join(lines)


def both_sides(base: str) -> list[dict[Key, Any]]:
    """Build both packages and return the losses of each."""
    import shutil

    shutil.rmtree(compare.WORK, ignore_errors=True)
    compare.git("worktree", "prune")
    compare.WORK.mkdir(parents=True)
    checkout = compare.WORK / "base"
    compare.git("worktree", "add", "--quiet", "--detach", str(checkout), base)
    try:
        compare.make_environment()
        found = []
        for source in (checkout, ROOT):
            package = compare.build(source)
            file = compare.WORK / f"{source.name}.json"
            command = [
                str(compare.ENVIRONMENT / "bin" / "python"),
                __file__,
                "--measure",
                str(file),
            ]
            environment = os.environ | {"PYTHONPATH": str(package)}
            if subprocess.run(command, env=environment).returncode != 0:
                print(f"{source} could not be measured, see above", file=sys.stderr)
                sys.exit(2)
            found.append({tuple(key): loss for key, loss in json.loads(file.read_text())})
    finally:
        compare.git("worktree", "remove", "--force", str(checkout))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both sides, print what changed and return the status."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", help="the revision to compare with")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="nats a sample")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        measure(options.measure)
        return 0
    if not options.base:
        parser.error("say which revision to compare with")
    base = compare.git("rev-parse", "--verify", "--quiet", f"{options.base}^{{commit}}")
    if not base:
        print(f"no such revision: {options.base}", file=sys.stderr)
        return 2
    before, now = both_sides(base)
    rows = changes(before, now)
    worse = [row for row in rows if is_worse(*row[1:], options.tolerance)]
    if rows:
        print(table(rows) + "\n")
    print(f"{len(now)} losses, {len(rows)} changed")
    print(f"{len(worse)} worse by more than {options.tolerance:g} nats a sample")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
