"""The codec: the examples of the specification byte for byte, any chunking, and every fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.doors.text.codec import Decoder, Event, Phrases, encode_fault, id_texts
from penstock.doors.text.requests import Acknowledge, Consume, Fault, Return, Send, maxima
from tests.doors.text.harness import ack, consume, frame, give_back, send

CONTENT_MAX = 1000
ID = b"d7e7f68761d34838494b233148b5486c"
DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "text-protocol.md"

SEND_LINES = b"""\
H0100102
P01000000000000000000000000000000003
Foo
P02000000000000000000000000000000011
Hello World
"""
CONSUME_LINES = b"""\
H0100202
P01000000000000000000000000000000003
Foo
P04000000000000000000000000000000001
5
"""
DISPATCH_LINES = b"""\
H0100303
P01000000000000000000000000000000003
Foo
P02000000000000000000000000000000011
Hello World
P03000000000000000000000000000000032
d7e7f68761d34838494b233148b5486c
"""
ACKNOWLEDGE_LINES = b"""\
H0100402
P01000000000000000000000000000000003
Foo
P03000000000000000000000000000000032
d7e7f68761d34838494b233148b5486c
"""


def decode(*pieces: bytes) -> list[Event]:
    decoder = Decoder(maxima(CONTENT_MAX))
    return [event for piece in pieces for event in decoder.feed(piece)]


def flat(events: list[Event]) -> list[Event]:
    """Return one event for each message. The number of messages in one event depends on the chunks."""
    result: list[Event] = []
    for event in events:
        if isinstance(event, Send):
            result += [Send(event.version, event.queue, [content]) for content in event.contents]
        elif isinstance(event, Acknowledge):
            result += [Acknowledge(event.version, event.queue, [each]) for each in event.ids]
        else:
            result.append(event)
    return result


def one(data: bytes) -> Event:
    (event,) = decode(data)
    return event


@pytest.mark.parametrize("strip", [False, True], ids=["lines", "compact"])
def test_the_examples_of_the_specification_are_read_byte_for_byte(strip: bool) -> None:
    """T-001, T-002, T-003, T-004, T-005: the seed's send, consume and acknowledge examples."""

    def framed(text: bytes) -> bytes:
        return text.replace(b"\n", b"") if strip else text

    assert one(framed(SEND_LINES)) == Send(1, b"Foo", [b"Hello World"])
    assert one(framed(CONSUME_LINES)) == Consume(1, b"Foo", 5)
    assert one(framed(ACKNOWLEDGE_LINES)) == Acknowledge(1, b"Foo", [ID])


def test_the_dispatch_of_the_specification_is_written_byte_for_byte() -> None:
    """T-009, T-032: the seed's dispatch example, in both framings."""
    message = ([ID], [b"Hello World"])
    assert Phrases(b"Foo", 1, True).dispatch(*message) == DISPATCH_LINES
    assert Phrases(b"Foo", 1, False).dispatch(*message) == DISPATCH_LINES.replace(b"\n", b"")
    assert Phrases(b"Foo", 1, True).dispatch([ID] * 2, [b"Hello World"] * 2) == DISPATCH_LINES * 2


def test_the_examples_are_in_the_document() -> None:
    text = DOCUMENT.read_bytes()
    for example in (SEND_LINES, CONSUME_LINES, DISPATCH_LINES, ACKNOWLEDGE_LINES):
        assert b"```\n" + example + b"```" in text
    assert send(b"Foo", b"Hello World") + b"\n" in text
    fault = Fault(2, "not-held", "The message is not outstanding on this connection.", 4, b"Foo", ID)
    assert encode_fault(fault, line=True) in text


def test_a_confirmation_names_the_queue_and_the_id() -> None:
    """T-022."""
    number = 1 << 39
    compact = b"H0200502P01%033dFooP03%033d%032x" % (3, 32, number)
    assert Phrases(b"Foo", 2, False).confirm(number, 1) == compact
    assert Phrases(b"Foo", 2, False).confirm(number, 2) == compact + compact[:-1] + b"1"
    assert Phrases(b"Foo", 2, True).confirm(number, 1) == frame(2, 5, (1, b"Foo"), (3, *id_texts([number])), line=True)


def test_a_queue_name_with_a_percent_sign_is_only_a_name() -> None:
    phrases = Phrases(b"50%s%%", 2, False)
    assert phrases.confirm(7, 1) == frame(2, 5, (1, b"50%s%%"), (3, *id_texts([7])))
    assert phrases.dispatch(id_texts([7]), [b"%d"]) == frame(2, 3, (1, b"50%s%%"), (2, b"%d"), (3, *id_texts([7])))


