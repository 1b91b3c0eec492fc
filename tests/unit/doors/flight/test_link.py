"""The link between the server and its reader process: no frame may leave a caller waiting without end."""

from __future__ import annotations

import logging
import socket
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.doors.flight.link import ReaderEnd, head
from penstock.doors.flight.uploads import Answers, Sent
from penstock.errors import InternalError

SECONDS = 10  # only a failing test waits this long


def join_listeners() -> None:
    for thread in threading.enumerate():
        if thread.name == "penstock-link":
            thread.join(SECONDS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_without_a_request_ends_the_link() -> None:
    """The process ends with its link and is restarted. A link without its listener would hang every caller."""
    own, server = socket.socketpair()
    ended = threading.Event()
    with own, server:
        ReaderEnd(own, on_notice=lambda frame: None, on_end=ended.set)
        server.sendall(head(7, "InternalError", 2) + b"no")
        assert ended.wait(SECONDS)
        join_listeners()


def test_an_answer_ends_the_wait_of_its_request() -> None:
    own, server = socket.socketpair()
    with own, server:
        link = ReaderEnd(own, on_notice=lambda frame: None, on_end=lambda: None)
        answer = link.request("read", b"", 3)
        server.sendall(head(3, "", 2) + b"ok")
        assert answer.result(SECONDS) == b"ok"
        server.close()
        join_listeners()


@pytest.mark.parametrize("problem", [None, RuntimeError("a bug"), OSError("gone")])
def test_a_bug_while_answering_an_upload_is_an_error_and_not_a_wait(problem: Exception | None) -> None:
    written: list[Any] = []

    class Writer:
        def write(self, body: bytes) -> None:
            written.append(body)
            if problem is not None:
                raise problem

    answers = Answers(Writer())
    broken: Future[bytes] = Future()
    broken.set_result(b"\xc1 is not msgpack")
    closed: list[Any] = []

    def upload() -> None:
        for sequence in range(6):  # more than may be in flight
            answers.put(Sent(sequence, [({"topic": "t"}, broken)]))
        closed.append(answers.close())

    logging.getLogger("penstock.doors.flight").setLevel(logging.CRITICAL)
    try:
        thread = threading.Thread(target=upload, daemon=True)
        thread.start()
        thread.join(SECONDS)
    finally:
        logging.getLogger("penstock.doors.flight").setLevel(logging.NOTSET)
    assert [type(error) for error in closed] == [InternalError]
    assert len(written) == 1, "the first failure is answered, once"
    assert b"internal" in written[0]
