"""What both faces share: a broker, its journal, and the way between them.

The rule kept here: commands run one at a time, each leaves its facts in the pipeline before the next begins, and
after a refused commit, or a bug in a command, the broker goes back to what the journal holds before anything else
happens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.facts import Fact, Published, Removed, Returned, SubscriptionChanged, SubscriptionCreated
from penstock.broker.ledger import Draw
from penstock.broker.limits import Limits
from penstock.broker.log import Need, Sizes
from penstock.broker.model import SECOND, Message
from penstock.broker.retry import SourceAttributes, source_attributes
from penstock.broker.state import State
from penstock.broker.subscription import Subscription
from penstock.engine.capacity import CapacityWatch
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.commands import RESOURCE_TICK, TICK, Find, Question
from penstock.engine.commits import Pipeline
from penstock.engine.deadletters import DeadLetterWatch
from penstock.engine.guard import Guard
from penstock.engine.randomness import drawn_numbers
from penstock.engine.reads import ReadAhead
from penstock.engine.watcher import Watcher
from penstock.errors import PenstockError, UnavailableError
from penstock.journal.port import Journal, JournalFailedError, JournalFullError

T = TypeVar("T")
log = logging.getLogger("penstock")


class Face:
    def __init__(
        self,
        journal: Journal,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        draw: Draw | None = None,
        sizes: Sizes | None = None,
        describe_source: SourceAttributes = source_attributes,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self._now = self.clock.now
        self._journal = journal
        draw = draw or drawn_numbers().__next__
        self._broker = Broker(limits, draw=draw, sizes=sizes, describe_source=describe_source)
        self._pipeline = Pipeline(journal)
        self._reads = ReadAhead(journal, self._broker.cache.sizes)
        capacity, dead_letters = CapacityWatch(), DeadLetterWatch(self._now)
        self._notes: dict[type[Fact], Callable[[Any, State], None]] = {  # of what the log may have to say something
            Published: capacity.note,
            Returned: dead_letters.note,
            Removed: dead_letters.note,
            SubscriptionCreated: dead_letters.note,
            SubscriptionChanged: dead_letters.note,
        }
        self._watchers: list[Watcher] = []
        self._guard = Guard(self._undo)
        self._void: PenstockError = UnavailableError()  # why the broker last went back
        self._oldest: dict[int, tuple[int, int]] = {}  # subscription -> (offset, publish time) of its oldest
        self._closed = False
        self._tick_at = 0
        self._resource_tick_at = 0
        self._recover()

    def _recover(self) -> None:
        recovered = self._journal.recover()
        self._broker.recover(recovered.dump, recovered.facts)
        self._go_on_from(self._broker.recovered_at)
        self._journal.sweep({topic.number: topic.head for topic in self._broker.state.topics.values()})
        self._broker.end_endless_leases(self._now())
        self._submit()
        self._pipeline.flush()

    def _go_on_from(self, at: int) -> None:
        behind = at - self._now()
        self.clock.not_before(at)
        if behind >= SECOND:
            log.warning("The clock is %d seconds behind the store; its time goes on from there", behind // SECOND)

    def watch(self, watcher: Watcher) -> None:
        """Tell somebody of every fact from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)

    @property
    def durable(self) -> bool:
        return self._journal.durable

    @property
    def identity(self) -> str:
        """The store's: drawn at its birth, and never that of another."""
        return self._broker.state.identity

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def internal_errors(self) -> Mapping[str, int]:
        """Bugs that commands met since the start, by their place in the code."""
        return self._guard.counts

    @property
    def limits(self) -> Limits:
        return self._broker.limits

    def _submit(self) -> int:
        """Hand over what the last command decided; the number to wait for."""
        broker, pipeline = self._broker, self._pipeline
        if not broker.facts:
            return pipeline.submitted
        try:  # what cannot be handed over must not stay behind for the next command to fail on
            facts, batches = broker.take()
            for fact in facts:
                note = self._notes.get(type(fact))
                if note is not None:
                    note(fact, broker.state)
            number = pipeline.add(facts, batches)
            for watcher in self._watchers:
                watcher.heed(facts, broker.state, self._now())
            if pipeline.wants_snapshot():
                pipeline.close_with(broker.state.dump()._replace(at=self._now()))
        except Exception as error:
            self._guard.judge(error)
            raise
        return number

    def _check(self) -> None:
        """Before a command: the face is open and agrees with its journal."""
        if self._closed:
            raise UnavailableError("The message queue is closed")
        if self._pipeline.stalled is not None:
            self._go_back()

    def _go_back(self) -> None:
        """The journal refused a commit: forget what was decided since, and start from what it holds."""
        stalled = self._pipeline.stalled
        if stalled is not None and self._pipeline.failed:
            raise stalled
        log.warning("Commit refused, going back to the last one: %s", stalled)
        self._start_over(stalled or UnavailableError())
        self._pipeline.resume()

    def _undo(self) -> None:
        """A command met a bug: forget what it left behind, keep what others decided before it."""
        try:
            if not self._journal.durable:
                self._pipeline.add(*self._broker.take())  # it stands in the state, which is all there is
            self._pipeline.flush()
            if self._pipeline.stalled is None:
                self._start_over(UnavailableError("The broker went back to its last commit; ask again"))
        except Exception:
            log.exception("The broker cannot go back to its last commit")
            self._pipeline.stalled = JournalFailedError()

    def _start_over(self, void: PenstockError) -> None:
        """Another broker with the state that is committed. Without a journal that keeps it, the state as it is: what
        is derived from it is made anew."""
        broker = self._broker
        dump, facts = self._journal.recover() if self._journal.durable else (broker.state.dump(), [])
        self._broker = type(broker)(
            broker.limits, draw=broker.draw, sizes=broker.cache.sizes, describe_source=broker.describe_source
        )
        self._broker.recover(dump, facts)
        self._broker.count_on_from(broker)
        self._void = void

    def _refuse_when_full(self) -> None:
        if self._journal.full and not self._found_room():
            self._broker.refuse("disk")
            raise JournalFullError()

    def _found_room(self) -> bool:
        """Whether the journal has room again; a face without a writer thread looks for it here."""
        return not self._journal.full

    def _expire_unused(self, *names: str) -> None:
        """Whoever looks at subscriptions sees what a command on them would see."""
        now = self._now()
        try:
            for name in names:
                self._broker.expire_unused(now, name)
        except Exception as error:
            self._guard.judge(error)
            raise
        if self._broker.facts:
            self._submit()

    def _living(self, topic_name: str | None) -> list[Subscription]:
        """The subscriptions of a topic, or all of them, without those that nobody used for their time to live."""
        state = self._broker.state
        chosen = state.subscriptions if topic_name is None else state.topic(topic_name).readers
        self._expire_unused(*[each.name for each in chosen.values() if each.options.expiration_seconds])
        return list(chosen.values())

    def _tail(self, number: int) -> int:
        topic = self._broker.state.topics.get(number)
        return topic.tail if topic is not None else 0

    def _answer(self, question: Question, tail: int) -> int | None:
        """Read what a step asks for, from committed messages: those below `tail`."""
        if isinstance(question, Find):
            return self._journal.find(question.topic, question.at)
        if not self._journal.durable:
            self._broker.load(question.topic, self._journal.read(*question))
        else:
            self._load(question, self._reads.read(question).result(), tail)
        return None

    def _load(self, need: Need, messages: list[Message], tail: int) -> None:
        try:
            self._broker.load(need.topic, messages)
            self._reads.go_on(self._broker, need.topic, messages, tail)
        except Exception as error:
            self._guard.judge(error)
            raise

    def _is_tick_due(self) -> bool:
        now = self._now()
        if now < self._tick_at:
            return False
        self._tick_at = now + TICK
        if now >= self._resource_tick_at:
            self._resource_tick_at = now + RESOURCE_TICK
            try:
                self._broker.expire_resources(now)
            except Exception as error:
                self._guard.judge(error)
                raise
        return True

    def _close_journal(self) -> None:
        """End with a snapshot, so that the next start has nothing to replay."""
        self._closed = True
        for watcher in self._watchers:
            watcher.close()
        try:
            if self._journal.durable and self._pipeline.stalled is None:
                self._pipeline.add([], [])
                self._pipeline.close_with(self._broker.state.dump()._replace(at=self._now()))
                self._pipeline.flush()
        finally:
            self._reads.close()
            self._journal.close()
