"""One budget of memory for all connections of all doors: requests being read, and answers not taken.

    budget = Budget(256 << 20)
    account = budget.account(give_up)   # one for each connection or request, made when there is something to charge
    if not account.charge(len(data)):   # refused: say "too busy" in the protocol's own words
        ...
    account.close()                     # always, when the connection or request is over: nothing of it stays charged

Nothing ever waits for memory, so there is no deadlock. When the budget is spent one account is refused at once: the
oldest that has held something for longer than `hold_seconds`; if there is none, the youngest, which may be the one
that asks. So slow peers make way for quick ones. What cannot be given up any more (`keep`) is never taken away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import MethodType
from weakref import WeakMethod

HOLD_SECONDS = 5.0
SMALL_BYTES = 4096  # what one peer holds below this need not be charged
_GATHERED_BYTES = 64 << 10


def gather(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """Append a piece; small ones are joined, so that a body in single bytes does not become a list of them."""
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
        """`limit_bytes` 0: everything is counted and nothing refused."""
        self.limit_bytes = limit_bytes
        self.in_use_bytes = 0
        self.refusals = 0  # requests refused and answers given up because the budget was spent
        self.most_bytes = limit_bytes or math.inf
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._claims: dict[Account, float] = {}  # which could give something up, and since when, in this order

    def account(self, give_up: Callable[[], None] | None) -> Account:
        """`give_up` is called when others need the memory: refuse what is being read, or abort what is not taken.

        It must not raise, and the account is empty afterwards, whatever it does. An account does not keep the object
        alive whose method it is (a class with slots needs one for `__weakref__`). Without `give_up` what is charged
        is at work, and never taken away.
        """
        if give_up is None:
            return Account(self, None)
        return Account(self, WeakMethod(give_up) if isinstance(give_up, MethodType) else lambda: give_up)

    # What an account calls.

    def make_room(self, asking: Account, size: int) -> bool:
        """Have others give up until so many bytes more fit; False if the one that asks has to."""
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
    """What one connection or request holds."""

    __slots__ = ("_budget", "_give_up", "held_bytes")

    def __init__(self, budget: Budget, give_up: Callable[[], Callable[[], None] | None] | None) -> None:
        self.held_bytes = 0
        self._budget = budget
        self._give_up = give_up

    def charge(self, size: int) -> bool:
        """So many bytes more are held. False: the budget is spent, and they are not charged."""
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
        """So many bytes are no longer held."""
        budget, size = self._budget, min(size, self.held_bytes)
        self.held_bytes -= size
        budget.in_use_bytes -= size
        if not self.held_bytes and self._give_up is not None:
            budget.leave(self)

    def hold(self, size: int) -> bool:
        """So many bytes are held now in all: charges or releases the difference."""
        more = size - self.held_bytes
        if more > 0:
            return self.charge(more)
        if more:
            self.release(-more)
        return True

    def keep(self) -> None:
        """What is held is at work and cannot be given up any more; it stays charged."""
        self._budget.leave(self)

    def close(self) -> None:
        """Nothing is held any more. The account may be used again."""
        self.release(self.held_bytes)

    def take_away(self) -> None:
        """Others need the memory more."""
        give_up = self._give_up() if self._give_up is not None else None
        try:
            if give_up is not None:
                give_up()
        finally:
            self.close()
