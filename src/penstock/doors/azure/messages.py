"""Operations on messages: put, get, peek, clear, update, delete, and redrive."""

from __future__ import annotations

import binascii
import hashlib

from penstock.broker.model import SECOND, Draft
from penstock.broker.names import MAX_OFFSET, parse_receipt
from penstock.doors.azure.call import Call, Reply
from penstock.doors.azure.codec import get_answer, peek_answer, put_answer, read_message_text
from penstock.doors.azure.dates import rfc1123
from penstock.doors.azure.errors import AzureError, Pairs, invalid_value, invalid_xml, out_of_range, too_large
from penstock.doors.azure.names import parse_message_uuid, parse_pop_receipt, pop_receipt
from penstock.doors.azure.queues import POISON, QueueRef, Queues
from penstock.doors.consumers import Consumer, Consumers
from penstock.engine.port import Queue
from penstock.errors import FailedPreconditionError, LostReplyError, UnavailableError
from penstock.services.moves.move import DONE, Move
from penstock.services.moves.registry import Moves
from penstock.services.moves.scan import Choice

WEEK_SECONDS = 7 * 86400
GET_MAX = 32
GET_SECONDS = 30
LIFE_SECONDS_MAX = 100 * 366 * 86400  # a century, so that every time fits into our range

_BODY_IN_ANSWER_SINCE = "2016-05-31"  # older clients expect a put to be answered without a body
_LONG_LIFE_SINCE = "2017-07-29"  # in older versions a message lives for a week at most
_CUT = (("Warning", f'299 - "messagettl was cut to {LIFE_SECONDS_MAX} seconds"'),)


class Messages:
    def __init__(
        self,
        queue: Queue,
        queues: Queues,
        moves: Moves,
        consumers: Consumers,
        *,
        message_bytes_max: int,
        poll_seconds: float = 0,
    ) -> None:
        self._queue = queue
        self._moves = moves
        self._consumers = consumers
        self._queues = queues
        self._message_bytes_max = message_bytes_max
        self._poll_seconds = poll_seconds  # how long an empty get waits for a message. 0: not at all

    # ------------------------------------------------------------------ put

    async def put(self, call: Call) -> Reply:
        delay = _visibility(call, 0, 0)
        life, warning = _life(call, delay)
        data = self._data(call)
        if data is None:
            raise invalid_xml("MessageText is missing")
        ref = await self._queues.find(call.account, call.queue)
        appended = await self._queue.publish(ref.topic, [Draft(data, delay_seconds=delay, ttl_seconds=life)])
        if call.version < _BODY_IN_ANSWER_SINCE:
            return Reply(201, headers=warning)
        body = put_answer(
            appended.first_id + appended.first,
            await self._queue.publisher_receipt(ref.number, appended.first),
            at=appended.at,
            visible_at=appended.at + delay * SECOND,
            expires_at=appended.at + life * SECOND if life else 0,
        )
        return Reply(201, body, warning)

    def _data(self, call: Call) -> bytes | None:
        """Return the text of the message in the body, encoded. None if the body has no text."""
        request = call.request
        if "content-md5" in request.index:
            _check_digest(request.body, request.index["content-md5"])
        text = read_message_text(request.body)
        if text is None:
            return None
        data = call.dialect.encode_text(text).encode()
        if len(data) > self._message_bytes_max:
            raise too_large(self._message_bytes_max)
        return data

    # ------------------------------------------------------------------ get and peek

    async def get(self, call: Call) -> Reply:
        most, seconds = _count(call), _visibility(call, GET_SECONDS, call.dialect.get_visibility_min)
        ref = await self._queues.find(call.account, call.queue)
        wait, deliveries = self._poll_seconds, []
        peer = call.request.peer
        try:
            with self._consumers.present(ref.subscription, Consumer("pull", peer, peer, window=most)):
                deliveries = await self._queue.pull(
                    ref.subscription, most, lease_seconds=seconds, wait_seconds=wait, holder=peer
                )
        except LostReplyError:
            raise
        except UnavailableError:  # the server stops: a get that waits is answered without messages
            if not wait:
                raise
        return Reply(200, get_answer(deliveries, self._queue.clock_of(ref.topic).now() + seconds * SECOND))

    async def peek(self, call: Call) -> Reply:
        most = _count(call)
        if "visibilitytimeout" in call.parameters:
            text = call.parameters["visibilitytimeout"]
            raise invalid_value("visibilitytimeout", text, "Not a valid parameter in conjunction with peek")
        ref = await self._queues.find(call.account, call.queue)
        peeked = await self._queue.peek(ref.subscription, most)
        return Reply(200, peek_answer(ref.first_id, peeked.messages))

    async def clear(self, call: Call) -> Reply:
        await self._queue.purge((await self._queues.find(call.account, call.queue)).subscription)
        return Reply(204)

    # ------------------------------------------------------------------ one message

    async def update(self, call: Call) -> Reply:
        if "visibilitytimeout" not in call.parameters:
            raise AzureError("MissingRequiredQueryParameter", ("QueryParameterName", "visibilitytimeout"))
        seconds = _visibility(call, 0, 0)
        data = self._data(call) if call.request.body else None
        ref, offset, receipt = await self._find_message(call)
        renewed = await self._queue.renew(receipt, seconds, data, strict=False)
        if not renewed.receipt:
            raise await self._mismatch(call, ref, offset)
        visible_at = ("x-ms-time-next-visible", rfc1123(renewed.due))
        return Reply(204, headers=(("x-ms-popreceipt", pop_receipt(renewed.receipt)), visible_at))

    async def delete(self, call: Call) -> Reply:
        ref, offset, receipt = await self._find_message(call)
        settled = await self._queue.ack([receipt], strict=False)
        if settled.stale or settled.malformed:
            raise await self._mismatch(call, ref, offset)
        return Reply(204)

    async def _find_message(self, call: Call) -> tuple[QueueRef, int, str]:
        """Return the queue, the offset and the broker's receipt of the message that a call names."""
        text = call.parameters.get("popreceipt", "")
        receipt = parse_pop_receipt(text)
        if receipt is None and call.dialect.receipt_form_first:
            raise invalid_value("popreceipt", text, "Invalid pop receipt format")
        ref = await self._queues.find(call.account, call.queue)
        number = parse_message_uuid(call.message_id)
        offset = -1 if number is None else number - ref.first_id
        if not 0 <= offset <= MAX_OFFSET:
            raise AzureError("MessageNotFound")
        parts = parse_receipt(receipt) if receipt is not None else None
        if receipt is None or parts is None or parts[:2] != (ref.number, offset):
            raise await self._mismatch(call, ref, offset)
        return ref, offset, receipt

    async def _mismatch(self, call: Call, ref: QueueRef, offset: int) -> AzureError:
        exists = await self._queue.is_unacked(ref.subscription, offset)
        return AzureError(call.dialect.receipt_mismatch if exists else "MessageNotFound")

    # ------------------------------------------------------------------ redrive

    async def redrive(self, call: Call) -> Reply:
        """Move the messages of a poison queue back to its queue, and answer when the move has ended.

        The attributes that dead-lettering added to a message are removed. After a crash the same request finishes the
        move.
        """
        if not call.queue.endswith(POISON):
            raise AzureError("InvalidInput", message="Only a poison queue can be redriven.")
        poison = await self._queues.find(call.account, call.queue)
        home = await self._queues.find(call.account, call.queue.removesuffix(POISON))
        move = await self._start_or_join(poison, Choice(home.topic, restored=True))
        await move.wait()
        if move.state != DONE:
            raise AzureError("ServerBusy", message=f"The redrive ended early: {move.reason}.")
        left = sum(move.left.values())
        counts = ("x-ms-redriven-messages-count", str(move.moved)), ("x-ms-left-messages-count", str(left))
        return Reply(204, headers=counts)

    async def _start_or_join(self, poison: QueueRef, choice: Choice) -> Move:
        """Start the move, or join the same move that an earlier request started and that is still running."""
        running = self._moves.running_from(poison.subscription)
        if running is not None and running.choice == choice:
            return running
        if running is not None:
            raise AzureError("ServerBusy", message=f"Move {running.id} from this queue is running.")
        try:
            return await self._moves.start(poison.subscription, choice, None)
        except FailedPreconditionError as error:
            raise AzureError("InvalidInput", message=error.message) from None


