"""Seeks of a subscription to times and snapshots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from tests.acceptance.python_api import Harness, ack, bodies, story


@story()
async def test_a_subscription_seeks_back_to_a_time(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", retain_acked_messages=True)
    received = harness.listen(subscription, ack)
    await topic.publish_message(b"before")
    await harness.until(lambda: received)
    await harness.advance(10)
    moment = datetime.fromtimestamp(harness.clock.now() / 1e9, UTC)
    await topic.publish_message(b"after 1")
    await topic.publish_message(b"after 2")
    await harness.until(lambda: len(received) == 3)
    await harness.quiet()
    await subscription.seek(moment)
    await harness.until(lambda: len(received) == 5)
    assert bodies(received) == ["before", "after 1", "after 2", "after 1", "after 2"]


@story()
async def test_a_subscription_seeks_ahead_to_a_time(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await topic.publish_message(b"never read")
    await subscription.seek(datetime.fromtimestamp(harness.clock.now() / 1e9, UTC) + timedelta(seconds=1))
    harness.clock.advance(2)
    await topic.publish_message(b"read")
    assert bodies(await subscription.pull(10)) == ["read"]


@story()
async def test_a_snapshot_keeps_unacked_messages(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    for text in (b"a", b"b", b"c"):
        await topic.publish_message(text)
    first, *_ = await subscription.pull(10)
    await first.ack_with_response()
    snapshot = await subscription.create_snapshot("snap", labels={"why": "test"})
    assert snapshot.name == "projects/penstock/snapshots/snap"
    assert await snapshot.exists()
    assert (await snapshot.get_metadata()).labels == {"why": "test"}
    harness.clock.advance(30)
    for message in await subscription.pull(10):
        await message.ack_with_response()
    await topic.publish_message(b"d")
    for target in (snapshot, "snap", harness.pubsub.snapshot("snap")):
        await subscription.seek(target)
        assert bodies(await subscription.pull(10)) == ["b", "c", "d"]
    await subscription.snapshot("snap").seek()
    assert len(await subscription.pull(10)) == 3


@story("memory", "sqlite")
async def test_a_seek_releases_held_messages(harness: Harness) -> None:
    """Earlier deliveries become invalid, also for the consumer that holds them."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_messages": 1})
    snapshot = await subscription.create_snapshot("snap")
    received = harness.listen(subscription)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await subscription.seek(snapshot)
    await harness.until(lambda: len(received) == 2)
    received[0].ack()
    await harness.quiet()
    received[1].ack()
    await harness.advance(30)
    assert len(received) == 2


@story("memory", "shared sqlite")
async def test_snapshots_are_created_and_deleted(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    snapshot = await subscription.snapshot("snap").create()
    with pytest.raises(AlreadyExistsError):
        await subscription.create_snapshot("snap")
    await snapshot.delete()
    assert not await snapshot.exists()
    for operation in (snapshot.delete, snapshot.get_metadata, snapshot.seek, lambda: subscription.seek("snap")):
        with pytest.raises(NotFoundError, match="Snapshot not found: projects/penstock/snapshots/snap"):
            await operation()
    loose = harness.pubsub.snapshot("snap")
    for operation in (loose.create, loose.seek):
        with pytest.raises(FailedPreconditionError, match="needs a subscription"):
            await operation()


@story("memory")
async def test_a_seek_time_needs_a_zone(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    with pytest.raises(InvalidArgumentError, match="time zone"):
        await subscription.seek(datetime(2024, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(InvalidArgumentError, match="name in snapshots"):
        await subscription.seek(5)  # type: ignore[arg-type]
