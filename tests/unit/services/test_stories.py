"""The stories of messages: their events, as long as they are kept."""

from __future__ import annotations

import pytest

from penstock import ManualClock, MessageQueue
from penstock.broker.model import TopicOptions
from penstock.errors import NotFoundError
from penstock.journal.memory import MemoryJournal
from penstock.services import stories
from penstock.services.stories import Stories


@pytest.fixture
def queue() -> MessageQueue:
    queue = MessageQueue(MemoryJournal(), clock=ManualClock())
    queue.create_topic("topic", TopicOptions(retention_seconds=600))
    queue.register_subscription("sub", "topic")
    return queue


def kinds(kept: Stories, offset: int) -> list[str]:
    return [each.kind for each in kept.of("topic", offset, offset + 1).events[offset]]


def test_a_story_is_in_order_and_has_only_its_message(queue: MessageQueue) -> None:
    kept = Stories(queue.engine)
    queue.publish("topic", [b"a", b"b"])
    first, second = queue.lease("sub", 2)
    queue.nack_many([first.receipt])
    queue.ack_many([second.receipt])
    assert kinds(kept, 0) == ["published", "delivered", "returned"]
    assert kinds(kept, 1) == ["published", "delivered", "acked"]
    assert kinds(kept, 2) == []
    with pytest.raises(NotFoundError):
        kept.of("nowhere", 0, 1)


def test_a_seek_and_a_purge_are_part_of_a_story(queue: MessageQueue) -> None:
    kept = Stories(queue.engine)
    queue.publish("topic", [b"a", b"b", b"c"])
    first, _ = queue.lease("sub", 2)
    queue.ack_many([first.receipt])
    queue.purge("sub")
    assert kinds(kept, 0) == ["published", "delivered", "acked"], "nothing changed for it"
    assert kinds(kept, 1) == ["published", "delivered", "skipped"]
    assert kinds(kept, 2) == ["published", "skipped"]
    queue.seek_to_offset("sub", 0)
    queue.seek_to_offset("sub", 0)
    assert [kinds(kept, offset)[-1] for offset in range(3)] == ["sought"] * 3
    assert [kinds(kept, offset).count("sought") for offset in range(3)] == [1] * 3


def test_a_seek_of_a_subscription_that_never_had_a_message_is_no_part_of_its_story(queue: MessageQueue) -> None:
    kept = Stories(queue.engine)
    queue.publish("topic", [b"a"])
    queue.engine.clock.advance(1)
    queue.register_subscription("later", "topic")
    queue.register_subscription("choosy", "topic", filter="attributes:kind")
    for name in ("later", "choosy"):
        queue.purge(name)
    assert kinds(kept, 0) == ["published"]


def test_the_stories_of_a_dead_letter_name_both_topics(queue: MessageQueue) -> None:
    kept = Stories(queue.engine)
    for name in ("dead", "other"):
        queue.register_topic(name)
        queue.register_subscription(f"{name}-look", name)
    policy = {"dead_letter_topic": "dead", "max_delivery_attempts": 1}
    queue.register_subscription("strict", "topic", dead_letter_policy=policy)
    queue.publish("other", [b"x"])
    queue.publish("topic", [b"a", b"b"])
    queue.nack_many([each.receipt for each in queue.lease("strict", 2)])
    for offset in (0, 1):
        last = kept.of("topic", offset, offset + 1).events[offset][-1]
        assert (last.kind, last.subscription, last.other) == ("dead-letter", "strict", "dead")
        [copy] = kept.of("dead", offset, offset + 1).events[offset]
        assert (copy.kind, copy.other) == ("published", "strict")
    [plain] = kept.of("other", 0, 1).events[0]
    assert (plain.kind, plain.other) == ("published", "")


def test_old_things_are_forgotten_and_that_is_known(queue: MessageQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "KEPT", 3)
    kept = Stories(queue.engine)
    for _ in range(4):
        queue.publish("topic", [b"x"])
    assert [kinds(kept, offset) for offset in range(4)] == [[], ["published"], ["published"], ["published"]]


def test_rolled_back_events_are_not_in_a_story(queue: MessageQueue) -> None:
    kept = Stories(queue.engine)
    queue.publish("topic", [b"x"])
    queue.engine._tell_reset()
    story = kept.of("topic", 0, 1)
    assert (story.events, story.known_since) == ({0: []}, queue.engine.now())