def _check_digest(body: bytes, header: str) -> None:
    try:
        digest = binascii.a2b_base64(header, strict_mode=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != hashlib.md5(usedforsecurity=False).digest_size:
        raise AzureError("InvalidMd5")
    if digest != hashlib.md5(body, usedforsecurity=False).digest():
        raise AzureError("Md5Mismatch")


# ---------------------------------------------------------------------- parameters


def _count(call: Call) -> int:
    most = call.integer("numofmessages", 1)
    if not 1 <= most <= GET_MAX:
        raise out_of_range("numofmessages", call.parameters["numofmessages"], 1, GET_MAX)
    return most


def _visibility(call: Call, default: int, minimum: int) -> int:
    seconds = call.integer("visibilitytimeout", default)
    if not minimum <= seconds <= WEEK_SECONDS:
        raise out_of_range("visibilitytimeout", call.parameters["visibilitytimeout"], minimum, WEEK_SECONDS)
    return seconds


def _life(call: Call, delay: int) -> tuple[int, Pairs]:
    """Return the time to live of a message in seconds, and a warning header if it was cut.

    0 means without end, for which the parameter is -1.
    """
    seconds = call.integer("messagettl", WEEK_SECONDS)
    text = call.parameters.get("messagettl", "")
    if not 1 <= seconds <= WEEK_SECONDS:
        if not call.dialect.any_life or (seconds > WEEK_SECONDS and call.version < _LONG_LIFE_SINCE):
            raise out_of_range("messagettl", text, 1, WEEK_SECONDS)
        if seconds == -1:
            return 0, ()
        if seconds < 1:
            raise invalid_value("messagettl", text, "messagettl must be at least 1, or -1 for ever")
    if seconds <= delay:
        if not text and call.dialect.hidden_for_life:
            return delay + WEEK_SECONDS, ()
        delay_text = call.parameters["visibilitytimeout"]
        raise invalid_value("visibilitytimeout", delay_text, "messagettl must be greater than visibilitytimeout")
    return (seconds, ()) if seconds <= LIFE_SECONDS_MAX else (LIFE_SECONDS_MAX, _CUT)
