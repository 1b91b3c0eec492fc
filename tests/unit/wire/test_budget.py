"""The memory budget of all connections (`penstock.wire.budget`)."""

from __future__ import annotations

import gc
from weakref import ref

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.budget import Account, Budget

HOLD = 5.0


class Harness:
    """A budget with a clock of the test, and accounts that record when they had to give up."""

    def __init__(self, limit_bytes: int) -> None:
        self.now = 100.0
        self.budget = Budget(limit_bytes, hold_seconds=HOLD, clock=lambda: self.now)
        self.given_up: list[str] = []
        self.accounts: dict[str, Account] = {}

    def account(self, name: str) -> Account:
        self.accounts[name] = self.budget.account(lambda: self.given_up.append(name))
        return self.accounts[name]


def test_closing_an_account_releases_everything() -> None:
    harness = Harness(100)
    account = harness.account("a")
    assert account.charge(30)
    assert account.charge(20)
    account.release(10)
    assert harness.budget.in_use_bytes == account.held_bytes == 40
    account.close()
    account.close()
    assert harness.budget.in_use_bytes == account.held_bytes == 0


def test_more_is_never_released_than_was_charged() -> None:
    harness = Harness(100)
    first, second = harness.account("a"), harness.account("b")
    assert first.charge(10)
    assert second.charge(20)
    first.release(1000)
    assert harness.budget.in_use_bytes == 20


def test_a_new_account_is_refused_when_the_budget_is_spent() -> None:
    harness = Harness(100)
    assert harness.account("a").charge(90)
    assert not harness.account("b").charge(20)
    assert harness.budget.in_use_bytes == 90
    assert harness.budget.refusals == 1
    assert harness.given_up == []


def test_a_request_in_progress_gets_the_memory_of_the_youngest() -> None:
    harness = Harness(100)
    first, second, third = (harness.account(name) for name in "abc")
    assert first.charge(30)
    assert second.charge(30)
    assert third.charge(30)
    assert first.charge(30)
    assert harness.given_up == ["c"]
    assert harness.budget.in_use_bytes == 90
    assert not second.charge(30), "it is now the newest request"
    assert harness.given_up == ["c"]


def test_the_account_that_holds_memory_longest_gives_up_first() -> None:
    harness = Harness(100)
    slow, quick = harness.account("slow"), harness.account("quick")
    assert slow.charge(90)
    harness.now += HOLD + 1
    assert quick.charge(50)
    assert harness.given_up == ["slow"]
    assert harness.budget.in_use_bytes == 50


def test_memory_in_use_is_charged_and_not_taken_away() -> None:
    harness = Harness(100)
    working = harness.account("working")
    assert working.charge(90)
    working.keep()
    harness.now += HOLD + 1
    assert not harness.account("other").charge(20)
    assert harness.given_up == []
    working.close()
    assert harness.account("other").charge(20)


def test_an_account_that_can_give_up_nothing_is_charged_and_not_taken_away() -> None:
    harness = Harness(100)
    working = harness.budget.account(None)
    assert working.charge(90)
    harness.now += HOLD + 1
    assert not harness.account("other").charge(20)
    working.close()
    assert harness.account("other").charge(20)


def test_a_charge_beyond_the_limit_takes_nothing_from_others() -> None:
    harness = Harness(100)
    large, other = harness.account("large"), harness.account("other")
    assert large.charge(50)
    assert other.charge(50)
    assert not large.charge(51)
    assert harness.given_up == []


def test_holding_sets_the_level() -> None:
    harness = Harness(100)
    account = harness.account("a")
    assert account.hold(60)
    assert account.hold(80)
    assert harness.budget.in_use_bytes == 80
    assert not account.hold(120)
    assert account.held_bytes == 80
    assert account.hold(0)
    assert harness.budget.in_use_bytes == 0


def test_without_a_limit_everything_is_counted_and_nothing_refused() -> None:
    budget = Budget(0)
    account = budget.account(lambda: None)
    assert account.charge(1 << 50)
    assert budget.in_use_bytes == 1 << 50
    assert budget.refusals == 0


def test_an_account_does_not_keep_its_owner_alive() -> None:
    class Owner:
        def __init__(self) -> None:
            self.account = harness.budget.account(self.give_up)

        def give_up(self) -> None:
            raise AssertionError("it is gone")

    harness = Harness(100)
    owner = Owner()
    assert owner.account.charge(60)
    seen = ref(owner)
    gc.disable()
    try:
        del owner
        assert seen() is None
    finally:
        gc.enable()
    harness.now += HOLD + 1
    assert harness.account("other").charge(60), "unused memory can be taken away"
    assert harness.budget.in_use_bytes == 60


def test_requests_that_exceed_the_budget_together_all_finish_after_retries() -> None:
    """Ten incomplete requests each need a third of the budget, and none waits forever."""
    harness = Harness(90)
    need, step = 30, 5
    waiting = [f"request {number}" for number in range(10)]
    finished: list[str] = []
    rounds = 0
    while waiting:
        rounds += 1
        assert rounds < 200, "no progress"
        for name in list(waiting):
            account = harness.accounts.get(name) or harness.account(name)
            if account.charge(step) and account.held_bytes >= need:
                account.close()
                waiting.remove(name)
                finished.append(name)
            elif name in harness.given_up:
                harness.given_up.remove(name)  # refused, and starts again
    assert len(finished) == 10
    assert harness.budget.in_use_bytes == 0


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["charge", "release", "hold", "keep", "close", "wait"]),
        st.integers(0, 5),
        st.integers(0, 60),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, limit=st.sampled_from([0, 50, 100, 150]))
def test_in_use_is_the_sum_of_all_accounts_whatever_they_do(steps: list[Step], limit: int) -> None:
    harness = Harness(limit)
    accounts = [harness.account(str(number)) for number in range(6)]
    for verb, who, size in steps:
        if verb == "wait":
            harness.now += size / 10
        elif verb in ("keep", "close"):
            getattr(accounts[who], verb)()
        else:
            getattr(accounts[who], verb)(size)
        assert harness.budget.in_use_bytes == sum(account.held_bytes for account in accounts)
        assert all(account.held_bytes >= 0 for account in accounts)
        assert not limit or harness.budget.in_use_bytes <= limit
    for account in accounts:
        account.close()
    assert harness.budget.in_use_bytes == 0
