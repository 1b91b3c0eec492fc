"""The backlog of a subscription with the stage of each message, and the wait until the backlog is empty."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from penstock.broker import facts as f
from penstock.broker.filters import compile_filter
from penstock.broker.model import Message
from penstock.engine.port import Queue, SubscriptionMetadata, TopicMetadata, Unsettled
from penstock.services.reading import Range, blocks
from penstock.wire.turns import Share

PAGE_MESSAGES = 1000  # looked at in one step
LIST_BYTES_MAX = 8 << 20  # of listed messages, but at least one message is listed
SCAN_MESSAGES_MAX = 100_000  # looked at before a list ends as incomplete
LOOK_SECONDS = 0.25  # between two looks: messages may expire without a fact
REST = 4  # pause after a look, as a multiple of the look, so that waiting does not slow down consumers that ack fast

_SETTLING = (f.Acked, f.Removed, f.Passed, f.Sought, f.Detached, f.SubscriptionDeleted)


class BacklogList(NamedTuple):
    unsettled: list[tuple[Unsettled, Message]]
    complete: bool  # False: there may be more messages, which were not looked at


class Backlogs:
    """Lists of the backlog of one subscription, read in slices of a share."""

    def __init__(
        self,
        queue: Queue,
        subscription: SubscriptionMetadata,
        topic: TopicMetadata,
        share: Share,
        *,
        leased: bool = True,
    ) -> None:
        """`leased`: whether messages that consumers have are listed as well."""
        self._queue = queue
        self._subscription = subscription
        self._topic = topic
        self._share = share
        self._leased = leased

    async def list_when_empty(self, wait_seconds: float, most: int) -> BacklogList:
        """Return an empty list as soon as the backlog is empty, or what is left of the backlog after `wait_seconds`."""
        news, clock = asyncio.Event(), asyncio.get_running_loop().time
        ends_at = clock() + wait_seconds

        def on_fact(fact: Any) -> None:
            if fact.subscription == self._subscription.number:
                news.set()

        listener = self._queue.on(_SETTLING, on_fact)
        try:
            while True:
                news.clear()
                began = clock()
                backlog = await self.list(most)
                seconds_taken = clock() - began
                seconds_left = ends_at - clock()
                if seconds_left <= 0 or (backlog.complete and not backlog.unsettled):
                    return backlog
                try:
                    await asyncio.wait_for(news.wait(), min(seconds_left, LOOK_SECONDS))
                    await asyncio.sleep(min(REST * seconds_taken, seconds_left))
                except TimeoutError:
                    continue
        finally:
            self._queue.off(listener)

    async def list(self, most: int) -> BacklogList:
        """Return the first `most` messages of the backlog, by offset."""
        queue, options = self._queue, self._subscription.options
        accepts, listed = compile_filter(options.filter), list[tuple[Unsettled, Message]]()
        step = min(most + 1, PAGE_MESSAGES) if self._leased and not options.filter else PAGE_MESSAGES
        offset = scanned = size = 0
        while scanned < SCAN_MESSAGES_MAX:
            page = await queue.unsettled(self._subscription.name, offset, step)
            now = queue.clock_of(self._subscription.name).now()
            chosen = [each for each in page if self._leased or _at(each, now).stage != "leased"]
            async for unsettled, message in self._with_messages(chosen):
                is_filtered = unsettled.stage == "unread" and not accepts(message.attributes)
                is_expired = 0 < message.expires_at <= now and not options.expired_topic
                if not is_filtered and not is_expired:
                    listed.append((_at(unsettled, now), message))
                    size += message.size
                if len(listed) > most or (size > LIST_BYTES_MAX and len(listed) > 1):
                    return BacklogList(listed[:-1], complete=False)
            if len(page) < step:
                return BacklogList(listed, complete=True)
            offset, scanned = page[-1].offset + 1, scanned + len(page)
        return BacklogList(listed, complete=False)

    async def _with_messages(self, page: Sequence[Unsettled]) -> AsyncIterator[tuple[Unsettled, Message]]:
        """Yield each entry with its message, if the topic still has it. Consecutive offsets are read together."""
        first = 0
        for index, unsettled in enumerate(page):
            if index + 1 < len(page) and page[index + 1].offset == unsettled.offset + 1:
                continue
            span, by_offset = Range(page[first].offset, unsettled.offset + 1), page[first].offset - first
            async for block in blocks(self._queue, self._topic, span, self._share, descending=False):
                for message in block.messages:
                    yield page[message.offset - by_offset], message
            first = index + 1


def _at(unsettled: Unsettled, now: int) -> Unsettled:
    """Return an entry as it is at `now`. A lease that has ended counts as waiting, even before the broker notices."""
    if unsettled.stage == "leased" and unsettled.until <= now:
        return unsettled._replace(stage="waiting", door=None, holder=None)
    return unsettled