def test_an_error_is_written_with_all_that_is_known() -> None:
    """T-050."""
    fault = Fault(2, "not-held", "No.", 4, b"Foo", ID)
    everything = ((6, b"not-held"), (7, b"No."), (8, b"004"), (1, b"Foo"), (3, ID))
    assert encode_fault(fault, line=False) == frame(2, 7, *everything)
    little = encode_fault(Fault(2, "malformed", "No."), line=True)
    assert little == frame(2, 7, (6, b"malformed"), (7, b"No."), line=True)


# ---------------------------------------------------------------------- framing


def test_the_byte_after_the_first_header_decides_for_the_connection() -> None:
    """T-006."""
    line, compact = Decoder(maxima(10)), Decoder(maxima(10))
    line.feed(b"H0100102\n")
    compact.feed(b"H0100102P")
    assert (line.line, compact.line) == (True, False)
    assert decode(send(b"q", b"1"), send(b"q", b"2", line=True))[-1].code == "malformed"  # type: ignore[union-attr]
    assert decode(send(b"q", b"1", line=True), send(b"q", b"2"))[-1].code == "malformed"  # type: ignore[union-attr]
    sentence = "A line feed or a package must follow the header."
    assert one(b"H0100102xP") == Fault(1, "malformed", sentence, 1)
    assert one(b"H0100102\r\n") == Fault(1, "malformed", f"{sentence} Lines end with LF, not CR LF.", 1)


def test_a_message_is_complete_with_its_last_content() -> None:
    """T-007: the line feed after the message may come at once, later or never."""
    text = send(b"q", b"1", line=True)
    decoder = Decoder(maxima(10))
    assert decoder.feed(text[:-1]) == [Send(2, b"q", [b"1"])]
    assert decoder.between
    assert decoder.feed(b"\n") == []
    assert decoder.between
    assert decoder.feed(text[:-1]) == [Send(2, b"q", [b"1"])]
    assert decoder.feed(b"\n" + text) == [Send(2, b"q", [b"1"])]
    assert decoder.feed(text[:-1]) == [Send(2, b"q", [b"1"])]
    assert decoder.feed(b"x")[0].code == "malformed"  # type: ignore[union-attr]


def test_packages_may_come_in_any_order() -> None:
    """T-009."""
    assert one(frame(2, 1, (2, b"body"), (1, b"q"))) == Send(2, b"q", [b"body"])
    assert one(frame(2, 6, (5, b"1500"), (3, ID), (1, b"q"))) == Return(2, b"q", ID, 1.5)
    assert flat(decode(frame(2, 1, (2, b"a"), (1, b"q")) * 2 + send(b"q", b"b"))) == [
        Send(2, b"q", [b"a"]),
        Send(2, b"q", [b"a"]),
        Send(2, b"q", [b"b"]),
    ]


def test_versions_may_be_mixed() -> None:
    """T-010."""
    assert decode(send(b"q", b"1", 1) + send(b"q", b"2", 2)) == [Send(1, b"q", [b"1"]), Send(2, b"q", [b"2"])]


def test_requests_of_one_read_are_joined() -> None:
    assert decode(send(b"q", b"1") + send(b"q", b"") + send(b"r", b"3")) == [
        Send(2, b"q", [b"1", b""]),
        Send(2, b"r", [b"3"]),
    ]
    assert decode(ack(b"q", ID) * 3) == [Acknowledge(2, b"q", [ID] * 3)]


SESSIONS = [
    send(b"q", b"one") * 3 + consume(b"q", 10) + ack(b"q", ID) * 3 + give_back(b"q", ID, b"5") + send(b"r", b""),
    b"".join(
        [
            send(b"q", b"a\nb", line=True) * 3,
            consume(b"q", 3, 1, line=True),
            ack(b"q", ID, line=True) * 3,
            frame(1, 9, (1, b"q"), line=True),
            send("é☃".encode(), bytes(range(256)), line=True),
        ]
    ),
    send(b"q", b"x") + b"H02x" + send(b"q", b"never read"),
    send(b"q", b"x", line=True) + frame(2, 1, (1, b"q"), (2, b"x" * 1001), line=True),
]


