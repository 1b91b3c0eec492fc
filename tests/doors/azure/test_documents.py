"""A document is accepted as a whole or refused as a whole. No content is dropped.

The oracle is expat, an XML reader without any code of Penstock. An accepted request must be one that expat can read, in
the one allowed form, and a later get must return the text that expat found in it.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.parsers import expat

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from penstock.broker.model import SECOND
from penstock.doors.azure.options import AzureOptions
from penstock.doors.azure.xml import Element
from tests.doors.azure.direct import DIALECT, STANDARD, Direct, code_of, opened_directly, texts
from tests.doors.azure.signing import token

REFUSALS = {"InvalidXmlDocument", "InvalidXmlNodeValue", "InvalidMessageContent"}


@pytest.fixture(scope="module")
def door() -> Iterator[Direct]:
    with opened_directly() as direct:
        for home in (STANDARD, DIALECT):
            assert direct.ask("PUT", f"{home}/orders").status == 201
        yield direct


# ---------------------------------------------------------------------- the oracle


class Node(NamedTuple):
    name: str
    parts: list[str | Node]

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def children(self) -> list[Node]:
        return [part for part in self.parts if isinstance(part, Node)]

    def leaves(self, path: str = "") -> list[tuple[str, str]]:
        """Return every text with the path of its element, in order, without white space between elements."""
        here = f"{path}/{self.name}"
        own = [(here, self.text)] if self.text.strip() or not self.children else []
        return own + [leaf for child in self.children for leaf in child.leaves(here)]


def read_by_expat(body: bytes) -> tuple[Node, set[str]] | None:
    """Return the root of a document, and its parts that this door refuses. None if it is not well formed."""
    parser = expat.ParserCreate()
    top = Node("", [])
    stack, seen = [top], set()

    def start(name: str, attributes: dict[str, str]) -> None:
        node = Node(name, [])
        stack[-1].parts.append(node)
        stack.append(node)

    def declared(version: str, encoding: str | None, standalone: int) -> None:
        if version != "1.0":
            seen.add("version")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: stack.pop()
    parser.CharacterDataHandler = lambda text: stack[-1].parts.append(text)
    parser.ProcessingInstructionHandler = lambda *said: seen.add("instruction")
    parser.StartDoctypeDeclHandler = lambda *said: seen.add("doctype")
    parser.XmlDeclHandler = declared
    try:
        parser.Parse(in_utf8(body), True)
    except (expat.ExpatError, ValueError):
        return None
    return top.children[0], seen


def in_utf8(body: bytes) -> bytes:
    """Return a document in UTF-8 without a declared encoding. ValueError if it is not in its declared encoding."""
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = body.decode("utf-16")
    elif body.startswith(b"<?xml version='1.0' encoding='latin-1'?>"):
        text = body.decode("latin-1")
    else:
        text = body.decode()
        if not text.isascii() and text.startswith("<?xml version='1.0' encoding='utf-16'?>"):
            raise ValueError("not UTF-16")
    return re.sub(r"""^(\ufeff?<\?xml[^>]*?)\s+encoding=(?:"[\w.-]+"|'[\w.-]+')""", r"\1", text, count=1).encode()


def message_of(body: bytes) -> str | None:
    """Return the text of a message: of the only MessageText, which has no elements and no siblings."""
    found = read_by_expat(body)
    if found is None or found[1]:
        return None
    root = found[0]
    if (
        root.name != "QueueMessage"
        or root.text.strip(" \t\r\n")
        or [each.name for each in root.children] != ["MessageText"]
    ):
        return None
    return None if root.children[0].children else root.children[0].text


def plain_lines(text: str) -> str:
    """Replace every line end by LF, as XML parsers do. The reader of the door keeps line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ---------------------------------------------------------------------- valid and invalid documents

