"""An interrupted measurement leaves no thread behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from penstock.commands.bench import Note, _measure


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_every_thread() -> None:
    """This includes the thread that was being waited for."""
    second_is_over, finished, pause = threading.Event(), list[int](), threading.Event()
    both = threading.Barrier(2)

    def work(share: int, note: Note) -> list[float]:
        both.wait(10)
        if share == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        while note(0):
            pause.wait(0.001)
        if share == 1:
            second_is_over.wait(10)
            pause.wait(0.1)  # time in which a wait for the second thread alone would have ended
        finished.append(share)
        if share == 2:
            second_is_over.set()
        return []

    with pytest.raises(KeyboardInterrupt):
        _measure("publish", [1, 2], work)
    assert finished == [2, 1]
