"""A blocking client of the admin API. It uses only the standard library, and raises the errors of Penstock.

    with Client("127.0.0.1:8090") as client:
        client.post("/topics", {"name": "orders"})
        for topic in client.pages("/topics", "topics", search="ord"):
            print(topic["name"], topic["messages"])

Several threads may use a client. It keeps connections for later calls. Each stream has its own connection.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from penstock import errors

BASE = "/admin/v1"
TIMEOUT_SECONDS = 90.0  # longer than the longest wait of a pull
KEPT_SECONDS = 20.0  # shorter than the server keeps an idle connection
READ_BYTES = 64 << 10
LINE_BYTES_MAX = 64 << 20  # enough for a message of 10 MiB in Base64

SUCCESSES = range(200, 300)
STREAM_TYPES = ("application/x-ndjson", "text/event-stream")
NO_CONTENT = 204
KINDS: dict[int, type[errors.PenstockError]] = {
    400: errors.InvalidArgumentError,
    401: errors.PermissionDeniedError,
    403: errors.PermissionDeniedError,
    404: errors.NotFoundError,
    405: errors.InvalidArgumentError,
    409: errors.AlreadyExistsError,
    412: errors.FailedPreconditionError,
    413: errors.ResourceExhaustedError,
    415: errors.InvalidArgumentError,
    429: errors.ResourceExhaustedError,
    503: errors.UnavailableError,
}


class UnreachableError(errors.UnavailableError):
    """The server cannot be reached."""


def error_of(status: int, message: str) -> errors.PenstockError:
    kind = KINDS.get(status) or (errors.InvalidArgumentError if 400 <= status < 500 else errors.InternalError)
    return kind(message or f"The server answered {status}")


def path_of(*parts: object) -> str:
    """Return a path with each part as one segment: `path_of("topics", "projects/p/topics/t", "messages")`."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


