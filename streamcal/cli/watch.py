"""``streamcal watch``: the page of ``streamcal report``, served while a stream runs."""

import contextlib
from typing import Annotated

import typer

from streamcal.cli.console import data_errors, failure, say, usage_errors
from streamcal.cli.files import check_can_be_read_again
from streamcal.cli.options import (
    FILES,
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
    SinceOption,
    SourceArgument,
)
from streamcal.cli.report_sources import Given, open_subject, promises_in

EXAMPLES = (
    "streamcal watch run.db --port 8080",
    "streamcal watch calibrated.csv --score p --label y",
    "STREAMCAL_TOKEN=... streamcal watch run.db --host 0.0.0.0",
)


def watch(
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
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="The port; 0 chooses a free one.", rich_help_panel=FILES
        ),
    ] = 8765,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen; 0.0.0.0: on all networks of this machine. Needs --token.",
            rich_help_panel=FILES,
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="STREAMCAL_TOKEN",
            help="What requests must have: /?token=TEXT in a browser, or a bearer header.",
            show_default=False,
            rich_help_panel=FILES,
        ),
    ] = None,
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
) -> None:
    """Serve the page of `streamcal report` on this machine while a stream runs; Ctrl-C ends it.

    The page changes when the store or the table does; both are only read. No other machine can see
    the page, except with --host and a --token. Prometheus finds the numbers under /metrics.
    """
    from streamcal.tables.output import is_standard

    with usage_errors():
        if is_standard(source):
            raise ValueError("standard input can't be watched: it can be read only once")
        from streamcal.report.watch import Server, Source, check_access

        check_access(host, token)
        columns = score, label, prob, key, tuple(segment or ())
        promises = promises_in(at_least or ())
        options = file_format, on_error, loss, promises, propensity
        given = Given(*columns, time, since, *options)
        check_can_be_read_again(source)
        subject = open_subject(source, given)
        subject.watched = True
    with data_errors(source):
        pages = Source(subject.report, subject.stamp)
        pages.report()
        subject.quiet = True  # its skipped rows are printed, and there will be more reports
        try:
            server = Server(pages, port, host, token)
        except OSError as error:
            raise failure(f"--port {port} of {host} can't be used: {error.strerror}", 2) from None
        with server:
            known = "" if token is None else " to those who open it with ?token="
            say(f"{server.url} shows {source}{known}; Ctrl-C ends")
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever(poll_interval=0.2)
