"""Commands that add messages to the log of a topic.

A publish is accepted whole or not at all, and its cost does not depend on backlogs. It looks at subscriptions only if
there is a cap on backlogs, and at the first FILTERS_AT_ONCE subscriptions that have a filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from penstock.broker.facts import Forgotten, ProducersForgotten, Published
from penstock.broker.filtering import FILTER_SLICE, compare_filter
from penstock.broker.ledger import Ledger
from penstock.broker.limits import NUMBER_MAX, Limits, check_draft, utf8_length
from penstock.broker.model import SECOND, Batch, Draft, Message
from penstock.broker.names import MAX_OFFSET, MESSAGES_MAX
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.errors import FailedPreconditionError, InvalidArgumentError, OtherMessagesError, ResourceExhaustedError

FILTERS_AT_ONCE = 16  # filtered subscriptions of a topic that one publish looks at


class Once(NamedTuple):
    """The key of a publish that may be repeated. All repeats get the answer to the first."""

    producer: str
    epoch: int
    sequence: int
    digest: int = 0  # of the messages, so that a repeat with other messages is noticed; 0: not known


NOT_ONCE = Once("", 0, 0)


class Appended(NamedTuple):
    """The offsets of a publish in its topic."""

    first_id: int  # of the topic
    first: int  # the offset of the first message
    total: int
    at: int = 0  # the publish time of its messages; 0 in the answer to a repeat

    def message_ids(self) -> list[str]:
        first = self.first_id + self.first
        return [str(number) for number in range(first, first + self.total)]


def publish(
    ledger: Ledger,
    now: int,
    topic_name: str,
    drafts: Sequence[Draft],
    once: Once | None = None,
    sizes: Sequence[int] | None = None,
) -> Appended:
    """Publish drafts. The caller gives `sizes` if it has checked the drafts, against limits no wider than ours."""
    topic = ledger.state.topic(topic_name)
    limits = ledger.limits
    if sizes is None:
        try:
            sizes = [check_draft(draft, limits) for draft in drafts]
        except InvalidArgumentError:
            ledger.refuse("invalid")
            raise
    if once is not None:
        answered = _find_earlier_answer(topic, once, len(drafts))
        if answered is not None:
            return answered
    # Only a publisher can be refused. A message that moves here from a subscription has to be accepted.
    if limits.refuse_when_full and (limits.queue_messages_max or limits.queue_bytes_max):
        size = sum(sizes)
        for subscription in _near_caps(limits, topic, len(sizes), size):
            if _room(ledger, now, topic, subscription, drafts, sizes) < len(sizes):
                ledger.refuse("capacity")
                raise ResourceExhaustedError(f"Queue is full: {subscription.name}")
    return append(ledger, topic, now, drafts, sizes, once or NOT_ONCE)


def append(
    ledger: Ledger, topic: Topic, now: int, drafts: Sequence[Draft], sizes: Sequence[int], once: Once = NOT_ONCE
) -> Appended:
    """Add checked drafts at the tail of a topic."""
    limits, first, size, at = ledger.limits, topic.tail, sum(sizes), max(now, topic.last_publish_at)
    if first + len(drafts) > MESSAGES_MAX:
        raise ResourceExhaustedError(f"Topic is at its last offset: {topic.name}")
    if not drafts:
        return Appended(topic.first_id, first, 0)
    discards: dict[int, tuple[int, int, int]] = {}
    if not limits.refuse_when_full and (limits.queue_messages_max or limits.queue_bytes_max):
        for subscription in _near_caps(limits, topic, len(sizes), size):
            taken = _room(ledger, now, topic, subscription, drafts, sizes)
            if taken < len(sizes):
                discards[subscription.number] = subscription.number, first + taken, sum(sizes[taken:])
                lost = len(sizes) - taken - len(_kept_out(subscription, drafts, taken, len(drafts)))
                subscription.counts.drop("capacity", lost)
    filtered = _filter(topic, drafts, sizes, discards) if topic.filtered else []
    stored = bool(topic.readers) or ledger.retention_seconds(topic) > 0 or topic.number in ledger.state.topic_snapshots
    messages = _messages(topic, at, drafts, sizes) if stored else []
    if not stored and topic.head < topic.tail:
        ledger.emit(Forgotten(topic.number, topic.tail, topic.position))
    skipped = list(discards.values()) if discards else []
    ledger.emit(
        Published(topic.number, first, len(drafts), size, at, stored, *once[:3], skipped, filtered, once.digest)
    )
    if messages:
        ledger.batches.append(Batch(topic.number, first, messages))
        ledger.cache.append(topic.number, messages)
    topic.counts.published += len(drafts)
    topic.counts.bytes += size
    topic.counts.unread += 0 if stored else len(drafts)
    return Appended(topic.first_id, first, len(drafts), at)


def _messages(topic: Topic, at: int, drafts: Sequence[Draft], sizes: Sequence[int]) -> list[Message]:
    offset, position, new = topic.tail, topic.position, tuple.__new__
    messages = []
    for (data, attributes, key, delay, ttl), size in zip(drafts, sizes, strict=True):
        visible_at = at + int(delay * SECOND) if delay else 0
        expires_at = at + int(ttl * SECOND) if ttl else 0
        fields = (data, attributes, key, at, offset, position, size, visible_at, expires_at)
        messages.append(new(Message, fields))  # half the cost of the constructor, on the hottest path
        offset += 1
        position += size
    return messages


def _find_earlier_answer(topic: Topic, once: Once, count: int) -> Appended | None:
    """Return the first answer, if this publish is a repeat."""
    if not once.producer:
        raise InvalidArgumentError("A publish-once key needs a producer")
    if not isinstance(once.producer, str):
        raise InvalidArgumentError("The producer of a publish-once key must be a string")
    utf8_length(once.producer)
    for number in once[1:]:
        if type(number) is not int or abs(number) > NUMBER_MAX:
            raise InvalidArgumentError(f"An epoch, a sequence or a digest is a whole number of at most {NUMBER_MAX}")
    known = topic.producers.get(once.producer)
    if known is None or known.epoch < once.epoch:
        return None
    if known.epoch > once.epoch:
        raise FailedPreconditionError(f"Producer {once.producer} is at epoch {known.epoch}; epoch {once.epoch} is over")
    answer = known.answers.get(once.sequence)
    if answer is not None and answer[1] != count:
        raise OtherMessagesError(f"Sequence {once.sequence} was taken with {answer[1]} messages, not {count}")
    if once.digest and known.digests.get(once.sequence, once.digest) != once.digest:
        raise OtherMessagesError(f"Sequence {once.sequence} was taken with other messages")
    return Appended(topic.first_id, *answer) if answer is not None else None


def forget_producer(ledger: Ledger, topic_name: str, producer: str) -> None:
    """Forget the answers to a producer that will not repeat a publish."""
    topic = ledger.state.topic(topic_name)
    if producer in topic.producers:
        ledger.emit(ProducersForgotten(topic.number, [producer]))


# ---------------------------------------------------------------------- filters


def _filter(
    topic: Topic, drafts: Sequence[Draft], sizes: Sequence[int], discards: Mapping[int, tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Compare new messages with the filters of subscriptions that have been compared with all earlier ones.

    The others, and those beyond FILTERS_AT_ONCE, are left to housekeeping, so that the cost of a publish is bounded.
    """
    filtered = []
    for subscription in islice(topic.filtered.values(), FILTERS_AT_ONCE):
        if subscription.front == topic.tail:
            discard = discards.get(subscription.number)
            until = len(drafts) if discard is None else discard[1] - topic.tail
            kept_out = _kept_out(subscription, drafts, 0, until)
            filtered.append((subscription.number, len(kept_out), sum(sizes[index] for index in kept_out)))
            subscription.counts.filtered += len(kept_out)
    return filtered


