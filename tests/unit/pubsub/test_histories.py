"""Generated histories: with any listeners, clocks and closings, every message is handled and no ack is undone.

Hypothesis draws the histories. A message that was acked in time must never be delivered again, and at the end, when all
listeners ack, every message has been delivered to every subscription. All time is that of the clock: a wait for an
event that never comes, or a task that never rests, fails after a number of turns of the loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock import ManualClock, Message, PubSub, Subscription, Topic
from penstock.broker.model import SECOND
from penstock.engine.clock import sleep_until
from penstock.pubsub.acks import Acks
from penstock.pubsub.session import Outbox

NEWS_SECONDS_MAX = 20
TURNS_MAX = 100_000  # turns of the event loop in one history; the longest take some thousands

ANSWERS = ("ack", "ack", "ack", "nack", "raise", "nothing", "later", "extend", "respond", "slow", "slow", "slow")
FLOW = st.fixed_dictionaries({"max_messages": st.integers(1, 5), "allow_excess_messages": st.booleans()})
OPTIONS = st.fixed_dictionaries(
    {
        "ack_deadline_seconds": st.integers(1, 5),
        "flow_control": FLOW,
        "enable_message_ordering": st.booleans(),
        "enable_exactly_once_delivery": st.booleans(),
        "max_extension_time": st.sampled_from([0, 7, 3600, 3600]),
        "close_options": st.fixed_dictionaries({"behavior": st.sampled_from(["NACK", "WAIT"])}),
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 6)),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["close", "open", "limit", "read", "pull"]), st.integers(1, 5)),
    ),
    max_size=25,
)


class History:
    def __init__(self, clock: ManualClock, topic: Topic, subscription: Subscription, answers: list[str]) -> None:
        self.clock = clock
        self.topic = topic
        self.subscription = subscription
        self.answers = answers
        self.published: set[str] = set()
        self.delivered: set[str] = set()
        self.acked: set[str] = set()  # in time, and known to the queue
        self.errors: list[Exception] = []
        self.seen: Counter[str] = Counter()  # number of times that a program had each message
        self.running: set[str] = set()  # held by a listener whose leases are extended
        self.hurried = False
        self.turn = 0

    def see(self, message: Message) -> None:
        """Record a delivery to a program."""
        assert message.id not in self.running, "the message was delivered again while its listener ran"
        self.seen[message.id] += 1
        assert message.delivery_attempt == self.seen[message.id], (
            "an attempt was counted that no program saw, or not counted"
        )

    async def slow(self, message: Message) -> None:
        """Work for longer than any deadline in this module."""
        if self.hurried or self.subscription.options.max_extension_seconds < 3600:
            return
        self.running.add(message.id)
        try:
            await sleep_until(self.clock, self.clock.now() + 8 * SECOND)
            self.running.discard(message.id)
            await self.ack(message)
        finally:
            self.running.discard(message.id)

    async def listen(self, message: Message) -> None:
        self.see(message)
        assert message.id not in self.acked, "an ack was undone"
        self.delivered.add(message.id)
        self.turn += 1
        patient = self.answers and message.delivery_attempt < 5  # otherwise the history would not end
        answer = self.answers[self.turn % len(self.answers)] if patient else "ack"
        await getattr(self, answer)(message)

    async def ack(self, message: Message) -> None:
        message.ack()
        self.acked.add(message.id)

    async def respond(self, message: Message) -> None:
        if await message.ack_with_response() == 0:
            self.acked.add(message.id)

    async def nack(self, message: Message) -> None:
        message.nack()

    async def raise_(self, message: Message) -> None:
        raise ValueError("made up")

    async def nothing(self, message: Message) -> None:
        pass

    async def later(self, message: Message) -> None:
        await asyncio.sleep(0)
        await self.ack(message)

    async def extend(self, message: Message) -> None:
        message.modify_ack_deadline(3)

    # ------------------------------------------------------------------ steps

    async def publish(self, number: int) -> None:
        publishes = [self.topic.publish(b"x", ordering_key=f"k{each % 2}") for each in range(number)]
        self.published.update(await asyncio.gather(*publishes))

    async def wait(self, tenths: int) -> None:
        for _ in range(tenths):
            await settle()  # acks given before time passes are in time
            self.clock.advance(0.1)

    async def close(self, _: int) -> None:
        self.subscription.set_options(close_options={"behavior": "NACK"})
        await self.subscription.close()

    async def open(self, _: int) -> None:
        self.subscription.open()

    async def limit(self, number: int) -> None:
        self.subscription.set_options(flow_control={"max_messages": number})

    async def pull(self, number: int) -> None:
        for message in await self.subscription.pull(number):
            await self.quietly(message)

    async def read(self, number: int) -> None:
        """Take some messages in a loop, if there are any now."""
        reader = aiter(self.subscription)
        for _ in range(number):
            asking = asyncio.ensure_future(anext(reader))
            await settle()
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])
                break
            await self.quietly(asking.result())
        await reader.aclose()  # type: ignore[attr-defined]

    async def quietly(self, message: Message) -> None:
        self.hurried = True  # the clock stands still meanwhile
        try:
            await self.listen(message)
        except ValueError:
            message.nack()
        finally:
            self.hurried = False

    async def finish(self, _: int) -> None:
        """Let every listener ack from now on."""
        self.answers = []
        self.subscription.open()
        for _ in range(200):
            await settle()
            if self.acked >= self.published:
                break
            self.clock.advance(1)
        assert self.delivered == self.published == self.acked


setattr(History, "raise", History.raise_)


async def settle() -> None:
    """Run the event loop until no task is ready. There are no threads."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)


