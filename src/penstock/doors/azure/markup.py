"""XML as this door reads and writes it: small documents, read whole, once, by a strict reader of our own.

The rule kept here: elements, text, character references, comments and CDATA, in UTF-8, and nothing else. A document
type, an entity of its own, a processing instruction or an illegal character is refused, so that no document can make
more work than its own length. Line ends are kept as sent (a parser may turn them into LF, and would change messages).
Whoever takes an element apart says which children it may have; what it would not look at is refused, never dropped.
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
# Space is ASCII here (re.ASCII), and the control characters that \s also means were refused before.
_OPENING = re.compile(
    r"""\ufeff?(?:<\?xml\s+version\s*=\s*(?:"1\.\d"|'1\.\d')
        (?:\s+encoding\s*=\s*(?:"(?P<double>[\w.-]+)"|'(?P<single>[\w.-]+)'))?
        (?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))?\s*\?>)?""",
    re.VERBOSE | re.ASCII,
)
_TOKEN = re.compile(
    r"""(?P<text>[^<]+)
      | <(?P<close>/?)(?P<name>[A-Za-z_][\w.:-]*)
        (?P<attributes>(?:\s+[A-Za-z_][\w.:-]*\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(?P<empty>/?)>
      | <!\[CDATA\[(?P<raw>.*?)\]\]>
      | <!--(?:(?!--).)*-->""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ATTRIBUTE = re.compile(r"""\s+([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.ASCII)
_SPACE = " \t\r\n"
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class MarkupError(ValueError):
    """The bytes are not a document this door reads; the text says why, without repeating them."""


@dataclass(slots=True)
class Element:
    name: str
    text: str = ""  # all the character data directly inside
    children: list[Element] = field(default_factory=list)

    def fields(self, *names: str) -> dict[str, Element]:
        """The children by name, when each of them is one of these names and is there once."""
        found = {each.name: each for each in self.children}
        if len(found) != len(self.children):
            _fail(f"an element is there twice in {self.name}")
        if not found.keys() <= set(names):
            _fail(f"an element that {self.name} cannot have")
        self._check_no_text()
        return found

    def items(self, name: str) -> list[Element]:
        """The children, when all of them have this name."""
        if any(each.name != name for each in self.children):
            _fail(f"an element that {self.name} cannot have")
        self._check_no_text()
        return self.children

    def value(self) -> str:
        """The text, when there is nothing else."""
        if self.children:
            _fail(f"an element in the text of {self.name}")
        return self.text

    def values(self, *names: str) -> dict[str, str]:
        """The texts of the children by name, when that is all there is."""
        return {name: each.value() for name, each in self.fields(*names).items()}

    def _check_no_text(self) -> None:
        if self.text.strip(_SPACE):
            _fail(f"text between the elements of {self.name}")


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
    encoding = opening["double"] or opening["single"] or "utf-8"
    if encoding.lower() not in ("utf-8", "utf8"):
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
        if token["text"] is not None:
            self._add_text(token["text"])
        elif token["raw"] is not None:
            self._add_raw(token["raw"])
        elif token["close"]:
            self._close(token["name"], bool(token["empty"] or token["attributes"]))
        elif token["name"]:
            _check_attributes(token["attributes"])
            self._begin(token["name"], bool(token["empty"]))

    def finished(self, root: str) -> Element:
        if self._root is None or self._open:
            _fail("not complete")
        if self._root.name != root:
            _fail("another root element than expected")
        return self._root

    def _add_text(self, text: str) -> None:
        if self._open:
            self._open[-1].text += _checked(text)
        elif text.strip(_SPACE):
            _fail("text outside of the root element")

    def _add_raw(self, text: str) -> None:
        if not self._open:
            _fail("text outside of the root element")
        self._open[-1].text += text

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

    def _close(self, name: str, more: bool) -> None:
        if more or not self._open or self._open.pop().name != name:
            _fail("tags do not match")


def _check_attributes(text: str) -> None:
    """Attributes mean nothing here, but they must be attributes."""
    pairs = _ATTRIBUTE.findall(text)
    if len({name for name, _, _ in pairs}) != len(pairs):
        _fail("an attribute is there twice")
    for _, double, single in pairs:
        unescape(double or single)


def _checked(text: str) -> str:
    if "]]>" in text:
        _fail("the end of a section that was not begun")
    return unescape(text)


def _fail(why: str) -> NoReturn:
    raise MarkupError(why)
