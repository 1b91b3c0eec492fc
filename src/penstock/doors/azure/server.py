"""The server of the Azure API: an HTTP request to an operation, and its reply or error to an HTTP response."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any

from penstock.doors.azure.accounts import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Account, Accounts
from penstock.doors.azure.auth import Authorizer
from penstock.doors.azure.call import Call, Reply, read_address, read_parameters
from penstock.doors.azure.cors import request_headers
from penstock.doors.azure.dates import is_version, iso
from penstock.doors.azure.dialect import SEED_003, standard
from penstock.doors.azure.errors import (
    STATUSES,
    AzureError,
    error_body,
    from_broker,
    invalid_header,
    invalid_value,
    invalid_xml,
    not_authentic,
    out_of_range,
    too_large,
)
from penstock.doors.azure.messages import Messages
from penstock.doors.azure.names import QUEUE_NAME_MAX, QUEUE_NAME_MIN, is_queue_name
from penstock.doors.azure.operations import READS, Operation, operation_of
from penstock.doors.azure.options import MESSAGE_BYTES_MAX, AzureOptions
from penstock.doors.azure.policies import Policy
from penstock.doors.azure.queues import Queues
from penstock.doors.azure.service import Service
from penstock.doors.azure.xml import XmlError
from penstock.doors.consumers import Consumer, Consumers
from penstock.doors.port import join_address
from penstock.doors.resources import parts_of, topic_name
from penstock.engine.port import Clock, Queue, SubscriptionMetadata
from penstock.errors import LostReplyError, PenstockError
from penstock.services.moves.registry import Moves
from penstock.wire.budget import Budget
from penstock.wire.hosts import is_from_here, is_loopback
from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response
from penstock.wire.request_log import RequestLog
from penstock.wire.trust import server_context

DEFAULT_VERSION = "2021-08-06"  # for requests without a version
SERVER = ("Server", "Penstock-Queue/1.0")
DEVELOPMENT_ENDPOINT = "http://127.0.0.1:10001"  # of UseDevelopmentStorage=true in every SDK

_XML = ("Content-Type", "application/xml")
_FRESH = ("Cache-Control", "no-cache")
_DIALECT = "/queue/"
_SINGLE = frozenset({"authorization", "date", "origin", "content-md5", "content-type", "access-control-request-method"})
_VENDOR = "x-ms-"
_TIMEOUT_MAX = (1 << 31) - 1
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - nothing is bound here


class AzureDoor:
    name = "azure"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        queue: Queue,
        accounts: Accounts,
        moves: Moves,
        log: logging.Logger,
        options: AzureOptions | None = None,
        budget: Budget | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        options = options or AzureOptions()
        self.address = ""
        self.counts: Counter[str] = Counter()  # refusals, by the vendor's code
        self._host, self._port, self._log, self._options = host, port, log, options
        self._accounts = accounts
        self._moves = moves
        self._queue = queue
        self._now = queue.clock.wall
        secure = options.tls_cert is not None
        self._scheme = "https" if secure else "http"
        self._queues = Queues(queue, accounts, poison_after=options.poison_after)
        self._consumers = Consumers(queue.clock.now)
        self._messages = Messages(
            queue,
            self._queues,
            moves,
            self._consumers,
            message_bytes_max=options.message_bytes_max,
            poll_seconds=options.poll_seconds,
        )
        self._service = Service(queue, self._queues, accounts, scheme=self._scheme)
        self._authorizer = Authorizer(
            accounts, wall=self._now, secure=secure, oauth=options.oauth, wording=options.wording
        )
        self._standard = standard(options.receipt_errors)
        self._body_bytes_max = 2 * max(options.message_bytes_max, MESSAGE_BYTES_MAX) + 512
        limits = HttpLimits(body_bytes_max=self._body_bytes_max, idle_seconds=options.keep_alive_seconds)
        self._server = HttpServer(
            self._answer if requests is None else requests.answers(self._answer, self._describe, _log_fields),
            log=log,
            limits=limits,
            refusal=self._refusal,
            budget=budget,
            counts=self.counts,
            requests=requests,
        )
        self._ids = (f"{part:012x}" for part in count(1))
        digits = secrets.token_hex(10)
        self._id_prefix = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:]}-"
        # Clients that follow this header do not send on a connection that is about to close.
        self._keep_alive = ("Keep-Alive", f"timeout={int(options.keep_alive_seconds)}")
        self._operations = self._operation_table()

    def _operation_table(self) -> dict[Operation, Callable[[Call], Awaitable[Reply]]]:
        service, messages = self._service, self._messages
        return {
            Operation.LIST_QUEUES: service.list_queues,
            Operation.GET_SERVICE_PROPERTIES: service.get_properties,
            Operation.SET_SERVICE_PROPERTIES: service.set_properties,
            Operation.GET_STATS: service.get_stats,
            Operation.PREFLIGHT: service.preflight,
            Operation.CREATE_QUEUE: service.create_queue,
            Operation.DELETE_QUEUE: service.delete_queue,
            Operation.GET_METADATA: service.get_metadata,
            Operation.SET_METADATA: service.set_metadata,
            Operation.GET_ACL: service.get_acl,
            Operation.SET_ACL: service.set_acl,
            Operation.REDRIVE: messages.redrive,
            Operation.PUT_MESSAGE: messages.put,
            Operation.GET_MESSAGES: messages.get,
            Operation.PEEK_MESSAGES: messages.peek,
            Operation.CLEAR_MESSAGES: messages.clear,
            Operation.UPDATE_MESSAGE: messages.update,
            Operation.DELETE_MESSAGE: messages.delete,
        }

    # ------------------------------------------------------------------ life

    @property
    def guarded(self) -> bool:
        return self._accounts.guarded and not self._authorizer.open_to_forged_tokens

    @property
    def hints(self) -> Sequence[str]:
        account, scheme = self._accounts.first, self._scheme
        if account.public and f"{scheme}://{_client_address(self.address)}" == DEVELOPMENT_ENDPOINT:
            return ["export AZURE_STORAGE_CONNECTION_STRING='UseDevelopmentStorage=true'"]
        key = DEVELOPMENT_KEY if account.public else "<key>"  # a configured key is not printed
        endpoint = f"QueueEndpoint={self._endpoint(account)};"
        string = f"DefaultEndpointsProtocol={scheme};AccountName={account.name};AccountKey={key};{endpoint}"
        return [f"export AZURE_STORAGE_CONNECTION_STRING='{string}'"]

    def name_of(self, topic: str) -> str | None:
        project, name = parts_of(topic)
        account = self._accounts.in_project(project) or self._accounts.get(project)
        is_valid = QUEUE_NAME_MIN <= len(name) <= QUEUE_NAME_MAX and is_queue_name(name)
        return f"{self._endpoint(account)}/{name}" if account is not None and is_valid else None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return self._consumers.of(subscription.name)

    def _endpoint(self, account: Account) -> str:
        return f"{self._scheme}://{_client_address(self.address)}/{account.name}"

    async def start(self) -> None:
        if not self._accounts.configured and not is_loopback(self._host):
            self._log.warning(
                "only callers on this machine may use %s, whose key is public; configure azure_accounts for others",
                DEVELOPMENT_ACCOUNT,
            )
        tls = server_context(self.name, self._options.tls_cert, self._options.tls_key)
        self.address = join_address(*await self._server.start(self._host, self._port, tls))

    async def stop(self, grace_seconds: float) -> None:
        await self._moves.stop()  # ends the requests that wait for a move
        await self._server.stop(grace_seconds)

    # ------------------------------------------------------------------ a request

    async def _answer(self, request: Request) -> Response:
        call = Call(request, self._id_prefix + next(self._ids))
        call.version = request.header("x-ms-version")
        try:
            operation, claims = await self._authorize(call)
            if operation is Operation.GET_USER_DELEGATION_KEY:
                reply = await self._service.get_user_delegation_key(call, claims)
            else:
                reply = await self._operations[operation](call)
        except AzureError as error:
            return await self._error(call, _refine(call, error))
        except XmlError as error:
            return await self._error(call, invalid_xml(str(error), *error.place))
        except LostReplyError:
            raise
        except PenstockError as error:
            return await self._error(call, _refine(call, from_broker(error)))
        return await self._response(call, reply)

    async def _authorize(self, call: Call) -> tuple[Operation, Mapping[str, Any]]:
        """Read the call and check its credentials. Return its operation and the claims of a bearer token."""
        _check_headers(call.request)
        read_parameters(call)
        self._read_address(call)
        if not call.version:
            signed_version = call.parameters.get("sv", "")
            call.version = signed_version if is_version(signed_version) else DEFAULT_VERSION
        elif not is_version(call.version):
            raise invalid_header("x-ms-version", call.version)
        operation = operation_of(call)
        claims: Mapping[str, Any] = {}
        if operation is Operation.PREFLIGHT:
            self._authorizer.account_of(call)
        elif call.dialect is SEED_003 and not self._accounts.configured:
            self._check_local(call)
        else:
            policies = await self._policies(call) if "si" in call.parameters else {}
            claims = self._authorizer.authorize(call, operation, self._clock_of(call).wall(), policies)
        # Every operation has this parameter. It has no effect, because no operation takes that long.
        if "timeout" in call.parameters and not 1 <= call.integer("timeout", 1) <= _TIMEOUT_MAX:
            raise out_of_range("timeout", call.parameters["timeout"], 1, _TIMEOUT_MAX)
        if call.repeated:
            raise invalid_value(call.repeated[0], "", "Given more than once")
        if call.secondary and operation not in READS and operation is not Operation.PREFLIGHT:
            raise AzureError("InsufficientAccountPermissions")
        return operation, claims

    def _read_address(self, call: Call) -> None:
        in_dialect = call.request.path.startswith(_DIALECT) and self._options.dialect
        call.dialect = SEED_003 if in_dialect else self._standard
        read_address(call, self._accounts, prefix=1 if in_dialect else 0)

    def _clock_of(self, call: Call) -> Clock:
        """Return the clock of the account's project, by which signatures and tokens expire."""
        return self._queue.clock_of(topic_name(self._accounts.project_of(call.account), call.queue))

    def _check_local(self, call: Call) -> None:
        """Allow programs on this machine only, and no page in a browser: this dialect needs no credentials."""
        if not is_from_here(call.request) or call.request.header("origin"):
            raise not_authentic("The dialect without credentials is for programs on this machine only.")

    async def _policies(self, call: Call) -> Mapping[str, Policy]:
        try:
            return {policy.id: policy for policy in await self._queues.policies(call.account, call.queue)}
        except AzureError:  # no such queue. The signature is refused, which does not tell whether the queue exists
            return {}

    # ------------------------------------------------------------------ an answer

    async def _response(self, call: Call, reply: Reply) -> Response:
        headers = [SERVER, self._keep_alive, ("x-ms-request-id", call.request_id), ("x-ms-version", call.version)]
        index = call.request.index
        client_id = index.get("x-ms-client-request-id")
        if client_id is not None:
            headers.append(("x-ms-client-request-id", client_id))
        if reply.body:
            headers.append(_XML)
        if call.request.method == "GET":
            headers.append(_FRESH)
        if "origin" in index and call.account and call.request.method != "OPTIONS":
            headers.extend(request_headers(call.request, await self._service.cors_rules(call.account)))
        headers.extend(reply.headers)
        return Response(reply.status, headers, reply.body)

    async def _error(self, call: Call, error: AzureError) -> Response:
        body = error_body(error, call.request_id, iso(self._now()))
        if not is_version(call.version):
            call.version = DEFAULT_VERSION
        self.counts[error.code] += 1
        level = logging.WARNING if error.status >= 500 else logging.DEBUG
        self._log.log(level, "refused %s, request %s: %s", call.request.method, call.request_id, error.code)
        return await self._response(call, Reply(error.status, body, (("x-ms-error-code", error.code), *error.headers)))

    def _describe(self, request: Request) -> tuple[str, str]:
        """Return the operation and the resource for the request log, without the query, which may be a signature."""
        call = Call(request, "")
        try:
            read_parameters(call)
            self._read_address(call)
            verb = operation_of(call).name.title().replace("_", "")
        except AzureError:
            return request.method, request.path
        return verb, "/".join(part for part in (call.account, call.queue, call.message_id) if part)

    def _refusal(self, status: int) -> Response:
        """Return the answer to bytes that are not a request, or to a bug."""
        code = STATUSES.get(status, "InternalError")
        status = 400 if code == "UnsupportedHeader" else status  # the service has no 415
        self.counts[code] += 1
        error = too_large(self._body_bytes_max) if status == 413 else AzureError(code, status=status)
        body = error_body(error, self._id_prefix + next(self._ids), iso(self._now()))
        return Response(status, (SERVER, _XML, ("x-ms-error-code", code)), body)


def _log_fields(response: Response) -> dict[str, str]:
    """Return the request id and the error code of a response, for the request log."""
    headers = dict(response.headers)
    fields = {"request": headers.get("x-ms-request-id"), "reason": headers.get("x-ms-error-code")}
    return {name: value for name, value in fields.items() if value}


def _client_address(address: str) -> str:
    """Return an address for clients on this machine. 0.0.0.0 and [::] become loopback addresses."""
    host, _, port = address.rpartition(":")
    return f"{_LOOPBACKS.get(host, host)}:{port}"


def _refine(call: Call, error: AzureError) -> AzureError:
    """Replace QueueNotFound by the error for an invalid name, if no queue can have the name."""
    if error.code == "QueueNotFound":
        try:
            call.dialect.check_queue_name(call.queue)
        except AzureError as name_error:
            return name_error
    return error


def _check_headers(request: Request) -> None:
    """Refuse a repeated header of this protocol. Otherwise one of its values would be ignored."""
    if len(request.index) == len(request.headers):
        return
    for name, times in Counter(name for name, _ in request.headers).items():
        if times > 1 and (name in _SINGLE or name.startswith(_VENDOR)):
            raise invalid_header(name, ",".join(value for header, value in request.headers if header == name))