@settings(deadline=None, max_examples=300)
@given(session=st.sampled_from(SESSIONS), cuts=st.lists(st.integers(1, 500), max_size=40))
def test_any_chunking_gives_the_same_events(session: bytes, cuts: list[int]) -> None:
    """T-008."""
    places = sorted({cut for cut in cuts if cut < len(session)})
    pieces = [session[start:end] for start, end in zip([0, *places], [*places, len(session)], strict=True)]
    decoder = Decoder(maxima(CONTENT_MAX))
    events: list[Event] = []
    for piece in pieces:
        if not decoder.broken:
            events += decoder.feed(piece)
    assert flat(events) == flat(decode(session))


@pytest.mark.parametrize("session", SESSIONS)
def test_single_bytes_are_read(session: bytes) -> None:
    """T-008."""
    decoder = Decoder(maxima(CONTENT_MAX))
    events: list[Event] = []
    for place in range(len(session)):
        if not decoder.broken:
            events += decoder.feed(session[place : place + 1])
    assert flat(events) == flat(decode(session))


def test_a_large_content_in_pieces_is_put_together_once() -> None:
    """T-003."""
    content = bytes(range(256)) * 4096
    data = send(b"q", content)
    decoder = Decoder(maxima(len(content)))
    events = [event for at in range(0, len(data), 65536) for event in decoder.feed(data[at : at + 65536])]
    assert events == [Send(2, b"q", [content])]


# ---------------------------------------------------------------------- invalid input

CLOSES = {
    "no H": (b"GET / HTTP/1.1\r\n", 0, "malformed"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 0, "malformed"),
    "letters in the header": (b"H02x0102", 0, "malformed"),
    "other digits": ("H02001٢x".encode(), 0, "malformed"),
    "no packages": (b"H0200100", 2, "malformed"),
    "no P": (b"H0200102X", 2, "malformed"),
    "letters in a length": (b"H0200102P01" + b"0" * 32 + b"x", 2, "malformed"),
    "a sign in a length": (b"H0200102P01" + b"0" * 31 + b"+1", 2, "malformed"),
    "no line feed after a package header": (b"H0200102\nP01%033d\rq" % 1, 2, "malformed"),
    "no line feed after a content": (send(b"q", b"1", line=True)[:-1] + b"H0200102", 2, "malformed"),
    "version 03": (b"H0300102", 2, "unknown-version"),
    "version 00": (b"H0000102", 2, "unknown-version"),
    "a content one byte too long": (b"H0200102P01%033dqP02%033d" % (1, CONTENT_MAX + 1), 2, "too-large"),
    "a content beyond all measure": (b"H0200102P01" + b"9" * 33, 2, "too-large"),
    "a name of 1,025 bytes": (b"H0100202P01%033d" % 1025, 1, "too-large"),
    "an id of 33 bytes": (b"H0200402P01%033dqP03%033d" % (1, 33), 2, "too-large"),
    "a count of 11 digits": (b"H0200202P01%033dqP04%033d" % (1, 11), 2, "too-large"),
    "a stray package of 1025 bytes": (b"H0200102P09%033d" % 1025, 2, "too-large"),
}


@pytest.mark.parametrize("name", CLOSES)
def test_a_broken_stream_is_one_fault_and_the_end(name: str) -> None:
    """T-001, T-002, T-052, T-054, T-056, T-060: earlier messages are kept."""
    data, version, code = CLOSES[name]
    decoder = Decoder(maxima(CONTENT_MAX))
    events = decoder.feed(data)
    fault = events[-1]
    assert isinstance(fault, Fault)
    assert (fault.version, fault.code) == (version, code)
    assert decoder.broken


def test_an_unreadable_header_is_answered_in_the_last_version_heard() -> None:
    """T-054."""
    assert decode(send(b"q", b"1", 2), b"nonsense")[-1].version == 2
    assert decode(send(b"q", b"1", 1), b"nonsense")[-1].version == 1
    assert decode(b"nonsense")[-1].version == 0
    assert decode(b"H9900101")[-1].version == 2


