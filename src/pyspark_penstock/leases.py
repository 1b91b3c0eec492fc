"""The lease of a stream on its cursors. A thread renews it while this process lives."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from typing import Any

from pyspark_penstock.client import BrokerClient, log
from pyspark_penstock.errors import PenstockError, UnreachableError

RENEW_SECONDS = 1.0


class Lease:
    """The cursors that one reader holds on the broker."""

    def __init__(self, broker: BrokerClient, consumer: str, owner: str) -> None:
        self._broker = broker
        self._holder: dict[str, Any] = {"name": consumer, "owner": owner}
        self._reader = f"on {socket.gethostname()}, process {os.getpid()}"[:200]
        self._topics: set[str] = set()
        self._error: PenstockError | None = None  # why the lease was lost
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._is_unsupported = False  # True: the broker's release has no leases

    def hold(self, topics: Iterable[str]) -> None:
        """Take the cursors of these topics, unless held already. Raise PenstockError if another live query has one."""
        if self._error is not None:
            raise self._error
        wanted = self._topics | set(topics)
        if wanted == self._topics or self._is_unsupported:
            return
        try:
            self._broker.ask("cursor.hold", topics=sorted(wanted), reader=self._reader, **self._holder)
        except PenstockError as error:
            if error.code != "not_found":
                raise
            self._is_unsupported = True
            return
        self._topics = wanted
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, name="penstock-lease", daemon=True)
            self._renewing.start()

    def release(self) -> None:
        self._ended.set()
        if self._topics:
            self._broker.ask("cursor.release", **self._holder)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                topics = sorted(self._topics)
                self._broker.ask("cursor.hold", topics=topics, reader=self._reader, wait=False, **self._holder)
            except UnreachableError:
                continue  # the query itself reports that the broker is unreachable
            except PenstockError as error:
                self._error = error
                return
            except Exception as error:  # noqa: BLE001 - the next attempt may succeed
                log.warning("penstock: a cursor could not be renewed: %s", error)


class Leases:
    """The leases of this process, by owner. Pickling leaves them out."""

    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}

    def __reduce__(self) -> tuple[type[Leases], tuple[()]]:
        return Leases, ()

    def hold(self, broker: BrokerClient, consumer: str, owner: str, topics: Iterable[str]) -> None:
        """Take the cursors of these topics, unless held already. Raise PenstockError if another live query has one."""
        if owner not in self._leases:
            self._leases[owner] = Lease(broker, consumer, owner)
        self._leases[owner].hold(topics)

    def release(self, owner: str) -> None:
        """Let other queries use the cursors of a query that has ended."""
        lease = self._leases.pop(owner, None)
        if lease is None:
            return
        try:
            lease.release()
        except Exception as error:  # noqa: BLE001 - the lease ends by itself in a few seconds
            log.warning("penstock: a cursor could not be released: %s", error)


leases = Leases()
