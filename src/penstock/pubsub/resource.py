"""What Topic, Subscription and Snapshot have in common: each is a handle on what the queue keeps under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock.errors import NotFoundError
from penstock.pubsub.session import Session

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub

M = TypeVar("M")


class Resource(Generic[M]):
    """Cheap to make and to forget; it need not exist yet."""

    def __init__(self, pubsub: PubSub, kind: str, name: str) -> None:
        self.pubsub = pubsub
        self._session: Session = pubsub.session
        self.name = self._session.name(kind, name)
        self.metadata: M | None = None  # as last seen by create, get_metadata or set_metadata

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def create(self, *options: Any, **more: Any) -> Self:
        raise NotImplementedError

    async def _find(self) -> M | None:
        """Its metadata, if it exists."""
        raise NotImplementedError

    async def exists(self) -> bool:
        return await self._find() is not None

    async def get_metadata(self) -> M:
        found = await self._find()
        if found is None:
            raise NotFoundError(f"{type(self).__name__} not found: {self.name}")
        self.metadata = found
        return found

    async def get(self, *, auto_create: bool = False) -> Self:
        """This one with its metadata; with `auto_create`, made if it does not exist."""
        try:
            await self.get_metadata()
        except NotFoundError:
            if not auto_create:
                raise
            await self.create()
        return self
