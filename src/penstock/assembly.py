"""The composition root: the only module that creates concrete parts and connects them.

Every other module receives its parts. A door is imported when it is opened, so that a program that only needs a queue
imports no doors.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

from penstock.broker.limits import Limits
from penstock.broker.log import Sizes
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.blocking_queue import MessageQueue
from penstock.errors import UnavailableError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import BackupProgress, BackupReport, Finding, Journal, LogReader
from penstock.wording import counted

if TYPE_CHECKING:
    from penstock.doors.decoding import Decoder
    from penstock.doors.port import Condition, Door, Recovery
    from penstock.engine.port import Queue, SubscriptionMetadata
    from penstock.seeding.seeding import Seeding
    from penstock.seeding.source import Source
    from penstock.seeding.topology import Vendors
    from penstock.services.faults.faults import Faults
    from penstock.services.moves.registry import Moves
    from penstock.settings import Settings
    from penstock.wire.budget import Budget

log = logging.getLogger("penstock")

SERVER_LIMITS = Limits(queue_messages_max=0, queue_bytes_max=0, refuse_when_full=True)


def open_queue(data: str | Path | None = None, *, limits: Limits | None = None, **parts: Any) -> MessageQueue:
    """Return a MessageQueue that stores messages in the folder `data`, or in memory without one.

    >>> with open_queue("./my-data") as queue:
    ...     queue.register_topic("orders")
    """
    return MessageQueue(open_journal(data), limits=limits, **parts)


def open_journal(data: str | Path | None, **options: Any) -> Journal:
    if data is None:
        return MemoryJournal()
    from penstock.journal.sqlite import SqliteJournal

    return SqliteJournal(Path(data), log=log.warning, **options)


def open_log_reader(data: str | Path) -> LogReader:
    """Return a reader of messages for another process, while a server has the folder open."""
    from penstock.journal.sqlite.scanning import LogScanner

    return LogScanner(Path(data))


def back_up(data: str | Path, folder: str | Path, progress: Callable[[BackupProgress], None]) -> BackupReport:
    """Back up a store that no server has open. A running server backs up with `AsyncMessageQueue.backup`."""
    from penstock.journal.sqlite import backup

    return backup.back_up(Path(data), Path(folder), now=time.time_ns(), progress=progress)


def restore(
    folder: str | Path, data: str | Path, progress: Callable[[BackupProgress], None], *, keep_identity: bool = False
) -> BackupReport:
    """Create a store from a backup, in a folder that is new or empty."""
    from penstock.journal.sqlite import backup

    return backup.restore(Path(folder), Path(data), keep_identity=keep_identity, progress=progress)


def examine_store(data: str | Path, deep: bool, progress: Callable[[int, int], None]) -> Iterator[Finding]:
    """Check a store, open or not, or a backup. `progress` is called with the bytes read and the total."""
    from penstock.journal.backup.checking import examine_backup
    from penstock.journal.backup.manifest import is_backup
    from penstock.journal.sqlite import examining

    if is_backup(Path(data)):
        return iter([examine_backup(Path(data), progress)])
    return examining.examine(Path(data), deep=deep, now=time.time_ns(), progress=progress)


def store_holder(data: str | Path) -> int | None:
    """Return the pid of the process that has a store open, 0 if the pid is unknown, None if no process has."""
    from penstock.journal.sqlite import examining

    return examining.holder_of(Path(data))


# ---------------------------------------------------------------------- the server


class Parts(NamedTuple):
    queue: AsyncMessageQueue
    doors: Sequence[Door]
    condition: Condition
    undo: Callable[[], None]  # after a failed start: closing the queue then removes a store that the start created
    faults: Faults | None = None  # only on a server for tests


async def open_parts(settings: Settings, sizes: Sizes | None = None, seed: Source | None = None) -> Parts:
    """Return the queue of a server, recovered, seeded and running, and its doors, which are not open yet."""
    from penstock.doors.google import dead_letters
    from penstock.doors.port import Condition
    from penstock.doors.resources import Names, project_of
    from penstock.services.faults.faults import Faults
    from penstock.services.moves.registry import Moves
    from penstock.wire.budget import Budget

    begun = time.perf_counter()
    journal = open_journal(None) if settings.memory else open_journal(settings.data, accept_loss=settings.accept_loss)
    queue = AsyncMessageQueue(
        journal,
        limits=server_limits(settings),
        describe_source=dead_letters.source_attributes,
        sizes=sizes,
        namespace_of=project_of,
    )
    await queue.start()
    condition = Condition()
    condition.recovered = _recovery(queue, time.perf_counter() - begun)
    undo = partial(_undo, queue, queue.engine.commits.submitted)
    try:
        faults = Faults(queue.clock.now) if settings.testing else None
        moves = Moves(queue.at("http"), dead_letters)
        opening = Opening(settings, queue, condition, Budget(settings.buffer_bytes_max), moves, faults)
        doors = _open_doors(opening)
        if seed is not None:
            await _apply_seed(opening, seed)
            undo = partial(_undo, queue, queue.engine.commits.submitted)
    except BaseException:
        undo()
        await queue.close()
        raise
    condition.opened = doors
    condition.counts = {door.name: door.counts for door in doors}
    condition.names = Names(doors, settings.default_project)
    return Parts(queue, doors, condition, undo, faults)


async def _apply_seed(opening: Opening, seed: Source) -> None:
    """Apply the seed before the doors open, so that clients never see a part of it."""
    from penstock.seeding.topology import SeedError

    try:
        plan = await opening.seeding().apply(seed.document)
    except SeedError as error:
        raise seed.locate_error(error) from None
    for finding in plan.conflicts:
        log.warning("seed %s: %s %s was left unchanged: %s", seed.label, finding.kind, finding.name, finding.reason)
    created = sum(finding.what == "created" for finding in plan.findings)
    log.info("seed %s: %d created, %s published", seed.label, created, counted(plan.messages, "message"))


def _recovery(queue: AsyncMessageQueue, seconds: float) -> Recovery:
    from penstock.doors.port import Recovery

    statistics = queue.engine.statistics()
    backlog = sum(subscription.backlog_messages for subscription in statistics.subscriptions)
    return Recovery(len(statistics.topics), backlog, round(seconds * 1000))


def _undo(queue: AsyncMessageQueue, decisions: int) -> None:
    """Remove a store that this start created when the queue is closed, unless something was decided since."""
    journal = queue.engine.journal
    if isinstance(journal, Removable) and queue.engine.commits.submitted == decisions:
        journal.remove_if_new()


@runtime_checkable
class Removable(Protocol):
    def remove_if_new(self) -> None: ...


class Opening(NamedTuple):
    """The parts that doors are made from."""

    settings: Settings
    queue: AsyncMessageQueue
    condition: Condition
    budget: Budget
    moves: Moves
    faults: Faults | None = None

    def queue_at(self, door: str, codes: Collection[str] = ()) -> Queue:
        """Return the queue for a door. `codes` are the error codes of its protocol."""
        queue = self.queue.at(door)
        if self.faults is None:
            return queue
        from penstock.services.faults.queue import FaultyQueue

        self.faults.codes[door] = codes
        return cast("Queue", FaultyQueue(queue, self.faults))

    def seeding(self) -> Seeding:
        from penstock.seeding.seeding import Seeding

        return Seeding(self.queue, self.settings.default_project, self._vendors)

    def _vendors(self) -> Vendors:
        """Return the readers of vendors' options in seeds, whether their doors are open or not."""
        from penstock.doors.azure.seeds import Seeds as AzureSeeds
        from penstock.seeding.topology import Vendors

        try:
            from penstock.doors.google.endpoints import Endpoints
            from penstock.doors.google.seeds import Seeds as GoogleSeeds
        except ModuleNotFoundError:
            return Vendors({"pubsub": None, "azure": AzureSeeds()})
        google = GoogleSeeds(Endpoints(self.settings.pubsub.push_allow, self.settings.ports()), self.queue.clock.now)
        return Vendors({"pubsub": google, "azure": AzureSeeds()}, google)

    def place(self, door: str) -> dict[str, Any]:
        return {"host": self.settings.host, "port": self.settings.port_of(door) or 0}

    def common(self, door: str, package: str = "") -> dict[str, Any]:
        """Return the arguments that every door takes."""
        from penstock.wire.request_log import RequestLog

        options = getattr(self.settings, door)
        log = logging.getLogger(f"penstock.doors.{package or door}")
        place = self.place(door)
        requests = RequestLog(door) if self.settings.log_requests else None
        return {**place, "options": options, "log": log, "budget": self.budget, "requests": requests}


