"""The memory of one connection, charged to the budget of all doors."""

from __future__ import annotations

from collections.abc import Callable

from penstock.wire.budget import SMALL_BYTES, Account, Budget

READING, PENDING, UNSENT = "reading", "pending", "unsent"


class Memory:
    """Accounts for the kinds of memory that one connection holds.

    An account is created with the first large amount: most connections are idle, or send small messages.
    """

    __slots__ = ("_accounts", "_budget")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._accounts: dict[str, Account] | None = None

    def hold(self, kind: str, size: int, give_up: Callable[[], None] | None = None) -> bool:
        """Set the bytes of one kind that are held now. Return False if the budget has no memory for them.

        The budget may call `give_up` to get the memory back. Without `give_up` it cannot.
        """
        accounts = self._accounts
        if size <= SMALL_BYTES and accounts is None:
            return True
        if accounts is None:
            accounts = self._accounts = {}
        account = accounts.get(kind)
        if account is None:
            account = accounts[kind] = self._budget.account(give_up)
        return account.hold(size if size > SMALL_BYTES else 0)

    def close(self) -> None:
        for account in (self._accounts or {}).values():
            account.close()
