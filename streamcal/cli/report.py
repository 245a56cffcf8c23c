"""``streamcal report``: a page about a calibrated table, or about a store and its run."""

from itertools import product
from pathlib import Path
from textwrap import fill
from typing import Annotated

from streamcal.cli.console import data_errors, failure, say, usage_errors
from streamcal.cli.files import check_target, files_of_output, is_same_file
from streamcal.cli.options import (
    FormatOption,
    KnownKeyOption,
    KnownLabelOption,
    KnownProbOption,
    KnownPropensityOption,
    KnownScoreOption,
    KnownSegmentOption,
    KnownTimeOption,
    MeansLossOption,
    OnError,
    OnErrorOption,
    PromiseOption,
    QuietOption,
    SinceOption,
    SourceArgument,
    out_option,
)
from streamcal.cli.report_sources import Given, open_subject, promises_in

_WIDTH = 100  # of the verdict in the terminal, in characters

EXAMPLES = (
    "streamcal report calibrated.csv --score p --label y --out report.html",
    "streamcal report calibrated.csv --score p --label y --segment country --segment device",
    "streamcal report animals.csv --prob cat,dog,bird --label animal",
    "streamcal report claims.csv --score model --prob calibrated --label n --loss poisson",
    "streamcal report decided.csv --score p --label y --at-least accuracy=0.95",
    "streamcal report audited.csv --score p --label y --propensity pi",
    "streamcal report run.db --out report.html",
)


def report(
    source: SourceArgument,
    score: KnownScoreOption = None,
    label: KnownLabelOption = None,
    prob: KnownProbOption = None,
    key: KnownKeyOption = None,
    segment: KnownSegmentOption = None,
    propensity: KnownPropensityOption = None,
    time: KnownTimeOption = None,
    since: SinceOption = None,
    loss: MeansLossOption = None,
    at_least: PromiseOption = None,
    out: Annotated[Path, out_option("HTML", "The page.")] = Path("report.html"),
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    quiet: QuietOption = False,
) -> None:
    """Write a page about a calibrated table or a store: one HTML file, which loads nothing else.

    It begins with a verdict in words, and shows reliability before and after, scores and their
    parts, and miscalibration over time; for a store also its learners, and its output table as far
    as it is written. The verdict is printed, too.
    """
    from streamcal.tables.output import Output, write_file

    with usage_errors():
        check_target(out)
        output = Output(out)
        columns = score, label, prob, key, tuple(segment or ())
        promises = promises_in(at_least or ())
        options = file_format, on_error, loss, promises, propensity
        given = Given(*columns, time, since, *options)
        subject = open_subject(source, given, quiet=quiet)
    with data_errors(source):
        pairs = product(files_of_output(output), subject.files())
        if any(is_same_file(written, read) for written, read in pairs):
            raise failure(f"--out {out} is a file of the report: the page would replace it", 2)
        from streamcal.report import page

        content = subject.report()
        html = page.encoded(page.render(content))
        write_file(out, html)
        if not quiet:
            for sentence in content.verdict:
                say(fill(sentence, _WIDTH))
            say(f"{out}: {len(html) / 1e6:.1f} MB")
