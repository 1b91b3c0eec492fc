"""Invalid arguments of the test kit: each is refused with one sentence, and has no effect."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from math import inf, nan
from typing import Any

import pytest

from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.testing import Project

Use = Callable[[Project], Any]
ONE_OF_TWO = "Pass either a duration, such as 60 or days=1, or to="


def refused(use: Use, project: Project) -> str:
    with pytest.raises(InvalidArgumentError) as raised:
        use(project)
    return raised.value.message


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda clock: clock.advance(), ONE_OF_TWO),
        (lambda clock: clock.advance(None), ONE_OF_TWO),
        (lambda clock: clock.advance(5, to="2100-01-01T00:00:00Z"), ONE_OF_TWO),
        (lambda clock: clock.advance(to="2100-01-01T00:00:00Z", days=1), ONE_OF_TWO),
        (lambda clock: clock.advance("10"), "seconds must be a number, not '10'"),
        (lambda clock: clock.advance(True), "seconds must be a number, not True"),
        (lambda clock: clock.advance(nan), "seconds must be a number, not nan"),
        (lambda clock: clock.advance(inf), "seconds must be a number, not inf"),
        (lambda clock: clock.advance(10**400), f"seconds must be a number, not 1{'0' * 59}"),
        (lambda clock: clock.advance(days="1"), "days must be a number, not '1'"),
        (
            lambda clock: clock.advance(months=1),
            "Pass time as seconds, minutes=, hours=, days= or weeks=, not months=1",
        ),
        (lambda clock: clock.advance(-1), "seconds must be a number, at least 0"),
        (
            lambda clock: clock.advance(to=datetime(2100, 1, 1)),  # noqa: DTZ001 - that is what is wrong
            "to needs a time zone, such as datetime.timezone.utc: datetime.datetime(2100, 1, 1, 0, 0)",
        ),
        (
            lambda clock: clock.freeze(date(2100, 1, 1)),
            "at must be a datetime or a str such as 2100-01-01T00:00:00Z, not datetime.date(2100, 1, 1)",
        ),
        (lambda clock: clock.freeze(""), "at must be a datetime or a str such as 2100-01-01T00:00:00Z, not ''"),
        (lambda clock: clock.automatic(nan), "idle_seconds must be a number, not nan"),
    ],
)
def test_times(penstock_project: Project, use: Callable[[Any], Any], sentence: str) -> None:
    assert refused(lambda project: use(project.clock), penstock_project) == sentence
    assert penstock_project.clock.mode == "shared"


def test_patience(penstock_project: Project) -> None:
    penstock_project.clock.patience_seconds = nan
    with pytest.raises(InvalidArgumentError, match=r"^patience_seconds must be a number, not nan$"):
        penstock_project.clock.freeze()


def test_units_come_on_top_of_a_timedelta(penstock_project: Project) -> None:
    clock = penstock_project.clock
    start = clock.freeze()
    assert clock.advance(timedelta(minutes=1), hours=1) - start == timedelta(minutes=61)


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (
            lambda project: project.settle(5),
            "settle takes names of subscriptions, not '5'; pass seconds as seconds=5",
        ),
        (lambda project: project.settle(None), "settle takes names of subscriptions, not 'None'"),
        (lambda project: project.settle(seconds="x"), "seconds must be a number, not 'x'"),
        (lambda project: project.settle(seconds=nan), "seconds must be a number, not nan"),
        (lambda project: project.subscription("billing").settle("x"), "seconds must be a number, not 'x'"),
        (lambda project: project.queue("work").settle("x"), "seconds must be a number, not 'x'"),
        (lambda project: project.topic("t").published(12), "Message data must be bytes or str, not 12"),
        (
            lambda project: project.topic("t").published(attributes={"kind": 1}),
            "Attributes must be a mapping of str to str, not {'kind': 1}",
        ),
        (
            lambda project: project.queue("work").published(attributes="kind"),
            "Attributes must be a mapping of str to str, not 'kind'",
        ),
        (lambda project: project.topic("t").published(ordering_key=5), "The ordering key must be str, not 5"),
        (
            lambda project: project.topic("t").published(times="1"),
            "times must be a number of messages, 0 or more, not '1'",
        ),
        (lambda project: project.faults.add(latency=nan), "latency must be a number, not nan"),
        (
            lambda project: project.faults.add(error="unavailable", retry_after_seconds=inf),
            "retry_after_seconds cannot be sent as JSON: inf",
        ),
        (
            lambda project: project.faults.add(error="unavailable", message=b"x"),
            "message cannot be sent as JSON: b'x'",
        ),
    ],
)
def test_invalid_calls_are_refused_with_a_sentence(penstock_project: Project, use: Use, sentence: str) -> None:
    assert refused(use, penstock_project) == sentence
    assert list(penstock_project.faults) == []


def test_settle_takes_short_names_in_the_project_of_the_test(penstock_project: Project) -> None:
    admin, name = penstock_project.server.admin, penstock_project.name
    with pytest.raises(NotFoundError, match=f"Subscription not found: projects/{name}/subscriptions/nope"):
        penstock_project.settle("nope")
    topic = penstock_project.topic("orders")
    assert refused(lambda project: project.settle(topic), penstock_project) == (
        f"settle takes names of subscriptions, not '{topic}'"
    )
    admin.post("/topics", {"name": "orders", "project": name})
    admin.post("/subscriptions", {"name": "billing", "topic": "orders", "project": name})
    penstock_project.settle("billing", seconds=0)
    admin.post("/topics/orders/messages", {"messages": [{"data": "one"}]}, project=name)
    with pytest.raises(AssertionError, match="0: 'one' was never delivered"):
        penstock_project.settle("billing", seconds=0)


@pytest.mark.parametrize("by", ["remove", "clear"])
def test_a_removed_fault_keeps_its_counts(penstock_project: Project, by: str) -> None:
    admin, name = penstock_project.server.admin, penstock_project.name
    fault = penstock_project.faults.add(door="http", verb="create", error="not_found", times=1)
    with pytest.raises(NotFoundError):
        admin.post("/topics", {"name": "orders", "project": name})
    fault.remove() if by == "remove" else penstock_project.faults.clear()
    assert fault.wait() is fault
    with pytest.raises(AssertionError, match=re.escape("; 1 hit in 1 call> did not hit 2 times within 10 seconds")):
        fault.wait(2)
    assert [each["verb"] for each in fault.log] == ["create"]
