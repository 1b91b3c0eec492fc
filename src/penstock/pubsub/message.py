"""The class Message: one delivery to a subscriber, with its answers.

A message never changes. The first ack or nack counts, and later answers are ignored. An answer never raises because the
message is gone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.consuming import Delivery
from penstock.broker.model import SECOND
from penstock.broker.model import Message as Stored
from penstock.broker.retry import original_publish_time
from penstock.engine.options import ACK_DEADLINE_MAX_SECONDS
from penstock.engine.views import instant, nanoseconds
from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.pubsub.acks import Acks
    from penstock.pubsub.leases import Leases
    from penstock.pubsub.subscription import Subscription

ACK, NACK = "ack", "nack"


class AckResponse(IntEnum):
    """The result of an ack or nack. The numbers are gRPC's status codes."""

    SUCCESS = 0  # the answer is stored
    INVALID = 3  # the message was answered before, or its deadline has passed
    PERMISSION_DENIED = 7
    FAILED_PRECONDITION = 9  # the subscription was deleted or is detached
    OTHER = 13  # the answer could not be stored; the message may be redelivered


class Message:
    """One delivery of a message.

    >>> def listener(message):
    ...     print(message.id, message.data, message.attributes)
    ...     message.ack()
    """

    __slots__ = ("_answer", "_deadline_seconds", "_delivery", "_subscription", "received_at")

    _delivery: Delivery | MadeDelivery
    _answer: str  # the first answer, ack or nack; empty: none
    _deadline_seconds: float | None
    received_at: int

    def __init__(
        self,
        id: str,  # noqa: A002 - as the specification spells it
        ack_id: str,
        data: bytes,
        attributes: Mapping[str, str] | None = None,
        publish_time: datetime | None = None,
        subscription: Subscription | None = None,
        ordering_key: str | None = None,
        *,
        delivery_attempt: int = 1,
    ) -> None:
        """Make a message to test a listener with. Its answers change no queue; read them from `acked` and `nacked`.

        `publish_time` is now if it is None, and in UTC if it has no zone. Raise InvalidArgumentError if `data` is not
        bytes.

        >>> message = Message("1", "1-1", b"paid", {"order": "7"})
        >>> listener(message)
        >>> assert message.acked
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"Message data must be bytes, not {type(data).__name__}")
        at = datetime.now(UTC) if publish_time is None else publish_time
        published = nanoseconds(at if at.tzinfo is not None else at.replace(tzinfo=UTC))
        stored = Stored(bytes(data), dict(attributes or {}), ordering_key or "", published, 0, 0, len(data), 0, 0)
        self._delivery = MadeDelivery(id, ack_id, delivery_attempt, stored)
        self._subscription, self.received_at = subscription, published
        self._answer, self._deadline_seconds = "", None

    # ------------------------------------------------------------------ properties

    @property
    def id(self) -> str:
        return self._delivery.id

    @property
    def ack_id(self) -> str:
        """The receipt of this delivery. A redelivery has another one."""
        return self._delivery.receipt

    @property
    def data(self) -> bytes:
        return self._delivery.message.data

    @property
    def attributes(self) -> dict[str, str]:
        """A copy of the attributes. Changing it does not change the message."""
        return dict(self._delivery.message.attributes)

    @property
    def publish_time(self) -> datetime:
        """The publish time in UTC, with microseconds."""
        return instant(self._delivery.message.publish_time)

    @property
    def publish_time_ns(self) -> int:
        """The publish time in nanoseconds since 1970."""
        return self._delivery.message.publish_time

    @property
    def received(self) -> float:
        """The time of this delivery, in seconds since 1970."""
        return self.received_at / SECOND

    @property
    def ordering_key(self) -> str | None:
        """The ordering key, or None."""
        return self._delivery.message.ordering_key or None

    @property
    def delivery_attempt(self) -> int:
        """The number of this delivery. 1 is the first."""
        return self._delivery.attempt

    @property
    def length(self) -> int:
        """The size of `data` in bytes."""
        return len(self._delivery.message.data)

    @property
    def original_publish_time(self) -> datetime:
        """The time a dead letter was published to the topic where it failed. Other messages: `publish_time`."""
        message = self._delivery.message
        return instant(original_publish_time(message.attributes, message.publish_time))

    @property
    def subscription(self) -> Subscription:
        return self._subscription  # type: ignore[return-value]  # None only if you made it so

    @property
    def acked(self) -> bool:
        """Whether its answer was an ack."""
        return self._answer == ACK

    @property
    def nacked(self) -> bool:
        """Whether the answer is a nack, by the listener, or by the API because the listener raised or was closed."""
        return self._answer == NACK

    @property
    def deadline_seconds(self) -> float | None:
        """The seconds of the last `modify_ack_deadline` call. None: it was not called."""
        return self._deadline_seconds

    def __repr__(self) -> str:
        return f"<Message {self.id} attempt {self.delivery_attempt}, {self.length} bytes>"

    # ------------------------------------------------------------------ answers

    def ack(self) -> None:
        """Ack the message: it is not delivered again. Can be called from any thread, and repeatedly."""
        self.take_answer(ACK)

    def nack(self) -> None:
        """Nack the message: it is redelivered, at once or after the backoff of the retry policy."""
        self.take_answer(NACK)

    def take_answer(self, answer: str) -> bool:
        """Set the answer. Return False if there is one already."""
        first = not self._answer
        self._answer = self._answer or answer
        return first

    def modify_ack_deadline(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now, 0 to 600. 0 is a nack. Other values raise InvalidArgumentError.

        >>> message.modify_ack_deadline(300)  # five more minutes
        """
        number = not isinstance(seconds, bool) and isinstance(seconds, int | float)
        if not number or not 0 <= seconds <= ACK_DEADLINE_MAX_SECONDS:
            raise InvalidArgumentError(f"Ack deadline must be between 0 and {ACK_DEADLINE_MAX_SECONDS} seconds")
        self._deadline_seconds = seconds
        if seconds == 0:
            self.nack()
        elif not self._answer:
            self._extend(seconds)

    async def ack_with_response(self) -> AckResponse:
        """Ack the message and return the result, once it is stored.

        With exactly-once delivery, SUCCESS means that the message is never redelivered. Without it, an ack after the
        deadline also returns SUCCESS, and the message may be redelivered.
        """
        return await self._respond(ACK)

    async def nack_with_response(self) -> AckResponse:
        """Nack the message and return the result, once it is stored."""
        return await self._respond(NACK)

    def _extend(self, seconds: float) -> None:
        """Do nothing: a message made for a test has no deadline."""

    async def _respond(self, answer: str) -> AckResponse:
        self.take_answer(answer)
        return AckResponse.SUCCESS


class Received(Message):
    """A message that a queue delivered. The queue gets its answers."""

    __slots__ = ("acks", "leases", "left", "size")

    def __init__(self, delivery: Delivery, acks: Acks, received_at: int, leases: Leases | None = None) -> None:
        self._delivery = delivery
        self._answer = ""
        self._deadline_seconds = None
        self.received_at = received_at
        self.acks = acks
        self.leases = leases  # leases of the reader that delivered it; None after a pull
        self.left = False  # True: its listener has returned
        self.size = delivery.message.size

    @property
    def subscription(self) -> Subscription:
        return self.acks.subscription

    def ack(self) -> None:
        if not self._answer:
            self._answer = ACK
            self.acks.in_loop(self.acks.ack, self)

    def nack(self) -> None:
        if self.take_answer(NACK):
            self.acks.in_loop(self.acks.nack, self)

    def _extend(self, seconds: float) -> None:
        self.acks.in_loop(self.acks.extend, self, seconds)

    async def _respond(self, answer: str) -> AckResponse:
        return await self.acks.respond(self, answer) if self.take_answer(answer) else self.acks.late()


class MadeDelivery(NamedTuple):
    """The delivery of a message that was made for a test."""

    id: str
    receipt: str
    attempt: int
    message: Stored
