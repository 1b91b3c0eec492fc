"""A broker that was rebuilt from its facts continues without a difference, and a seed always gives the same run.

Law 2 and law 3. To repeat a failing seed: `python -m tests.simulation.test_replay SEED` prints its trace.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock import ManualClock, MessageQueue, PenstockError
from penstock.broker.log import Sizes
from penstock.journal import codec
from tests.simulation.stores import RecordingJournal
from tests.simulation.workload import Workload

STEPS = 120
ROOT = Path(__file__).parents[2]


class Life:
    """A queue, its journal and its workload, all from one seed."""

    def __init__(self, seed: int, cache_bytes: int = 10**7) -> None:
        self.told: list[Any] = []
        self.clock = ManualClock()
        self.workload = Workload(self.clock, Random(seed), self.told.append, wild=True)
        self.journal = RecordingJournal(11)
        self.draw = partial(Random(seed).randrange, 1, 2**63)
        sizes = Sizes(cache_bytes=cache_bytes)
        self.queue = MessageQueue(self.journal, clock=self.clock, draw=self.draw, sizes=sizes)
        self.workload.set_up(self.queue)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            try:
                self.workload.step(self.queue)
            except PenstockError as error:
                self.told.append(str(error))

    def trace(self) -> str:
        """Return a hash of all facts and answers."""
        trace = hashlib.sha256()
        for body in self.journal.facts:
            trace.update(body)
        trace.update(repr(self.told).encode())
        return trace.hexdigest()

    def rebuild(self, place: int) -> None:
        """Replace the broker by one that is rebuilt from its facts."""
        queue, dump = self.queue, self.journal.dumps.get(place)
        self.journal.dumps = {} if dump is None else {place: dump}
        sizes = queue.engine.broker.cache.sizes
        self.queue = MessageQueue(self.journal, clock=self.clock, draw=self.draw, sizes=sizes)
        for topic, messages in self.journal.messages.items():
            if topic in self.queue.engine.broker.state.topics:
                self.queue.engine.broker.load(topic, messages)


@pytest.mark.parametrize("kind", ["from the beginning", "from the first snapshot", "from the last snapshot"])
def test_a_rebuilt_broker_continues_without_a_difference(kind: str, rounds: Callable[[int, int], int]) -> None:
    """Law 3: the same commands give the same answers and facts, so every derived index is the same."""
    for seed in range(rounds(40, 4_000)):
        lives = [Life(seed), Life(seed)]
        for life in lives:
            life.live(seed % STEPS)
            life.clock.advance(2)  # both brokers look around with their next command
        places = sorted(lives[1].journal.dumps)
        lives[1].rebuild(0 if kind.endswith("beginning") or not places else places[0 if "first" in kind else -1])
        for life in lives:
            life.live(STEPS)
        told, facts = [life.told for life in lives], [_decoded(life.journal) for life in lives]
        _compare(told[0], told[1], f"seed {seed}: another answer after a rebuild {kind}")
        _compare(facts[0], facts[1], f"seed {seed}: another fact after a rebuild {kind}")


def _decoded(journal: RecordingJournal) -> list[Any]:
    return [fact for body in journal.facts for fact in codec.decode_facts(body)]


def _compare(one: list[Any], other: list[Any], message: str) -> None:
    for place, (first, second) in enumerate(zip(one, other, strict=False)):
        assert first == second, f"{message}, number {place}"
    assert len(one) == len(other), message


def test_one_seed_has_one_trace(rounds: Callable[[int, int], int]) -> None:
    """Law 2: in two processes with different orders of sets and hashes."""
    seeds = [str(seed) for seed in range(rounds(10, 200))]
    assert _traces("0", seeds) == _traces("1", seeds)


def _traces(hash_seed: str, seeds: list[str]) -> list[str]:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.simulation.test_replay", *seeds]
    finished = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=True
    )
    return finished.stdout.splitlines()


def main(seeds: list[str]) -> None:
    for seed in seeds:
        life = Life(int(seed), cache_bytes=2000 if int(seed) % 2 else 10**7)
        life.live(STEPS)
        print(seed, life.trace())


if __name__ == "__main__":
    main(sys.argv[1:])
