"""The engine: a broker, its journal, and the path between them. Any thread may use it.

Commands run one at a time under the lock. Each command hands its facts to the commits before the next one begins. After
a refused commit, or a bug in a command, the broker first goes back to the state that the journal holds.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.facts import (
    Fact,
    Published,
    Removed,
    Returned,
    SubscriptionChanged,
    SubscriptionCreated,
    SubscriptionDeleted,
)
from penstock.broker.ledger import Draw
from penstock.broker.limits import Limits
from penstock.broker.log import Need, Sizes
from penstock.broker.model import SECOND, Draft
from penstock.broker.publishing import Appended, Once
from penstock.broker.retry import SourceAttributes, source_attributes
from penstock.engine.clock import Clock, ManualClock, SystemClock
from penstock.engine.commands import RESOURCE_TICK, TICK, Question, Steps, housekeep
from penstock.engine.commits import Commits
from penstock.engine.lease_origins import LeaseOrigins
from penstock.engine.namespaces import Clocks, NamespaceOf, no_namespace
from penstock.engine.notices import CapacityNotices, DeadLetterNotices
from penstock.engine.oldest_unacked import Ages
from penstock.engine.random_numbers import random_numbers
from penstock.engine.reads import Block, ReadAhead, answer
from penstock.engine.statistics import BrokerStatistics, DoorTraffic, statistics
from penstock.errors import InternalError, PenstockError, UnavailableError
from penstock.journal.port import Journal, JournalFailedError, JournalFullError

T = TypeVar("T")
log = logging.getLogger("penstock")
PACKAGE = Path(__file__).parent.parent
STUCK = "The broker cannot go back to its last commit"
Answer: TypeAlias = Block | int | None  # the answer to the question of a step
Listener: TypeAlias = Callable[..., None]


class Engine:
    def __init__(
        self,
        journal: Journal,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        draw: Draw | None = None,
        sizes: Sizes | None = None,
        describe_source: SourceAttributes = source_attributes,
        namespace_of: NamespaceOf = no_namespace,
    ) -> None:
        """Build the engine without reading the journal. Call `recover` before the first command."""
        self.clock: Clock = clock or SystemClock()
        self.now = self.clock.now
        self.clocks = clocks = Clocks(self.clock, namespace_of, lambda: self.broker.state)
        self.own_clocks = self.clocks.own
        # True after the clock was moved by hand, or while the store was closed. Expiry runs before the next answer.
        self.moved = True
        if isinstance(self.clock, ManualClock):
            self.clock.followers.add(self)
        self.journal = journal
        self.lock = threading.RLock()
        draw = draw or random_numbers().__next__
        self.broker = Broker(limits, draw=draw, sizes=sizes, describe_source=describe_source, time_at=clocks.time_at)
        self.commits = Commits(journal)
        self.reads = ReadAhead(journal, self.broker.cache.sizes)
        self.closed = False
        self.when_stalled: Callable[[], None] = self.go_back  # called before a command after a refused commit
        self.find_room: Callable[[], bool] = self._find_room  # returns whether a full journal has room again
        self.doors: dict[str, DoorTraffic] = {}  # by the name of the door
        self._bugs: dict[str, int] = {}
        self.ages = Ages()
        self._void: PenstockError = UnavailableError()  # why the broker last went back
        self._tick_at = 0
        self._resource_tick_at = 0
        self._listeners: dict[type[Fact], list[Listener]] = {}
        self._reset_listeners: list[Listener] = []
        dead_letters = DeadLetterNotices(lambda: self.broker.state, self.now)
        self.lease_origins = LeaseOrigins(lambda: self.broker.state)
        self.on([SubscriptionDeleted], self.lease_origins.on_deleted)
        self.on([SubscriptionDeleted], self.ages.on_deleted)
        self.on([Published], CapacityNotices(lambda: self.broker.state).on_published)
        self.on([Returned, Removed, SubscriptionCreated, SubscriptionChanged], dead_letters.on_fact)

    def recover(self) -> None:
        recovered = self.journal.recover()
        self.broker.recover(recovered.dump, recovered.facts)
        recovered_at = self.clocks.recover(self.broker)
        behind = recovered_at - self.now()
        self.clock.not_before(recovered_at)
        if behind >= SECOND:
            log.warning(
                "The clock is %d seconds behind the store. Time continues from the store's last commit",
                behind // SECOND,
            )
        self.journal.sweep({topic.number: topic.head for topic in self.broker.state.topics.values()})
        self.broker.end_endless_leases(self.clocks.time_of)
        self.submit()
        self.commits.flush()

    def close(self) -> None:
        """Write a snapshot, so that the next start has nothing to replay, and close the journal's commits."""
        with self.lock:
            self.closed = True
            try:
                if self.journal.durable and self.commits.stalled is None:
                    self.commits.add([], [])
                    self.commits.close_with(self.broker.state.dump()._replace(at=self.now()))
                    self.commits.flush()
            finally:
                self.reads.close()
                self.commits.close()
                self._tell_reset()

    # ------------------------------------------------------------------ listeners

    def on(self, kinds: Iterable[type[Fact]], listener: Listener) -> Listener:
        """Call a listener with every fact of these kinds, once, in order, before the command's caller is answered.

        The listener runs under the lock, in the thread that decided. It must return quickly and run no command.
        """
        with self.lock:
            for kind in kinds:
                self._listeners.setdefault(kind, []).append(listener)
        return listener

    def on_reset(self, listener: Listener) -> Listener:
        """Call a listener after the broker went back to its last commit, and after the engine was closed."""
        self._reset_listeners.append(listener)
        return listener

    def off(self, listener: Listener) -> None:
        with self.lock:
            for listeners in (*self._listeners.values(), self._reset_listeners):
                if listener in listeners:
                    listeners.remove(listener)

    def _tell_reset(self) -> None:
        for listener in list(self._reset_listeners):
            listener()

    # ------------------------------------------------------------------ commands

    def decide(self, command: Callable[[Broker, int], T], *about: str | int) -> tuple[T, int]:
        """Run a command. Return its result, and the number of the commit that makes its decision durable.

        `about`: names, or the number of a subscription, that choose the clock of the command.
        """
        with self.lock:
            self.check()
            try:
                result = command(self.broker, self.now() if not self.own_clocks else self.clocks.of(*about).now())
            except Exception as error:
                self.judge(error)
                raise
            finally:
                # Expiry that ran before the command stays decided, even if the command is refused.
                number = self.submit()
            return result, number

    def begin(self, make: Callable[[Broker], Steps[T]]) -> tuple[Steps[T], Broker]:
        """Return the steps of a command that may have to read, and the broker that they decide on."""
        with self.lock:
            self.check()
            return make(self.broker), self.broker

    def step(self, steps: Steps[T], answer: Answer, broker: Broker) -> tuple[Question | None, T | None, int]:
        """Run one step of a command that may have to read. Return its question or its result, and the commit number.

        The messages that the step asked for are loaded under the same lock. Otherwise the reads of other threads could
        push them out of the cache again and again.
        """
        question, result = None, None
        with self.lock:
            self.check()
            if self.broker is not broker:  # the steps would continue on a state that is void
                raise self._void
            try:
                if isinstance(answer, Block):
                    broker.load(answer.topic, answer.messages)
                    self.reads.go_on(broker, answer)
                    answer = None
                question = steps.send(answer)
            except StopIteration as stop:
                result = stop.value
            except Exception as error:
                self.judge(error)
                raise
            finally:
                number = self.submit()
        return question, result, number

    def check(self) -> None:
        """Raise UnavailableError if the engine is closed, and handle a refused commit. Called before every command."""
        if self.closed:
            raise UnavailableError("The message queue is closed")
        if self.commits.stalled is not None:
            self.when_stalled()

    def submit(self) -> int:
        """Hand the facts of the last command to the commits. Return the number of the commit to wait for."""
        broker, commits = self.broker, self.commits
        if not broker.facts:
            return commits.submitted
        try:  # facts that cannot be handed over must not stay behind, or the next command would fail on them
            facts, batches = broker.take()
            number = commits.add(facts, batches)
            listeners = self._listeners
            for fact in facts:
                if type(fact) in listeners:
                    for listener in listeners[type(fact)]:
                        listener(fact)
            if commits.wants_snapshot():
                commits.close_with(broker.state.dump()._replace(at=self.now()))
        except Exception as error:
            self.judge(error)
            raise
        return number

    def publish(
        self,
        topic_name: str,
        drafts: Sequence[Draft],
        once: Once | None = None,
        sizes: Sequence[int] | None = None,
        prepare: Callable[[Broker, int], None] | None = None,
    ) -> tuple[Appended, int]:
        """Publish. This is the only command that is refused in advance when the journal is full: all others make room.

        `prepare` runs before the publish, in the same step.
        """

        def command(broker: Broker, now: int) -> Appended:
            if self.journal.full and not self.find_room():
                broker.refuse("disk")
                raise JournalFullError()
            if prepare is not None:
                prepare(broker, now)
            return broker.publish(now, topic_name, drafts, once, sizes)

        return self.decide(command, topic_name)

    def _find_room(self) -> bool:
        """Commit and maintain the journal in the calling thread. Return whether there is room again."""
        self.commits.flush()
        self.commits.maintain()
        return not self.journal.full

    def is_tick_due(self) -> bool:
        """Return whether housekeeping is due. The caller then has to run it."""
        now = self.now()
        if now < self._tick_at:
            return False
        with self.lock:
            if now < self._tick_at or self.closed or self.commits.stalled is not None:
                return False
            self.moved, self._tick_at = False, now + TICK
            if now >= self._resource_tick_at:
                self._resource_tick_at = now + RESOURCE_TICK
                try:
                    self.broker.expire_resources(now, self.clocks.time_of if self.own_clocks else None)
                except Exception as error:
                    self.judge(error)
                    raise
        return True

    def housekeep(self, broker: Broker) -> Steps[None]:
        return housekeep(broker, self.now, self.clocks.time_of if self.own_clocks else None)

    def expire_unused(self, *names: str) -> None:
        """Delete these subscriptions if they have expired, so that a lookup sees the same as a command."""
        try:
            for name in names:
                self.broker.expire_unused(self.clocks.of(name).now(), name)
        except Exception as error:
            self.judge(error)
            raise
        if self.broker.facts:
            self.submit()

    def statistics(self, *, resources: bool = True) -> BrokerStatistics:
        """Return the counts since the engine was opened. `resources`: with those of each topic and subscription."""
        with self.lock:
            if self.closed:
                raise UnavailableError("The message queue is closed")
            counted = statistics(self.broker, self.commits.meter, self.ages, self.clocks.time_of, resources)
            return counted._replace(internal_errors=self.internal_errors)

    def look_again(self) -> None:
        """Make housekeeping and retention due at once."""
        with self.lock:
            self.moved, self._tick_at, self._resource_tick_at = True, 0, 0
            self.broker.make_trims_due()

    # ------------------------------------------------------------------ reading for a command

    def tail(self, topic: int) -> int:
        record = self.broker.state.topics.get(topic)
        return record.tail if record is not None else 0

    def read(self, question: Question, tail: int) -> Answer:
        """Read the messages that a step asks for. Only messages below `tail` are committed."""
        if not isinstance(question, Need):
            return answer(self.journal, question)
        if not self.journal.durable:
            return Block(question.topic, self.journal.read(*question), 0)  # no read-ahead
        return Block(question.topic, self.reads.read(question).result(), tail)

    # ------------------------------------------------------------------ refused commits

    def go_back(self) -> None:
        """Forget every decision since a refused commit, and start again from the state that the journal holds."""
        stalled = self.commits.stalled
        if stalled is not None and self.commits.failed:
            raise stalled
        log.warning("Commit refused, going back to the last one: %s", stalled)
        try:
            self._start_over(stalled or UnavailableError())
        except (JournalFullError, UnavailableError):  # it is tried again
            raise
        except Exception as error:
            log.exception(STUCK)
            self.commits.stalled = JournalFailedError()
            raise self.commits.stalled from error
        self.commits.resume()

    def _start_over(self, void: PenstockError) -> None:
        """Replace the broker by one with the committed state.

        If the journal stores nothing, the new broker gets the current state, and everything derived from it is rebuilt.
        """
        broker = self.broker
        dump, facts = self.journal.recover() if self.journal.durable else (broker.state.dump(), [])
        self.broker = type(broker)(
            broker.limits,
            draw=broker.draw,
            sizes=broker.cache.sizes,
            describe_source=broker.describe_source,
            time_at=broker.time_at,
        )
        self.broker.recover(dump, facts)
        self.broker.count_on_from(broker)
        self._void = void
        self._tell_reset()

    # ------------------------------------------------------------------ bugs

    @property
    def internal_errors(self) -> Mapping[str, int]:
        """The bugs that commands met since the start, counted by their place in the code."""
        return MappingProxyType(self._bugs)

    def judge(self, error: Exception) -> None:
        """Count and log a bug, undo the command and raise InternalError. A PenstockError is not a bug: return.

        Called in the `except` of a `try`, which costs a command nothing. A `with` would cost two calls.
        """
        if isinstance(error, PenstockError):
            return
        place = _place(error)
        self._bugs[place] = self._bugs.get(place, 0) + 1
        first = self._bugs[place] == 1
        log.error("A command met a bug at %s and was undone. Please report it", place, exc_info=first)
        self._undo()
        raise InternalError("The command met an internal error and was not carried out") from error

    def _undo(self) -> None:
        """Remove the facts of the failed command, and keep all earlier decisions."""
        try:
            if not self.journal.durable:
                self.commits.add(*self.broker.take())  # the state is all there is, and it has these facts
            self.commits.flush()
            if self.commits.stalled is None:
                self._start_over(UnavailableError("The broker went back to its last commit. Try again"))
        except Exception:
            log.exception(STUCK)
            self.commits.stalled = JournalFailedError()


def in_loop(listener: Listener) -> Listener:
    """Return a listener that is called in the running event loop, whatever thread reports the fact."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call(*facts: Any) -> None:
        if threading.get_ident() == thread:
            listener(*facts)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(listener, *facts)

    return call


def _place(error: Exception) -> str:
    """Return the innermost line of our code in a traceback, without the error text, which may hold client data."""
    frames = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(PACKAGE)]
    where = f"{Path(frames[-1].filename).relative_to(PACKAGE)}:{frames[-1].lineno}" if frames else "unknown"
    return f"{where} {type(error).__name__}"
