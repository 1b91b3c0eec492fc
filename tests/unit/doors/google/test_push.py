"""Push follows changes of subscriptions, and the cost of that."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from typing import Any, cast

import pytest

from penstock import ManualClock, SubscriptionOptions
from penstock.doors.google import push
from penstock.doors.google.endpoints import DeniedError
from penstock.doors.google.push import Plan, Push, failure_reason
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.views import SubscriptionMetadata
from penstock.journal.memory import MemoryJournal

PLAN = Plan(b"", 10, False)


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_change_reads_only_the_changed_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 6: the thousandth subscription costs as much as the first."""
    looked_at: list[str] = []

    def plan_of(metadata: SubscriptionMetadata) -> Plan | None:
        looked_at.append(metadata.name)
        return PLAN if metadata.options.extras else None

    monkeypatch.setattr(push, "plan_of", plan_of)

    async def main() -> None:
        queue, nothing = AsyncMessageQueue(MemoryJournal(), clock=ManualClock()), cast(Any, None)
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("before", "topic", SubscriptionOptions(extras={"push": "1"}))
        pushing = Push(queue, nothing, nothing, logging.getLogger("tests.push"))
        pushing.start()
        await queue.create_subscription("first", "topic")
        await settle()
        assert sorted(looked_at) == ["before", "first"], "all of them at the start"
        looked_at.clear()
        for number in range(5):
            await queue.create_subscription(f"sub-{number}", "topic", SubscriptionOptions(extras={"push": "1"}))
            await settle()
        assert looked_at == [f"sub-{number}" for number in range(5)]
        assert len(pushing._running) == 6
        await queue.delete_subscription("sub-3")
        await settle()
        assert len(pushing._running) == 5
        queue.engine._start_over(cast(Any, None))  # the state is a new one from here on
        looked_at.clear()
        await queue.create_subscription("last", "topic")
        await settle()
        assert len(looked_at) == 7, "every changed subscription is read"
        await pushing.stop()
        await queue.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the name of the endpoint cannot be resolved"),
        (TimeoutError(), "the endpoint gave no answer in time"),
        (
            ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"),
            "the endpoint cannot be reached: connect",
        ),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "TLS with the endpoint failed: "),
        (ConnectionError("the endpoint gave no HTTP answer"), "the endpoint gave no HTTP answer"),
        (DeniedError("not allowed"), "not allowed"),
    ],
)
def test_the_log_says_why_there_was_no_answer(error: OSError | DeniedError, sentence: str) -> None:
    said = failure_reason(error)
    assert said.startswith(sentence)
    assert not re.search(r"Errno|Error|\[", said)
