"""Messages in XML: the fast pattern and the strict reader agree, and every character survives."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.azure.codec import put_answer, read_message_text, text_of
from penstock.doors.azure.xml import XmlError, escape, read

CONTROLS = {*range(0x20)} - {9, 10, 13}
NOT_TEXT = {0xFFFE, 0xFFFF, *range(0xD800, 0xE000)}


def document(inner: str) -> bytes:
    return f"<QueueMessage><MessageText>{inner}</MessageText></QueueMessage>".encode()


@pytest.mark.parametrize("plane", range(17))
def test_every_character_of_every_plane_comes_back(plane: int) -> None:
    codes = range(plane << 16, (plane + 1) << 16)
    text = "".join(chr(code) for code in codes if code not in CONTROLS and code not in NOT_TEXT)
    assert read_message_text(document(escape(text))) == text
    shown = f"<MessageText>{text_of(text.encode())}</MessageText>"
    assert ElementTree.fromstring(shown).text == text


@given(st.text(alphabet=st.characters(max_codepoint=0x7F)))
def test_the_quick_pattern_and_the_strict_reader_agree(text: str) -> None:
    try:
        strict: str | None = read(document(text), "QueueMessage").values("MessageText")["MessageText"]
    except XmlError:
        strict = None
    try:
        quick = read_message_text(document(text))
    except XmlError:
        quick = None
    assert quick == strict


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<QueueMessage><MessageText/></QueueMessage>", ""),
        (b"<QueueMessage>\r\n  <MessageText>x</MessageText>\r\n</QueueMessage>\r\n", "x"),
        (b"<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>x</MessageText></QueueMessage>", "x"),
        (b"\xef\xbb\xbf<QueueMessage><MessageText>x</MessageText></QueueMessage>", "x"),
        (b"<QueueMessage><MessageText>a\r\nb\rc</MessageText></QueueMessage>", "a\r\nb\rc"),
        (b"<QueueMessage><MessageText><![CDATA[<x>&]]></MessageText></QueueMessage>", "<x>&"),
        (b"<QueueMessage><MessageText>&lt;&#x263A;</MessageText></QueueMessage>", "<☺"),
        (b'<QueueMessage xmlns="urn:a"><MessageText>x</MessageText></QueueMessage>', "x"),
        (b"<QueueMessage/>", None),
    ],
)
def test_the_spellings_of_a_message(body: bytes, text: str | None) -> None:
    assert read_message_text(body) == text


@pytest.mark.parametrize("case", ["queuemessage", "QUEUEMESSAGE"])
def test_names_are_read_in_their_case(case: str) -> None:
    with pytest.raises(XmlError):
        read_message_text(f"<{case}><MessageText>x</MessageText></{case}>".encode())


@pytest.mark.parametrize(
    ("data", "shown"),
    [(b"a&b<c>\r", "a&amp;b&lt;c&gt;&#xD;"), (b"\x00\x01", "AAE="), (b"\xff", "/w=="), ("\uffff".encode(), "77+/")],
)
def test_text_of_any_bytes(data: bytes, shown: str) -> None:
    assert text_of(data) == shown


def test_a_message_without_an_end_says_so() -> None:
    answer = put_answer(1, "1-2-3", at=0, visible_at=0, expires_at=0)
    root = ElementTree.fromstring(answer)
    assert root.findtext("QueueMessage/ExpirationTime") == "Fri, 31 Dec 9999 23:59:59 GMT"
    assert root.findtext("QueueMessage/InsertionTime") == "Thu, 01 Jan 1970 00:00:00 GMT"