def _open_doors(opening: Opening) -> list[Door]:
    """Return the doors that have a port. If packages are missing, a door stays closed, unless its port was set."""
    settings, doors = opening.settings, []
    for name, open_door in DOORS.items():
        if settings.port_of(name) is None:
            continue
        try:
            doors.append(open_door(opening))
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("penstock"):
                raise
            needed = f"needs {error.name}: pip install 'penstock-broker[{EXTRAS.get(name, name)}]'"
            if f"{name}_port" in settings.given:
                raise UnavailableError(f"the {name} port {needed}, or close it with --{name}-port off") from error
            log.warning("the %s port stays closed: it %s", name, needed)
            opening.condition.closed[name] = needed
    return doors


def server_limits(settings: Settings) -> Limits:
    return replace(
        SERVER_LIMITS,
        retention_seconds=settings.retention_seconds,
        retention_bytes=settings.retention_bytes,
        seek_all=settings.pubsub.seek_all,
        queue_messages_max=settings.queue_messages_max,
        queue_bytes_max=settings.queue_bytes_max,
    )


def _open_http(opening: Opening) -> Door:
    from penstock.distribution import installed_version
    from penstock.doors.http.admin.calls import About, Context, ShownSetting
    from penstock.doors.http.admin.events import Events
    from penstock.doors.http.server import HttpDoor
    from penstock.services.services import Services
    from penstock.settings import shown_settings

    settings, condition, version = opening.settings, opening.condition, installed_version()
    queue = opening.queue.at("http")
    services = Services(queue, opening.moves)
    data = None if settings.memory else str(Path(settings.data).absolute())
    about = About(queue.clock.now(), data, [ShownSetting(*setting) for setting in shown_settings(settings)])
    return HttpDoor(
        statistics=queue.engine,
        condition=condition,
        version=version,
        admin=Context(
            opening.queue_at("http"),
            queue.engine,
            condition,
            version,
            settings.default_project,
            about,
            services,
            Events(queue, services.samples),
            _push_test(settings),
            settings.backup_folder,
            opening.seeding(),
            _decoder(queue),
            faults=opening.faults,
            count_decisions=lambda: queue.engine.commits.submitted,
        ),
        **opening.common("http"),
    )


