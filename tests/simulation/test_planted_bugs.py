"""Proof that the simulations can fail: bugs are planted one at a time, and each must be found.

A bug is planted by replacing one function. The model or the power cuts then have a bounded number of tries. The tests
of power cuts plant `synchronous=NORMAL` themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock import InternalError
from penstock.broker import publishing, receipts, returning
from penstock.broker.broker import Broker
from penstock.broker.facts import Acked, Fact, Passed
from penstock.broker.leases import Entry
from penstock.broker.log import LogCache
from penstock.broker.model import Batch, Message
from penstock.broker.ordering import Lane
from penstock.broker.subscription import Subscription
from penstock.doors.text.queues import Queues
from penstock.engine.commits import Commits
from penstock.engine.engine import Engine
from tests.simulation import test_broker_power_cuts as power_cuts
from tests.simulation.seeds import seeded
from tests.simulation.test_model import Machine
from tests.simulation.test_readers import Readers
from tests.simulation.text import test_windows as windows

FOUND = (AssertionError, IndexError, KeyError, InternalError)
EXAMPLES_MAX = 3_000
SEED = 3  # each of the first five seeds finds all bugs; this one takes the least time
SEEDS = range(4)


def _acks_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Commits.add

    def planted(self: Commits, facts: Sequence[Fact], batches: Sequence[Batch]) -> int:
        return add(self, [fact for fact in facts if not isinstance(fact, Acked)], batches)

    monkeypatch.setattr(Commits, "add", planted)


def _reply_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: Commits, number: int) -> None:
        if number % 3 == 0:
            self.flush()

    monkeypatch.setattr(Commits, "wait", planted)
    monkeypatch.setattr(power_cuts, "CACHE_BYTES", 10**8)  # uncommitted facts cannot be read


def _every_receipt_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "_is_valid", lambda *_: True)


def _receipts_outlive_their_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "_is_valid", lambda subscription, entry, stamp, *_: entry.stamp == stamp)


def _attempts_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    lease_again = Subscription._lease_again

    def planted(self: Subscription, entry: Entry, *rest: Any) -> None:
        lease_again(self, entry, *rest)
        entry.attempts -= 1

    monkeypatch.setattr(Subscription, "_lease_again", planted)


def _order_ignored_after_nack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lane, "later_leased", lambda self, offset: [offset])


def _order_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.selection.Selection._is_blocked", lambda self, key: False)


def _seek_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seek = Broker.seek_to_offset
    monkeypatch.setattr(Broker, "seek_to_offset", lambda self, now, name, offset: seek(self, now, name, offset + 1))


def _acked_messages_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "seek_reach", lambda self, now, name: [(0, 0)])


def _dead_letter_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(
        ledger: Any, topic: Any, subscription: Any, now: int, messages: Any, destination: str, reason: str
    ) -> None:
        returning.drop(ledger, subscription, now, [message.offset for message in messages], reason)

    monkeypatch.setattr(returning, "move", planted)


def _backoff_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.returning.backoff", lambda options, attempts: 0)


def _leases_go_by_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    init = Engine.__init__

    def planted(self: Engine, *given: Any, **parts: Any) -> None:
        init(self, *given, **parts)
        self.now = self.clock.wall

    monkeypatch.setattr(Engine, "__init__", planted)


def _unseen_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back = Queues.give_back
    monkeypatch.setattr(
        Queues, "give_back", lambda self, receipts, *delay, unseen=False: give_back(self, receipts, *delay)
    )


def _unseen_dead_lettered(monkeypatch: pytest.MonkeyPatch) -> None:
    nack = Broker.nack
    monkeypatch.setattr(Broker, "nack", lambda self, now, receipts, *_, **__: nack(self, now, receipts))


def _loaded_over_the_next_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that begins in a chunk and ends beyond it is loaded over the next chunk, and a topic hangs."""

    def planted(self: LogCache, topic: int, first: int, until: int) -> list[tuple[int, int]]:
        span = self.span(topic, first)
        if span is not None:
            first += len(span[0]) - span[1]
        firsts = self._topics[topic].firsts if topic in self._topics else []
        place = bisect_right(firsts, first)
        until = min(until, firsts[place]) if place < len(firsts) else until
        step = self.sizes.chunk_messages
        return [(each, min(each + step, until)) for each in range(first, until, step)]

    monkeypatch.setattr(LogCache, "_gaps", planted)


