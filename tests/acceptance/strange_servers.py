"""Servers that are not Penstock or send unsafe text, and the arguments of every command that calls a server."""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.server_process import SECONDS

# All characters that must not reach a terminal.
HOSTILE = "".join(
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}
)
HOSTILE_LINE = HOSTILE.replace("\0", "")  # for arguments and headers

# The arguments of every command that calls a server, by the name of the command.
COMMANDS: dict[str, tuple[str, ...]] = {
    "ls": (),
    "peek": ("orders",),
    "tail": ("orders",),
    "search": ("orders", "espresso"),
    "stats": (),
    "lag": (),
    "info": (),
    "settings": (),
    "health": (),
    "publish": ("orders", "one more"),
    "pull": ("billing",),
    "seek": ("sought", "--yes", "beginning"),
    "purge": ("purged", "--yes"),
    "redrive": ("billing", "--to", "archive", "--dry-run"),
    "move": ("billing", "archive", "--dry-run"),
    "moves ls": (),
    "moves show": ("MOVE",),
    "moves stop": ("MOVE",),
    "export": ("orders",),
    "import": ("archive", "FILE"),
    "topics ls": (),
    "topics create": ("made-topic",),
    "topics show": ("orders",),
    "topics change": ("orders", "--label", "team=a"),
    "topics delete": ("deleted-topic", "--yes"),
    "subs ls": (),
    "subs create": ("made-subscription", "orders"),
    "subs show": ("billing",),
    "subs change": ("billing", "--ack-deadline", "20s"),
    "subs delete": ("deleted-subscription", "--yes"),
    "subs consumers": ("billing",),
    "subs cursors": (),
    "subs leases": ("leased",),
    "subs ack": ("billing", "1-2-3"),
    "subs nack": ("billing", "1-2-3"),
    "subs extend": ("billing", "1-2-3", "--by", "20s"),
    "queues ls": (),
    "queues create": ("made-queue",),
    "queues show": ("jobs",),
    "queues delete": ("deleted-queue", "--yes"),
    "snapshots ls": (),
    "snapshots create": ("made-snapshot", "billing"),
    "snapshots show": ("yesterday",),
    "snapshots delete": ("deleted-snapshot", "--yes"),
    "projects ls": (),
    "projects snapshot": ("made-project-snapshot",),
    "projects snapshots": (),
    "projects restore": ("whole", "--dry-run"),
    "projects forget": ("forgotten", "--yes"),
    "backup": ("BACKUP",),
    "seed": ("--from-server",),
    "doctor": (),
    "faults ls": (),
    "faults add": ("latency", "--seconds", "0.001", "--door", "text"),
    "faults rm": ("DELETED-FAULT",),
    "faults hits": ("FAULT",),
}
# Commands that need a terminal, run for long or call no server.
OTHER_COMMANDS = {"top", "serve", "restore", "azurite", "gcloud", "shims", "bench", "text send", "text consume"}
OTHER_COMMANDS |= {"pipeline run", "pipeline check", "context ls", "context add", "context use", "context rm"}
OTHER_COMMANDS |= {"cheat", "completion", "version"}


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self) -> None:
        raise NotImplementedError

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PATCH = do_DELETE = do_PUT = do_GET


def strange(status: int, kind: str, body: bytes) -> type[BaseHTTPRequestHandler]:
    """Return a server that answers every request alike. With status 0 it closes the connection instead."""

    class Strange(Quiet):
        def answer(self) -> None:
            self._read()
            self.close_connection = True
            if not status:
                return
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "https://sign-in.example/")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

    return Strange


# Fields that the command must parse. A server does not take their values from users.
EXACT = {"state", "class", "level", "next_page_token", "data_base64", "step", "default_project"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT")


def soiled(value: Any, key: str = "") -> Any:
    """Return JSON with the hostile characters at the end of every text, and of every name of a label or attribute."""
    if isinstance(value, dict):
        free = key in {"labels", "attributes", "by_topic", "reasons"}
        return {name + HOSTILE if free else name: soiled(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [soiled(part, key) for part in value]
    if isinstance(value, str) and key not in EXACT and not _TIME.match(value):
        return value + HOSTILE
    return value


def soiling(address: str) -> type[BaseHTTPRequestHandler]:
    """Return a proxy that adds hostile characters to the answers of a server."""

    class Soiling(Quiet):
        def answer(self) -> None:
            connection = http.client.HTTPConnection(address, timeout=SECONDS)
            connection.request(self.command, self.path, self._read(), {"Content-Type": "application/json"})
            response = connection.getresponse()
            lines = [json.dumps(soiled(json.loads(line))) for line in response.read().splitlines() if line]
            connection.close()
            body = "\n".join(lines).encode()
            self.send_response(response.status)
            self.send_header("Content-Type", response.headers.get("Content-Type", ""))
            if response.status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Soiling
