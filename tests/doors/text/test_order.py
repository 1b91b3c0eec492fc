"""The order of messages in windows that are larger than a block, over a journal with slow commits."""

from __future__ import annotations

import pytest

from penstock.doors.text.options import TextOptions
from tests.doors.text.harness import Harness, consume, play, send
from tests.unit.engine.journals import StepJournal


@pytest.mark.parametrize("version", [1, 2])
def test_a_window_larger_than_a_block_keeps_the_order_while_commits_are_slow(version: int) -> None:
    """T-014: a block whose messages are durable does not overtake one that waits for its commit."""
    journal = StepJournal()
    options = TextOptions(dispatch_messages=3, dispatch_bytes=100)  # two blocks may wait for their commit at once

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        contents = [b"%020d" % number for number in range(30)]
        await peer.say(*(send(b"q", content) for content in contents))
        await peer.hear_many(30)
        await harness.queue.commit()
        consumer, journal.stepping = await harness.peer(), True
        await consumer.say(consume(b"q", 3, version))
        await harness.until(lambda: journal.waiting)  # the commit of the first block only
        await consumer.say(consume(b"q", 27 if version == 1 else 30, version))
        await harness.until(lambda: harness.in_flight("q") == 6)
        journal.step()
        await harness.until(lambda: harness.in_flight("q") > 6)
        journal.step_freely()
        assert await consumer.contents(30) == contents

    play(scenario, journal=journal, options=options)
