"""`penstock pipeline run` and `penstock pipeline check`.

Everything wrong is a sentence on standard error; exit code 0 means every flow did its work, 1 that one failed, 2 that
nothing was started, 130 that Ctrl-C ended it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.commands.help import Commands
from penstock.spark.flows import READY_MADE
from penstock.wording import counted

if TYPE_CHECKING:
    from penstock.spark.records import Pipeline
    from penstock.spark.runner import Outcome

app = Commands("Run data pipelines on Spark.")

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
WIDE = 200

*FIRST, LAST = READY_MADE
File = Annotated[str, typer.Argument(metavar="FILE|FLOW", help=f"A pipeline file, or {', '.join(FIRST)} or {LAST}.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Of a ready-made flow; repeat for more.")
]
Endpoint = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The broker, instead of the file's.", envvar="PENSTOCK_FLIGHT_ADDRESS"),
]
State = Annotated[str | None, typer.Option(metavar="DIR", help="Checkpoints and logs, instead of the file's.")]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="FLOW", help="This flow alone; repeat for more.")]


@app.command()
def run(
    file: File,
    *,
    settings: Setting = None,
    only: Only = None,
    endpoint: Endpoint = None,
    state: State = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="A Spark cluster. Default local[*].")] = None,
    remote: Annotated[str | None, typer.Option(metavar="URL", help="A Spark Connect server, sc://HOST:PORT.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Let Spark talk, too.")] = False,
) -> None:
    """Run the flows of a file, or one ready-made flow, until they are done or Ctrl-C.

    A run goes on where the last one ended. Ctrl-C stops in order (exit code 130), so does SIGTERM (0).
    """
    from penstock.spark.session import SparkAddress

    with _sentences():
        if master and remote:
            raise typer.BadParameter("give --master or --remote, not both")
        pipeline = _read(file, settings or [], endpoint, state, only or [])
        raise typer.Exit(_run(pipeline, SparkAddress(master, remote), verbose=verbose))


@app.command()
def check(
    file: File,
    *,
    settings: Setting = None,
    only: Only = None,
    endpoint: Endpoint = None,
    state: State = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the broker for the topics.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Start Spark and analyse the SQL and the functions.")] = False,
) -> None:
    """Say everything that is wrong with a pipeline, without running it."""
    from penstock.spark.checking import check_pipeline

    with _sentences():
        pipeline = _read(file, settings or [], endpoint, state, only or [])
        sentences, remarks = check_pipeline(pipeline, offline=offline, deep=deep)
    for remark in remarks:
        typer.echo(remark)
    for sentence in sentences:
        typer.echo(f"penstock: {sentence}", err=True)
    if sentences:
        raise typer.Exit(EXIT_FAILED)
    names = ", ".join(flow.name for flow in pipeline.flows)
    typer.echo(f"{pipeline.name}: {counted(len(pipeline.flows), 'flow')}, nothing wrong: {names}")


@contextmanager
def _sentences() -> Iterator[None]:
    """What a user can get wrong, or what is missing, ends the command with a sentence."""
    from penstock.errors import PenstockError

    try:
        yield
    except PenstockError as error:
        typer.echo(f"penstock: {error.message}", err=True)
        raise typer.Exit(EXIT_USAGE) from None


def _read(file: str, settings: list[str], endpoint: str | None, state: str | None, only: list[str]) -> Pipeline:
    """The pipeline, with what the flags change. All problems of a file are printed at once."""
    from penstock.spark.reading import choose, read_pipeline, ready_made

    named = {"endpoint": endpoint, "state": str(Path(state).absolute()) if state else None}
    changes = {key: value for key, value in named.items() if value is not None}
    if file in READY_MADE and not Path(file).exists():
        pipeline, problems = ready_made(file, settings, changes)
    else:
        if settings:
            raise typer.BadParameter("--set is for ready-made flows; a file says it itself")
        pipeline, problems = read_pipeline(file, changes)
    if pipeline is None:
        for problem in problems:
            typer.echo(f"penstock: {problem}", err=True)
        raise typer.Exit(EXIT_USAGE)
    return choose(pipeline, only)


def _run(pipeline: Pipeline, place: Any, *, verbose: bool) -> int:
    from rich.console import Console

    from penstock.spark.display import Bars, Lines
    from penstock.spark.runner import run_flows
    from penstock.spark.session import open_session

    console = Console(stderr=True)
    logs = Path(pipeline.state if "://" not in pipeline.state else "penstock-pipeline") / "log"
    with _stopping() as stop:
        console.print(f"{pipeline.name}: starting Spark at {place}", highlight=False)
        session = open_session(pipeline.name, pipeline.spark, place, log=None if verbose else logs / "spark.log")
        stop.listen()  # Spark has put a handler of its own in the place of ours
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
    """Tables on standard output, sentences about failures on standard error."""
    from rich.console import Console

    from penstock.spark.display import summary_table, table_of
    from penstock.spark.runner import summaries

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)  # lines of a file are not folded
    if not outcome.stopped:
        for summary in summaries(session, pipeline, outcome.progress):
            console.print(summary_table(summary))
            console.print()
    console.print(table_of(outcome.progress, {flow.name: flow.where for flow in pipeline.flows}))
    for name, ended in outcome.progress.items():
        if ended.failure is not None:
            log = outcome.logs[name]
            typer.echo(f"penstock: flow {name}: {ended.failure.sentence} (all of it: {log})", err=True)
    if outcome.stopped:
        typer.echo("stopped; the next run goes on from here", err=True)


class Stop:
    """Whether a signal asked to stop, and which."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.interrupted = False

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt  # asked twice: stop at once
        self.interrupted = self.interrupted or number == signal.SIGINT
        self.asked.set()


@contextmanager
def _stopping() -> Iterator[Stop]:
    """Signals ask for a stop; the flows end in order."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stop.listen()
    try:
        yield stop
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
