"""The reader process of the Flight door, a main module: it scans the store and speaks Arrow in place of the server.

    python -m penstock.doors.flight.process FD        started by the door, with one end of a socket pair

It never outlives its server: when the link ends it exits at once, whatever it is doing.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

from penstock.doors.flight.ipc import Hello, unpack
from penstock.doors.flight.link import Frame, ReaderEnd
from penstock.doors.port import join_address
from penstock.errors import where
from penstock.memory import calm_collector

if TYPE_CHECKING:
    from penstock.doors.flight.service import FlightService

log = logging.getLogger("penstock.doors.flight")

NICENESS = 5  # where processors are short, the broker goes before the scans


class ReaderProcess:
    def __init__(self, own: socket.socket) -> None:
        self._link = ReaderEnd(own, noticed=self._noticed, ended=lambda: os._exit(0))
        self._greeted = threading.Event()
        self._stopped = threading.Event()
        self._hello: Hello | None = None

    def run(self) -> None:
        # This import takes long; until it is done the server listens in our place.
        import penstock.doors.flight.service  # noqa: F401

        self._link.start()
        self._link.send("ready", b"", 0)
        self._greeted.wait()
        assert self._hello is not None, "the greeting was read before it was announced"
        try:
            service = open_service(self._hello, self._link)
        except Exception as error:  # noqa: BLE001 - of any kind: without a service there is nothing to do here
            log.error("cannot serve on %s port %d: %s", self._hello.host, self._hello.port, where(error))
            os._exit(1)
        gc.freeze()  # what exists now stays
        calm_collector()
        self._link.send("open", b"", 0)
        service.staging.finish(self._hello.unfinished)
        self._stopped.wait()
        service.stopping = True
        service.shutdown()
        os._exit(0)

    def _noticed(self, frame: Frame) -> None:
        if frame.word == "hello":
            self._hello = unpack(frame.body, Hello)
            self._greeted.set()
        elif frame.word == "stop":
            self._stopped.set()


def open_service(hello: Hello, link: ReaderEnd) -> FlightService:
    from penstock.assembly import open_log_reader
    from penstock.doors.flight.service import FlightService, Tokens

    secure = bool(hello.certificate)
    return FlightService(
        f"{'grpc+tls' if secure else 'grpc'}://{join_address(hello.host, hello.port)}",
        hello,
        link,
        open_log_reader(hello.data) if hello.data is not None else None,
        log,
        tls_certificates=[(hello.certificate, hello.private_key)] if secure else None,
        middleware={"tokens": Tokens(hello.tokens)} if hello.tokens else None,
    )


class NoPandas(MetaPathFinder):
    """Arrow loads pandas where it is installed, for its types: none is used here, and loading takes long."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they are for the server, which sends `stop`
    os.nice(NICENESS)
    sys.meta_path.insert(0, NoPandas())
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    ReaderProcess(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
