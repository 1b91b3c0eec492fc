"""Messages with ordering keys that must be read from the journal before they can be moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Draft, ManualClock, SubscriptionOptions
from penstock.assembly import open_queue
from penstock.broker.log import Sizes

BODY = b"x" * 4096


@pytest.mark.parametrize("durable", [False, True])
def test_a_nack_of_several_of_a_key_that_are_not_in_memory_is_answered_for_each(durable: bool, tmp_path: Path) -> None:
    """004 BR-016, BR-018: messages of one key leave in order after their last attempt, and every receipt is valid."""
    data = tmp_path / "data" if durable else None
    options = SubscriptionOptions(ordering=True, ordering_window=4, dead_letter_topic="dead", max_delivery_attempts=1)
    with open_queue(data, clock=ManualClock(), sizes=Sizes(cache_bytes=6000)) as queue:
        for name in ("topic", "dead"):
            queue.register_topic(name)
        queue.register_subscription("sub", "topic", options)
        queue.register_subscription("dead-sub", "dead")
        for number in range(4):
            queue.publish("topic", [Draft(b"%d" % number + BODY, {}, "key")])
        receipts = [message.ack_id for message in queue.pull("sub", 4)]
        queue.publish("topic", [Draft(BODY)])  # no message of the key is in memory now
        settled = queue.nack_many(receipts)
        assert (len(receipts), settled.stale, settled.malformed) == (4, [], [])
        assert [message.data[:1] for message in queue.pull("dead-sub", 10)] == [b"0", b"1", b"2", b"3"]
        assert queue.backlog("sub").messages == 1
