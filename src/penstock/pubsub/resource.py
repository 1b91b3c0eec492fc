"""The base class of the handles Topic, Subscription and Snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock.engine.options import flag
from penstock.errors import NotFoundError
from penstock.pubsub.options import call_timeout, given_options
from penstock.pubsub.session import Session

if TYPE_CHECKING:
    from penstock.pubsub.client import PubSub

M = TypeVar("M")


class Resource(Generic[M]):
    """A handle on a name of the queue. It is cheap, and the name need not exist."""

    def __init__(self, pubsub: PubSub, kind: str, name: str) -> None:
        self.pubsub = pubsub
        self._session: Session = pubsub.session
        self.name = self._session.name(kind, name)
        self.metadata: M | None = None  # as last returned by create, get_metadata or set_metadata

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def create(self, *options: Any, **more: Any) -> Self:
        raise NotImplementedError

    async def _find(self) -> M | None:
        """Return the metadata, or None if it does not exist."""
        raise NotImplementedError

    async def exists(self, options: Mapping[str, Any] | None = None, **more: Any) -> bool:
        """Return whether it exists. Option: `timeout`, in milliseconds.

        >>> await topic.exists(timeout=500)
        """
        async with call_timeout(options, more):
            return await self._find() is not None

    async def get_metadata(self, options: Mapping[str, Any] | None = None, **more: Any) -> M:
        """Return the metadata, or raise NotFoundError. Option: `timeout`, in milliseconds."""
        async with call_timeout(options, more):
            metadata = await self._find()
        if metadata is None:
            raise NotFoundError(f"{type(self).__name__} not found: {self.name}")
        self.metadata = metadata
        return metadata

    async def get(self, options: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Load the metadata and return this handle. Raise NotFoundError if it does not exist.

        Options: `timeout`, in milliseconds, and `auto_create`. True: create it if it does not exist.

        >>> await topic.get(auto_create=True)
        """
        given = given_options(options, more)
        auto_create = flag(given.pop("auto_create", False), "auto_create")
        try:
            await self.get_metadata(given)
        except NotFoundError:
            if not auto_create:
                raise
            await self.create()
        return self
