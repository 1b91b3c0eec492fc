"""The bytes of one request while they arrive, charged to the memory budget until the work on them is over."""

from __future__ import annotations

from collections.abc import Callable

from penstock.wire.budget import SMALL_BYTES, Account, Budget


class Body:
    """What is small is counted with its stream; beyond that it has an account of its own."""

    __slots__ = ("_account", "_budget", "_data", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        self._budget = budget
        self._account: Account | None = None
        self._data: bytes | bytearray = b""

    def add(self, data: bytes, give_up: Callable[[], None]) -> bool:
        """False: there is no memory for it. `give_up` is called when there is none any more for what is here."""
        size = self.size + len(data)
        if size > SMALL_BYTES:
            if self._account is None:
                self._account = self._budget.account(give_up)
            if not self._account.hold(size):
                return False
        if not self.size:
            self._data = data
        else:
            if type(self._data) is bytes:
                self._data = bytearray(self._data)
            self._data += data  # in one piece: many small frames take no more memory than their bytes
        self.size = size
        return True

    def take(self) -> bytes | bytearray:
        """All of it, to be worked on: it stays charged until `close`."""
        data, self._data = self._data, b""
        if self._account is not None:
            self._account.keep()
        return data

    def peek(self, size: int) -> bytes | bytearray:
        return self._data[:size]

    def cut(self, size: int) -> bytes:
        """The first so many bytes, which are no longer charged."""
        data = self._data
        if size == self.size:
            self._data = b""
            part = bytes(data)
        else:
            part = bytes(data[:size])
            if type(data) is bytearray:
                del data[:size]  # moves nothing
            else:
                self._data = bytearray(data[size:])
        self.size -= size
        if self._account is not None:
            self._account.hold(self.size if self.size > SMALL_BYTES else 0)
        return part

    def close(self) -> None:
        self._data, self.size = b"", 0
        if self._account is not None:
            self._account.close()
            self._account = None
