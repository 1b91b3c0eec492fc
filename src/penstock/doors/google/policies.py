"""IAM policies of topics, subscriptions, snapshots and schemas. They are stored and returned, but not enforced."""

from __future__ import annotations

import hashlib
from typing import Any

from penstock.doors.google.calls import Context
from penstock.doors.google.errors import CallError, Code, bad_argument, invalid, not_found
from penstock.doors.google.messages import Policy, TestIamPermissionsResponse
from penstock.doors.google.names import bad_name
from penstock.doors.google.schemas.service import Schemas
from penstock.engine.port import Queue

KIND = "google.policy"
NO_POLICY_ETAG = b"\x00\x20\x01"  # "ACAB" in base64, as in production


class Policies:
    def __init__(self, queue: Queue, schemas: Schemas) -> None:
        self._queue = queue
        self._schemas = schemas

    async def get(self, request: Any, context: Context) -> Any:
        return await self._policy(await self._get_key(request.resource))

    async def set(self, request: Any, context: Context) -> Any:
        key = await self._get_key(request.resource)
        current, policy = await self._policy(key), request.policy
        if policy.etag and policy.etag != current.etag:
            raise CallError(Code.ABORTED, "The policy was changed by someone else; read it again.")
        if any(not binding.role or not binding.members for binding in policy.bindings):
            raise bad_argument("policy.bindings")
        policy.etag = b""
        policy.etag = hashlib.sha256(policy.SerializeToString(deterministic=True)).digest()[:6]
        await self._queue.put_document(KIND, key, policy.SerializeToString())
        return policy

    async def test(self, request: Any, context: Context) -> Any:
        if any("*" in permission for permission in request.permissions):
            raise invalid("Permissions with wildcards are not allowed.")
        exists = await self._key(request.resource) is not None
        return TestIamPermissionsResponse(permissions=request.permissions if exists else [])

    async def _policy(self, key: str) -> Any:
        kept = await self._queue.document(KIND, key)
        return Policy(etag=NO_POLICY_ETAG) if kept is None else Policy.FromString(kept)

    async def _get_key(self, resource: str) -> str:
        key = await self._key(resource)
        if key is None:
            raise not_found(resource)
        return key

    async def _key(self, resource: str) -> str | None:
        """Return the key of a resource, or None if it does not exist. A recreated resource has another key."""
        parts, queue = resource.split("/"), self._queue
        if len(parts) != 4 or parts[0] != "projects":
            raise bad_name(resource)
        number: object = None
        if parts[2] in ("topics", "subscriptions"):
            find = queue.find_topic if parts[2] == "topics" else queue.find_subscription
            metadata = await find(resource)
            number = metadata.number if metadata is not None else None
        elif parts[2] == "snapshots":
            number = {snapshot.name: snapshot.at for snapshot in await queue.snapshots()}.get(resource)
        elif parts[2] == "schemas":
            revisions = await self._schemas.revisions(resource)
            number = revisions[0].revision_id if revisions else None
        else:
            raise bad_name(resource)
        return None if number is None else f"{resource}#{number}"