def _push_test(settings: Settings) -> Callable[[SubscriptionMetadata], bool]:
    """Return a function that tells whether a subscription has a push endpoint."""
    if settings.pubsub.port is not None:
        with suppress(ImportError):  # the door reports the missing package
            from penstock.doors.google.subscriptions import is_pushed

            return is_pushed
    return lambda _: False


def _decoder(queue: AsyncMessageQueue) -> Decoder:
    """Return the decoder of bodies with schemas, whether the Pub/Sub door is open or not."""
    try:
        from penstock.doors.google.schemas.decoding import SchemaDecoder
    except ModuleNotFoundError as error:
        from penstock.doors.decoding import NoDecoder

        sentence = f"Decoding needs {error.name}: pip install 'penstock-broker[google]'"
        return NoDecoder(sentence, "googclient_schemaname")
    return SchemaDecoder(queue)


def _open_azure(opening: Opening) -> Door:
    from penstock.doors.azure.accounts import place_accounts, read_accounts
    from penstock.doors.azure.errors import CODES
    from penstock.doors.azure.server import AzureDoor

    settings = opening.settings
    accounts = place_accounts(read_accounts(settings.azure.accounts), settings.default_project, settings.azure.projects)
    accounts.any_name = settings.azure.any_account
    queue = opening.queue_at("azure", CODES)
    return AzureDoor(queue=queue, accounts=accounts, moves=opening.moves, **opening.common("azure"))


def _open_other_service(name: str, opening: Opening) -> Door:
    from penstock.emulators.azurite_ports import OtherServiceDoor

    return OtherServiceDoor(name, queue=opening.queue, **opening.common("azure") | opening.place(name))


def _open_google(opening: Opening) -> Door:
    from penstock.doors.google.errors import Code
    from penstock.doors.google.server import GoogleDoor

    settings = opening.settings
    common = opening.common("pubsub", "google")
    common["options"] = replace(settings.pubsub, reset=settings.memory or settings.pubsub.reset)
    queue = opening.queue_at("pubsub", [code.name for code in Code if code is not Code.OK])
    return GoogleDoor(queue=queue, condition=opening.condition, own_ports=settings.ports(), **common)


def _open_text(opening: Opening) -> Door:
    from penstock.doors.text.errors import ALL
    from penstock.doors.text.server import TextDoor

    queue = opening.queue_at("text", ALL)
    return TextDoor(queue=queue, project=opening.settings.default_project, **opening.common("text"))


def _open_flight(opening: Opening) -> Door:
    if not _is_installed("pyarrow"):  # not imported here, because only the reader process needs it
        raise ModuleNotFoundError(name="pyarrow")
    from penstock.doors.flight.server import FlightDoor

    settings = opening.settings
    data = None if settings.memory else settings.data
    queue, project = opening.queue_at("flight"), settings.default_project
    return FlightDoor(queue=queue, project=project, data=data, **opening.common("flight"))


def _open_ready(opening: Opening) -> Door:
    from penstock.doors.ready import ReadyDoor

    return ReadyDoor(log=logging.getLogger("penstock.doors.ready"), **opening.place("ready"))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module that was disabled in sys.modules
        return False


EXTRAS = {"pubsub": "google"}  # doors whose extra has another name
# Doors by the name of their port setting. The first opens first and closes last.
DOORS: dict[str, Callable[[Opening], Door]] = {
    "http": _open_http,
    "pubsub": _open_google,
    "azure": _open_azure,
    "text": _open_text,
    "flight": _open_flight,
    "azure_blob": partial(_open_other_service, "azure_blob"),
    "azure_table": partial(_open_other_service, "azure_table"),
    "ready": _open_ready,  # last, because it shows that the others are open
}
