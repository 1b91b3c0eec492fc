"""Fault rules: the calls they match, the calls they hit, and invalid rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import doors
from penstock.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from penstock.services.faults import faults as module
from penstock.services.faults.faults import HITS_KEPT, Faults
from penstock.services.faults.queue import DECISIONS
from penstock.services.faults.rules import DOOR_VERBS, ERRORS, Called, Rule, error_of, matches

TOPIC, SUBSCRIPTION = "projects/p/topics/t", "projects/p/subscriptions/s"
PUBLISH = Called("pubsub", "publish", (TOPIC,), 1)
PULL = Called("azure", "pull", (SUBSCRIPTION, TOPIC))
ALL = frozenset({"error", "drop", "expire"})


def rule(effect: Any = "error", **words: Any) -> Rule:
    return Rule(
        effect=effect, **({"error": "unavailable"} if effect == "error" and "code" not in words else {}) | words
    )


def tell(story: Callable[[Faults], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await story(Faults(lambda: 5))

    asyncio.run(main())


def hit_calls(faults: Faults, calls: int) -> list[int]:
    return [number for number in range(1, calls + 1) if faults.strike(PUBLISH, ALL) is not None]


@pytest.mark.parametrize(
    ("words", "called", "expected"),
    [
        ({}, PUBLISH, True),
        ({}, PUBLISH._replace(door="http"), False),  # the admin API has to be named
        ({"door": "http"}, PUBLISH._replace(door="http"), True),
        ({"door": "azure"}, PUBLISH, False),
        ({"verb": "publish"}, PUBLISH, True),
        ({"verb": "pull"}, PUBLISH, False),
        ({"project": "p"}, PUBLISH, True),
        ({"project": "q"}, PUBLISH, False),
        ({"project": "p"}, PUBLISH._replace(names=()), False),
        ({"resource": "t"}, PUBLISH, True),
        ({"resource": TOPIC}, PULL, True),  # a topic includes its subscriptions
        ({"resource": "s"}, PULL, True),
        ({"resource": "projects/q/topics/t"}, PULL, False),
        ({"effect": "disk_full"}, PULL, False),  # only for publishes, even if no verb is named
        ({"effect": "duplicate"}, PUBLISH, False),
        ({"effect": "close"}, PULL._replace(verb="push"), False),  # push has no client to disconnect
        ({"effect": "hold"}, PULL._replace(verb="push"), True),
        ({"effect": "drop"}, Called("text", "nack", (SUBSCRIPTION,)), False),
    ],
)
def test_a_rule_matches_calls(words: dict[str, Any], called: Called, expected: bool) -> None:
    assert matches(rule(**words), called) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"times": 2}, [1, 2]),
        ({"times": 0}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"every": 2}, [2, 4, 6]),
        ({"every": 2, "times": 1}, [2]),
        ({"probability": 1.0}, [1, 2, 3, 4, 5, 6]),
        ({"probability": 0.5, "seed": 7}, [1, 2, 4, 6]),
    ],
)
def test_which_calls_are_hit(words: dict[str, Any], expected: list[int]) -> None:
    async def story(faults: Faults) -> None:
        fault = faults.add(rule(**words))
        assert hit_calls(faults, 6) == expected
        assert (fault.calls, fault.hits) == (6, len(expected))
        assert [each.call for each in fault.last] == expected

    tell(story)


def test_the_same_seed_hits_the_same_calls() -> None:
    async def story(faults: Faults) -> None:
        found = []
        for _ in range(2):
            fault = faults.add(rule(probability=0.3, seed=42))
            found.append(hit_calls(faults, 100))
            faults.remove(fault.id)
        assert found[0] == found[1]
        assert 10 < len(found[0]) < 50

    tell(story)


def test_every_rule_counts_a_call_and_the_oldest_hits_it() -> None:
    async def story(faults: Faults) -> None:
        first, second = faults.add(rule(nth=2)), faults.add(rule(times=2))
        assert [faults.strike(PUBLISH, ALL) for _ in range(4)] == [second, first, second, None]
        assert (first.calls, second.calls) == (4, 4)

    tell(story)


def test_expire_hits_once_by_default() -> None:
    async def story(faults: Faults) -> None:
        fault = faults.add(rule("expire"))
        for _ in range(3):
            faults.strike(PULL, ALL)
        assert (fault.hits, fault.calls) == (1, 3)

    tell(story)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (rule(nth=1, every=2), "Set only one of nth, every and probability, not nth and every"),
        (rule(seed=1), "A seed needs a probability"),
        (rule("latency"), "The effect latency needs seconds, more than 0"),
        (rule("drop", seconds=1), "The effect drop takes no seconds"),
        (rule("expire", times=0), "The effect expire needs times above 0: otherwise the same messages"),
        (rule("drop", error="internal"), "error belongs to the effect error, not to drop"),
        (rule("close", message="x"), "message belongs to the effect error, not to close"),
        (Rule(effect="error"), "The effect error needs either error or code"),
        (rule(error="internal", code="full", door="text"), "The effect error needs either error or code"),
        (rule(code="full"), "A code needs a protocol"),
        (rule(code="nope", door="text"), "text has no code nope; its codes are busy, full"),
        (rule(code="X", door="flight"), "flight has no code X"),
        (rule(retry_after_seconds=1, door="text"), "retry_after_seconds is not possible with the text protocol"),
        (rule("disk_full", verb="ack"), "The effect disk_full is for publish, not for ack"),
        (rule("reorder", verb="publish"), "The effect reorder is for pull, not for publish"),
        (
            rule("drop", verb="push"),
            "The effect drop is not possible here: a push has no caller that waits for an answer",
        ),
        (rule(verb="detach", door="azure"), "azure has no verb detach; its verbs are ack, change, create, delete, "),
        (rule("duplicate", door="flight"), "The effect duplicate is for pull, push, which flight does not"),
        (rule(project="my project"), "A project is a name without slashes and spaces"),
        (rule(project="projects/p"), "A project is a name without slashes and spaces"),
        (
            rule(verb="nack", door="text"),
            "The effect error is not possible here: the text protocol does not answer when",
        ),
    ],
)
def test_invalid_rules_are_refused(wrong: Rule, sentence: str) -> None:
    async def story(faults: Faults) -> None:
        faults.codes["text"] = {"full", "busy"}
        with pytest.raises(InvalidArgumentError) as raised:
            faults.add(wrong)
        assert raised.value.message.startswith(sentence)
        assert faults.all() == []

    tell(story)


@pytest.mark.parametrize("door", DOOR_VERBS)
def test_the_verbs_of_a_door_are_the_methods_that_it_calls(door: str) -> None:
    verbs = {method: {named.verb} for method, named in DECISIONS.items()}
    verbs |= {"pull": {"pull"}, "lease": {"pull"}, "read": {"read"}}
    folder = Path(doors.__file__).parent / {"pubsub": "google"}.get(door, door)
    asked = re.compile(rf"queue\.({'|'.join(verbs)})\b")
    found = {method for file in folder.rglob("*.py") for method in asked.findall(file.read_text(encoding="utf-8"))}
    pushes = {"push"} if door == "pubsub" else set[str]()
    assert set[str]().union(*(verbs[method] for method in found)) | pushes == DOOR_VERBS[door]


def test_the_numbers_of_rules_and_hits_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RULES_MAX", 3)

    async def story(faults: Faults) -> None:
        fault = faults.add(rule())
        for _ in range(2):
            faults.add(rule())
        with pytest.raises(ResourceExhaustedError, match="at most 3 faults"):
            faults.add(rule())
        hit_calls(faults, HITS_KEPT + 5)
        assert (fault.hits, len(fault.last)) == (HITS_KEPT + 5, HITS_KEPT)
        assert fault.last[-1].call == HITS_KEPT + 5

    tell(story)


def test_the_faults_of_a_project_are_cleared_together() -> None:
    async def story(faults: Faults) -> None:
        mine, other = faults.add(rule(project="p")), faults.add(rule(project="q"))
        assert faults.clear("p") == 1
        assert faults.all() == [other]
        with pytest.raises(NotFoundError, match="Fault not found: 1"):
            faults.find(mine.id)

    tell(story)


def test_a_wait_for_hits_ends() -> None:
    async def story(faults: Faults) -> None:
        fault = faults.add(rule())
        waiting = asyncio.ensure_future(faults.wait(fault, 2, 60))
        await asyncio.sleep(0)
        hit_calls(faults, 2)
        await waiting
        ended = asyncio.ensure_future(faults.wait(fault, 9, 60))
        await asyncio.sleep(0)
        faults.remove(fault.id)
        await ended
        await faults.wait(faults.add(rule()), 1, 0)

    tell(story)


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_every_error_name_has_its_class(name: str) -> None:
    error = error_of(rule(error=name, retry_after_seconds=2), "7")
    assert type(error) is ERRORS[name]
    assert error.message.endswith("(fault 7)")
    assert error.retry_after_seconds == 2
