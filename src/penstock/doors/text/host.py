"""What a connection of the text door needs of its door."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.doors.text.limits import Limits
from penstock.doors.text.queues import Queues
from penstock.doors.text.windows import Place
from penstock.wire.budget import Budget
from penstock.wire.textframes import Maxima

if TYPE_CHECKING:
    from penstock.doors.text.connection import Connection


class Host(Protocol):
    limits: Limits
    budget: Budget
    maxima: Maxima
    queues: Queues
    now: float  # of the last sweep; deadlines need no better clock
    stopping: bool

    def opened(self, connection: Connection) -> bool:
        """Count a connection in; False if it is one too many."""

    def closed(self, connection: Connection) -> None: ...

    def committed(self) -> asyncio.Future[None]: ...

    def acknowledge(self, subscription: int, places: Sequence[Place]) -> object: ...

    def complain(self, connection: Connection, code: str, sentence: str) -> None: ...

    def bug(self, error: BaseException) -> None: ...
