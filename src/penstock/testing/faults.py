"""Faults on purpose, from a test: `faults.add(door="pubsub", verb="publish", nth=2, error="unavailable")`.

The server has to be one for tests (`--testing`); docs/testing-faults.md has every effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from penstock.admin.client import Client, path_of
from penstock.errors import NotFoundError

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
        return f"<fault {self.id}: {said}; {self.hits} hits in {self.calls} calls>"

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
        """Until it has hit so often; an AssertionError if it has not by then."""
        answer = self._client.get(path_of("faults", self.id, "hits"), at_least=hits, wait_seconds=seconds, page_size=1)
        assert answer["total"] >= hits, f"{self!r} did not hit {hits} times within {seconds:g} seconds"
        return self

    def remove(self) -> None:
        """Calls that it holds go on. What it counted can still be asked for."""
        with suppress(NotFoundError):
            self._known, self._hits = self._record, self.log
            self._client.delete(path_of("faults", self.id))

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

    def add(self, *, effect: str = "", latency: float | None = None, **rule: Any) -> Fault:
        """A rule: whom it is about (door, verb, project, resource), which calls (nth, every, probability and seed,
        times), and the effect; `error`, `code` and `latency` are effects by themselves.
        """
        if latency is not None:
            effect, rule["seconds"] = effect or "latency", latency
        elif rule.get("error") or rule.get("code"):
            effect = effect or "error"
        if self._project:
            rule.setdefault("project", self._project)
        return Fault(self._client, self._client.post("/faults", {"effect": effect, **rule}))

    def __iter__(self) -> Iterator[Fault]:
        found = self._client.pages("/faults", "faults", project=self._project or None)
        return iter([Fault(self._client, each) for each in found])

    def clear(self) -> int:
        """Remove all of them; how many there were."""
        return int(self._client.delete("/faults", project=self._project or None)["removed"])
