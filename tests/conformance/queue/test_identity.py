"""The identity of a store: message ids and topics are unique across stores, and receipts cannot be guessed.

Section 5 of the design, "identity".
"""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import InvalidArgumentError, ManualClock, MessageQueue
from penstock.broker.model import SECOND, Batch, Message
from penstock.broker.names import first_id, parse_receipt, receipt
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Commit
from tests.conformance.queue.harness import Harness
from tests.lenient import LenientQueue
from tests.simulation.stores import RecordingJournal


def ids_of(harness: Harness) -> list[str]:
    harness.topic_with("sub")
    return harness.publish(*"abcdefgh")


def test_two_new_stores_share_no_message_id(harness: Harness, tmp_path: Path) -> None:
    other = Harness(harness.kind, tmp_path / "other")
    try:
        assert set(ids_of(harness)).isdisjoint(ids_of(other))
        assert harness.queue.identity != other.queue.identity
    finally:
        other.close()


def test_ids_are_numbers_of_nineteen_digits_that_count_up(harness: Harness) -> None:
    """They look like Pub/Sub's ids, so programs may sort and store them as numbers."""
    ids = ids_of(harness)
    assert {len(each) for each in ids} == {19}
    assert ids == sorted(ids) == [str(int(ids[0]) + place) for place in range(8)]
    assert [message.id for message in harness.queue.pull("sub", 8)] == ids


@given(st.lists(st.integers(1, 2**126 - 1), min_size=2, max_size=2, unique=True), st.integers(1, 10**7))
def test_topics_of_one_store_share_no_id_and_all_fit_63_bits(identities: list[int], number: int) -> None:
    for identity in identities:
        one, other = (first_id(f"{identity:032x}", each) for each in (number, number + 1))
        assert min(one, other) >= 10**18
        assert max(one, other) + 2**39 - 2**37 < 2**63
        assert abs(one - other) >= 2**39 - 2**37


def test_a_thousand_stores_share_no_id() -> None:
    """Ten topics have ten thousand messages each. The chance of one collision is below one in a billion."""
    draw = Random(11)
    starts = sorted(
        first_id(f"{draw.getrandbits(63):016x}{draw.getrandbits(63):016x}", number)
        for _ in range(1000)
        for number in range(1, 11)
    )
    assert min(later - earlier for earlier, later in pairwise(starts)) > 10_000


@pytest.mark.parametrize("crash", [False, True])
def test_a_store_keeps_its_identity_and_its_ids(durable: Harness, crash: bool) -> None:
    ids = ids_of(durable)
    before, topic = durable.queue.identity, durable.queue.get_topic("topic")
    held = durable.take("sub")
    queue = durable.reopen(crash=crash)
    assert topic is not None
    assert (queue.identity, queue.get_topic("topic")) == (before, topic)
    assert [message.id for message in queue.pull("sub", 8)] == ids[1:]
    queue.ack(held.ack_id)
    assert durable.publish("later") == [str(int(ids[-1]) + 1)]


def test_a_topic_made_again_is_another(harness: Harness) -> None:
    first = ids_of(harness)
    topic = harness.queue.get_topic("topic")
    harness.queue.unregister_topic("topic")
    harness.queue.register_topic("topic")
    again = harness.queue.get_topic("topic")
    assert topic is not None
    assert again is not None
    assert topic.identity.startswith(harness.queue.identity)
    assert again.identity.startswith(harness.queue.identity)
    assert topic.identity != again.identity
    assert set(first).isdisjoint(harness.publish("a"))


# ---------------------------------------------------------------------- receipts


def test_the_receipts_a_stranger_would_try_settle_nothing(harness: Harness) -> None:
    """Numbers, offsets and counts are small. A caller who tries all of them must not find a receipt."""
    harness.topic_with("sub")
    harness.publish("a", "b")
    held = harness.queue.pull("sub", 2)
    guesses = [receipt(*parts) for parts in product(range(1, 5), range(2), range(-1, 50))]
    settled = harness.queue.ack_many(guesses)
    assert not set(guesses) - set(settled.stale) - set(settled.malformed)
    assert harness.queue.ack_many([each.ack_id for each in held])[:2] == ([], [])


