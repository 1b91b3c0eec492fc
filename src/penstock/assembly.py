"""The composition root: the only file that names concrete parts and puts them together.

Every other module is handed what it needs. Doors are imported when one is opened: a program that only wants a queue
pays for none of them.
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
    from penstock.faults.faults import Faults
    from penstock.seeding.seeding import Seeding
    from penstock.seeding.source import Source
    from penstock.seeding.topology import Vendors
    from penstock.settings import Settings
    from penstock.wire.budget import Budget

log = logging.getLogger("penstock")

SERVER_LIMITS = Limits(queue_max_messages=0, queue_max_bytes=0, refuse_when_full=True)


def open_queue(data: str | Path | None = None, *, limits: Limits | None = None, **parts: Any) -> MessageQueue:
    """A MessageQueue that keeps its messages in the folder `data`, or in memory without one.

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
    """For another process of a server that has the folder open: its messages, to read only."""
    from penstock.journal.sqlite.scanning import LogScanner

    return LogScanner(Path(data))


def back_up(data: str | Path, folder: str | Path, progress: Callable[[BackupProgress], None]) -> BackupReport:
    """Of a store that no server has open; one that has is asked: `AsyncMessageQueue.backup`."""
    from penstock.journal.sqlite import backup

    return backup.back_up(Path(data), Path(folder), now=time.time_ns(), progress=progress)


def restore(
    folder: str | Path, data: str | Path, progress: Callable[[BackupProgress], None], *, keep_identity: bool = False
) -> BackupReport:
    """Make a store of a backup, in a folder that is new or empty."""
    from penstock.journal.sqlite import backup

    return backup.restore(Path(folder), Path(data), keep_identity=keep_identity, progress=progress)


def examine_store(data: str | Path, deep: bool, progress: Callable[[int, int], None]) -> Iterator[Finding]:
    """What there is to say of a store, in use or not, or of a backup; `progress` is told bytes done and in all."""
    from penstock.journal.backup.checking import examine_backup
    from penstock.journal.backup.manifest import is_backup
    from penstock.journal.sqlite import examining

    if is_backup(Path(data)):
        return iter([examine_backup(Path(data), progress)])
    return examining.examine(Path(data), deep=deep, now=time.time_ns(), progress=progress)


def store_holder(data: str | Path) -> int | None:
    """The process that has a store open; 0 if it cannot be told which."""
    from penstock.journal.sqlite import examining

    return examining.holder_of(Path(data))


# ---------------------------------------------------------------------- the server


class Parts(NamedTuple):
    queue: AsyncMessageQueue
    doors: Sequence[Door]
    condition: Condition
    undo: Callable[[], None]  # for a start that failed: a store that it made is removed when the queue is closed
    faults: Faults | None = None  # of a server for tests


async def open_parts(settings: Settings, sizes: Sizes | None = None, seed: Source | None = None) -> Parts:
    """The queue of a server, recovered, seeded and running, and its doors, not yet open."""
    from penstock.doors.google.deadletters import source_attributes
    from penstock.doors.port import Condition
    from penstock.doors.resources import Names, project_of
    from penstock.faults.faults import Faults
    from penstock.wire.budget import Budget

    begun = time.perf_counter()
    journal = open_journal(None) if settings.memory else open_journal(settings.data, accept_loss=settings.accept_loss)
    queue = AsyncMessageQueue(
        journal,
        limits=server_limits(settings),
        describe_source=source_attributes,
        sizes=sizes,
        namespace_of=project_of,
    )
    await queue.start()
    condition = Condition()
    condition.recovered = _recovery(queue, time.perf_counter() - begun)
    undo = partial(_undo, queue, queue.engine.commits.submitted)
    try:
        faults = Faults(queue.clock.now) if settings.testing else None
        opening = Opening(settings, queue, condition, Budget(settings.buffer_bytes_max), faults)
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
    """Before the doors open, so that nobody finds half of it."""
    from penstock.seeding.topology import SeedError

    try:
        plan = await opening.seeding().apply(seed.document)
    except SeedError as error:
        raise seed.explained(error) from None
    for each in plan.conflicts:
        log.warning("seed %s: %s %s was left as it is: %s", seed.label, each.kind, each.name, each.reason)
    made = sum(each.what == "created" for each in plan.findings)
    log.info("seed %s: %d made, %s published", seed.label, made, counted(plan.messages, "message"))


