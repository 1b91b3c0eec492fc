"""The main module of the reader process, which scans the store and speaks Flight for the server.

    python -m penstock.doors.flight.process FD        started by the server, with one end of a socket pair

The process never outlives its server: it exits as soon as the link ends.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import queue
import signal
import socket
import sys
import threading
from importlib.abc import MetaPathFinder
from typing import Any

import msgspec

from penstock.doors.flight.ipc import REQUEST, Hello, unpack
from penstock.doors.flight.link import Frame, ReaderEnd
from penstock.doors.port import join_address
from penstock.errors import where
from penstock.memory import calm_collector, trim_when_quiet
from penstock.wire.request_log import LOGGER, RequestLine, RequestLog

log = logging.getLogger("penstock.doors.flight")

NICENESS = 5  # if processors are short, the broker runs before the scans


def run(own: socket.socket) -> None:
    # These imports take long. Until they are done the server listens for this process.
    from penstock.assembly import open_log_reader
    from penstock.doors.flight.service import FlightService

    notices: queue.SimpleQueue[Frame] = queue.SimpleQueue()  # of the server: `hello`, then `stop`
    link = ReaderEnd(own, on_notice=notices.put, on_end=lambda: os._exit(0))
    link.send("ready", b"", 0)
    hello: Hello = unpack(notices.get().body, Hello)
    logging.getLogger().setLevel(hello.log_level)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    secure = bool(hello.certificate)
    requests = RequestLog("flight") if hello.log_requests else None
    try:
        service = FlightService(
            f"{'grpc+tls' if secure else 'grpc'}://{join_address(hello.host, hello.port)}",
            hello,
            link,
            open_log_reader(hello.data) if hello.data is not None else None,
            log,
            requests,
            tls_certificates=[(hello.certificate, hello.private_key)] if secure else None,
        )
    except Exception as error:  # noqa: BLE001 - the process cannot run without its service
        log.error("cannot serve on %s port %d: %s", hello.host, hello.port, where(error))
        os._exit(1)
    gc.freeze()  # objects that exist now are never collected
    calm_collector()
    threading.Thread(target=lambda: asyncio.run(trim_when_quiet()), name="penstock-memory", daemon=True).start()
    link.send("open", b"", 0)
    service.staging.finish(hello.unfinished)
    notices.get()
    service.finish()
    os._exit(0)


class Lines(logging.Formatter):
    """Log lines for the server: a level and one line of text, or a request as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record.msg, RequestLine):
            return f"{REQUEST} {msgspec.json.encode(record.msg).decode()}"
        text = super().format(record).replace("\n", "\\n")
        return f"{record.levelname} {text}"


class NoPandas(MetaPathFinder):
    """An import hook that hides pandas. Arrow would load it, which takes long, and nothing here uses it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # signals are for the server, which sends `stop`
    os.nice(NICENESS)
    sys.meta_path.insert(0, NoPandas())
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    run(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
