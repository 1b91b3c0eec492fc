"""Message: what a subscriber receives, and how it answers.

The rule kept here: a message never changes, and it is answered once. The first of ack and nack counts, whatever
comes after it is ignored, and neither ever raises because the message is gone.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING

from penstock.broker.consuming import Delivery
from penstock.broker.model import SECOND
from penstock.errors import InvalidArgumentError
from penstock.faces.options import ACK_DEADLINE_MAX_SECONDS
from penstock.faces.views import instant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.pubsub.inventory import Shelf
    from penstock.pubsub.settlement import Settlement
    from penstock.pubsub.subscription import Subscription


class AckResponse(IntEnum):
    """What became of an ack; the numbers are those of gRPC."""

    SUCCESS = 0  # it counts: the message does not come again (or, nacked, it does)
    INVALID = 3  # the delivery is over: settled before, or its deadline has passed
    PERMISSION_DENIED = 7
    FAILED_PRECONDITION = 9  # the subscription is gone or detached
    OTHER = 13  # the store could not take it; the message may come again


class Message:
    """One delivery of a message.

    >>> def listener(message):
    ...     print(message.id, message.data, message.attributes)
    ...     message.ack()
    """

    __slots__ = ("_answered", "_delivery", "_received", "_settlement", "_shelf")

    def __init__(self, delivery: Delivery, settlement: Settlement, received: int) -> None:
        self._delivery = delivery
        self._settlement = settlement
        self._received = received
        self._answered = False  # acked or nacked, by whoever came first
        self._shelf: Shelf | None = None  # where the stream that gave it out keeps it

    # ------------------------------------------------------------------ what it is

    @property
    def id(self) -> str:
        return self._delivery.id

    @property
    def ack_id(self) -> str:
        """The receipt of this delivery: a redelivery has another one."""
        return self._delivery.receipt

    @property
    def data(self) -> bytes:
        return self._delivery.message.data

    @property
    def attributes(self) -> dict[str, str]:
        """A copy: what you do with it stays with you."""
        return dict(self._delivery.message.attributes)

    @property
    def publish_time(self) -> datetime:
        """When it was published, in UTC, to the microsecond."""
        return instant(self._delivery.message.publish_time)

    @property
    def publish_time_ns(self) -> int:
        """When it was published, in nanoseconds since 1970."""
        return self._delivery.message.publish_time

    @property
    def received(self) -> float:
        """When the subscription received it, in seconds since 1970."""
        return self._received / SECOND

    @property
    def ordering_key(self) -> str | None:
        return self._delivery.message.ordering_key or None

    @property
    def delivery_attempt(self) -> int:
        """1 for the first delivery."""
        return self._delivery.attempt

    @property
    def length(self) -> int:
        """The size of `data` in bytes."""
        return len(self._delivery.message.data)

    @property
    def subscription(self) -> Subscription:
        return self._settlement.subscription

    def __repr__(self) -> str:
        return f"<Message {self.id} attempt {self.delivery_attempt}, {self.length} bytes>"

    # ------------------------------------------------------------------ the answers

    def ack(self) -> None:
        """Done with it: it is not delivered again. From any thread, any number of times."""
        if not self._answered:
            self._answered = True
            self._settlement.ack(self)

    def nack(self) -> None:
        """Not now: it is delivered again, at once or after the backoff of the retry policy."""
        if not self._answered:
            self._answered = True
            self._settlement.nack(self)

    def modify_ack_deadline(self, seconds: float) -> None:
        """Let the deadline be `seconds` from now, 0 to 600; 0 is a nack.

        >>> message.modify_ack_deadline(300)  # five more minutes
        """
        number = not isinstance(seconds, bool) and isinstance(seconds, int | float)
        if not number or not 0 <= seconds <= ACK_DEADLINE_MAX_SECONDS:
            raise InvalidArgumentError(f"Ack deadline must be between 0 and {ACK_DEADLINE_MAX_SECONDS} seconds")
        if seconds == 0:
            self.nack()
        elif not self._answered:
            self._settlement.extend(self, seconds)

    async def ack_with_response(self) -> AckResponse:
        """Ack, and learn whether it counted.

        With exactly-once delivery SUCCESS means that the message is done with, for good. Without it the answer to
        an ack that came too late is SUCCESS as well, as there the message may come again at any time.
        """
        return await self._respond(self._settlement.ack_now)

    async def nack_with_response(self) -> AckResponse:
        return await self._respond(self._settlement.nack_now)

    async def _respond(self, settle: Callable[[Message], Awaitable[AckResponse]]) -> AckResponse:
        if self._answered:
            return self._settlement.late()
        self._answered = True
        return await settle(self)
