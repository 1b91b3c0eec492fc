"""A missing dead letter topic: each attempt is an error event, and the message stays without a busy loop."""

from __future__ import annotations

from penstock import FailedPreconditionError
from tests.acceptance.python_api import Harness, bodies, story


@story()
async def test_a_missing_dead_letter_topic_is_an_error_each_time(harness: Harness) -> None:
    """001 BR-010: without the topic the message stays, and comes again after growing delays."""
    topic = await harness.topic()
    policy = {"dead_letter_topic": "dead", "max_delivery_attempts": 2}
    subscription = await topic.create_subscription("my-sub", dead_letter_policy=policy)
    received = harness.listen(subscription, lambda message: message.nack())
    await topic.publish_message(b"a")
    await harness.until(lambda: len(received) == 2)
    await harness.quiet()
    assert len(received) == 2, "the message waits"
    assert harness.errors == []
    for count, seconds in enumerate([1, 2, 4], 1):
        await harness.advance(seconds)
        await harness.until(lambda count=count: len(received) == 2 + count)  # type: ignore[misc]
        assert len(harness.errors) == count
    (kind,) = {type(error) for error in harness.errors}
    assert kind is FailedPreconditionError
    assert str(harness.errors[0]) == (
        "A message of projects/penstock/subscriptions/my-sub cannot be dead-lettered: "
        "there is no topic projects/penstock/topics/dead"
    )
    letters = await (await harness.pubsub.create_topic("dead")).create_subscription("letters")
    await harness.advance(8)
    await harness.until(lambda: len(received) == 6)
    await harness.quiet()
    assert bodies(await letters.pull(1)) == ["a"]
    assert len(harness.errors) == 3
