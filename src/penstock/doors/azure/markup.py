"""XML as this door reads and writes it: small documents, read whole, once, by a strict reader of our own.

Elements, text, character references, comments and CDATA, in UTF-8, and nothing else: a document type, an entity of
its own, a processing instruction or an illegal character is refused, so that no document can make more work than its
own length. Line ends are kept as sent (a parser may turn them into LF, and would change messages). A reader of an
element names the children it may have; another one is refused, never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

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
            raise MarkupError(f"an element is there twice in {self.name}")
        if not found.keys() <= set(names):
            raise MarkupError(f"an element that {self.name} cannot have")
        self._check_no_text()
        return found

    def items(self, name: str) -> list[Element]:
        """The children, when all of them have this name."""
        if any(each.name != name for each in self.children):
            raise MarkupError(f"an element that {self.name} cannot have")
        self._check_no_text()
        return self.children

    def value(self) -> str:
        """The text, when there is nothing else."""
        if self.children:
            raise MarkupError(f"an element in the text of {self.name}")
        return self.text

    def values(self, *names: str) -> dict[str, str]:
        """The texts of the children by name, when that is all there is."""
        return {name: each.value() for name, each in self.fields(*names).items()}

    def _check_no_text(self) -> None:
        if self.text.strip(_SPACE):
            raise MarkupError(f"text between the elements of {self.name}")


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


def elements(fields: Iterable[tuple[str, str]]) -> str:
    """Elements by name and text, the text escaped."""
    return "".join(f"<{name}>{escape(text)}</{name}>" for name, text in fields)


def read(body: bytes, root: str) -> Element:
    """The root element of a document, which must have this name."""
    text = decode(body)
    document = Element("")
    stack, at = [document], _after_opening(text)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise MarkupError("not well formed")
        _take(token, stack)
        at = token.end()
    if not document.children or len(stack) > 1:
        raise MarkupError("not complete")
    if document.children[0].name != root:
        raise MarkupError("another root element than expected")
    return document.children[0]


def _take(token: re.Match[str], stack: list[Element]) -> None:
    """`stack`: the document and its open elements."""
    inside, name, text, raw = len(stack) > 1, token["name"], token["text"], token["raw"]
    if text is not None and inside:
        if "]]>" in text:
            raise MarkupError("the end of a section that was not begun")
        stack[-1].text += unescape(text)
    elif raw is not None and inside:
        stack[-1].text += raw
    elif raw is not None or (text is not None and text.strip(_SPACE)):
        raise MarkupError("text outside of the root element")
    elif token["close"]:
        if token["empty"] or token["attributes"] or not inside or stack.pop().name != name:
            raise MarkupError("tags do not match")
    elif name:
        _check_attributes(token["attributes"])
        if stack[0].children and not inside:
            raise MarkupError("a second root element")
        stack[-1].children.append(Element(name))
        if not token["empty"]:
            stack.append(stack[-1].children[-1])
        if len(stack) - 1 > DEPTH_MAX:
            raise MarkupError("too deep")


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


def _check_attributes(text: str) -> None:
    """Attributes mean nothing here, but they must be attributes."""
    pairs = _ATTRIBUTE.findall(text)
    if len({name for name, _, _ in pairs}) != len(pairs):
        raise MarkupError("an attribute is there twice")
    for _, double, single in pairs:
        unescape(double or single)
