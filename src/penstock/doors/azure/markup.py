"""XML as this door reads and writes it: small documents, read whole, once, by a strict reader of our own.

The rule kept here: elements, text, character references, comments and CDATA, in UTF-8, and nothing else. A document
type, an entity of its own, a processing instruction or an illegal character is refused, so that no document can make
more work than its own length. Line ends are kept as sent (a parser may turn them into LF, and would change messages).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'
DEPTH_MAX = 16

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SPECIAL = re.compile("[&<>\r]")
_SPECIAL_AS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;"}
_OPENING = re.compile(r"""\ufeff?(?:<\?xml\s+version\s*=\s*["']1\.\d["']([^?<>]*)\?>)?""")
_ENCODING = re.compile(r"""\s+encoding\s*=\s*["']utf-?8["']""", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<text>[^<]+)
      | <(?P<close>/?)(?P<name>[A-Za-z_][\w.:-]*)(?:\s+[\w.:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*\s*(?P<empty>/?)>
      | <!\[CDATA\[(?P<raw>.*?)\]\]>
      | <!--(?:.*?)-->""",
    re.VERBOSE | re.DOTALL,
)
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class MarkupError(ValueError):
    """The bytes are not a document this door reads; the text says why, without repeating them."""


@dataclass(slots=True)
class Element:
    name: str
    text: str = ""  # all the character data directly inside
    children: list[Element] = field(default_factory=list)

    def child(self, name: str) -> Element | None:
        return next((each for each in self.children if each.name == name), None)

    def text_of(self, name: str) -> str | None:
        """The text of a child, or None if there is no such child."""
        found = self.child(name)
        return None if found is None else found.text


def escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: _SPECIAL_AS[match.group()], text) if _SPECIAL.search(text) else text


def printable(text: str) -> str:
    """Any text, with what XML cannot hold replaced."""
    return _ILLEGAL.sub("\ufffd", text)


def decode(body: bytes) -> str:
    """The text of a body, if it is UTF-8 of characters that XML can hold."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise MarkupError("not UTF-8") from None
    if _ILLEGAL.search(text):
        raise MarkupError("a character that XML cannot hold")
    return text


def read(body: bytes, root: str) -> Element:
    """The root element of a document, which must have this name."""
    document = _Document()
    text = decode(body)
    at = _after_opening(text)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise MarkupError("not well formed")
        at = token.end()
        document.take(token)
    return document.finished(root)


def unescape(text: str) -> str:
    return _REFERENCE.sub(_referred, text) if "&" in text else text


def _after_opening(text: str) -> int:
    opening = _OPENING.match(text)
    assert opening is not None, "it matches nothing at all as well"
    said = opening[1] or ""
    if "encoding" in said and not _ENCODING.match(said):
        raise MarkupError("an encoding other than UTF-8")
    return opening.end()


def _referred(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return _NAMED[name]
    if not decimal and not hexadecimal:
        raise MarkupError("an unknown entity")
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if code > 0x10FFFF or _ILLEGAL.match(chr(code)):
        raise MarkupError("a reference to a character that XML cannot hold")
    return chr(code)


class _Document:
    """The tree as it grows: a stack of open elements."""

    def __init__(self) -> None:
        self._open: list[Element] = []
        self._root: Element | None = None

    def take(self, token: re.Match[str]) -> None:
        kind = token.lastgroup
        if kind == "text":
            self._add_text(_checked(token["text"]))
        elif token["raw"] is not None:
            self._add_text(token["raw"])
        elif token["close"]:
            self._close(token["name"], bool(token["empty"]))
        elif token["name"]:
            self._begin(token["name"], bool(token["empty"]))

    def finished(self, root: str) -> Element:
        if self._root is None or self._open:
            _fail("not complete")
        if self._root.name != root:
            _fail("another root element than expected")
        return self._root

    def _add_text(self, text: str) -> None:
        if self._open:
            self._open[-1].text += text
        elif text.strip():
            _fail("text outside of the root element")

    def _begin(self, name: str, empty: bool) -> None:
        element = Element(name)
        if self._open:
            self._open[-1].children.append(element)
        elif self._root is None:
            self._root = element
        else:
            _fail("a second root element")
        if not empty:
            self._open.append(element)
        if len(self._open) > DEPTH_MAX:
            _fail("too deep")

    def _close(self, name: str, empty: bool) -> None:
        if empty or not self._open or self._open.pop().name != name:
            _fail("tags do not match")


def _checked(text: str) -> str:
    if "]]>" in text:
        _fail("the end of a section that was not begun")
    return unescape(text)


def _fail(why: str) -> NoReturn:
    raise MarkupError(why)
