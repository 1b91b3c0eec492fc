"""`penstock pipeline run` and `penstock pipeline check`.

Errors are sentences on standard error. Exit code 0 means that every flow succeeded, 1 that a flow failed, 2 that
nothing was started, 130 that Ctrl-C stopped the run.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.commands.help import group
from penstock.commands.parameters import argument, with_all
from penstock.spark.flows import READY_MADE
from penstock.terminal import safe_text, tell
from penstock.wording import counted

if TYPE_CHECKING:
    from penstock.spark.records import Pipeline
    from penstock.spark.runner import Outcome

app = group(help="Run data pipelines on Spark.")

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
WIDE = 200

*FIRST, LAST = READY_MADE
file_argument = argument(
    "file", metavar="FILE|FLOW", help=f"Pipeline file, or a ready-made flow: {', '.join(FIRST)} or {LAST}."
)
setting_option = click.option(
    "settings", "--set", metavar="KEY=VALUE", multiple=True, help="Set an option of a ready-made flow. Can be repeated."
)
endpoint_option = click.option(
    "--endpoint",
    metavar="HOST:PORT",
    envvar="PENSTOCK_FLIGHT_ADDRESS",
    help="Flight address of the server. Overrides the file.",
)
state_option = click.option("--state", metavar="DIR", help="Folder of checkpoints and logs. Overrides the file.")
only_option = click.option("--only", metavar="FLOW", multiple=True, help="Run only this flow. Can be repeated.")
pipeline_options = with_all(file_argument, setting_option, only_option, endpoint_option, state_option)


@app.command()
@pipeline_options
@click.option("--master", metavar="URL", help="Spark master. Default local[*].")
@click.option("--remote", metavar="URL", help="Spark Connect server, as sc://HOST:PORT.")
@click.option("--verbose", is_flag=True, help="Also print the log of Spark.")
def run(*, master: str | None, remote: str | None, verbose: bool, **chosen: Any) -> None:
    """Run the flows of a file, or one ready-made flow, until they end or Ctrl-C.

    A run continues where the last run stopped. Ctrl-C (exit code 130) and SIGTERM (exit code 0) stop it in order.
    """
    from penstock.spark.session import SparkAddress

    with _errors_as_sentences():
        if master and remote:
            raise click.BadParameter("give --master or --remote, not both")
        pipeline = _read(**chosen)
        raise click.exceptions.Exit(_run(pipeline, SparkAddress(master, remote), verbose=verbose))


@app.command()
@pipeline_options
@click.option("--offline", is_flag=True, help="Do not ask the server whether the topics exist.")
@click.option("--deep", is_flag=True, help="Start Spark and check the SQL and the functions.")
def check(*, offline: bool, deep: bool, **chosen: Any) -> None:
    """Check a pipeline without running it, and print all errors."""
    from penstock.spark.checking import check_pipeline

    with _errors_as_sentences():
        pipeline = _read(**chosen)
        sentences, remarks = check_pipeline(pipeline, offline=offline, deep=deep)
    for remark in remarks:
        tell(remark, keep="\n")
    for sentence in sentences:
        tell(f"penstock: {sentence}", file=sys.stderr, keep="\n")
    if sentences:
        raise click.exceptions.Exit(EXIT_FAILED)
    names = ", ".join(flow.name for flow in pipeline.flows)
    tell(f"{pipeline.name}: {counted(len(pipeline.flows), 'flow')}, no errors: {names}", keep="\n")


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """End the command with a sentence on errors of the user and missing packages."""
    from penstock.errors import PenstockError

    try:
        yield
    except PenstockError as error:
        tell(f"penstock: {error.message}", file=sys.stderr, keep="\n")
        raise click.exceptions.Exit(EXIT_USAGE) from None


def _read(
    file: str, *, settings: tuple[str, ...], only: tuple[str, ...], endpoint: str | None, state: str | None
) -> Pipeline:
    """Return the pipeline with the options applied. Print all errors of a file at once."""
    from penstock.spark.pipeline_file import choose, read_pipeline, ready_made

    named = {"endpoint": endpoint, "state": str(Path(state).absolute()) if state else None}
    changes = {key: value for key, value in named.items() if value is not None}
    if file in READY_MADE and not Path(file).exists():
        pipeline, problems = ready_made(file, list(settings), changes)
    else:
        if settings:
            raise click.BadParameter("--set is for ready-made flows only. Change the file instead")
        pipeline, problems = read_pipeline(file, changes)
    if pipeline is None:
        for problem in problems:
            tell(f"penstock: {problem}", file=sys.stderr, keep="\n")
        raise click.exceptions.Exit(EXIT_USAGE)
    return choose(pipeline, list(only))


def _run(pipeline: Pipeline, place: Any, *, verbose: bool) -> int:
    from rich.console import Console

    from penstock.spark.display import Bars, Lines
    from penstock.spark.runner import run_flows
    from penstock.spark.session import open_session

    console = Console(stderr=True)
    logs = Path(pipeline.state if "://" not in pipeline.state else "penstock-pipeline") / "log"
    with _stop_on_signals() as stop:
        console.print(safe_text(f"{pipeline.name}: starting Spark at {place}"), highlight=False, markup=False)
        session = open_session(pipeline.name, pipeline.spark, place, log=None if verbose else logs / "spark.log")
        stop.listen()  # Spark has replaced our signal handlers
        try:
            talking = verbose or any(flow.where == "console" for flow in pipeline.flows)
            display = (Bars if console.is_terminal and not talking else Lines)(
                console, [flow.name for flow in pipeline.flows]
            )
            try:
                outcome = run_flows(session, pipeline, show=display.show, stop=stop.asked, logs=logs)
            finally:
                display.close()
            _print_outcome(session, pipeline, outcome)
        finally:
            session.stop()
    return EXIT_INTERRUPTED if stop.interrupted else EXIT_FAILED if outcome.failed else 0


def _print_outcome(session: Any, pipeline: Pipeline, outcome: Outcome) -> None:
    """Print tables on standard output, and failures on standard error."""
    from rich.console import Console

    from penstock.spark.display import summary_table, table_of
    from penstock.spark.runner import summaries

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)  # lines in a file are not folded
    if not outcome.stopped:
        for summary in summaries(session, pipeline, outcome.progress):
            console.print(summary_table(summary))
            console.print()
    console.print(table_of(outcome.progress, {flow.name: flow.where for flow in pipeline.flows}))
    for name, ended in outcome.progress.items():
        if ended.failure is not None:
            log = outcome.logs[name]
            tell(f"penstock: flow {name}: {ended.failure.sentence} (log: {log})", file=sys.stderr, keep="\n")
    if outcome.stopped:
        tell("Stopped. The next run continues from here.", file=sys.stderr, keep="\n")


class Stop:
    """The request to stop, set by a signal."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.interrupted = False

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt  # the second Ctrl-C stops at once
        self.interrupted = self.interrupted or number == signal.SIGINT
        self.asked.set()


@contextmanager
def _stop_on_signals() -> Iterator[Stop]:
    """Turn signals into a request to stop, so that the flows end in order."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop.listen()
    try:
        yield stop
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
