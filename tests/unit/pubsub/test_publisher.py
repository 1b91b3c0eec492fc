"""A publisher with a bug."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock import InternalError, PubSub


def test_a_bug_while_storing_reaches_the_publisher(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with PubSub() as pubsub:
            topic = await pubsub.create_topic("orders")
            with monkeypatch.context() as broken:
                broken.setattr("penstock.engine.async_queue.AsyncMessageQueue.publish", fail)
                with pytest.raises(InternalError, match="The message was not stored; see the log"):
                    await asyncio.wait_for(topic.publish_message(b"secret words"), 10)
            assert await topic.publish_message(b"the next one is stored")

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret words")

    asyncio.run(story())
    assert "publishing failed: RuntimeError at test_publisher.py" in caplog.text
    assert "secret words" not in caplog.text