def _asked_for_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block larger than the cache evicts its own beginning, which a call is waiting for."""

    def planted(self: LogCache, topic: int, messages: list[Message]) -> None:
        start = messages[0].offset
        for first, until in self._gaps(topic, start, start + len(messages)):
            self._add(topic, first, messages[first - start : until - start])
        self._evict()

    monkeypatch.setattr(LogCache, "load", planted)


def _peek_forgets_what_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two messages that do not fit into the cache together are read in turn forever."""
    peek = Broker.peek
    monkeypatch.setattr(Broker, "peek", lambda self, now, name, max_messages, _: peek(self, now, name, max_messages))


def _stuck_letters_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.returning.stuck_backoff", lambda options, attempts: 0)


def _filters_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_kept_out", lambda *_: [])


def _compared_messages_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.consuming.Passed", lambda *fields: Passed(*fields[:6]))


Plant = Callable[[pytest.MonkeyPatch], None]
FOUND_BY_MODEL: dict[Plant, dict[str, Any]] = {  # with options of every subscription, so that the bug is found soon
    _acks_not_written: {},
    _every_receipt_is_good: {},
    _receipts_outlive_their_lease: {},
    _attempts_not_counted: {},
    _order_ignored_after_nack: {"ordering": True, "ordering_window": 3, "filter": ""},
    _order_ignored: {},
    _seek_off_by_one: {"filter": ""},
    _acked_messages_come_back: {"filter": "", "retain_acked": False},
    _dead_letter_not_published: {"dead_letter_topic": "dead", "max_delivery_attempts": 1},
    _backoff_forgotten: {"retry_minimum_seconds": 60, "retry_maximum_seconds": 60, "dead_letter_topic": ""},
    _stuck_letters_loop: {"dead_letter_topic": "nowhere", "max_delivery_attempts": 1, "retry_minimum_seconds": 0},
    _leases_go_by_the_wall_clock: {},
    _filters_not_compared: {"filter": "attributes:a"},
    _compared_messages_counted_twice: {"filter": "attributes:a"},
    _unseen_dead_lettered: {"dead_letter_topic": "dead", "max_delivery_attempts": 2},
}
FOUND_BY_READERS: list[Plant] = [
    _loaded_over_the_next_chunk,
    _asked_for_leaves_first,
    _peek_forgets_what_it_read,
]
FOUND_BY_CUTS: list[Plant] = [
    _acks_not_written,
    _reply_before_commit,
    _attempts_not_counted,
    _dead_letter_not_published,
]
FOUND_BY_WINDOWS: list[Plant] = [_unseen_counts, _unseen_dead_lettered]


BOUNDED = settings(
    max_examples=EXAMPLES_MAX,
    stateful_step_count=50,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)


@pytest.mark.parametrize("plant", FOUND_BY_MODEL)
def test_the_model_finds_it(plant: Plant, rounds: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The nightly run has no chosen options, as for an unknown bug."""
    plant(monkeypatch)
    monkeypatch.setattr(Machine, "given", FOUND_BY_MODEL[plant] if rounds(1, 0) else {})
    with pytest.raises(FOUND):
        run_state_machine_as_test(seeded(Machine, SEED), settings=BOUNDED)


@pytest.mark.parametrize("plant", FOUND_BY_READERS)
def test_the_readers_find_it(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(FOUND):
        run_state_machine_as_test(seeded(Readers, SEED), settings=BOUNDED)


@pytest.mark.parametrize("plant", FOUND_BY_CUTS)
def test_the_power_cuts_find_it(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert power_cuts.broken_promises(SEEDS) > 0


@pytest.mark.parametrize("plant", FOUND_BY_WINDOWS)
def test_the_windows_find_it(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        windows.check(20, SEED)