GOES_ON = {
    "a type of the endpoint": (frame(2, 3, (1, b"q")), "unknown-type", 3),
    "an unknown type": (frame(2, 999, (77, b"x")), "unknown-type", 999),
    "a return in version 01": (frame(1, 6, (1, b"q"), (3, ID)), "unknown-type", 6),
    "unread in version 01": (frame(1, 8, (1, b"q"), (3, ID)), "unknown-type", 8),
    "a name of 257 bytes": (send(b"n" * 257, b"x"), "invalid-queue", 1),
    "an unknown package": (frame(2, 1, (1, b"q"), (9, b"x")), "unknown-package", 1),
    "a package of another message": (frame(2, 1, (1, b"q"), (4, b"1")), "unknown-package", 1),
    "one package": (frame(2, 1, (1, b"q")), "wrong-count", 1),
    "three packages": (frame(2, 2, (1, b"q"), (4, b"1"), (4, b"2")), "wrong-count", 2),
    "four packages": (frame(2, 6, (1, b"q"), (3, ID), (5, b"1"), (5, b"1")), "wrong-count", 6),
    "a package twice": (frame(2, 1, (1, b"q"), (1, b"q")), "wrong-count", 1),
    "no id": (frame(2, 6, (1, b"q"), (5, b"1")), "missing-package", 6),
    "no name": (send(b"", b"x"), "invalid-queue", 1),
    "not UTF-8": (send(b"\xff", b"x"), "invalid-queue", 1),
    "a control character": (send(b"a\nb", b"x"), "invalid-queue", 1),
    "a C1 control character": (consume("a\x85".encode(), 1), "invalid-queue", 2),
    "a slash": (ack(b"a/b", ID), "invalid-queue", 4),
    "a short id": (ack(b"q", ID[1:]), "invalid-id", 4),
    "a count in words": (frame(2, 2, (1, b"q"), (4, b"five")), "invalid-number", 2),
    "a negative count": (frame(2, 2, (1, b"q"), (4, b"-1")), "invalid-number", 2),
    "an empty count": (frame(2, 2, (1, b"q"), (4, b"")), "invalid-number", 2),
    "a delay beyond a week": (give_back(b"q", ID, b"604800001"), "invalid-number", 6),
    "a delay with a point": (give_back(b"q", ID, b"1.5"), "invalid-number", 6),
}


@pytest.mark.parametrize("name", GOES_ON)
def test_an_invalid_message_does_not_end_the_stream(name: str) -> None:
    """T-011, T-051: the next message is read as usual."""
    data, code, refused = GOES_ON[name]
    fault, following = decode(data + send(b"q", b"next"))
    assert isinstance(fault, Fault)
    assert (fault.code, fault.refused) == (code, refused)
    assert following == Send(2, b"q", [b"next"])


def test_many_large_packages_do_not_add_up() -> None:
    """T-060: two contents of the maximum size are one too many, and refused before the second is read."""
    most = b"x" * 1_000_000
    decoder = Decoder(maxima(len(most)))
    events = decoder.feed(b"H0200103P02%033d" % len(most) + most + b"P02%033d" % len(most))
    assert events[-1].code == "too-large"  # type: ignore[union-attr]


def test_every_refusal_of_the_codec_is_in_the_table_of_the_document() -> None:
    """T-050, T-051, T-052."""
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (closes|goes on) \|$", DOCUMENT.read_text(), re.MULTILINE))
    assert {code for _, _, code in CLOSES.values()} <= {code for code, end in rows.items() if end == "closes"}
    assert {code for _, code, _ in GOES_ON.values()} <= {code for code, end in rows.items() if end == "goes on"}


@settings(deadline=None, max_examples=500)
@given(
    st.lists(
        st.binary(max_size=200) | st.sampled_from([SEND_LINES, CONSUME_LINES, ACKNOWLEDGE_LINES[:-9]]), max_size=10
    )
)
def test_random_bytes_are_faults_wherever_they_are_cut(pieces: list[bytes]) -> None:
    """A fault that ends the stream is the last event. Any chunking gives the same events."""
    text = b"".join(pieces)
    at_once, slowly = Decoder(maxima(CONTENT_MAX)), Decoder(maxima(CONTENT_MAX))
    expected = flat(at_once.feed(text))
    events: list[Event] = []
    for place in range(len(text)):
        if not slowly.broken:
            events += slowly.feed(text[place : place + 1])
    assert flat(events) == expected
    assert slowly.broken == at_once.broken
    if at_once.broken:
        assert isinstance(expected[-1], Fault)


def test_a_message_counts_although_another_byte_follows_in_place_of_its_line_feed() -> None:
    """T-007, T-055: also when the message is parsed as one of many alike."""
    text = send(b"q", b"1", line=True)
    for many in (1, 2, 5):
        *sends, fault = decode(text * many + text[:-1] + b"K")
        assert flat(sends) == [Send(2, b"q", [b"1"])] * (many + 1)
        assert isinstance(fault, Fault)
    acks = ack(b"q", ID, line=True)
    *requests, fault = decode(acks * 3 + acks[:-1] + b"K")
    assert flat(requests) == [Acknowledge(2, b"q", [ID])] * 4