SPACE = st.sampled_from(["", "", " ", "\n", "\r\n  ", "\t", "\x0b", "\u00a0", "\x85"])
WORDS = st.text(st.sampled_from("ab\u00e9\U0001f600 \t\n\r]'\"-#;=+/"), max_size=6) | st.sampled_from(
    ["SGVsbG8=", "Test"]
)
REFERENCES = st.sampled_from(
    [
        "&amp;",
        "&lt;",
        "&gt;",
        "&quot;",
        "&apos;",
        "&#65;",
        "&#x1F600;",
        "&#13;",
        "&#0;",
        "&#xD800;",
        "&nbsp;",
        "&e;",
        "&",
        "&#;",
    ]
)
RAW = st.sampled_from(["<![CDATA[<b>&amp;]]>", "<![CDATA[]]>", "<![CDATA[x]]", "]]>", "<", ">", "\x01", "\ufffe"])
COMMENTS = st.sampled_from(["<!---->", "<!-- <b>not</b> -->", "<!-- a -- b -->", "<!-- open"])
INSTRUCTIONS = st.sampled_from(["<?php x ?>", "<?xml-stylesheet href='x'?>", "<?xml version='1.0'?>"])
ATTRIBUTES = st.sampled_from(
    [
        "",
        "",
        "",
        ' xmlns="urn:a"',
        " xml:space='preserve'",
        " a='1' a='2'",
        " a='&e;'",
        " a='<'",
        " a=1",
        " a",
        " a='1'b='2'",
    ]
)
NAMES = st.sampled_from(["MessageText", "MessageText", "b", "messagetext", "QueueMessage", "Other"])


def element(name: str, attributes: str, inner: str, form: int) -> str:
    """Generate `<name>inner</name>`, or sometimes an element that is empty, not closed or closed by another name."""
    return [
        f"<{name}{attributes}>{inner}</{name}>",
        f"<{name}{attributes}/>",
        f"<{name}{attributes}>{inner}",
        f"<{name}>{inner}</x>",
    ][form]


FORMS = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2, 3])
INLINE = st.lists(st.one_of(WORDS, WORDS, REFERENCES, RAW, COMMENTS, INSTRUCTIONS), max_size=3).map("".join)
NESTED = st.builds(element, NAMES, ATTRIBUTES, INLINE, FORMS)
CONTENT = st.one_of(WORDS, INLINE, st.lists(st.one_of(INLINE, NESTED), max_size=3).map("".join))
TEXTS = st.builds(element, st.just("MessageText"), ATTRIBUTES, CONTENT, st.sampled_from([0, 0, 0, 0, 1]))
BESIDE = st.one_of(SPACE, SPACE, SPACE, NESTED, COMMENTS, INSTRUCTIONS, RAW, WORDS, TEXTS)
INSIDE = st.one_of(
    st.tuples(SPACE, TEXTS, SPACE).map("".join), st.lists(st.one_of(BESIDE, TEXTS), max_size=4).map("".join)
)
ROOTS = st.builds(
    element, st.sampled_from(["QueueMessage"] * 8 + ["queueMessage", "a:QueueMessage"]), ATTRIBUTES, INSIDE, FORMS
)
OPENINGS = st.sampled_from(
    [
        *[""] * 6,
        "\ufeff",
        "<?xml version='1.0' encoding='utf-8'?>",
        '\ufeff<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n',
        "<?xml version='1.0' encoding='latin-1'?>",
        "<?xml version='1.0' encoding='utf-16'?>",
        "<?xml version='1.1'?>",
        "<?xml version='1.0' more?>",
        "<?xml version='1.0' standalone='perhaps'?>",
        " <?xml version='1.0'?>",
        '<!DOCTYPE q [<!ENTITY e "boom">]>',
    ]
)
AROUND = st.one_of(
    st.just(""), st.just(""), SPACE, COMMENTS, INSTRUCTIONS, st.sampled_from(["x", "&#32;", "<![CDATA[ ]]>"])
)
# any mix of parts; few of these documents are well formed
WILD = st.tuples(OPENINGS, AROUND, ROOTS, AROUND).map("".join)