def _recovery(queue: AsyncMessageQueue, seconds: float) -> Recovery:
    from penstock.doors.port import Recovery

    found = queue.engine.statistics()
    waiting = sum(each.backlog_messages for each in found.subscriptions)
    return Recovery(len(found.topics), waiting, round(seconds * 1000))


def _undo(queue: AsyncMessageQueue, decisions: int) -> None:
    """Let closing remove a store that this start made, if nothing was decided since."""
    journal = queue.engine.journal
    if isinstance(journal, Removable) and queue.engine.commits.submitted == decisions:
        journal.remove_if_new()


@runtime_checkable
class Removable(Protocol):
    def remove_if_new(self) -> None: ...


class Opening(NamedTuple):
    """What there is to open a door with."""

    settings: Settings
    queue: AsyncMessageQueue
    condition: Condition
    budget: Budget
    faults: Faults | None = None

    def queue_at(self, door: str, codes: Collection[str] = ()) -> Queue:
        """The queue as a door gets it. `codes`: what its protocol can refuse a call with."""
        queue = self.queue.at(door)
        if self.faults is None:
            return queue
        from penstock.faults.queue import FaultyQueue

        self.faults.codes[door] = codes
        return cast("Queue", FaultyQueue(queue, self.faults))

    def seeding(self) -> Seeding:
        from penstock.seeding.seeding import Seeding

        return Seeding(self.queue, self.settings.default_project, self._vendors)

    def _vendors(self) -> Vendors:
        """What the doors keep of their own, whether they are open or not."""
        from penstock.doors.azure.seeds import Seeds as AzureSeeds
        from penstock.seeding.topology import Vendors

        try:
            from penstock.doors.google.endpoints import Endpoints
            from penstock.doors.google.seeds import Seeds as GoogleSeeds
        except ModuleNotFoundError:
            return Vendors({"pubsub": None, "azure": AzureSeeds()})
        endpoints = Endpoints(self.settings.pubsub.push_allow, self.settings.ports())
        google = GoogleSeeds(endpoints, self.queue.clock.now)
        return Vendors({"pubsub": google, "azure": AzureSeeds()}, google)

    def place(self, door: str) -> dict[str, Any]:
        return {"host": self.settings.host, "port": self.settings.port_of(door) or 0}

    def common(self, door: str, package: str = "") -> dict[str, Any]:
        """What every door takes."""
        from penstock.wire.requestlog import RequestLog

        options = getattr(self.settings, door)
        log = logging.getLogger(f"penstock.doors.{package or door}")
        place = self.place(door)
        requests = RequestLog(door) if self.settings.log_requests else None
        return {**place, "options": options, "log": log, "budget": self.budget, "requests": requests}


def _open_doors(opening: Opening) -> list[Door]:
    """All that have a port; one whose packages are missing stays closed, unless its port was asked for."""
    settings, doors = opening.settings, []
    for name, open_door in DOORS.items():
        if settings.port_of(name) is None:
            continue
        try:
            doors.append(open_door(opening))
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("penstock"):
                raise
            needed = f"needs {error.name}: pip install 'penstock[{EXTRAS.get(name, name)}]'"
            if f"{name}_port" in settings.given:
                raise UnavailableError(f"the {name} door {needed}, or close it with --{name}-port off") from error
            log.warning("the %s door stays closed: it %s", name, needed)
            opening.condition.closed[name] = needed
    return doors


def server_limits(settings: Settings) -> Limits:
    return replace(
        SERVER_LIMITS,
        retention_seconds=settings.retention_seconds,
        retention_bytes=settings.retention_bytes,
        seek_all=settings.pubsub.seek_all,
        queue_max_messages=settings.queue_messages_max,
        queue_max_bytes=settings.queue_bytes_max,
    )


