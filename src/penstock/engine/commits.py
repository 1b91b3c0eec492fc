"""The path from decided to durable: facts wait here, and a flush commits all of them at once.

Commits happen in the order of the decisions, one at a time, and are numbered. When the journal refuses a commit, all
later decisions are void, and commits stall until the engine has gone back to the state that the journal holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker.dump import StateDump
from penstock.broker.facts import Fact, Forgotten, TopicDeleted
from penstock.broker.model import Batch, Message
from penstock.broker.names import MAX_OFFSET
from penstock.engine.statistics import CommitMeter
from penstock.errors import InternalError, PenstockError
from penstock.journal.codec import check_facts
from penstock.journal.port import REFUSALS, Commit, Journal, JournalFailedError, NotStorableError

log = logging.getLogger("penstock")

LOSSES_KEPT = 1024  # refusals remembered, for callers that ask late


class Loss(NamedTuple):
    """Decisions above `after` and up to `through` were never committed."""

    after: int
    through: int
    error: PenstockError


class Group:
    """The facts and messages of one commit."""

    __slots__ = ("facts", "messages", "snapshot", "through")

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.messages: dict[int, list[Message]] = {}  # by topic: one batch each
        self.snapshot: StateDump | None = None
        self.through = 0

    def add(self, facts: Sequence[Fact], batches: Sequence[Batch]) -> None:
        self.facts.extend(facts)
        for batch in batches:
            messages = self.messages.get(batch.topic)
            if messages is None:
                self.messages[batch.topic] = list(batch.messages)
            else:
                messages.extend(batch.messages)

    def commit(self) -> Commit:
        batches = [Batch(topic, messages[0].offset, messages) for topic, messages in self.messages.items()]
        return Commit(self.facts, batches, self.snapshot)


class Commits:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending_lock = threading.Lock()  # held for moments: the list of groups
        self._commit_lock = threading.Lock()  # held while a commit runs: one writer
        self._groups: list[Group] = []
        self._in_commit: list[Group] = []  # being committed right now
        self._submitted = 0
        self.durable = 0  # decisions up to this number are committed, or lost
        self._losses: deque[Loss] = deque(maxlen=LOSSES_KEPT)
        self.stalled: PenstockError | None = None
        self._closed = False
        self.meter = CommitMeter()

    @property
    def submitted(self) -> int:
        return self._submitted

    def add(self, facts: Sequence[Fact], batches: Sequence[Batch]) -> int:
        """Queue the facts of a command. Return the number of their commit.

        Facts that the journal could not read back raise an exception, and are not queued: a bug of their command.
        """
        if self._journal.durable:
            check_facts(facts)
        with self._pending_lock:
            if not self._groups or self._groups[-1].snapshot is not None:
                self._groups.append(Group())
            self._submitted += 1
            self._groups[-1].add(facts, batches)
            self._groups[-1].through = self._submitted
            return self._submitted

    def close_with(self, dump: StateDump) -> None:
        """Add a snapshot of the state to the last group."""
        with self._pending_lock:
            if self._groups:
                self._groups[-1].snapshot = dump

    def wants_snapshot(self) -> bool:
        return self._journal.snapshot_due and not any(group.snapshot for group in self._groups)

    def flush(self) -> None:
        """Commit everything pending. A caller that waited for the same commit finds it done."""
        with self._commit_lock:
            with self._pending_lock:
                groups, self._groups = self._groups, []
                self._in_commit = groups
            for group in groups:
                self._commit(group)
            self._in_commit = []

    def holds(self, topic: int) -> bool:
        """Return whether messages of a topic are not yet committed."""
        with self._pending_lock:
            return any(topic in group.messages for group in (*self._in_commit, *self._groups))

    def wait(self, number: int) -> None:
        """Wait until a decision is durable, and commit it if no other thread does. Raise if the decision is lost."""
        if self.durable < number:
            self.flush()
        error = self.loss(number)
        if error is not None:
            raise error

    @property
    def has_losses(self) -> bool:
        return bool(self._losses)

    def loss(self, number: int) -> PenstockError | None:
        """Return why a decision is not durable, after the flush that should have committed it."""
        with self._pending_lock:
            for after, through, error in self._losses:
                if after < number <= through:
                    return error
            if self.durable >= number:
                return None
        return self.stalled or InternalError(f"Decision {number} was not committed")

    @property
    def failed(self) -> bool:
        """True if the journal failed for good. After one of REFUSALS the engine can go back and continue."""
        return self.stalled is not None and not isinstance(self.stalled, REFUSALS)

    def resume(self) -> None:
        """Accept decisions again, after the engine went back to the state that the journal holds."""
        if self.failed or self.stalled is None:
            return
        with self._commit_lock, self._pending_lock:  # no flush is running with void decisions
            self._groups = []
            self._losses.append(Loss(self.durable, self._submitted, self.stalled))
            self._submitted += 1  # so that a wait for the latest decision does not wait for a lost one
            self.durable = self._submitted
            self.stalled = None

    def _commit(self, group: Group) -> None:
        if self.stalled is not None:
            return
        started = time.perf_counter()
        try:
            self._journal.commit(group.commit())
            self.durable = group.through
            self._note(group, time.perf_counter() - started)
            self._forget(group.facts)
        except NotStorableError as error:
            log.error("A change could not be stored and was undone. Please report it", exc_info=error)
            self.stalled = error
        except PenstockError as error:
            self.stalled = error
        except Exception:  # a bug: it is unknown what the journal has written
            log.exception("The journal failed with an unexpected error")
            self.stalled = JournalFailedError()

    def _note(self, group: Group, seconds: float) -> None:
        size = sum(batch[-1].position + batch[-1].size - batch[0].position for batch in group.messages.values())
        self.meter.note(seconds, facts=len(group.facts), bytes_written=size)

    def _forget(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if type(fact) is Forgotten:
                self._journal.forget(fact.topic, fact.until)
            elif type(fact) is TopicDeleted:
                self._journal.forget(fact.topic, MAX_OFFSET)

    def maintain(self) -> bool:
        """Run a slice of the journal's idle work."""
        with self._commit_lock:
            try:
                return not self._closed and self.stalled is None and self._journal.maintain()
            except PenstockError as error:
                self.stalled = error
            except Exception:  # a bug. It must not end the thread that commits
                log.exception("The journal failed with an unexpected error")
                self.stalled = JournalFailedError()
            return False

    def close(self) -> None:
        """Release the journal, after a running slice of idle work has ended."""
        with self._commit_lock:
            self._closed = True
            self._journal.close()
