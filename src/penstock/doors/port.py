"""The interface through which doors plug into the server, and the record of their state.

A door is started once and stopped once. When `start` returns, the door answers at `address`. When `stop` returns, it
has released everything, however its clients behaved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.doors.consumers import Consumer
from penstock.doors.resources import Names
from penstock.engine.port import SubscriptionMetadata

STARTING, OPEN, STOPPING = "starting", "open", "stopping"


class Door(Protocol):
    @property
    def name(self) -> str:
        """The key of this door in the ready file, one word: http, text ..."""

    @property
    def address(self) -> str:
        """The host:port that the door listens on, once started."""

    @property
    def hints(self) -> Sequence[str]:
        """Lines for the banner once started, such as variables to export."""

    @property
    def guarded(self) -> bool:
        """True if callers need credentials, or if only this machine is answered."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The counters of the door since the start, by name: refused requests, refused connections."""

    def name_of(self, topic: str) -> str | None:
        """Return the name of a topic for clients of this door, once started. None: they cannot reach it."""

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        """Return the connected consumers of a subscription."""

    async def start(self) -> None:
        """Open the door. Raise OSError (a port in use) or a PenstockError."""

    async def stop(self, grace_seconds: float) -> None:
        """Accept nothing new, finish open requests within the grace period, and close."""


class Recovery(NamedTuple):
    """The result of a recovery at the start, and its duration."""

    topics: int = 0
    messages: int = 0  # backlog of all subscriptions
    milliseconds: int = 0


class Condition:
    """The state of the server: created by the assembly, written by the server, read by the doors."""

    def __init__(self) -> None:
        self.doors: dict[str, str] = {}  # state by name: starting, open, stopping
        self.counts: dict[str, Mapping[str, int]] = {}  # counters by name of the door
        self.names = Names()  # the names of a topic for the clients of every door
        self.opened: Sequence[Door] = ()  # every door of this server
        self.closed: dict[str, str] = {}  # package to install, by name of a door that could not be opened
        self.recovered = Recovery()
        self.stopping = False
        self.failed = False  # True: the journal could not make a write durable, and nothing more is accepted

    @property
    def ready(self) -> bool:
        everyone_open = all(state == OPEN for state in self.doors.values())
        return bool(self.doors) and everyone_open and not self.stopping and not self.failed


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
