"""The body of one request, charged to the memory budget until the work on the request is over."""

from __future__ import annotations

from collections.abc import Callable

from penstock.wire.budget import SMALL_BYTES, Account, Budget


class Body:
    """A request body. A small one is counted with its stream, a larger one has an account of its own."""

    __slots__ = ("_account", "_budget", "_data", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        self._budget = budget
        self._account: Account | None = None
        self._data: bytes | bytearray = b""

    def add(self, data: bytes, give_up: Callable[[], None]) -> bool:
        """Append data. Return False if there is no memory. `give_up` is called when the memory is needed elsewhere."""
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
            self._data += data  # one buffer, so that many small frames take no more memory than their bytes
        self.size = size
        return True

    def take(self) -> bytes | bytearray:
        """Return the whole body. It stays charged until `close`."""
        data, self._data = self._data, b""
        if self._account is not None:
            self._account.keep()
        return data

    def peek(self, size: int) -> bytes | bytearray:
        return self._data[:size]

    def cut(self, size: int) -> bytes:
        """Remove the first `size` bytes and return them. They are no longer charged."""
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
