"""One memory budget for all connections of all doors: requests being read, and answers not read by their peers.

    budget = Budget(256 << 20)
    account = budget.account(give_up)   # one for each connection or request, when there is something to charge
    if not account.charge(len(data)):   # refused: answer "too busy" in terms of the protocol
        ...
    account.close()                     # always, when the connection or request is over

Nothing ever waits for memory, so there is no deadlock. When the budget is spent, one account is refused at once: the
oldest one that has held memory for longer than `hold_seconds`, or else the youngest, which may be the one that asks.
So slow peers make way for quick ones. Memory that cannot be given up any more (`keep`) is never taken away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import MethodType
from weakref import WeakMethod

HOLD_SECONDS = 5.0
SMALL_BYTES = 4096  # a peer that holds less need not be charged
_GATHERED_BYTES = 64 << 10


def gather(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """Append a piece. Small pieces are joined, so that a body that arrives byte by byte is no list of single bytes."""
    if len(piece) >= SMALL_BYTES:
        pieces.append(piece)
    elif pieces and isinstance(last := pieces[-1], bytearray) and len(last) < _GATHERED_BYTES:
        last += piece
    else:
        pieces.append(bytearray(piece))


class Budget:
    def __init__(
        self, limit_bytes: int = 0, *, hold_seconds: float = HOLD_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`limit_bytes`: 0 means no limit."""
        self.limit_bytes = limit_bytes
        self.in_use_bytes = 0
        self.refusals = 0  # requests refused and answers given up because the budget was spent
        self.most_bytes = limit_bytes or math.inf
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._claims: dict[
            Account, float
        ] = {}  # accounts that can give memory up, oldest first, with the time since when

    def account(self, give_up: Callable[[], None] | None) -> Account:
        """Return a new account. `give_up` is called when others need the memory. It refuses or aborts a request.

        `give_up` must not raise, and the account is empty afterwards. The account does not keep the object of a method
        alive (a class with slots needs `__weakref__`). Without `give_up` the memory is in use and never taken away.
        """
        if give_up is None:
            return Account(self, None)
        return Account(self, WeakMethod(give_up) if isinstance(give_up, MethodType) else lambda: give_up)

    # Called by accounts.

    def make_room(self, asking: Account, size: int) -> bool:
        """Let others give up until `size` more bytes fit. Return False if the asking account has to be refused."""
        if asking.held_bytes + size > self.most_bytes:
            return False
        while self.in_use_bytes + size > self.most_bytes:
            refused = next(iter(self._claims), asking)
            if self._clock() - self._claims.get(refused, math.inf) <= self._hold_seconds:
                refused = next(reversed(self._claims), asking) if asking.held_bytes else asking
            if refused is asking:
                return False
            self.refusals += 1
            refused.take_away()
        return True

    def enter(self, account: Account) -> None:
        self._claims[account] = self._clock()

    def leave(self, account: Account) -> None:
        self._claims.pop(account, None)


class Account:
    """The memory that one connection or request holds."""

    __slots__ = ("_budget", "_give_up", "held_bytes")

    def __init__(self, budget: Budget, give_up: Callable[[], Callable[[], None] | None] | None) -> None:
        self.held_bytes = 0
        self._budget = budget
        self._give_up = give_up

    def charge(self, size: int) -> bool:
        """Charge more bytes. Return False, with nothing charged, if the budget is spent."""
        budget = self._budget
        if budget.in_use_bytes + size > budget.most_bytes and not budget.make_room(self, size):
            budget.refusals += 1
            return False
        if not self.held_bytes and self._give_up is not None:
            budget.enter(self)
        self.held_bytes += size
        budget.in_use_bytes += size
        return True

    def release(self, size: int) -> None:
        """Release bytes that are no longer held."""
        budget, size = self._budget, min(size, self.held_bytes)
        self.held_bytes -= size
        budget.in_use_bytes -= size
        if not self.held_bytes and self._give_up is not None:
            budget.leave(self)

    def hold(self, size: int) -> bool:
        """Set the bytes that are held: charge or release the difference. Return False if the budget is spent."""
        more = size - self.held_bytes
        if more > 0:
            return self.charge(more)
        if more:
            self.release(-more)
        return True

    def keep(self) -> None:
        """Mark the memory as in use: it stays charged and cannot be taken away."""
        self._budget.leave(self)

    def close(self) -> None:
        """Release everything. The account may be used again."""
        self.release(self.held_bytes)

    def take_away(self) -> None:
        """Give up the memory, because others need it more."""
        give_up = self._give_up() if self._give_up is not None else None
        try:
            if give_up is not None:
                give_up()
        finally:
            self.close()
