"""The server itself over the admin API: its version, protocols, store and settings, without secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec

from penstock.broker.limits import Limits
from penstock.doors.http.admin.calls import Call, NoQuery, route
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.records import Count, Counts
from penstock.services.process import process

CLOSED = "closed"
SettingValue: TypeAlias = bool | int | float | str | list[str] | None


class DoorRecord(msgspec.Struct):
    name: str
    address: str | None
    state: str
    guarded: bool
    counts: Counts
    note: str = ""


class Durability(msgspec.Struct):
    """Whether accepted messages survive a power cut (`fsync`) or only last as long as the process (`memory`)."""

    kind: str = msgspec.field(name="class")
    sentence: str


class JournalRecord(msgspec.Struct):
    bytes: Count
    wal_bytes: Count
    free_bytes: Count | None
    full: Annotated[bool, msgspec.Meta(description="The disk is full: publishes are refused until there is room.")]


class RecoveryRecord(msgspec.Struct):
    topics: Count
    messages: Count
    milliseconds: Count


class ServerRecord(msgspec.Struct):
    version: str
    started_at: datetime | None
    now: datetime
    ready: bool
    may_change: bool
    doors: list[DoorRecord]
    durability: Durability
    data: str | None
    default_project: str
    limits: Limits
    recovered: RecoveryRecord
    memory_bytes: Count
    journal: JournalRecord


class SettingRecord(msgspec.Struct):
    name: str
    value: SettingValue
    default: SettingValue
    changed: bool
    help: str


class SettingsRecord(msgspec.Struct):
    settings: list[SettingRecord]


_DURABLE = "Accepted messages are on disk and survive a power cut."
_IN_MEMORY = "Messages are in memory only and are lost when the process ends."


async def show_server(call: Call[NoQuery, None]) -> ServerRecord:
    context, about = call.context, call.context.about
    store = await call.queue.store()
    return ServerRecord(
        version=context.version,
        started_at=instant(about.started_at),
        now=made_at(call.queue.clock.now()),
        ready=context.condition.ready,
        may_change=call.may_change,
        doors=_doors(call),
        durability=Durability("fsync", _DURABLE) if store.durable else Durability("memory", _IN_MEMORY),
        data=about.data if call.may_change else None,
        default_project=context.default_project,
        limits=call.queue.limits,
        recovered=RecoveryRecord(*context.condition.recovered),
        memory_bytes=process().memory_bytes,
        journal=JournalRecord(store.bytes, store.wal_bytes, store.free_bytes, store.full),
    )


def _doors(call: Call[Any, Any]) -> list[DoorRecord]:
    condition = call.context.condition
    doors = [
        DoorRecord(door.name, door.address, condition.doors.get(door.name, ""), door.guarded, dict(door.counts))
        for door in condition.opened
    ]
    return doors + [DoorRecord(name, None, CLOSED, True, {}, note) for name, note in condition.closed.items()]


async def show_settings(call: Call[NoQuery, None]) -> SettingsRecord:
    """Return all settings. Paths on the server's machine are only shown to callers that may change it."""
    shown = []
    for setting in call.context.about.settings:
        hidden = setting.is_path and not call.may_change
        shown.append(
            SettingRecord(
                setting.name, None if hidden else setting.value, setting.default, setting.changed, setting.help
            )
        )
    return SettingsRecord(shown)


ROUTES = (
    route("GET", "/server", show_server, "Get the version, protocols, limits and store of the server."),
    route("GET", "/settings", show_settings, "List the settings in force. Secrets are hidden."),
)