def _kept_out(subscription: Subscription, drafts: Sequence[Draft], first: int, until: int) -> list[int]:
    """Return the indexes of drafts that the filter of a subscription does not match."""
    accepts = subscription.accepts
    if accepts is None:
        return []
    return [index for index in range(first, until) if not accepts(drafts[index].attributes)]


# ---------------------------------------------------------------------- caps on the backlog (BR-022)


def _near_caps(limits: Limits, topic: Topic, count: int, size: int) -> Iterable[Subscription]:
    """Return the readers that may be too full for a publish.

    No backlog grows faster than the log. So a reader with room for half of a cap is checked again once the log has
    grown by that much, and the cost of a publish does not depend on the number of readers.
    """
    if topic.tail + count > topic.roomy_until or topic.position + size > topic.roomy_position:
        half = (limits.queue_messages_max or MAX_OFFSET) // 2
        half_bytes = (limits.queue_bytes_max or MAX_OFFSET) // 2
        settled, settled_bytes = topic.tail - half, topic.position - half_bytes
        near = [
            reader
            for reader in topic.readers.values()
            if reader.settled + reader.ahead < settled or reader.settled_bytes + reader.ahead_bytes < settled_bytes
        ]
        topic.note_room(near, topic.tail + half, topic.position + half_bytes)
        if count > half or size > half_bytes:
            return topic.readers.values()
    return topic.near_caps


def _room(
    ledger: Ledger, now: int, topic: Topic, subscription: Subscription, drafts: Sequence[Draft], sizes: Sequence[int]
) -> int:
    """Return how many of the messages a subscription takes before its cap. Messages that its filter keeps out take
    no room. A subscription whose filter is behind the log takes all, because its backlog is not known."""
    accepts = subscription.accepts
    if accepts is not None and subscription.front < topic.tail:
        compare_filter(ledger, now, topic, subscription, FILTER_SLICE)
        if subscription.front < topic.tail:
            return len(sizes)
    max_messages = ledger.limits.queue_messages_max or MAX_OFFSET
    max_bytes = ledger.limits.queue_bytes_max or MAX_OFFSET
    count, used = subscription.unacked(topic)
    if count + len(sizes) <= max_messages and used + sum(sizes) <= max_bytes:
        return len(sizes)
    for index, (draft, size) in enumerate(zip(drafts, sizes, strict=True)):
        if accepts is not None and not accepts(draft.attributes):
            continue
        if count >= max_messages or used >= max_bytes:
            return index
        count += 1
        used += size
    return len(sizes)
