"""Ports for Azure's blob and table services, which answer every request with 501 in the format of the service.

Programs that start Azurite wait until all of its ports answer, even if they only use queues.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence

from penstock.doors.azure.dates import iso
from penstock.doors.azure.errors import AzureError, error_body
from penstock.doors.azure.options import AzureOptions
from penstock.doors.consumers import Consumer
from penstock.doors.port import join_address
from penstock.engine.port import Queue, SubscriptionMetadata
from penstock.wire.budget import Budget
from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response
from penstock.wire.request_log import RequestLog
from penstock.wire.trust import server_context

BLOBS, TABLES = "azure_blob", "azure_table"

_CODES = {BLOBS: "APINotImplemented", TABLES: "NotImplemented"}  # as Azurite and the service call it
_SENTENCES = {name: f"Penstock serves queues; there are no {name.partition('_')[2]}s here." for name in _CODES}
_BODY_BYTES_MAX = 64 << 10


class OtherServiceDoor:
    guarded = True  # there is nothing to protect

    def __init__(
        self,
        name: str,
        *,
        host: str,
        port: int,
        queue: Queue,
        options: AzureOptions,
        log: logging.Logger,
        budget: Budget | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        """`name` is BLOBS or TABLES."""
        self.name, self.address = name, ""
        self._host, self._port, self._options = host, port, options
        self._now = queue.clock.wall
        self._server = HttpServer(
            self._answer if requests is None else requests.answers(self._answer),
            log=log,
            limits=HttpLimits(body_bytes_max=_BODY_BYTES_MAX),
            refusal=self._refusal,
            budget=budget,
            requests=requests,
        )
        self.counts = self._server.counts

    @property
    def hints(self) -> Sequence[str]:
        return ["answers 501: only queues are available"]

    def name_of(self, topic: str) -> str | None:
        return None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return ()

    async def start(self) -> None:
        tls = server_context("azure", self._options.tls_cert, self._options.tls_key)
        self.address = join_address(*await self._server.start(self._host, self._port, tls))

    async def stop(self, grace_seconds: float) -> None:
        await self._server.stop(grace_seconds)

    async def _answer(self, request: Request) -> Response:
        return self._response(501)

    def _refusal(self, status: int) -> Response:
        """Answer 501 instead of 413, because nothing is implemented."""
        return self._response(501 if status == 413 else status)

    def _response(self, status: int) -> Response:
        code, sentence, number = _CODES[self.name], _SENTENCES[self.name], secrets.token_hex(16)
        self.counts[code] += 1
        headers = ("x-ms-request-id", number), ("x-ms-error-code", code)
        if self.name == BLOBS:
            body = error_body(AzureError(code, message=sentence, status=status), number, iso(self._now()))
            return Response(status, (*headers, ("Content-Type", "application/xml")), body)
        error = {"code": code, "message": {"lang": "en-US", "value": sentence}}
        form = ("Content-Type", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8")
        return Response(status, (*headers, form), json.dumps({"odata.error": error}).encode())
