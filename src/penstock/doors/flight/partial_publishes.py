"""Partial publishes: rows that wait for the last frame of their publish, charged to the budget of all doors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.broker.model import Draft
from penstock.doors.flight.ipc import Rows
from penstock.errors import UnavailableError
from penstock.wire.budget import Budget


class PartialPublish:
    def __init__(self, budget: Budget) -> None:
        self.rows: list[Rows[Draft]] | None = []  # None: refused, because there was no memory
        self.account = budget.account(self._refuse)

    def charge(self, size: int) -> bool:
        if self.rows is not None and not self.account.charge(size):
            self.refuse()
        return self.rows is not None

    def refuse(self) -> None:
        """Drop the rows and give their memory back. The last frame of the publish is then refused."""
        self.account.close()
        self._refuse()

    def _refuse(self) -> None:
        self.rows = None


class PartialPublishes:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._partial: dict[int, PartialPublish] = {}  # by the number of the request

    def add(self, number: int, rows: Rows[Draft], size: int) -> None:
        partial = self._find(number)
        if partial.charge(size) and partial.rows is not None:
            partial.rows.append(rows)

    def refuse(self, number: int) -> None:
        """Refuse a publish when its last frame comes."""
        self._find(number).refuse()

    def _find(self, number: int) -> PartialPublish:
        partial = self._partial.get(number)
        if partial is None:
            partial = self._partial[number] = PartialPublish(self._budget)
        return partial

    @contextmanager
    def complete(self, number: int, size: int) -> Iterator[list[Rows[Draft]]]:
        """Yield the rows that came before the last frame. Raise UnavailableError if there was no memory for them."""
        partial = self._partial.pop(number, None) or PartialPublish(self._budget)
        try:
            if not partial.charge(size) or partial.rows is None:
                raise UnavailableError("The server is busy: try again later")
            partial.account.keep()
            yield partial.rows
        finally:
            partial.account.close()

    def clear(self) -> None:
        """Drop all rows, because the reader process has ended and the last frames will not come."""
        for partial in self._partial.values():
            partial.account.close()
        self._partial.clear()