# Documents that are well formed, and mostly not valid messages. Here content could be lost.
GOOD_SPACE = st.sampled_from(["", " ", "\n", "\r\n  "])
GOOD_INLINE = st.lists(
    st.one_of(
        WORDS,
        st.sampled_from(["&amp;", "&lt;b&gt;", "&#65;", "&#x1F600;", "&#13;"]),
        st.sampled_from(["<![CDATA[<b>&amp;]]>", "<![CDATA[]]>", "<!-- <b>not</b> -->"]),
    ),
    max_size=3,
).map("".join)
GOOD_NESTED = st.builds(element, NAMES, st.sampled_from(["", " a='1'"]), GOOD_INLINE, st.sampled_from([0, 1]))
GOOD_TEXT = st.builds(element, st.just("MessageText"), st.just(""), GOOD_INLINE, st.sampled_from([0, 0, 1]))
MIXED = st.lists(st.one_of(GOOD_INLINE, GOOD_NESTED), min_size=1, max_size=3).map("".join)
MIXED_TEXT = MIXED.map(lambda inner: f"<MessageText>{inner}</MessageText>")
CHILDREN = st.one_of(
    GOOD_TEXT,
    MIXED_TEXT,
    st.tuples(GOOD_TEXT, GOOD_SPACE, st.one_of(GOOD_TEXT, GOOD_NESTED)).map("".join),
    st.tuples(GOOD_NESTED, GOOD_TEXT).map("".join),
    st.tuples(GOOD_INLINE, GOOD_TEXT, WORDS).map("".join),
    st.lists(st.one_of(GOOD_SPACE, GOOD_NESTED, GOOD_INLINE), max_size=2).map("".join),
)
GOOD_OPENINGS = st.sampled_from(["", "", "", "\ufeff", "<?xml version='1.0' encoding='utf-8'?>\n", "<!-- x -->"])
WELL_FORMED = st.tuples(GOOD_OPENINGS, GOOD_SPACE, CHILDREN, GOOD_SPACE).map(
    lambda parts: f"{parts[0]}<QueueMessage>{parts[1]}{parts[2]}{parts[3]}</QueueMessage>{parts[3]}"
)
BODIES = st.one_of(
    WELL_FORMED.map(str.encode),
    WELL_FORMED.map(str.encode),
    WELL_FORMED.map(str.encode),
    WILD.map(lambda text: text.encode("utf-8", "surrogatepass")),
    WILD.map(lambda text: text.encode("latin-1", "replace")),
    WELL_FORMED.map(lambda text: text.encode("utf-16")),
)


