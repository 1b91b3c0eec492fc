"""The interface through which doors plug into the server, and the record of their state.

A door is started once and stopped once. When `start` returns it answers at `address`; when `stop` returns it has
released everything, however its clients behaved.
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
        """One word, the key of this door in the ready file: http, text ..."""

    @property
    def address(self) -> str:
        """host:port, known once started."""

    @property
    def hints(self) -> Sequence[str]:
        """Lines for the banner once started, such as what to export; may be empty."""

    @property
    def guarded(self) -> bool:
        """Whether callers need credentials, or only this machine is answered."""

    @property
    def counts(self) -> Mapping[str, int]:
        """All that the door counts since the start, a word for each kind: requests refused, connections turned away."""

    def name_of(self, topic: str) -> str | None:
        """How clients of this door call a topic, once started; None: they cannot reach it."""

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        """Who of its clients is there for the messages of a subscription."""

    async def start(self) -> None:
        """Open. OSError (a port in use) or a PenstockError says why not."""

    async def stop(self, grace_seconds: float) -> None:
        """Accept nothing new, finish what was begun within the grace, close."""


class Recovery(NamedTuple):
    """What a start found in the store, and how long it took to have it in memory."""

    topics: int = 0
    messages: int = 0  # waiting, of all subscriptions together
    milliseconds: int = 0


class Condition:
    """How the server is: made by the assembly, written by the server, read by the doors."""

    def __init__(self) -> None:
        self.doors: dict[str, str] = {}  # name -> starting, open, stopping
        self.counts: dict[str, Mapping[str, int]] = {}  # name -> what that door counts
        self.names = Names()  # of a topic, at every door
        self.opened: Sequence[Door] = ()  # every door of this server
        self.closed: dict[str, str] = {}  # name -> what to install, of doors that could not be opened
        self.recovered = Recovery()
        self.stopping = False
        self.failed = False  # the journal could not make a write durable; nothing more is accepted

    @property
    def ready(self) -> bool:
        everyone_open = all(state == OPEN for state in self.doors.values())
        return bool(self.doors) and everyone_open and not self.stopping and not self.failed


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
