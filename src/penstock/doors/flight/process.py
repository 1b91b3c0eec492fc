"""The reader process of the Flight door: it scans the store and speaks Arrow, so that the server need not.

    python -m penstock.doors.flight.process FD        started by the door, with one end of a socket pair

The rule kept here: it lives as long as the server it belongs to and not a moment longer: when the link ends, so does
the process, at once and with whatever it was doing. As a main module it puts its own parts together.
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

from penstock.doors.flight.letters import Hello, pack, unpack
from penstock.doors.flight.link import Frame, ReaderEnd
from penstock.errors import where
from penstock.memory import calm_collector

if TYPE_CHECKING:
    from penstock.doors.flight.service import FlightService
    from penstock.doors.flight.staging import Staging

log = logging.getLogger("penstock.doors.flight")

NICENESS = 5  # where processors are short, the broker goes before the scans


class ReaderProcess:
    def __init__(self, own: socket.socket) -> None:
        self._link = ReaderEnd(own, ordered=self._ordered, ended=lambda: os._exit(0))
        self._greeted = threading.Event()
        self._stopped = threading.Event()
        self._hello: Hello | None = None

    def run(self) -> None:
        # It is what takes the time, and until it is done somebody else listens for us.
        import penstock.doors.flight.service  # noqa: F401

        self._link.start()
        self._link.send("ready", b"", 0)
        self._greeted.wait()
        assert self._hello is not None, "the greeting was read before it was announced"
        try:
            service, staging = open_service(self._hello, self._link)
        except Exception as error:  # noqa: BLE001 - of any kind: without a service there is nothing to do here
            log.error("cannot serve on %s port %d: %s", self._hello.host, self._hello.port, where(error))
            os._exit(1)
        gc.freeze()  # what is there now stays
        calm_collector()
        self._link.send("open", pack(service.port), 0)
        staging.finish(self._hello.unfinished)
        self._stopped.wait()
        service.stopping = True
        service.shutdown()
        os._exit(0)

    def _ordered(self, frame: Frame) -> None:
        if frame.word == "hello":
            self._hello = unpack(frame.body, Hello)
            self._greeted.set()
        elif frame.word == "stop":
            self._stopped.set()


def open_service(hello: Hello, link: ReaderEnd) -> tuple[FlightService, Staging]:
    """What this process serves."""
    from penstock.assembly import open_log_reader
    from penstock.doors.flight.broker import Broker
    from penstock.doors.flight.codec import Names
    from penstock.doors.flight.service import FlightService, Tokens
    from penstock.doors.flight.staging import Staging

    broker = Broker(link, open_log_reader(hello.data) if hello.data is not None else None)
    names = Names(hello.project)
    staging = Staging(broker, names, log)
    secure = bool(hello.certificate)
    place = f"[{hello.host}]" if ":" in hello.host else hello.host
    service = FlightService(
        f"{'grpc+tls' if secure else 'grpc'}://{place}:{hello.port}",
        broker=broker,
        names=names,
        staging=staging,
        limits=hello.limits,
        log=log,
        tls_certificates=[(hello.certificate, hello.private_key)] if secure else None,
        middleware={"tokens": Tokens(hello.tokens)} if hello.tokens else None,
    )
    return service, staging


class NoPandas(MetaPathFinder):
    """Arrow loads pandas where there is one, to know its types. None of them comes here, and it takes long to load."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server is told to stop, and tells us when it has
    os.nice(NICENESS)
    sys.meta_path.insert(0, NoPandas())
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    ReaderProcess(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
