"""Fault injection from a test: `faults.add(door="pubsub", verb="publish", nth=2, error="unavailable")`.

The server must have been started with `--testing`. docs/testing-faults.md lists the effects.
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
    """A fault rule. It applies until it is removed or its `with` block ends."""

    def __init__(self, client: Client, record: dict[str, Any]) -> None:
        self._client = client
        self.id: str = record["id"]
        self.rule: dict[str, Any] = {name: value for name, value in record["rule"].items() if value not in (None, "")}
        self._last = record
        self._hits: list[dict[str, Any]] = []

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        rule = ", ".join(f"{name}={value!r}" for name, value in self.rule.items())
        record = self._record
        return f"<fault {self.id}: {rule}; {counted(record['hits'], 'hit')} in {counted(record['calls'], 'call')}>"

    @property
    def hits(self) -> int:
        """The number of calls that the fault has hit."""
        return int(self._record["hits"])

    @property
    def calls(self) -> int:
        """The number of calls that matched the rule."""
        return int(self._record["calls"])

    @property
    def held(self) -> int:
        """The number of calls that wait until the fault is removed."""
        return int(self._record["held"])

    @property
    def log(self) -> list[dict[str, Any]]:
        """The last 100 hits, as dictionaries with call, at, door, verb, resource and messages."""
        with suppress(NotFoundError):
            self._hits = list(self._client.pages(path_of("faults", self.id, "hits"), "hits"))
        return self._hits

    def wait(self, hits: int = 1, seconds: float = WAIT_SECONDS) -> Fault:
        """Wait until the fault has hit `hits` calls. Raise AssertionError after `seconds`, or if it was removed."""
        path, wait = path_of("faults", self.id, "hits"), number(seconds, "seconds")
        with suppress(NotFoundError):
            self._client.get(path, at_least=hits, wait_seconds=wait, page_size=1)
        if self.hits < hits:
            raise AssertionError(f"{self!r} did not hit {counted(hits, 'time')} within {seconds:g} seconds")
        return self

    def remove(self) -> None:
        """Remove the fault, and let held calls continue. Its counts and log can still be read."""
        self.keep()
        with suppress(NotFoundError):
            self._client.delete(path_of("faults", self.id))

    def keep(self) -> None:
        """Read the counts and the log, to keep them after the end of the fault."""
        self._last, self._hits = self._record, self.log

    @property
    def _record(self) -> dict[str, Any]:
        """The server's record of the fault, or the last one before its removal."""
        with suppress(NotFoundError):
            self._last = self._client.get(path_of("faults", self.id))
        return self._last


class Faults:
    """The faults of a server or of one project.

    >>> with faults.add(door="azure", verb="publish", nth=1, effect="drop") as fault:
    ...     queue.send_message("hello")
    >>> assert fault.hits == 1
    """

    def __init__(self, client: Client, project: str = "") -> None:
        """Manage faults of a project. Empty: of all projects."""
        self._client = client
        self._project = project
        self._added: list[Fault] = []

    def add(self, *, effect: str = "", latency: float | None = None, **rule: Any) -> Fault:
        """Add a fault rule.

        `door`, `verb`, `project` and `resource` select calls. `nth`, `every`, `probability` with `seed`, and `times`
        select which of them are hit. `effect` can be left out with `error`, `code` or `latency`, in seconds.
        Raise InvalidArgumentError for an invalid rule.
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
        records = self._client.pages("/faults", "faults", project=self._project or None)
        return iter([Fault(self._client, record) for record in records])

    def clear(self) -> int:
        """Remove all faults. Return their number."""
        existing = {fault.id for fault in self} if self._added else set()
        for fault in self._added:
            if fault.id in existing:
                fault.keep()
        self._added.clear()
        return int(self._client.delete("/faults", project=self._project or None)["removed"])