@settings(max_examples=200)
@given(st.data())
def test_no_receipt_can_be_made_from_others(data: st.DataObject) -> None:
    """The other receipts do not help a caller to construct one, and neither does an older receipt of the same
    message.
    """
    queue = MessageQueue()
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    queue.publish("topic", [b"a", b"b"])
    (first,) = queue.pull("sub", 1)
    queue.nack(first.ack_id)
    again, other = queue.pull("sub", 1) + queue.pull("sub", 1)
    seen = [parse_receipt(each) for each in (first.ack_id, other.ack_id)]
    number, offset, stamp = (data.draw(st.sampled_from([each[place] for each in seen if each])) for place in range(3))
    guess = receipt(number, offset, max(0, stamp + data.draw(st.integers(-5, 5))))
    if guess != other.ack_id:
        assert LenientQueue(queue).ack_many([guess]).stale == [guess]
    assert LenientQueue(queue).ack_many([again.ack_id]).stale == []


def test_a_publishers_receipt_is_not_guessed_either(harness: Harness) -> None:
    """The answer to Put Message has a pop receipt, before any delivery."""
    harness.queue.register_topic("topic")
    harness.queue.register_subscription("sub", "topic")
    harness.publish("a", "b")
    number = harness.queue.engine.broker.state.subscription("sub").number
    for stamp in range(-1, 100):
        assert harness.lenient.ack_many([receipt(number, 0, stamp)])[:2] != ([], [])
    good = harness.queue.engine.broker.publisher_receipt(number, 1)
    assert harness.lenient.ack_many([good])[:2] == ([], [])
    assert harness.pull("sub") == ["a"]


def test_an_exchanged_receipt_has_a_new_random_number(harness: Harness) -> None:
    harness.topic_with("sub")
    harness.publish("a")
    held = harness.take("sub")
    renewed = harness.queue.replace_body(held.ack_id, b"b", 30)
    old, new = parse_receipt(held.ack_id), parse_receipt(renewed)
    assert old is not None
    assert new is not None
    assert abs(old[2] - new[2]) > 1000
    with pytest.raises(InvalidArgumentError):
        harness.queue.ack(held.ack_id)
    harness.queue.ack(renewed)


# ---------------------------------------------------------------------- stores of earlier releases


def test_a_store_of_an_earlier_release_gets_an_identity_and_keeps_its_names() -> None:
    """The facts are those of the earlier release: no identity, ids from the number of the topic, counted receipts."""
    at = 1_700_000_000 * SECOND
    journal = RecordingJournal()
    made = [[1, [1, "topic", at, {}]], [7, [2, "sub", 1, "topic", 0, 0, at, {"strict_receipts": False}]]]
    delivered = [[4, [1, 0, 2, 2, at, True]], [12, [2, at, at + 9 * SECOND, 2, [0, 1], [1, 1]]]]
    exchanged = [[18, [2, at, [0], at + 20 * SECOND, True]]]
    journal.facts = [msgspec.msgpack.encode(facts) for facts in (made, delivered, exchanged)]
    log = [Message(body, {}, "", at, offset, offset, 1, 0, 0) for offset, body in enumerate((b"a", b"b"))]
    MemoryJournal.commit(journal, Commit([], [Batch(1, 0, log)]))

    queue = MessageQueue(journal, clock=ManualClock(at))
    assert len(queue.identity) == 32
    topic = queue.get_topic("topic")
    assert topic is not None
    assert topic.identity == f"{queue.identity}-1"
    assert queue.publish("topic", [b"c"]) == [str(1 << 39 | 2)], "ids of a topic never change"
    assert queue.ack_many(["2-0-3", "2-1-2"])[:2] == ([], []), "earlier receipts are valid"
    (fresh,) = queue.pull("sub", 1)
    assert fresh.ack_id not in [receipt(2, 2, stamp) for stamp in range(100)]

    again = MessageQueue(journal, clock=ManualClock(at))
    assert again.identity == queue.identity
    assert again.engine.broker.state.dump() == queue.engine.broker.state.dump()
