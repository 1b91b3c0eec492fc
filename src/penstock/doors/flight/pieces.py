"""Pieces of publishes that are still coming from the reader process, charged to the memory budget of all doors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.doors.flight.letters import Drafts
from penstock.errors import UnavailableError
from penstock.wire.budget import Account, Budget


class Pieces:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._coming: dict[int, list[Drafts] | None] = {}  # by number of the request; None: it is refused already
        self._accounts: dict[int, Account] = {}

    def add(self, number: int, piece: Drafts, size: int) -> None:
        if self._charge(number, size):
            coming = self._coming.setdefault(number, [])
            if coming is not None:
                coming.append(piece)

    @contextmanager
    def taken(self, number: int, size: int) -> Iterator[list[Drafts]]:
        """The pieces that came before the last one. UnavailableError if there was no memory for all of them."""
        fits = self._charge(number, size)
        earlier = self._coming.pop(number, [])
        account = self._accounts.pop(number)
        try:
            if not fits or earlier is None:
                raise UnavailableError("The server is busy: try again later")
            account.keep()
            yield earlier
        finally:
            account.close()

    def close(self) -> None:
        """The reader process is gone, and with it all that it left half said."""
        for account in self._accounts.values():
            account.close()
        self._accounts.clear()
        self._coming.clear()

    def _charge(self, number: int, size: int) -> bool:
        account = self._accounts.get(number)
        if account is None:
            account = self._accounts[number] = self._budget.account(lambda: self._forget(number))
        if self._coming.get(number, []) is None:
            return False
        if not account.charge(size):
            account.close()
            self._forget(number)
            return False
        return True

    def _forget(self, number: int) -> None:
        self._coming[number] = None
