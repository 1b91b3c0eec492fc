"""The strict XML reader: accepted and refused documents, and bounded work."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.azure import xml
from penstock.doors.azure.xml import DEPTH_MAX, XmlError, decode, escape, printable, read, unescape

LEGAL = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff") | st.sampled_from("\t\n\r<>&'\"")
)


@given(LEGAL)
def test_escaped_text_is_read_back_unchanged(text: str) -> None:
    assert read(f"<a>{escape(text)}</a>".encode(), "a").text == text


@given(LEGAL)
def test_an_ordinary_parser_reads_the_same(text: str) -> None:
    document = f"<a><b>{escape(text)}</b></a>"
    assert ElementTree.fromstring(document).findtext("b") == read(document.encode(), "a").values("b")["b"]


def agrees(body: bytes) -> None:
    """Return whether the door's reader and an ordinary parser agree, except for line ends, which the door's reader
    keeps.
    """
    try:
        read(body, "a")
    except XmlError:
        return
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    elements = [(read(lines, "a"), ElementTree.fromstring(lines))]
    for element, other in elements:
        text = (other.text or "") + "".join(child.tail or "" for child in other)
        assert (element.name, element.text) == (other.tag, text)
        elements += zip(element.children, other, strict=True)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_others_do_or_refused(body: bytes) -> None:
    agrees(body)


@given(st.text(alphabet="<>/!-[]CDATA&;#xab \"'=?", max_size=60))
def test_any_markup_is_read_as_others_do_or_refused(text: str) -> None:
    agrees(f"<a>{text}</a>".encode())


PIECES = [
    "<b>",
    "</b>",
    "<b/>",
    "x",
    "&amp;",
    "&#65;",
    "&#x",
    "<!-- c -->",
    "<!--",
    "<![CDATA[<c>]]>",
    "]]>",
    "\r\n",
    "<",
    ' d="e"',
    "<b d='e'>",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_markup_of_known_pieces_is_read_as_others_do_or_refused(pieces: list[str]) -> None:
    agrees(f"<a>{''.join(pieces)}</a>".encode())


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("<a/>", ""),
        ("<a></a>", ""),
        ('<?xml version="1.0" encoding="utf-8"?><a>x</a>', "x"),
        ("<?xml version='1.0' encoding='UTF-8' standalone='yes'?>\r\n<a>x</a>\n", "x"),
        ('<?xml version="1.0"?><a>x</a>', "x"),
        ("\ufeff<a>x</a>", "x"),
        ("<a><![CDATA[<b>&amp;]]></a>", "<b>&amp;"),
        ("<a>x<!-- not > here -->y</a>", "xy"),
        ("<a xmlns=\"urn:x\" b='c'>x</a>", "x"),
        ("<a>&#65;&#x42;&lt;&gt;&amp;&quot;&apos;</a>", "AB<>&\"'"),
        ("<a>&#x1F600;\U0001f600</a>", "\U0001f600\U0001f600"),
        ("<a>\r\n</a>", "\r\n"),
        ("<a >x</a >", "x"),
    ],
)
def test_accepted_documents(document: str, text: str) -> None:
    assert read(document.encode(), "a").text == text


@pytest.mark.parametrize(
    "document",
    [
        "",
        "x",
        "<a>",
        "</a>",
        "<a></b>",
        "<a></a/>",
        "<a/><a/>",
        "<a/>x",
        "x<a/>",
        "<b/>",
        "<a>&</a>",
        "<a>&b;</a>",
        "<a>&#;</a>",
        "<a>&#xFFFFFF;</a>",
        "<a>&#xD800;</a>",
        "<a>&#0;</a>",
        "<a>]]></a>",
        "<a b></a>",
        "<a b=c></a>",
        "<a b='<'></a>",
        "<a b='1' b='2'></a>",
        "<a b='&c;'></a>",
        "<a></a b='1'>",
        "<a><!-- b -- c --></a>",
        "<a/>\u00a0",
        "<a/>&#32;",
        "<a/><![CDATA[ ]]>",
        '<?xml version="1.0" more?><a/>',
        '<?xml version="1.0" standalone="perhaps"?><a/>',
        "<!DOCTYPE a><a/>",
        "<a><!ENTITY b 'c'></a>",
        "<a><?php ?></a>",
        '<?xml version="1.0" encoding="utf-16"?><a>é</a>',
        '<?xml version="1.0" encoding="zlib"?><a>é</a>',
        '<?xml version="1.1"?><a/>',
        "<?xml version='2.0'?><a/>",
        "<a>\x0b</a>",
        "<a>\ufffe</a>",
        "<a>" * (DEPTH_MAX + 1) + "</a>" * (DEPTH_MAX + 1),
        "<1/>",
        "< a/>",
        "<a><!-- open</a>",
        "<a><![CDATA[open</a>",
    ],
)
def test_refused_documents(document: str) -> None:
    with pytest.raises(XmlError):
        read(document.encode(), "a")


@pytest.mark.parametrize(
    "body",
    [
        "<a>é</a>".encode("utf-16"),
        codecs.BOM_UTF16_BE + "<a>é</a>".encode("utf-16-be"),
        '<?xml version="1.0" encoding="utf-16"?><a>é</a>'.encode("utf-16-le"),
        '<?xml version="1.0"?><a>é</a>'.encode("utf-16-be"),
        "<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>".encode("latin-1"),
        '<?xml version="1.0" encoding="windows-1252" standalone="yes"?><a>é</a>'.encode("cp1252"),
        codecs.BOM_UTF8 + "<a>é</a>".encode(),
        *(f'<?xml version="1.0" encoding="{name}"?><a>&#233;</a>'.encode() for name in ("utf-16", "koi8-r", "x-odd")),
    ],
)
def test_a_document_is_read_in_the_encoding_it_names(body: bytes) -> None:
    """A document in plain ASCII may declare any encoding."""
    assert read(body, "a").value() == "é"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("", (1, 1)),
        ("<a>", (1, 4)),
        ("<a>\n  <b></a>", (2, 6)),
        ("<a>\r\n\r  x & y</a>", (3, 5)),
        ("<a>\n<!DOCTYPE b></a>", (2, 1)),
        ('<?xml version="1.1"?><a/>', (1, 16)),
        ("<b/>", (1, 1)),
        ("<a>x\x01</a>", (1, 5)),
        ("<a>é\n\xff</a>", (2, 1)),
    ],
)
def test_a_fault_has_line_and_position(document: str, place: tuple[int, int]) -> None:
    body = document.encode().replace("\xff".encode(), b"\xff")
    with pytest.raises(XmlError) as refused:
        read(body, "a")
    assert refused.value.place == place


def test_an_unexpected_element_has_line_and_position() -> None:
    with pytest.raises(XmlError) as refused:
        read(b"<a>\n <b/>\n <c/></a>", "a").fields("b")
    assert refused.value.place == (3, 2)


@pytest.mark.parametrize("body", [b"\xff\xfe<\0a\0/\0>", b"<a>\xc3</a>", b"<a>\xed\xa0\x80</a>"])
def test_bytes_of_no_encoding_are_refused(body: bytes) -> None:
    with pytest.raises(XmlError):
        read(body, "a")


ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
BOMB = f'<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">{ENTITIES}]><a>&j;</a>'


@pytest.mark.parametrize(
    "document",
    [
        BOMB,
        "<a>" + "&#x41;" * 16000 + "</a>",
        "<a>" + "<b/>" * 24000 + "</a>",
        "<a>" + "<!---->" * 13000 + "</a>",
        "<a " + "b='c' " * 16000 + "/>",
        "<a " + "b " * 48000 + "/>",
        "<a" + " " * 96000,
        "<a>" + "<" * 96000,
        "<a><![CDATA[" + "]]" * 48000,
        "<a>" + "&" * 96000 + "</a>",
        "<" + "a" * 96000,
    ],
    ids=lambda document: document[:12],
)
def test_no_document_makes_more_work_than_its_length(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted in tokens and characters. A bomb is a document that grows while it is read."""
    taken: list[str] = []
    apply = xml._apply

    def counted(token: re.Match[str], stack: list[xml.Element]) -> None:
        taken.append(token.group())
        apply(token, stack)

    monkeypatch.setattr(xml, "_apply", counted)
    with suppress(XmlError):
        tree = read(document.encode(), "a")
        assert len(tree.text) + len(tree.children) <= len(document)
    assert len(taken) <= len(document)
    assert len("".join(taken)) <= len(document)


def test_text_that_xml_cannot_hold_is_replaced_or_refused() -> None:
    assert printable("a\x00b\ud800\uffff") == "a\ufffdb\ufffd\ufffd"
    for body in (b"\x00", b"\x1f", "\uffff".encode()):
        with pytest.raises(XmlError):
            decode(body)


def test_unescape_leaves_plain_text_alone() -> None:
    assert unescape("plain; text # x") == "plain; text # x"


@pytest.mark.parametrize(
    "inner", ["<b/><b/>", "<b/><c/>", "<b/>text", "text", "<b><c/></b>", "<b>x<c>y</c></b>", "<b/><![CDATA[x]]>"]
)
def test_content_that_would_be_dropped_is_refused(inner: str) -> None:
    element = read(f"<a>{inner}</a>".encode(), "a")
    with pytest.raises(XmlError):
        element.values("b")


def test_the_parts_of_an_element() -> None:
    element = read(b"<a>\n <b>1</b> <!-- x --> <c/>\r\n</a>", "a")
    assert element.values("b", "c", "d") == {"b": "1", "c": ""}
    assert [each.value() for each in read(b"<a><b>1</b><b>2</b></a>", "a").items("b")] == ["1", "2"]
    with pytest.raises(XmlError):
        element.items("b")