def in_base64(text: str) -> str:
    """003 AC7: text in Base64 is unchanged, other text is encoded."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return base64.b64encode(text.encode()).decode()
    return text


@pytest.mark.parametrize("home", [STANDARD, DIALECT])
@settings(max_examples=300, deadline=None)
@given(body=BODIES)
def test_a_put_keeps_the_whole_text_or_nothing(door: Direct, home: str, body: bytes) -> None:
    """003 AC1: 201 means that exactly the text of the one MessageText is received; anything else stores nothing."""
    door.ask("DELETE", f"{home}/orders/messages")
    expected = message_of(body)
    answer = door.ask("POST", f"{home}/orders/messages", body)
    stored = texts(door.ask("GET", f"{home}/orders/messages"), "MessageText")
    if expected is None or (home == DIALECT and not expected):
        assert 400 <= answer.status < 500
        assert code_of(answer) in REFUSALS
        assert stored == []
        return
    assert answer.status == 201, (code_of(answer), expected)
    if home == STANDARD:
        assert [plain_lines(text) for text in stored] == [plain_lines(expected)]
    elif "\n" not in expected:  # Base64 keeps its bytes, including line ends
        assert stored == [in_base64(expected)]


@settings(max_examples=300, deadline=None)
@given(body=BODIES)
def test_an_update_takes_the_whole_text_or_leaves_the_message(door: Direct, body: bytes) -> None:
    """003 AC4: a body without a text, as some clients send it, keeps the text. An invalid body changes nothing."""
    place = f"{STANDARD}/orders/messages"
    door.ask("DELETE", place)
    door.ask("POST", place, b"<QueueMessage><MessageText>before</MessageText></QueueMessage>")
    got = door.ask("GET", place)
    target = f"{place}/{texts(got, 'MessageId')[0]}?popreceipt={texts(got, 'PopReceipt')[0]}&visibilitytimeout=0"
    answer = door.ask("PUT", target, body)
    found, expected = read_by_expat(body), message_of(body)
    if expected is None and found is not None and not found[1] and is_bare(found[0]):
        expected = "before"
    (text,) = texts(door.ask("GET", f"{place}?peekonly=true"), "MessageText") or ["before"]
    if expected is None:
        assert (answer.status, code_of(answer), text) == (400, "InvalidXmlDocument", "before")
    else:
        assert (answer.status, plain_lines(text)) == (204, plain_lines(expected))


def lenient_fields(element: Element, *names: str) -> dict[str, Element]:
    """Return the first child of every name and ignore the others. An earlier version lost content this way."""
    return {name: each for name in names for each in element.children[::-1] if each.name == name}


@pytest.mark.parametrize(
    ("method", "planted"),
    [("fields", lenient_fields), ("value", lambda element: element.text), ("_check_no_text", lambda element: None)],
    ids=["other children", "children in a text", "text beside children"],
)
def test_a_reader_that_drops_content_is_found(
    door: Direct, monkeypatch: pytest.MonkeyPatch, method: str, planted: Callable[..., object]
) -> None:
    """The property of a put finds the planted bug when any guard against lost content is removed."""
    monkeypatch.setattr(Element, method, planted)
    check = test_a_put_keeps_the_whole_text_or_nothing.hypothesis.inner_test  # type: ignore[attr-defined]

    def fails(body: bytes) -> bool:
        try:
            check(door, STANDARD, body)
        except AssertionError:
            return True
        return False

    find(BODIES, fails, settings=settings(max_examples=300, derandomize=True, database=None, phases=[Phase.generate]))


def is_bare(root: Node) -> bool:
    return root.name == "QueueMessage" and not root.children and not root.text.strip(" \t\r\n")


# ---------------------------------------------------------------------- documents with more than one field
# Mostly valid documents, sometimes with an element that is not allowed there. Accepted documents are shown again.


def rows(fields: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[str]:
    """Generate the children of an element: some of its fields, sometimes a repeated or an unknown one."""
    known = [value.map(lambda inner, name=name: f"<{name}>{inner}</{name}>") for name, value in fields.items()]
    strange = st.sampled_from(["<Other>x</Other>", "<Other/>", "x", "<!-- x -->", "\n", " "])
    pieces = st.lists(st.one_of(*known, *known, *known, strange), max_size=6)
    full = st.tuples(*known).map("".join)
    return st.one_of(full, full, pieces.map("".join), st.tuples(full, strange).map("".join))


def nested(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A value, sometimes with an element in it."""
    return st.one_of(value, value, value, value, value.map(lambda text: f"{text}<b>{text}</b>"))


TIMES = st.sampled_from(["2030-01-01T00:00:00Z", "2031-01-01", "soon"])
POLICY = rows(
    {"Start": nested(TIMES), "Expiry": nested(TIMES), "Permission": nested(st.sampled_from(["r", "raup", "x"]))}
)
IDENTIFIER = rows({"Id": nested(st.sampled_from(["one", "two", "three"])), "AccessPolicy": POLICY})
POLICIES = rows({"SignedIdentifier": IDENTIFIER}).map(lambda inner: f"<SignedIdentifiers>{inner}</SignedIdentifiers>")

