"""Lists: the cost of a page does not grow with the number of resources, and pages continue in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.assembly import SERVER_LIMITS
from penstock.doors.google.subscriptions import Subscriptions
from penstock.doors.google.topics import Topics
from penstock.doors.http.admin import listing
from penstock.doors.http.admin.calls import Call, Context
from penstock.doors.http.admin.paging import Paging
from penstock.doors.http.admin.subscriptions import SubscriptionQuery, list_subscriptions
from penstock.doors.http.admin.topics import TopicQuery, list_topics
from penstock.doors.port import Condition
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import InvalidArgumentError
from penstock.journal.memory import MemoryJournal
from penstock.wire.turns import Share
from tests.unit.broker.test_scaling import SLACK, bytecodes

FEW, MANY = 50, 3_000


class Google:
    """The part of a Pub/Sub request that lists read."""

    project, page_size, page_token = "projects/penstock", 5, ""


def asked(handler: Callable[[Any], Awaitable[Any]], query: Any) -> Callable[[Context], Awaitable[Any]]:
    return lambda context: handler(Call(context, {}, query, None, None, may_change=True))  # type: ignore[arg-type]


LISTS: dict[str, Callable[[Context], Awaitable[Any]]] = {
    "topics": asked(list_topics, TopicQuery(page_size=5)),
    "topics, descending": asked(list_topics, TopicQuery(page_size=5, sort="-name")),
    "topics of a project": asked(list_topics, TopicQuery(page_size=5, project="penstock")),
    "busiest topics": asked(list_topics, TopicQuery(page_size=5, sort="-rate")),
    "subscriptions": asked(list_subscriptions, SubscriptionQuery(page_size=5)),
    "subscriptions of a topic": asked(list_subscriptions, SubscriptionQuery(page_size=5, topic="t00007")),
    "busiest subscriptions": asked(list_subscriptions, SubscriptionQuery(page_size=5, sort="-rate")),
    "ListTopics": lambda context: Topics(context.queue, None, None).list(Google(), None),  # type: ignore[arg-type]
    "ListSubscriptions": lambda context: Subscriptions(context.queue, None, None).list(Google(), None),  # type: ignore[arg-type]
}


async def cost(ask: Callable[[Context], Awaitable[Any]], number: int) -> int:
    """Return the bytecodes of a list with `number` topics and subscriptions."""
    queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS)
    await queue.start()
    try:
        for each in range(number):
            topic = f"projects/penstock/topics/t{each:05}"
            await queue.create_topic(topic)
            await queue.create_subscription(f"projects/penstock/subscriptions/s{each:05}", topic)
        door = queue.at("http")
        context = Context(door, queue.engine, Condition(), count_decisions=lambda: 0)
        context.listing = Share(lambda: 0, seconds=3600)
        await ask(context)

        def run() -> None:
            for _ in ask(context).__await__():
                pass

        return min(bytecodes(run) for _ in range(3))
    finally:
        await queue.close()


@pytest.mark.parametrize("name", LISTS)
def test_the_cost_of_a_page_depends_only_on_the_page(name: str) -> None:
    """Law 6, for lists: no walk over all topics or subscriptions."""
    few, many = asyncio.run(cost(LISTS[name], FEW)), asyncio.run(cost(LISTS[name], MANY))
    assert many <= SLACK * few + 100


Values = dict[str, int]
NAMES = st.text("ab", min_size=1, max_size=3)


@given(st.dictionaries(NAMES, st.integers(0, 3)), st.integers(1, 4), st.booleans())
def test_pages_by_a_column_follow_one_another(values: Values, size: int, descending: bool) -> None:
    """Names with the lowest value are not counted, and come at their place."""

    async def count(names: Sequence[str]) -> Mapping[str, listing.Value]:
        return {name: values[name] for name in names if values[name]}

    async def walk() -> list[str]:
        context: Any = msgspec.defstruct("Part", ["listing"])(Share(lambda: 0))
        found, token = list[str](), ""
        while True:
            query = Paging(page_size=size, page_token=token)
            page = await listing.page_by_value(context, sorted(values), count, query, descending=descending)
            assert len(page.items) <= size
            assert page.total == len(values)
            found += page.items
            token = page.next_page_token
            if not token:
                return found

    expected = sorted(values, key=lambda name: (values[name], name), reverse=descending)
    assert asyncio.run(walk()) == expected


@pytest.mark.parametrize("key", ["a", [1], [1, 2], ["a", "b"], [None, "b"], {"a": 1}, 5])
def test_a_token_of_another_list_is_refused(key: object) -> None:
    async def story() -> None:
        context: Any = msgspec.defstruct("Part", ["listing"])(Share(lambda: 0))
        query = Paging(page_token=listing.token_of(key))

        async def count(names: Sequence[str]) -> Mapping[str, listing.Value]:
            return {}

        with pytest.raises(InvalidArgumentError, match=r"^This page_token is not one of this list$"):
            await listing.page_by_value(context, ["a"], count, query, descending=False)
        if key != "a":
            with pytest.raises(InvalidArgumentError, match=r"^This page_token is not one of this list$"):
                listing.page_of_sorted(["a"], query, descending=False)

    asyncio.run(story())
