"""Bugs that the simulations found, each as the shortest history that shows it."""

from __future__ import annotations

import pytest

from penstock import Draft, InvalidArgumentError, ManualClock, MessageQueue, SubscriptionOptions
from penstock.broker.consuming import Peeked
from penstock.broker.log import Sizes
from penstock.engine import commands, lookups
from tests.simulation.schedule import Scheduled
from tests.simulation.stores import MemoryStore

TINY = 1  # bytes: the cache holds only the messages that were read or published last


def _queue(options: SubscriptionOptions, cache_bytes: int = 10**7) -> tuple[MessageQueue, ManualClock, MemoryStore]:
    clock = ManualClock()
    store = MemoryStore(clock=clock, sizes=Sizes(cache_bytes=cache_bytes))
    queue = store.open()
    queue.register_topic("t")
    queue.register_topic("dead")
    queue.register_subscription("s", "t", options)
    queue.register_subscription("graves", "dead")
    return queue, clock, store


def test_a_snapshot_of_a_subscription_without_a_backlog() -> None:
    """`create_snapshot` failed with a ValueError when nothing was outstanding."""
    queue, _, _ = _queue(SubscriptionOptions())
    queue.create_snapshot("n", "s")
    queue.seek_to_snapshot("s", "n")
    assert queue.pull("s", 1) == []


def test_a_peek_at_more_than_the_cache_holds_ends() -> None:
    """The peek read one part, then the other, forever."""
    queue, _, store = _queue(SubscriptionOptions(), TINY)
    for number in range(3):
        queue.publish("t", [b"%d" % number])
    queue = store.crash(queue)
    store.questions = 0
    assert [message.data for message in queue.peek("s", 10)] == [b"0", b"1", b"2"]


def test_an_extended_lease_ends_with_the_life_of_its_message() -> None:
    """The message kept its place in flow control until its extended deadline."""
    queue, clock, _ = _queue(SubscriptionOptions(flow_max_messages=1))
    queue.publish("t", [Draft(b"short", ttl_seconds=2), Draft(b"long")])
    (message,) = queue.pull("s", 1)
    queue.modify_ack_deadline(message.ack_id, 600)
    clock.advance(2)
    with pytest.raises(InvalidArgumentError):
        queue.ack(message.ack_id)
    assert [each.data for each in queue.pull("s", 10)] == [b"long"]


