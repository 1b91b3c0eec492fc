"""A queue that accepts receipts as the vendors' doors do: a receipt is valid until the message is delivered again."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import InvalidArgumentError, MessageQueue
from penstock.broker.consuming import Settled
from penstock.engine import commands


class LenientQueue:
    """The methods of a MessageQueue that take receipts, with strict=False as the default."""

    def __init__(self, queue: MessageQueue) -> None:
        self._queue = queue

    def ack_many(self, receipts: Sequence[str], *, strict: bool = False) -> Settled:
        now = self._queue._time_at(receipts)
        return self._queue._drive(
            lambda broker: commands.settle(lambda at, texts: broker.ack(at, texts, strict=strict), now, receipts)
        )

    def nack_many(
        self, receipts: Sequence[str], delay: float | None = None, *, unseen: bool = False, strict: bool = False
    ) -> Settled:
        now = self._queue._time_at(receipts)
        return self._queue._drive(
            lambda broker: commands.settle(
                lambda at, texts: broker.nack(at, texts, delay, unseen, strict=strict), now, receipts
            )
        )

    def extend_many(self, receipts: Sequence[str], seconds: float, *, strict: bool = False) -> Settled:
        now = self._queue._time_at(receipts)
        return self._queue._drive(
            lambda broker: commands.settle(
                lambda at, texts: broker.extend(at, texts, seconds, strict=strict), now, receipts
            )
        )

    def ack(self, receipt: str) -> None:
        _require(not any(self.ack_many([receipt])[:2]), receipt)

    def nack(self, receipt: str) -> None:
        _require(not any(self.nack_many([receipt])[:2]), receipt)

    def modify_ack_deadline(self, receipt: str, seconds: float, *, strict: bool = False) -> None:
        _require(not any(self.extend_many([receipt], seconds, strict=strict)[:2]), receipt)

    def replace_body(self, receipt: str, data: bytes, seconds: float, *, strict: bool = False) -> str:
        now = self._queue._time_at([receipt])
        renewed = self._queue._drive(lambda broker: commands.renew(broker, now, receipt, seconds, data, strict=strict))
        _require(bool(renewed.receipt), receipt)
        return renewed.receipt


def _require(good: bool, receipt: str) -> None:
    if not good:
        raise InvalidArgumentError(f"Invalid ack ID: {receipt}")
