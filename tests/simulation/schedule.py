"""An AsyncMessageQueue with a schedule in place of its threads: a commit or a read happens only when the test says so.

The queue is the real one, and only its two threads are replaced. The commits of the writer and the reads of the reader
are steps that a test can choose. A read has two steps, as in a thread: the look at the journal, and the arrival of the
answer. Anything else may happen between them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from penstock.broker.log import Need
from penstock.broker.model import Message
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.port import Commit
from tests.simulation.stores import RecordingJournal

MOMENTS_EACH = 4  # a look and an answer, for a block and for the one behind it
OTHER_READS = 10  # reads of one call that do not depend on the number of messages: times, commits


class BatchJournal(RecordingJournal):
    """A journal that gives whole batches to readers that accept them, as the stores on disk do."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[int, list[int]] = {}  # the ends of the batches, by topic

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        for batch in commit.batches:
            self._ends.setdefault(batch.topic, []).append(batch.first + len(batch.messages))

    def read(self, topic: int, first: int, until: int, whole: bool = False) -> list[Message]:
        ends = self._ends.get(topic, [])
        place = bisect_left(ends, until)
        return super().read(topic, first, ends[place] if whole and place < len(ends) else until)


class _Reader:
    """A replacement of the reader's thread."""

    def __init__(self) -> None:
        self.moments: list[Callable[[], None]] = []

    def submit(self, question: Callable[..., Any], *words: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        self.moments.append(partial(self._look, answer, partial(question, *words)))
        return answer

    def _look(self, answer: Future[Any], question: Callable[[], Any]) -> None:
        if answer.set_running_or_notify_cancel():
            self.moments.append(partial(answer.set_result, question()))

    def shutdown(self, **_: object) -> None:
        pass


class _NoWriter:
    """A replacement of the writer's thread. It counts as running and does nothing."""

    def is_alive(self) -> bool:
        return True

    def join(self) -> None:
        pass


class Scheduled:
    """A queue, the calls in progress, and the possible next steps."""

    def __init__(self, **parts: Any) -> None:
        self._asked: WeakKeyDictionary[Any, dict[tuple[int, ...], int]] = WeakKeyDictionary()  # by task
        self._in_vain: list[Need] = []
        self.loop = asyncio.new_event_loop()
        self.queue = AsyncMessageQueue(BatchJournal(), **parts)
        reads = self.queue.engine.reads
        self._read, reads.read = reads.read, self._ask  # type: ignore[method-assign]
        self._reader = self.queue.engine.reads._threads = _Reader()  # type: ignore[assignment]
        self.queue.loop._writer._thread = _NoWriter()  # type: ignore[assignment]
        self._calls: dict[asyncio.Future[Any], Callable[[Any], None]] = {}
        self.do(self.queue.start())

    def begin(self, call: Awaitable[Any], then: Callable[[Any], None] = lambda answer: None) -> None:
        """Start a call. `then` gets its answer."""
        self._calls[asyncio.ensure_future(call, loop=self.loop)] = then
        self._run()

    def do(self, call: Awaitable[Any]) -> Any:
        """Run one call from beginning to end, without others."""
        answers: list[Any] = []
        self.begin(call, answers.append)
        self.finish()
        return answers[0]

    @property
    def choices(self) -> int:
        return len(self._reader.moments) + self._wants_commit()

    def go_on(self, choice: int) -> None:
        """Do one of the possible next steps."""
        if choice % self.choices < len(self._reader.moments):
            self._reader.moments.pop(choice % self.choices)()
        else:
            self.queue.engine.commits.flush()
            self.queue.loop._writer._after_commit()
        self._run()

    def finish(self) -> None:
        """Do steps until every call has its answer."""
        for _ in range(self._moments_max()):
            if not self.choices:
                break
            self.go_on(0)
        assert not self.choices, "calls read from the journal more often than there are messages"
        assert not self._calls, "a call waits forever"

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self._calls.clear()
        self._in_vain.clear()
        self._run()
        self.loop.close()

    def _moments_max(self) -> int:
        """Return the maximum number of steps.

        With the smallest cache, each call and housekeeping reads each message alone.
        """
        messages = sum(topic.tail for topic in self.queue.engine.broker.state.topics.values())
        return MOMENTS_EACH * (len(self._calls) + 1) * (messages + OTHER_READS)

    def _ask(self, need: Need) -> Future[list[Message]]:
        """Check that no call repeats a read although nothing was decided since. It would do so forever."""
        asked = self._asked.setdefault(asyncio.current_task(self.loop), {})
        decided = self.queue.engine.commits.submitted
        if asked.get(need[:2]) == decided:
            self._in_vain.append(need)
        asked[need[:2]] = decided
        return self._read(need)

    def _wants_commit(self) -> bool:
        return bool(self.queue.engine.commits._groups)

    def _run(self) -> None:
        """Run everything that needs no thread."""
        while self.loop._ready:  # type: ignore[attr-defined]
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            assert not self._in_vain, f"a call reads from the journal without end: {self._in_vain}"
        for task in [task for task in self._calls if task.done()]:
            self._calls.pop(task)(task.result())