def test_dead_letters_keep_their_order_whatever_is_in_memory() -> None:
    """004 BR-016, BR-019: messages in the cache moved first."""
    options = SubscriptionOptions(dead_letter_topic="dead", max_delivery_attempts=1)
    queue, clock, _ = _queue(options, TINY)
    for number in range(4):
        queue.publish("t", [b"%d" % number])
    assert len(queue.pull("s", 10)) == 4
    clock.advance(60)
    assert [message.data for message in queue.pull("graves", 10)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("crash", [False, True])
def test_dead_letters_of_one_instant_have_one_order(crash: bool) -> None:
    """Law 3: they moved in the order of their leases, which a snapshot does not contain."""
    options = SubscriptionOptions(dead_letter_topic="dead", max_delivery_attempts=2)
    queue, clock, store = _queue(options)
    queue.publish("t", [b"0", b"1"])
    first, second = queue.pull("s", 2)
    queue.nack(second.ack_id)
    queue.pull("s", 1)
    queue.nack(first.ack_id)
    queue.pull("s", 1)
    if crash:
        queue.close()
        queue = store.open()
    clock.advance(60)
    assert [message.data for message in queue.pull("graves", 10)] == [b"0", b"1"]


def test_a_postponed_message_stays_behind_the_one_before_it() -> None:
    """004 BR-010: the lane of a key was out of order when one pull delivered a message and postponed the next one."""
    queue, clock, _ = _queue(SubscriptionOptions(lease_seconds=1, ordering=True, ordering_window=2))
    queue.publish("t", [Draft(b"0", ordering_key="k"), Draft(b"1", ordering_key="k", delay_seconds=1)])
    assert len(queue.pull("s", 2)) == 1
    clock.advance(1)
    assert [message.data for message in queue.peek("s", 10)] == [b"0", b"1"]


def test_a_life_ends_at_the_same_instant_before_and_after_a_restart() -> None:
    """Law 3: a waiting message was dropped when a command looked, but after a restart at its exact time."""
    backlogs = []
    for crash in (False, True):
        queue, clock, store = _queue(SubscriptionOptions(lease_seconds=1, flow_max_messages=1))
        queue.publish("t", [Draft(b"0", ttl_seconds=5), Draft(b"1", ttl_seconds=5), Draft(b"2")])
        (first,) = queue.pull("s", 1)
        queue.nack(first.ack_id)
        queue.pull("s", 1)
        clock.advance(2)
        queue.peek("s", 1)
        queue = store.crash(queue) if crash else queue
        clock.advance(3)
        queue.peek("graves", 1)  # any command notices the time
        backlogs.append(queue.backlog("s"))
    assert backlogs[0] == backlogs[1]


def test_a_peek_shows_messages_behind_an_expired_one_in_its_lane() -> None:
    """A pull returned it, and a peek did not show it."""
    queue, clock, _ = _queue(SubscriptionOptions(ordering=True))
    queue.publish("t", [Draft(b"0", ordering_key="k"), Draft(b"1", ordering_key="k", ttl_seconds=2)])
    queue.publish("t", [Draft(b"2", ordering_key="k")])
    (message,) = queue.pull("s", 10)
    clock.advance(2)
    queue.ack(message.ack_id)
    assert [message.data for message in queue.peek("s", 10)] == [b"2"]


def test_a_held_message_and_a_postponed_one_behind_it_keep_their_order() -> None:
    """004 BR-010: as above, with the first of the two messages held before."""
    queue, clock, _ = _queue(SubscriptionOptions(lease_seconds=1, ordering=True, ordering_window=2))
    queue.publish("t", [Draft(b"%d" % number, ordering_key="k") for number in range(3)])
    first, second = queue.pull("s", 10)
    queue.publish("t", [Draft(b"3", ordering_key="k", delay_seconds=1)])
    queue.ack_many([first.ack_id, second.ack_id])
    assert [message.data for message in queue.pull("s", 10)] == [b"2"]
    clock.advance(1)
    assert [message.data for message in queue.peek("s", 10)] == [b"2", b"3"]


def test_a_pull_ends_where_a_held_message_and_the_next_one_do_not_fit_the_cache_together() -> None:
    """The pull read the two in turn forever, because each evicted the other and the first was only postponed."""
    clock = ManualClock()
    store = MemoryStore(clock=clock, sizes=Sizes(cache_bytes=1, chunk_messages=1, read_messages=1))
    queue = store.open()
    queue.register_topic("t")
    queue.register_subscription("s", "t", SubscriptionOptions(ordering=True))
    queue.publish("t", [Draft(b"0", ordering_key="k"), Draft(b"1", ordering_key="k", delay_seconds=1)])
    (first,) = queue.pull("s", 10)
    queue.ack(first.ack_id)
    queue.publish("t", [Draft(b"2", ordering_key="k"), Draft(b"3")])
    assert [message.data for message in queue.pull("s", 1)] == [b"3"]
    clock.advance(1)
    assert [message.data for message in queue.pull("s", 1)] == [b"1"]


def test_many_readers_of_uncached_messages_end() -> None:
    """Their reads looked endless, because each call reads every message alone, and together they read for long."""
    harness = Scheduled(clock=ManualClock(), sizes=Sizes(cache_bytes=TINY, chunk_messages=1, read_messages=1))
    queue, answers = harness.queue, list[Peeked]()
    harness.do(queue.create_topic("t"))
    harness.do(queue.create_subscription("s", "t"))
    for number in range(30):
        harness.do(queue.publish("t", [Draft(b"%d" % number)]))
    for _ in range(60):
        harness.begin(queue.peek("s", 30), answers.append)
    harness.finish()
    harness.close()
    assert [len(peeked.messages) for peeked in answers] == [30] * 60


def test_messages_published_while_retention_reads_stay() -> None:
    """The journal had no young message, and messages that arrived before its answer were dropped with the old ones."""
    clock = ManualClock()
    harness = Scheduled(clock=clock)
    queue = harness.queue
    harness.do(queue.create_topic("t"))
    harness.do(queue.create_subscription("s", "t", SubscriptionOptions(retention_seconds=10)))
    harness.do(queue.publish("t", [Draft(b"old")]))
    clock.advance(11)
    harness.begin(queue.pull("s", 10))
    harness.go_on(0)  # the journal looks
    harness.begin(queue.publish("t", [Draft(b"young")]))
    harness.finish()
    backlog = lookups.backlog(queue.engine, "s").messages
    harness.close()
    assert backlog == 1


def test_retention_does_not_follow_acks_forever() -> None:
    """With each ack between its read and the answer it read the next message, as long as acks arrived."""
    clock = ManualClock()
    queue = MemoryStore(clock=clock, sizes=Sizes(cache_bytes=TINY, chunk_messages=1, read_messages=1)).open()
    queue.register_topic("t")
    queue.register_subscription("s", "t", SubscriptionOptions(lease_seconds=600))
    for number in range(10):
        queue.publish("t", [b"%d" % number])
    first, *others = queue.pull("s", 10)
    clock.advance(2)
    engine, questions = queue.engine, 0
    assert engine.is_tick_due()
    queue.ack(first.ack_id)
    broker, steps = engine.broker, commands.housekeep(engine.broker, clock.now)
    question = engine.step(steps, None, broker)[0]
    while question is not None:
        questions += 1
        queue.ack(others.pop(0).ack_id)
        question = engine.step(steps, engine.read(question, 10), broker)[0]
    assert (questions, queue.topic("t").head) == (1, 1)
