"""Operations on the service of an account and on its queues: lists, properties, statistics, metadata, policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.doors.azure.accounts import Accounts
from penstock.doors.azure.call import Call, Reply
from penstock.doors.azure.codec import queue_list
from penstock.doors.azure.cors import preflight_headers
from penstock.doors.azure.dates import rfc1123
from penstock.doors.azure.delegation import answer_key_request
from penstock.doors.azure.errors import AzureError, invalid_value, out_of_range
from penstock.doors.azure.policies import read_policies, write_policies
from penstock.doors.azure.properties import (
    DOCUMENTS,
    CorsRule,
    Properties,
    decode_properties,
    encode_properties,
    read_properties,
    write_properties,
)
from penstock.doors.azure.queues import Queues, metadata_headers, read_metadata
from penstock.doors.azure.xml import DECLARATION, read
from penstock.doors.resources import topic_name
from penstock.engine.port import Queue

PAGE = 5000


class Service:
    def __init__(self, queue: Queue, queues: Queues, accounts: Accounts, *, scheme: str) -> None:
        self._queue = queue
        self._queues = queues
        self._accounts = accounts
        self._scheme = scheme

    # ------------------------------------------------------------------ the service

    async def list_queues(self, call: Call) -> Reply:
        parameters, most = call.parameters, call.integer("maxresults", PAGE)
        if most < 1:
            raise out_of_range("maxresults", parameters["maxresults"], 1, PAGE)
        most, prefix, marker = min(most, PAGE), parameters.get("prefix", ""), parameters.get("marker", "")
        names = await self._queues.page(call.account, prefix, _start(call, marker), most + 1)
        page, more = names[:most], names[most:]
        last = (
            f"/{call.account}/{more[0]}" if more and not call.dialect.marker_is_last_name else page[-1] if more else ""
        )
        metadata = await self._queues.metadata_of(call.account, page) if _includes_metadata(call) else None
        body = queue_list(
            f"{self._scheme}://{call.request.header('host')}{call.request.path.rstrip('/')}/",
            [(name, metadata[name] if metadata else None) for name in page if metadata is None or name in metadata],
            prefix=prefix,
            marker=marker,
            max_results=most if "maxresults" in parameters else None,
            next_marker=last,
        )
        return Reply(200, body)

    async def get_properties(self, call: Call) -> Reply:
        return Reply(200, write_properties(await self._properties(call.account)))

    async def set_properties(self, call: Call) -> Reply:
        current = await self._properties(call.account)
        properties = read_properties(read(call.request.body, "StorageServiceProperties"), current)
        await self._queue.put_document(DOCUMENTS, call.account, encode_properties(properties))
        return Reply(202)

    async def get_stats(self, call: Call) -> Reply:
        if not call.secondary:
            raise invalid_value("comp", "stats", "Statistics are at the secondary endpoint")
        synced = rfc1123(self._queue.clock.wall())
        inner = f"<GeoReplication><Status>live</Status><LastSyncTime>{synced}</LastSyncTime></GeoReplication>"
        return Reply(200, f"{DECLARATION}<StorageServiceStats>{inner}</StorageServiceStats>".encode())

    async def get_user_delegation_key(self, call: Call, claims: Mapping[str, Any]) -> Reply:
        account = self._accounts.get(call.account)
        if account is None:
            raise AzureError("ResourceNotFound")
        body = read(call.request.body, "KeyInfo")
        now = self._queue.clock_of(topic_name(account.project, "")).wall()
        return Reply(200, answer_key_request(account, body, claims, call.version, now))

    async def preflight(self, call: Call) -> Reply:
        return Reply(200, headers=preflight_headers(call.request, await self.cors_rules(call.account)))

    async def cors_rules(self, account: str) -> tuple[CorsRule, ...]:
        return (await self._properties(account)).cors

    async def _properties(self, account: str) -> Properties:
        return decode_properties(await self._queue.document(DOCUMENTS, account))

    # ------------------------------------------------------------------ queues

    async def create_queue(self, call: Call) -> Reply:
        call.dialect.check_queue_name(call.queue)
        is_new = await self._queues.create(call.account, call.queue, _metadata(call))
        if not is_new and call.dialect.existing_queue_is_conflict:
            raise AzureError("QueueAlreadyExists")
        return Reply(201 if is_new else 204)

    async def delete_queue(self, call: Call) -> Reply:
        await self._queues.delete(call.account, call.queue)
        return Reply(204)

    async def get_metadata(self, call: Call) -> Reply:
        ref = await self._queues.find(call.account, call.queue)
        count = (await self._queue.backlog(ref.subscription)).messages
        metadata = await self._queues.metadata(call.account, call.queue)
        return Reply(200, headers=[("x-ms-approximate-messages-count", str(count)), *metadata_headers(metadata)])

    async def set_metadata(self, call: Call) -> Reply:
        await self._queues.set_metadata(call.account, call.queue, _metadata(call))
        return Reply(204)

    async def get_acl(self, call: Call) -> Reply:
        return Reply(200, write_policies(await self._queues.policies(call.account, call.queue)))

    async def set_acl(self, call: Call) -> Reply:
        await self._queues.find(call.account, call.queue)
        # A request without a body clears the list, as an empty list does.
        policies = read_policies(read(call.request.body, "SignedIdentifiers")) if call.request.body else []
        await self._queues.set_policies(call.account, call.queue, policies)
        return Reply(204)


def _metadata(call: Call) -> dict[str, str]:
    return read_metadata(call.request, call.dialect.is_metadata_name)


def _includes_metadata(call: Call) -> bool:
    text = call.parameters.get("include", "")
    if not {"", "metadata"}.issuperset(text.split(",")):
        raise invalid_value("include", text, "Only metadata can be included")
    return text != ""


def _start(call: Call, marker: str) -> str:
    """Return the first name that the page may have. Raise AzureError if the marker is not one of ours."""
    if not marker:
        return ""
    if call.dialect.marker_is_last_name:
        return marker + "\0"
    prefix = f"/{call.account}/"
    if not marker.startswith(prefix):
        raise AzureError("OutOfRangeInput")
    return marker.removeprefix(prefix)
