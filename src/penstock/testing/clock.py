"""The clock of a project: its time is stopped, moved and let go over the admin API, for clients of any language."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from penstock.admin.client import Client, path_of
from penstock.errors import InvalidArgumentError
from penstock.testing.arguments import duration, moment, number


class ProjectClock:
    """Moving it answers when all that came due has happened, and clients that wait for it have had their turn.

    `patience_seconds`: real seconds for a client to answer a message that it was given at a due time, before time goes
    on. `extension_seconds`: for how long open streams keep what they were given, as the client libraries do by
    extending leases; 0: they do not.
    """

    def __init__(self, client: Client, project: str) -> None:
        self._client = client
        self._path = path_of("projects", project, "clock")
        self.patience_seconds: float | None = None
        self.extension_seconds: float | None = None

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self.show()["now"])

    @property
    def mode(self) -> str:
        """shared (with the server), frozen, running or automatic."""
        return str(self.show()["mode"])

    def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = self._client.get(self._path)
        return shown

    def freeze(self, at: datetime | str | None = None) -> datetime:
        """Time stands still, now or at a later moment; in an empty project, at any."""
        return self._move("freeze", at=moment(at, "at") if at is not None else None)

    def advance(
        self, seconds: float | timedelta | None = None, *, to: datetime | str | None = None, **units: float
    ) -> datetime:
        """Move by seconds, by `minutes=`, `hours=`, `days=` ..., or to a moment; the new time."""
        by = seconds is not None or bool(units)
        if by == (to is not None):
            raise InvalidArgumentError("Give how far to advance, such as 60 or days=1, or where to, one of the two")
        if to is not None:
            return self._move("advance", to=moment(to, "to"))
        return self._move("advance", seconds=duration(0 if seconds is None else seconds, units))

    def release(self, *, catch_up: bool = False) -> datetime:
        """Time runs on from where it is; with `catch_up` from the server's time on, if it is not ahead of it."""
        return self._move("release", catch_up=catch_up)

    def automatic(self, idle_seconds: float | None = None) -> datetime:
        """Time stands, and is moved to the next moment a client waits for whenever nobody is busy."""
        return self._move("automatic", idle_seconds=_given(idle_seconds, "idle_seconds"))

    def _move(self, how: str, **body: Any) -> datetime:
        body |= {name: _given(getattr(self, name), name) for name in ("patience_seconds", "extension_seconds")}
        given = {name: value for name, value in body.items() if value is not None}
        return datetime.fromisoformat(self._client.post(f"{self._path}/{how}", given)["now"])


def _given(value: float | None, name: str) -> float | None:
    return None if value is None else number(value, name)
