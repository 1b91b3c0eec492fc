"""Who may call: without tokens in the settings whoever reaches the port, with them only who shows one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.health import SERVICE as HEALTH
from penstock.wire.trust import BearerTokens


class Access:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = BearerTokens(tokens)

    def admit(self, headers: dict[str, str], path: str) -> None:
        """CallError unless the caller may call this."""
        if not self._tokens or path.startswith(f"/{HEALTH}/"):
            return
        if not self._tokens.admit(headers.get("authorization", "").encode("latin-1", "replace")):
            raise CallError(Code.UNAUTHENTICATED, "Request had invalid authentication credentials.")
