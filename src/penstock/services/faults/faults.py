"""The fault rules of a server, with their counts and last hits."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import NamedTuple

from penstock.errors import NotFoundError, ResourceExhaustedError
from penstock.services.faults.rules import Called, Rule, check, limit_of, matches

RULES_MAX = 1000
HITS_KEPT = 100

log = logging.getLogger("penstock.services.faults")


class Hit(NamedTuple):
    """A call that a fault acted on."""

    call: int  # number of the call among the matching calls
    at: int
    door: str
    verb: str
    resource: str
    messages: int  # number of messages of the call


class Fault:
    """An active rule."""

    def __init__(self, number: int, rule: Rule, at: int) -> None:
        self.number = number
        self.rule = rule
        self.created_at = at
        self.calls = 0  # matching calls
        self.hits = 0
        self.held = 0  # calls that wait now
        self.last: deque[Hit] = deque(maxlen=HITS_KEPT)
        self.over = asyncio.Event()  # set when the fault is removed
        self.hit = asyncio.Event()  # set and replaced at each hit
        self._chance = Random(rule.seed or 0)  # noqa: S311 - the same calls are hit every time

    @property
    def id(self) -> str:
        return str(self.number)

    def count_call(self) -> bool:
        """Count a matching call. Return whether it is hit."""
        self.calls += 1
        rule, limit = self.rule, limit_of(self.rule)
        chosen = rule.probability is None or self._chance.random() < rule.probability  # drawn for each call
        if limit and self.hits >= limit:
            return False
        if rule.nth is not None:
            return self.calls == rule.nth
        return self.calls % rule.every == 0 if rule.every is not None else chosen

    def record_hit(self, called: Called, at: int) -> None:
        self.hits += 1
        resource = called.names[0] if called.names else ""
        self.last.append(Hit(self.calls, at, called.door, called.verb, resource, called.messages))
        self.hit.set()
        self.hit = asyncio.Event()
        log.debug("fault %s: %s for %s of %s", self.id, self.rule.effect, called.verb, resource)


class Faults:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.codes: dict[str, Collection[str]] = {}  # error codes of each door's protocol
        self._faults: dict[str, Fault] = {}
        self._number = 0
        self.added = asyncio.Event()  # set and replaced when a rule is added

    @property
    def latest(self) -> int:
        """The number of the last rule that was added."""
        return self._number

    # ------------------------------------------------------------------ rules

    def add(self, rule: Rule) -> Fault:
        check(rule, self.codes)
        if len(self._faults) >= RULES_MAX:
            raise ResourceExhaustedError(f"A server has at most {RULES_MAX} faults: remove some first")
        self._number += 1
        fault = self._faults[str(self._number)] = Fault(self._number, rule, self._now())
        log.info("fault %s: %s", fault.id, format_rule(rule))
        self.added.set()
        self.added = asyncio.Event()
        return fault

    def find(self, fault: str) -> Fault:
        if fault not in self._faults:
            raise NotFoundError(f"Fault not found: {fault[:100]}")
        return self._faults[fault]

    def all(self, project: str = "") -> list[Fault]:
        """Return the faults of a project, or all faults if it is empty."""
        return [fault for fault in self._faults.values() if not project or fault.rule.project == project]

    def remove(self, fault: str) -> None:
        """Remove a fault. Held calls continue, and waits for its hits end."""
        removed = self.find(fault)
        del self._faults[fault]
        removed.over.set()
        removed.hit.set()

    def clear(self, project: str = "") -> int:
        faults = self.all(project)
        for fault in faults:
            self.remove(fault.id)
        return len(faults)

    # ------------------------------------------------------------------ hits

    def strike(self, called: Called, effects: Collection[str], since: int = 0) -> Fault | None:
        """Return the oldest fault that hits a call, or None. Each rule counts every matching call.

        Only rules with a number above `since` are used.
        """
        acting = None
        for fault in list(self._faults.values()):
            if fault.number <= since or fault.rule.effect not in effects or not matches(fault.rule, called):
                continue
            if fault.count_call() and acting is None:
                acting = fault
        if acting is not None:
            acting.record_hit(called, self._now())
        return acting

    def expects(self, called: Called, effect: str) -> bool:
        """Return whether a rule with this effect matches the call."""
        return any(fault.rule.effect == effect and matches(fault.rule, called) for fault in self._faults.values())

    async def hold(self, fault: Fault) -> None:
        """Wait until the fault is removed, at most for its seconds."""
        fault.held += 1
        try:
            await asyncio.wait_for(fault.over.wait(), fault.rule.seconds)
        except TimeoutError:
            pass
        finally:
            fault.held -= 1

    async def wait(self, fault: Fault, hits: int, seconds: float) -> None:
        """Wait until the fault has hit `hits` calls or is removed, at most `seconds`."""
        until = asyncio.get_running_loop().time() + seconds
        while fault.hits < hits and not fault.over.is_set():
            left = until - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(fault.hit.wait(), max(0.0, left))
            except TimeoutError:
                return


def format_rule(rule: Rule) -> str:
    """Return a rule as one line of text."""
    return " ".join(f"{name}={value}" for name, value in rule_fields(rule).items())


def rule_fields(rule: Rule) -> Mapping[str, object]:
    fields = {name: getattr(rule, name) for name in rule.__struct_fields__}
    return {name: value for name, value in fields.items() if value not in (None, "")}