class Answer(dict[str, Any]):
    """An object in an answer. A missing key is an error that names the server, as any server may answer with JSON."""

    def __init__(self, stranger: str, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self._stranger = stranger

    def __missing__(self, key: str) -> Any:
        raise UnreachableError(f"{self._stranger}: its answer has no {key}")


class Client:
    def __init__(self, address: str, token: str | None = None, *, timeout: float = TIMEOUT_SECONDS) -> None:
        """`address` is host:port, or a URL such as https://host if a proxy speaks TLS."""
        url = urlsplit(address if "://" in address else f"http://{address}")
        try:
            self._host, self._port = url.hostname or "", url.port
        except ValueError:
            self._host, self._port = "", None
        wrong = url.path.strip("/") or url.query or not self._host.isprintable() or " " in self._host
        if url.scheme not in ("http", "https") or not self._host or wrong:
            raise errors.InvalidArgumentError(f"Invalid address: {address}. Give HOST:PORT")
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self.url = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        if token and not (token.isprintable() and token.isascii()):
            raise errors.InvalidArgumentError("A token must be printable ASCII text")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._kept: list[tuple[http.client.HTTPConnection, float]] = []  # and the time of their last use

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._kept:
            with suppress(IndexError):
                self._kept.pop()[0].close()

    # ------------------------------------------------------------------ calls

    def get(self, path: str, **query: Any) -> Any:
        return self._call("GET", path, query)

    def post(self, path: str, body: object = None, **query: Any) -> Any:
        return self._call("POST", path, query, body)

    def patch(self, path: str, body: object, **query: Any) -> Any:
        return self._call("PATCH", path, query, body)

    def delete(self, path: str, **query: Any) -> Any:
        return self._call("DELETE", path, query)

    def pages(self, path: str, key: str, **query: Any) -> Iterator[Any]:
        """Yield every item of a list, page by page. `key` is the field of the answer with the items."""
        while True:
            page = self.get(path, **query)
            if not isinstance(page[key], list) or not all(isinstance(item, Answer) for item in page[key]):
                raise UnreachableError(self._stranger)
            yield from page[key]
            if not page.get("next_page_token"):
                return
            query["page_token"] = page["next_page_token"]

    def stream(self, path: str, *, body: object = None, **query: Any) -> Iterator[Any]:
        """Yield the decoded lines of an answer as they arrive. A request with a body is a POST."""
        for line in self._lines("GET" if body is None else "POST", path, query, body):
            if not line:
                continue
            row = self._decode(line)
            if row.keys() == {"error"}:  # an error after the answer had begun
                raise error_of(int(row["error"]["code"]), str(row["error"]["message"]))
            yield row

    def events(self, path: str, **query: Any) -> Iterator[tuple[str, Any]]:
        """Yield the kind and data of server-sent events as they arrive."""
        kind = "message"
        for line in self._lines("GET", path, query, None):
            name, _, value = line.partition(b":")
            if name == b"event":
                kind = value.strip().decode()
            elif name == b"data":
                yield kind, self._decode(value)
            elif not line:
                kind = "message"

    # ------------------------------------------------------------------ requests

    def _call(self, method: str, path: str, query: Mapping[str, Any], body: object = None) -> Any:
        connection = self._take()
        try:
            with self._translate_errors():
                response = self._ask(connection, method, path, query, body)
                answer = response.read()
        except errors.PenstockError:
            connection.close()
            raise
        self._kept.append((connection, time.monotonic()))  # it reconnects if it was closed
        self._check(response, answer)
        if response.status != NO_CONTENT:
            return self._decode(answer)
        return None if method == "DELETE" else Answer(self._stranger, {})

    def _take(self) -> http.client.HTTPConnection:
        """Return a kept connection that is not too old, or a new one. No other call uses it at the same time."""
        with suppress(IndexError):
            while True:
                connection, used_at = self._kept.pop()
                if time.monotonic() - used_at <= KEPT_SECONDS:
                    return connection
                connection.close()
        return self._connect()

    def _lines(self, method: str, path: str, query: Mapping[str, Any], body: object) -> Iterator[bytes]:
        with closing(self._connect()) as connection:
            with self._translate_errors():
                response = self._ask(connection, method, path, query, body)
                if response.status not in SUCCESSES:
                    self._check(response, response.read())
                if response.headers.get_content_type() not in STREAM_TYPES:
                    raise UnreachableError(self._stranger)
            rest = b""
            while part := self._read(response):
                *lines, rest = (rest + part).split(b"\n")
                yield from lines
                if len(rest) > LINE_BYTES_MAX:
                    raise errors.ResourceExhaustedError("The server sent a line that is too long")
            if rest:
                yield rest

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        with self._translate_errors():
            return response.read1(READ_BYTES)

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: object,
    ) -> http.client.HTTPResponse:
        parameters = {name: _text(value) for name, value in query.items() if value is not None}
        target = f"{BASE}{path}{'?' if parameters else ''}{urlencode(parameters)}"
        if body is None:
            connection.request(method, target, headers=self._headers)
        else:
            headers = {**self._headers, "Content-Type": "application/json"}
            connection.request(method, target, _json(body), headers)
        return connection.getresponse()

    def _check(self, response: http.client.HTTPResponse, answer: bytes) -> None:
        if response.status in SUCCESSES:
            return
        try:
            error = json.loads(answer)["error"]
        except (ValueError, KeyError, TypeError, RecursionError):
            error = None
        if not isinstance(error, dict) or error.keys() != {"code", "message"}:
            raise UnreachableError(f"{self._stranger}: it answered {response.status}")
        raise error_of(response.status, str(error["message"]))

    def _decode(self, answer: bytes) -> Answer:
        """Return an answer or a line of one. The admin API answers with objects only."""
        try:
            decoded = json.loads(answer, object_hook=partial(Answer, self._stranger))
            if b"\\ud" in answer.lower():  # half a character, which the text of a Penstock server never has
                json.dumps(decoded, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            decoded = None
        if not isinstance(decoded, Answer):
            raise UnreachableError(self._stranger)
        return decoded

    @property
    def _stranger(self) -> str:
        return f"{self.url} is not the HTTP port of a Penstock server"

    def _translate_errors(self) -> _Translation:
        return _Translation(self.url, self._stranger)


class _Translation:
    """A context that turns errors of a connection into UnreachableError."""

    def __init__(self, url: str, stranger: str) -> None:
        self._url = url
        self._stranger = stranger

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TimeoutError):
            raise UnreachableError(f"The server at {self._url} does not answer") from error
        if isinstance(error, http.client.IncompleteRead | http.client.RemoteDisconnected | ConnectionResetError):
            raise UnreachableError(
                f"The server at {self._url} closed the connection without an answer; is this its HTTP port?"
            ) from error
        if isinstance(error, OSError):
            reason = (error.strerror or type(error).__name__).lower()
            raise UnreachableError(f"Cannot reach the server at {self._url}: {reason}") from error
        if isinstance(error, http.client.HTTPException | UnicodeError):
            raise UnreachableError(self._stranger) from error


def _json(body: object) -> bytes:
    """Encode a body, or raise an error with the name of the field that JSON cannot represent."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError):
        for name, value in body.items() if isinstance(body, Mapping) else ():
            with suppress(TypeError, ValueError):
                json.dumps(value, allow_nan=False)
                continue
            raise errors.InvalidArgumentError(f"{name} cannot be sent as JSON: {repr(value)[:100]}") from None
        raise errors.InvalidArgumentError("The body cannot be sent as JSON") from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
