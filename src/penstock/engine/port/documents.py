"""Documents: named bytes that a door stores in the broker, such as schemas."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable
from typing import Protocol


class Documents(Protocol):
    def put_document(self, kind: str, name: str, body: bytes) -> Future[None]: ...

    def remove_document(self, kind: str, name: str) -> Future[None]: ...

    def document(self, kind: str, name: str) -> Awaitable[bytes | None]: ...

    def documents(self, kind: str) -> Awaitable[dict[str, bytes]]: ...
