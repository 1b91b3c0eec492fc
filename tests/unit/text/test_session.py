"""The client's session: requests, answers, and lost connections."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError
from penstock.text.address import Address, parse_address
from penstock.text.session import Session
from tests.doors.text.harness import ack, consume, frame, give_back, send

ID = b"%032x"


class Talk:
    def __init__(self) -> None:
        self.session = Session(lambda: None)
        self.session.connected()

    def said(self) -> bytes:
        data = bytes(self.session.outgoing)
        self.session.outgoing.clear()
        return data

    def confirm(self, number: int) -> None:
        self.session.receive(frame(2, 5, (1, b"q"), (3, ID % number)))

    def dispatch(self, number: int, content: bytes = b"x", queue: bytes = b"q") -> None:
        self.session.receive(frame(2, 3, (1, queue), (2, content), (3, ID % number)))

    def fail(self, code: bytes, *more: tuple[int, bytes]) -> None:
        self.session.receive(frame(2, 7, (6, code), (7, b"No."), *more))


def test_sends_are_answered_in_order() -> None:
    """T-022, T-023."""
    talk = Talk()
    first, second, third = talk.session.send("q", [b"1", b"2", b"3"])
    assert talk.said() == send(b"q", b"1") + send(b"q", b"2") + send(b"q", b"3")
    talk.confirm(1)
    talk.fail(b"full", (8, b"001"), (1, b"q"))
    assert (first.id, first.error) == ((ID % 1).decode(), None)
    assert isinstance(second.error, ResourceExhaustedError)
    assert (bool(third.id), talk.session.unanswered) == (False, 1)


def test_messages_arrive_are_acked_and_given_back_once() -> None:
    """T-026, T-036, T-039."""
    talk = Talk()
    stream = talk.session.consume("q", 5)
    assert talk.said() == consume(b"q", 5)
    for number in range(3):
        talk.dispatch(number, b"%d" % number)
    first, second, third = stream.arrived
    assert [each.content for each in stream.arrived] == [b"0", b"1", b"2"]
    assert [first.ack(), first.ack(), first.give_back()] == [True, False, False]
    assert [second.give_back(1.5), third.give_back()] == [True, True]
    assert talk.said() == ack(b"q", ID % 0) + give_back(b"q", ID % 1, b"1500") + give_back(b"q", ID % 2)
    assert "q" in repr(first)


def test_requests_of_a_lost_connection_are_repeated() -> None:
    """T-034, T-041."""
    talk = Talk()
    stream = talk.session.consume("q", 5)
    answered, open_ = talk.session.send("q", [b"1", b"2"])
    talk.confirm(1)
    talk.dispatch(7)
    talk.dispatch(8)
    message = stream.arrived.popleft()
    talk.said()
    talk.session.lost()
    assert not stream.arrived
    assert message.ack() is False
    talk.session.send("q", [b"3"])
    assert talk.said() == b""
    talk.session.connected()
    assert talk.said() == send(b"q", b"2") + send(b"q", b"3") + consume(b"q", 5)
    talk.confirm(2)
    assert (bool(answered.id), open_.id) == (True, (ID % 2).decode())
    assert message.ack() is False


def test_a_cancelled_stream_returns_unseen_messages() -> None:
    """T-028, T-043."""
    talk = Talk()
    stream = talk.session.consume("q", 5)
    talk.dispatch(1)
    talk.said()
    talk.session.cancel("q")
    assert talk.said() == consume(b"q", 0) + frame(2, 8, (1, b"q"), (3, ID % 1))
    assert not stream.arrived
    talk.dispatch(2)
    assert talk.said() == frame(2, 8, (1, b"q"), (3, ID % 2))
    talk.session.cancel("q")
    assert talk.said() == b""


def test_a_refused_consumption_is_an_error_of_its_stream() -> None:
    """T-051."""
    talk = Talk()
    seen: list[str] = []
    stream = talk.session.consume("q", 5, lambda: seen.append("changed"))
    talk.fail(b"not-held", (8, b"004"), (1, b"q"), (3, ID % 1))
    assert stream.error is None
    talk.fail(b"invalid-number", (8, b"002"), (1, b"q"))
    assert isinstance(stream.error, InvalidArgumentError)
    assert seen == ["changed"]


def test_giving_up_fails_all_waiting_calls() -> None:
    talk = Talk()
    stream = talk.session.consume("q", 5)
    told: list[object] = []
    (pending,) = talk.session.send("q", [b"1"], told.append)
    talk.session.give_up(UnavailableError("Over."))
    assert isinstance(pending.error, UnavailableError)
    assert isinstance(stream.error, UnavailableError)
    assert told == [pending]


@pytest.mark.parametrize(
    "nonsense",
    [b"HTTP/1.1 400", b"H0200501P07%033d" % 0, frame(2, 5, (1, b"q"), (3, b"\xff" * 32)), b"H0200301P02" + b"9" * 33],
)
def test_an_endpoint_that_speaks_something_else_is_unavailable(nonsense: bytes) -> None:
    with pytest.raises(UnavailableError, match="does not speak the text protocol"):
        Talk().session.receive(nonsense)


def test_unexpected_answers_change_nothing() -> None:
    talk = Talk()
    talk.confirm(1)
    talk.fail(b"malformed")
    talk.session.receive(frame(2, 42, (9, b"?")))
    assert talk.said() == b""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9123", Address("127.0.0.1", 9123)),
        ("[::1]:80", Address("::1", 80)),
        ("unix:/tmp/x", Address("", 0, "/tmp/x")),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    """T-066."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:65536", "unix:", "host:٣"])
def test_invalid_addresses(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="An address is"):
        parse_address(text)
