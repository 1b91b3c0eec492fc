"""The faults of a server: its rules, how often each was called and hit, and who waits for one of them.

Bounded: so many rules, and of each the last hits; the counts go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import NamedTuple

from penstock.errors import NotFoundError, ResourceExhaustedError
from penstock.faults.rules import Called, Rule, check, is_about, limit_of

RULES_MAX = 1000
HITS_KEPT = 100

log = logging.getLogger("penstock.faults")


class Hit(NamedTuple):
    call: int  # the number of the call among those that the rule is about
    at: int
    door: str
    verb: str
    resource: str
    messages: int  # that the call was about


class Fault:
    """A rule in force."""

    def __init__(self, number: int, rule: Rule, at: int) -> None:
        self.number = number
        self.rule = rule
        self.created_at = at
        self.calls = 0  # that it is about
        self.hits = 0
        self.held = 0  # calls that wait now, for its seconds or its end
        self.last: deque[Hit] = deque(maxlen=HITS_KEPT)
        self.over = asyncio.Event()  # it is removed
        self.hit = asyncio.Event()  # set and made anew with every hit
        self._chance = Random(rule.seed or 0)  # noqa: S311 - the same calls are hit every time

    @property
    def id(self) -> str:
        return str(self.number)

    def strikes(self) -> bool:
        """Count one more call; whether it is hit."""
        self.calls += 1
        rule, limit = self.rule, limit_of(self.rule)
        chosen = rule.probability is None or self._chance.random() < rule.probability  # drawn for every call
        if limit and self.hits >= limit:
            return False
        if rule.nth is not None:
            return self.calls == rule.nth
        return self.calls % rule.every == 0 if rule.every is not None else chosen

    def note(self, called: Called, at: int) -> None:
        self.hits += 1
        resource = called.names[0] if called.names else ""
        self.last.append(Hit(self.calls, at, called.door, called.verb, resource, called.messages))
        self.hit.set()
        self.hit = asyncio.Event()
        log.debug("fault %s: %s for %s of %s", self.id, self.rule.effect, called.verb, resource)


class Faults:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.codes: dict[str, Collection[str]] = {}  # of the protocols, by door
        self._faults: dict[str, Fault] = {}
        self._number = 0
        self.news = asyncio.Event()  # set and made anew when a rule comes

    @property
    def latest(self) -> int:
        """The number of the last rule that came."""
        return self._number

    # ------------------------------------------------------------------ rules

    def add(self, rule: Rule) -> Fault:
        check(rule, self.codes)
        if len(self._faults) >= RULES_MAX:
            raise ResourceExhaustedError(f"A server has at most {RULES_MAX} faults: remove some first")
        self._number += 1
        fault = self._faults[str(self._number)] = Fault(self._number, rule, self._now())
        log.info("fault %s: %s", fault.id, shown(rule))
        self.news.set()
        self.news = asyncio.Event()
        return fault

    def find(self, fault: str) -> Fault:
        if fault not in self._faults:
            raise NotFoundError(f"Fault not found: {fault[:100]}")
        return self._faults[fault]

    def all(self, project: str = "") -> list[Fault]:
        """Those of a project, or all of them."""
        return [each for each in self._faults.values() if not project or each.rule.project == project]

    def remove(self, fault: str) -> None:
        """Whoever it holds goes on, and whoever waits for its hits is answered."""
        found = self.find(fault)
        del self._faults[fault]
        found.over.set()
        found.hit.set()

    def clear(self, project: str = "") -> int:
        faults = self.all(project)
        for each in faults:
            self.remove(each.id)
        return len(faults)

    # ------------------------------------------------------------------ hits

    def strike(self, called: Called, effects: Collection[str], since: int = 0) -> Fault | None:
        """The oldest rule that hits a call. Every rule counts every call it is about, also where another hits it.

        `since`: only rules that came after the one of this number.
        """
        found = None
        for fault in list(self._faults.values()):
            if fault.number <= since or fault.rule.effect not in effects or not is_about(fault.rule, called):
                continue
            if fault.strikes() and found is None:
                found = fault
        if found is not None:
            found.note(called, self._now())
        return found

    def expects(self, called: Called, effect: str) -> bool:
        """Whether a call may be hit in this way."""
        return any(each.rule.effect == effect and is_about(each.rule, called) for each in self._faults.values())

    async def hold(self, fault: Fault) -> None:
        """Until the rule is removed, or for its seconds."""
        fault.held += 1
        try:
            await asyncio.wait_for(fault.over.wait(), fault.rule.seconds)
        except TimeoutError:
            pass
        finally:
            fault.held -= 1

    async def wait(self, fault: Fault, hits: int, seconds: float) -> None:
        """Until it has hit so often, it is removed, or the time is over."""
        until = asyncio.get_running_loop().time() + seconds
        while fault.hits < hits and not fault.over.is_set():
            left = until - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(fault.hit.wait(), max(0.0, left))
            except TimeoutError:
                return


def shown(rule: Rule) -> str:
    """A rule as one line: what it is about, and what it does."""
    return " ".join(f"{name}={value}" for name, value in given(rule).items())


def given(rule: Rule) -> Mapping[str, object]:
    """What a rule says."""
    words = {name: getattr(rule, name) for name in rule.__struct_fields__}
    return {name: value for name, value in words.items() if value not in (None, "")}
