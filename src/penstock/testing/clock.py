"""The clock of a test project, moved over the admin API for clients of any language."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from penstock.admin.client import Client, path_of
from penstock.errors import InvalidArgumentError
from penstock.testing.arguments import duration, moment, number


class ProjectClock:
    """The clock of a project.

    A move returns when everything that came due has happened and waiting clients have got their messages.

    `patience_seconds` is the real time that a client gets to answer a message that came due, before the clock moves on.
    `extension_seconds` is the project time for which open streams keep their messages, as client libraries do by
    extending leases. 0: they do not. None: the server's defaults.
    """

    def __init__(self, client: Client, project: str) -> None:
        self._client = client
        self._path = path_of("projects", project, "clock")
        self.patience_seconds: float | None = None
        self.extension_seconds: float | None = None

    @property
    def now(self) -> datetime:
        """The time of the project, in UTC."""
        return datetime.fromisoformat(self.show()["now"])

    @property
    def mode(self) -> str:
        """The mode: shared (the server's time), frozen, running or automatic."""
        return str(self.show()["mode"])

    def show(self) -> dict[str, Any]:
        """Return the clock's record of the admin API."""
        record: dict[str, Any] = self._client.get(self._path)
        return record

    def freeze(self, at: datetime | str | None = None) -> datetime:
        """Stop the clock, now or at a later time `at`. An empty project can be set to any time. Return the time."""
        return self._move("freeze", at=moment(at, "at") if at is not None else None)

    def advance(
        self, seconds: float | timedelta | None = None, *, to: datetime | str | None = None, **units: float
    ) -> datetime:
        """Move the clock by `seconds`, by units such as `minutes=` and `days=`, or to a time `to`. Return the time."""
        by = seconds is not None or bool(units)
        if by == (to is not None):
            raise InvalidArgumentError("Pass either a duration, such as 60 or days=1, or to=")
        if to is not None:
            return self._move("advance", to=moment(to, "to"))
        return self._move("advance", seconds=duration(0 if seconds is None else seconds, units))

    def release(self, *, catch_up: bool = False) -> datetime:
        """Let the clock run on. `catch_up`: set it to the server's time first, unless it is ahead. Return the time."""
        return self._move("release", catch_up=catch_up)

    def automatic(self, idle_seconds: float | None = None) -> datetime:
        """Stop the clock, and move it to the next time that a client waits for whenever all clients are idle.

        `idle_seconds` is the real time without activity after which it moves. None: the server's default.
        """
        return self._move("automatic", idle_seconds=_optional(idle_seconds, "idle_seconds"))

    def _move(self, action: str, **body: Any) -> datetime:
        body |= {name: _optional(getattr(self, name), name) for name in ("patience_seconds", "extension_seconds")}
        request = {name: value for name, value in body.items() if value is not None}
        return datetime.fromisoformat(self._client.post(f"{self._path}/{action}", request)["now"])


def _optional(value: float | None, name: str) -> float | None:
    return None if value is None else number(value, name)