def _open_http(opening: Opening) -> Door:
    from penstock.doors.google import deadletters
    from penstock.doors.http.admin.calls import About, Context, ShownSetting
    from penstock.doors.http.admin.live import Live
    from penstock.doors.http.server import HttpDoor
    from penstock.engine.stories import Stories
    from penstock.engine.traffic import Traffic
    from penstock.settings import installed_version, shown_settings

    settings, condition, version = opening.settings, opening.condition, installed_version()
    queue = opening.queue.at("http")
    live = Live(queue, Traffic(queue.engine), deadletters)
    queue.engine.stories = Stories(queue.engine)
    data = None if settings.memory else str(Path(settings.data).absolute())
    about = About(queue.clock.now(), data, [ShownSetting(*each) for each in shown_settings(settings)])
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
            live.samples,
            live,
            _push_test(settings),
            settings.backup_folder,
            opening.seeding(),
            _decoder(queue),
            faults=opening.faults,
        ),
        **opening.common("http"),
    )


def _push_test(settings: Settings) -> Callable[[SubscriptionMetadata], bool]:
    """Which subscriptions have an endpoint of their own; without the door that sends to it, none has."""
    if settings.pubsub.port is not None:
        with suppress(ImportError):  # the door says what is missing
            from penstock.doors.google.subscriptions import is_pushed

            return is_pushed
    return lambda _: False


def _decoder(queue: AsyncMessageQueue) -> Decoder:
    """Of bodies by their schemas, whether the door of Pub/Sub is open or not."""
    try:
        from penstock.doors.google.decoding import SchemaDecoder
    except ModuleNotFoundError as error:
        from penstock.doors.decoding import NoDecoder

        sentence = f"Decoding needs {error.name}: pip install 'penstock[google]'"
        return NoDecoder(sentence, "googclient_schemaname")
    return SchemaDecoder(queue)


def _open_azure(opening: Opening) -> Door:
    from penstock.doors.azure.accounts import place_accounts, read_accounts
    from penstock.doors.azure.errors import CODES
    from penstock.doors.azure.server import AzureDoor

    settings = opening.settings
    accounts = place_accounts(read_accounts(settings.azure.accounts), settings.default_project, settings.azure.projects)
    accounts.any_name = settings.azure.any_account
    return AzureDoor(queue=opening.queue_at("azure", CODES), accounts=accounts, **opening.common("azure"))


def _open_other_service(name: str, opening: Opening) -> Door:
    from penstock.doors.azure.other_services import OtherServiceDoor

    return OtherServiceDoor(name, queue=opening.queue, **opening.common("azure") | opening.place(name))


def _open_google(opening: Opening) -> Door:
    from penstock.doors.google.errors import Code
    from penstock.doors.google.server import GoogleDoor

    settings = opening.settings
    common = opening.common("pubsub", "google")
    common["options"] = replace(settings.pubsub, reset=settings.memory or settings.pubsub.reset)
    queue = opening.queue_at("pubsub", [each.name for each in Code if each is not Code.OK])
    return GoogleDoor(queue=queue, condition=opening.condition, own_ports=settings.ports(), **common)


def _open_text(opening: Opening) -> Door:
    from penstock.doors.text.errors import ALL
    from penstock.doors.text.server import TextDoor

    queue = opening.queue_at("text", ALL)
    return TextDoor(queue=queue, project=opening.settings.default_project, **opening.common("text"))


def _open_flight(opening: Opening) -> Door:
    if not _is_installed("pyarrow"):  # looked for, not imported: only the reader process pays for it
        raise ModuleNotFoundError(name="pyarrow")
    from penstock.doors.flight.server import FlightDoor

    settings = opening.settings
    data = None if settings.memory else settings.data
    return FlightDoor(
        queue=opening.queue_at("flight"), project=settings.default_project, data=data, **opening.common("flight")
    )


def _open_ready(opening: Opening) -> Door:
    from penstock.doors.ready import ReadyDoor

    return ReadyDoor(log=logging.getLogger("penstock.doors.ready"), **opening.place("ready"))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it was made unavailable on purpose
        return False


EXTRAS = {"pubsub": "google"}  # where an extra is not named as its door
# By the name of its port setting; the first opens first and closes last.
DOORS: dict[str, Callable[[Opening], Door]] = {
    "http": _open_http,
    "pubsub": _open_google,
    "azure": _open_azure,
    "text": _open_text,
    "flight": _open_flight,
    "azure_blob": partial(_open_other_service, "azure_blob"),
    "azure_table": partial(_open_other_service, "azure_table"),
    "ready": _open_ready,  # last, for it says that the others answer
}