class BoundedLoop(asyncio.SelectorEventLoop):
    """An event loop without real time. From outside comes only the news that a store is closed."""

    turns = 0

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns > TURNS_MAX:
            self.turns = 0  # for tasks that clean up
            raise AssertionError("There is always something to do")
        if not (self._ready or self._stopping):  # type: ignore[attr-defined]
            seconds = NEWS_SECONDS_MAX if self._default_executor else 0  # type: ignore[attr-defined]
            self._process_events(self._selector.select(seconds))  # type: ignore[attr-defined]
            if not self._ready:  # type: ignore[attr-defined]
                raise AssertionError("All wait, and nothing comes")
        super()._run_once()  # type: ignore[misc]


HISTORIES = given(OPTIONS, st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=12), STEPS)


def _run(options: dict[str, Any], answers: list[str], steps: list[tuple[str, int]]) -> None:
    with asyncio.Runner(loop_factory=BoundedLoop) as runner:
        runner.run(_tell(options, answers, steps))


test_every_message_is_handled_and_no_ack_undone = settings(max_examples=60, deadline=None)(HISTORIES(_run))


async def _tell(options: dict[str, Any], answers: list[str], steps: list[tuple[str, int]]) -> None:
    clock = ManualClock()
    pubsub = PubSub(clock=clock)
    topic = await pubsub.create_topic("topic")
    subscription = await topic.create_subscription("subscription", options)
    history = History(clock, topic, subscription, answers)
    subscription.on("message", history.listen)
    subscription.on("error", history.errors.append)
    subscription.open()
    # Closing does not wait for unanswered messages, because the clock stands still.
    for name, number in [*steps, ("finish", 0), ("close", 0)]:
        step: Callable[[int], Coroutine[Any, Any, None]] = getattr(history, name)
        await step(number)
        assert {type(error) for error in history.errors} <= {ValueError}, history.errors
    await pubsub.close()
    assert not pubsub.session.tasks


def _acks_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acks, "ack", lambda self, message: None)


def _leases_are_not_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acks, "hold", lambda self, messages, seconds: None)


def _closing_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def planted(self: Outbox) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Outbox, "drain", planted)


@pytest.mark.parametrize("plant", [_acks_are_dropped, _leases_are_not_extended, _closing_waits_for_ever])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the bugs makes a program wait forever. The test fails, and does not hang."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate])(HISTORIES(_run))()
