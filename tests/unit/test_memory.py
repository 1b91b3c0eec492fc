"""The return of freed memory to the system."""

from __future__ import annotations

import ctypes
import math
import platform

import pytest

from penstock.memory import GROWN_BYTES, TICK_SECONDS, WORK_SECONDS, Trimming, _free_bytes, _trim, resident_bytes


def ask(trimming: Trimming, cpu_seconds: float, free: int = 0, after: int = 0) -> bool:
    """Call the check as the server does, which starts again after memory was returned."""
    due = trimming.due(cpu_seconds, lambda: free)
    if due:
        trimming.gave(after)
    return due


def test_memory_is_given_back_once_when_work_has_ended() -> None:
    trimming = Trimming(0.0)
    busy = [ask(trimming, cpu) for cpu in (3.0, 6.0, 9.0)]
    quiet = [ask(trimming, 9.0 + tick * 0.01) for tick in range(1, 10)]
    assert busy == [False] * 3
    assert quiet == [True] + [False] * 8


def test_a_busy_server_does_not_count_its_free_memory() -> None:
    assert not Trimming(0.0).due(TICK_SECONDS, lambda: pytest.fail("counted"))


def test_a_server_that_did_next_to_nothing_gives_nothing_back() -> None:
    trimming = Trimming(0.0)
    assert not any(ask(trimming, tick * WORK_SECONDS / 100) for tick in range(50))


def test_freed_memory_is_given_back_without_much_work() -> None:
    """Large requests that never end cost memory and hardly any processor time."""
    base = 45 << 20
    trimming = Trimming(0.0, base)
    assert not ask(trimming, 0.01, base + GROWN_BYTES - 1)
    assert ask(trimming, 0.02, base + GROWN_BYTES, base)
    assert not ask(trimming, 0.03, base)


def test_memory_that_was_given_back_is_not_given_back_again_and_again() -> None:
    base, more = 45 << 20, 500 << 20
    trimming = Trimming(0.0, base)
    assert [ask(trimming, 0.0, more, more) for _ in range(3)] == [True, False, False]
    assert not ask(trimming, 0.0, base), "the memory shrank, which sets the new floor"
    assert ask(trimming, 0.0, more, more)


def test_memory_of_small_requests_adds_up() -> None:
    """A server that is never busy for long also returns memory."""
    trimming = Trimming(0.0)
    share = TICK_SECONDS * 0.04
    assert sum(ask(trimming, tick * share) for tick in range(1, 101)) == 100 // math.ceil(WORK_SECONDS / share)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_freed_memory_leaves_the_process() -> None:
    """A block at the end of the heap keeps memory that was freed below it, until the C library returns it on request.

    The request is due when memory becomes free, even if memory was returned while all of it was in use.
    """
    trim, libc = _trim(), ctypes.CDLL(None)
    assert trim is not None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(60_000) for _ in range(2000)]  # 120 MB in pieces that are on the heap
    for block in blocks:
        ctypes.memset(block, 1, 60_000)
    trim(0)
    free_bytes = _free_bytes()
    trimming = Trimming(0.0, free_bytes())
    last = blocks.pop()
    if free_bytes is not resident_bytes:  # before glibc 2.33
        assert not trimming.due(0.0, free_bytes)
    for block in blocks:
        libc.free(block)
    if free_bytes is not resident_bytes:
        assert trimming.due(0.0, free_bytes)
    before = resident_bytes()
    trim(0)
    assert before - resident_bytes() > 100 << 20
    trimming.gave(free_bytes())
    assert not trimming.due(0.0, free_bytes)
    libc.free(last)