FLAGS = nested(st.sampled_from(["true", "false", "maybe"]))
DAYS = nested(st.sampled_from(["1", "365", "366", "x"]))
VERSIONS = nested(st.just("1.0"))
RETENTION = rows({"Enabled": FLAGS, "Days": DAYS})
LOGGING = rows({"Version": VERSIONS, "Delete": FLAGS, "Read": FLAGS, "Write": FLAGS, "RetentionPolicy": RETENTION})
METRICS = rows({"Version": VERSIONS, "Enabled": FLAGS, "IncludeAPIs": FLAGS, "RetentionPolicy": RETENTION})
HEADERS = nested(st.sampled_from(["*", "x-ms-meta-a", ""]))
CORS = rows(
    {
        "CorsRule": rows(
            {
                "AllowedOrigins": nested(st.sampled_from(["*", "https://a.example,https://b.example"])),
                "AllowedMethods": nested(st.sampled_from(["GET", "GET,PUT", "FOO"])),
                "AllowedHeaders": HEADERS,
                "ExposedHeaders": HEADERS,
                "MaxAgeInSeconds": nested(st.sampled_from(["0", "60", "-1"])),
            }
        )
    }
)
PROPERTIES = rows({"Logging": LOGGING, "HourMetrics": METRICS, "MinuteMetrics": METRICS, "Cors": CORS}).map(
    lambda inner: f"<StorageServiceProperties>{inner}</StorageServiceProperties>"
)


def said(document: str) -> list[tuple[str, str]]:
    """Return the content of a document in any order, without empty elements."""
    found = read_by_expat(document.encode())
    assert found is not None
    return sorted((path, text) for path, text in found[0].leaves() if text)


@settings(max_examples=300, deadline=None)
@given(document=POLICIES)
def test_policies_are_kept_whole_or_refused(door: Direct, document: str) -> None:
    target = f"{DIALECT}/orders?comp=acl"
    assert door.ask("PUT", target, signed=False).status == 204
    answer = door.ask("PUT", target, document.encode(), signed=False)
    kept = said(door.ask("GET", target, signed=False).body.decode())
    if answer.status == 204:
        assert kept == said(document)
    else:
        assert (answer.status, code_of(answer) in REFUSALS, kept) == (400, True, [])


@settings(max_examples=300, deadline=None)
@given(document=PROPERTIES)
def test_properties_are_kept_whole_or_refused(door: Direct, document: str) -> None:
    target = f"{STANDARD}?restype=service&comp=properties"
    before = said(door.ask("GET", target).body.decode())
    answer = door.ask("PUT", target, document.encode())
    kept = Counter(said(door.ask("GET", target).body.decode()))
    if answer.status == 202:
        assert Counter(said(document)) <= kept
    else:
        assert (answer.status, code_of(answer) in REFUSALS, kept) == (400, True, Counter(before))


NOW = 1_800_000_000  # 2027-01-15
CLAIMS = {"iss": "https://sts.windows.net/t/", "aud": "https://storage.azure.com", "oid": "user", "tid": "tenant"}
KEY_TIMES = nested(
    st.sampled_from(["2027-01-15T09:00:00Z", "2027-01-16T09:00:00Z", "2027-01-16", "2030-01-01", "soon"])
)
KEY_INFO = rows({"Start": KEY_TIMES, "Expiry": KEY_TIMES, "DelegatedUserTid": nested(st.just("home"))}).map(
    lambda inner: f"<KeyInfo>{inner}</KeyInfo>"
)


@pytest.fixture(scope="module")
def secure() -> Iterator[Direct]:
    with opened_directly(AzureOptions(tls_cert="none is read", oauth="basic"), now=NOW * SECOND) as direct:
        yield direct


@settings(max_examples=200, deadline=None)
@given(document=KEY_INFO)
def test_a_key_is_for_all_that_was_asked_or_refused(secure: Direct, document: str) -> None:
    claims = CLAIMS | {"nbf": NOW - 10, "iat": NOW - 10, "exp": NOW + 3600}
    headers = [("authorization", f"Bearer {token(claims)}")]
    target = f"{STANDARD}?restype=service&comp=userdelegationkey"
    answer = secure.ask("POST", target, document.encode(), headers=headers, signed=False)
    if answer.status == 200:
        shown = {name.removeprefix("/UserDelegationKey/Signed"): text for name, text in said(answer.body.decode())}
        for path, text in said(document):
            assert shown[path.removeprefix("/KeyInfo/")] == text
        assert len({path for path, _ in said(document)}) == len(said(document))
    else:
        assert (answer.status, code_of(answer) in REFUSALS) == (400, True)
