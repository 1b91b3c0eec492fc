"""Faults on purpose, from a test: `faults.add(door="pubsub", verb="publish", nth=2, error="unavailable")`.

The server has to be one for tests (`--testing`); docs/testing-faults.md has every effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from penstock.admin.client import Client, path_of
from penstock.errors import NotFoundError
from penstock.testing.arguments import number
from penstock.wording import counted

WAIT_SECONDS = 10.0


class Fault:
    """A rule in force, until it is removed or its `with` block ends."""

    def __init__(self, client: Client, record: dict[str, Any]) -> None:
        self._client = client
        self.id: str = record["id"]
        self.rule: dict[str, Any] = {name: value for name, value in record["rule"].items() if value not in (None, "")}
        self._known = record
        self._hits: list[dict[str, Any]] = []

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.rule.items())
        known = self._record
        return f"<fault {self.id}: {said}; {counted(known['hits'], 'hit')} in {counted(known['calls'], 'call')}>"

    @property
    def hits(self) -> int:
        """How many calls it has hit."""
        return int(self._record["hits"])

    @property
    def calls(self) -> int:
        """How many calls it was about."""
        return int(self._record["calls"])

    @property
    def held(self) -> int:
        """How many calls wait for its end."""
        return int(self._record["held"])

    @property
    def log(self) -> list[dict[str, Any]]:
        """The last hits: call, at, door, verb, resource, messages."""
        with suppress(NotFoundError):
            self._hits = list(self._client.pages(path_of("faults", self.id, "hits"), "hits"))
        return self._hits

    def wait(self, hits: int = 1, seconds: float = WAIT_SECONDS) -> Fault:
        """Until it has hit so often; an AssertionError if it has not by then, or was removed before."""
        place, wait = path_of("faults", self.id, "hits"), number(seconds, "seconds")
        with suppress(NotFoundError):
            self._client.get(place, at_least=hits, wait_seconds=wait, page_size=1)
        if self.hits < hits:
            raise AssertionError(f"{self!r} did not hit {counted(hits, 'time')} within {seconds:g} seconds")
        return self

    def remove(self) -> None:
        """Calls that it holds go on. What it counted can still be asked for."""
        self.keep()
        with suppress(NotFoundError):
            self._client.delete(path_of("faults", self.id))

    def keep(self) -> None:
        """Look at what it counted, for the time after its end."""
        self._known, self._hits = self._record, self.log

    @property
    def _record(self) -> dict[str, Any]:
        """As the server has it; once it is removed, as it was then."""
        with suppress(NotFoundError):
            self._known = self._client.get(path_of("faults", self.id))
        return self._known


class Faults:
    """The faults of a server, or of one project of it.

    >>> with faults.add(door="azure", verb="publish", nth=1, effect="drop") as fault:
    ...     queue.send_message("hello")
    >>> assert fault.hits == 1
    """

    def __init__(self, client: Client, project: str = "") -> None:
        """`project`: the one that rules are about if they name none."""
        self._client = client
        self._project = project
        self._added: list[Fault] = []

    def add(self, *, effect: str = "", latency: float | None = None, **rule: Any) -> Fault:
        """A rule: whom it is about (door, verb, project, resource), which calls (nth, every, probability and seed,
        times), and the effect; `error`, `code` and `latency` are effects by themselves.
        """
        if latency is not None:
            effect, rule["seconds"] = effect or "latency", number(latency, "latency")
        elif rule.get("error") or rule.get("code"):
            effect = effect or "error"
        if self._project:
            rule.setdefault("project", self._project)
        self._added.append(Fault(self._client, self._client.post("/faults", {"effect": effect, **rule})))
        return self._added[-1]

    def __iter__(self) -> Iterator[Fault]:
        found = self._client.pages("/faults", "faults", project=self._project or None)
        return iter([Fault(self._client, each) for each in found])

    def clear(self) -> int:
        """Remove all of them; how many there were."""
        there = {each.id for each in self} if self._added else set()
        for each in self._added:
            if each.id in there:
                each.keep()
        self._added.clear()
        return int(self._client.delete("/faults", project=self._project or None)["removed"])
