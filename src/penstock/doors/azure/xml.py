"""XML for this door: a strict reader of small documents, and a writer.

The reader accepts elements, text, character references, comments and CDATA. It refuses document types, entity
declarations, processing instructions and illegal characters, so the work is proportional to the length of a document.
It keeps line ends as sent, where a parser that turns them into LF would change messages. The reader of an element
names the children that the element may have. Other children are refused, never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'
DEPTH_MAX = 16

# The encodings of documents. Python's own list also has codecs that are not character encodings.
ENCODINGS = {"utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "ascii": "ascii", "windows-1252": "cp1252"}
ENCODINGS |= dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "iso_8859-1", "l1"), "latin-1")
ENCODINGS |= {"iso-8859-15": "iso8859-15", "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}
_WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}  # how UTF-16 begins
_DECLARED = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([\w.-]{1,40})["']""", re.ASCII)

_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SPECIAL = re.compile("[&<>\r]")
_SPECIAL_AS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#xD;"}
# re.ASCII: \s is ASCII space. Control characters that \s matches as well were refused before.
_OPENING = re.compile(
    r"""\ufeff?(?:<\?xml\s+version\s*=\s*(?:"(?P<double>[\w.-]+)"|'(?P<single>[\w.-]+)')
        (?:\s+encoding\s*=\s*(?:"[\w.-]+"|'[\w.-]+'))?
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
_UNEXPECTED = "an element that {} cannot have"
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));|&")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class XmlError(ValueError):
    """The bytes are not a document that this door reads. The text says why, without quoting them."""

    def __init__(self, reason: str, text: str = "", at: int = 0) -> None:
        super().__init__(reason)
        self._text, self.at = text, at

    @property
    def place(self) -> tuple[int, int]:
        """Line and position of the fault, both counted from 1."""
        before = self._text[: self.at].replace("\r\n", "\n").replace("\r", "\n")
        return before.count("\n") + 1, len(before) - before.rfind("\n")


@dataclass(slots=True)
class Element:
    name: str
    text: str = ""  # the character data directly inside the element
    children: list[Element] = field(default_factory=list)
    document: str = ""  # the text of the whole document
    at: int = 0  # index in the document at which the element begins

    def fields(self, *names: str) -> dict[str, Element]:
        """Return the children by name. Raise XmlError for text, another name or a repeated child."""
        children = {child.name: child for child in self.children}
        if len(children) != len(self.children):
            raise self._error(f"a repeated element in {self.name}")
        if not children.keys() <= set(names):
            unexpected = next(child for child in self.children if child.name not in names)
            raise unexpected._error(_UNEXPECTED.format(self.name))
        self._check_no_text()
        return children

    def items(self, name: str) -> list[Element]:
        """Return the children. Raise XmlError for text or another name."""
        for child in self.children:
            if child.name != name:
                raise child._error(_UNEXPECTED.format(self.name))
        self._check_no_text()
        return self.children

    def value(self) -> str:
        """Return the text. Raise XmlError if there is a child."""
        if self.children:
            raise self.children[0]._error(f"an element in the text of {self.name}")
        return self.text

    def values(self, *names: str) -> dict[str, str]:
        """Return the texts of the children by name. Raise XmlError if there is anything else."""
        return {name: child.value() for name, child in self.fields(*names).items()}

    def _check_no_text(self) -> None:
        if self.text.strip(_SPACE):
            raise self._error(f"text between the elements of {self.name}")

    def _error(self, reason: str) -> XmlError:
        return XmlError(reason, self.document, self.at)


def escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: _SPECIAL_AS[match.group()], text) if _SPECIAL.search(text) else text


def printable(text: str) -> str:
    """Replace the characters that XML cannot hold."""
    return _ILLEGAL.sub("\ufffd", text)


def decode(body: bytes) -> str:
    """Return the text of a body. Raise XmlError if it is not UTF-8, or has characters that XML cannot hold."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise XmlError("not UTF-8") from None
    if _ILLEGAL.search(text):
        raise XmlError("a character that XML cannot hold")
    return text


def elements(fields: Iterable[tuple[str, str]]) -> str:
    """Write elements with a name and a text. The text is escaped."""
    return "".join(f"<{name}>{escape(text)}</{name}>" for name, text in fields)


def read(body: bytes, root: str) -> Element:
    """Return the root element of a document. Raise XmlError if it has another name."""
    text = _decode_document(body)
    document = Element("")
    stack, at = [document], _after_opening(text)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise XmlError("not well formed", text, at)
        try:
            _apply(token, stack)
        except XmlError as error:
            raise XmlError(str(error), text, at + error.at) from None
        at = token.end()
    if not document.children or len(stack) > 1:
        raise XmlError("incomplete", text, at)
    if document.children[0].name != root:
        raise document.children[0]._error("an unexpected root element")
    return document.children[0]


def _decode_document(body: bytes) -> str:
    """Return the text of a document, whose first bytes or declaration name the encoding.

    A document in plain ASCII may declare any encoding.
    """
    encoding = _WIDE.get(body[:2], "")
    if not encoding:
        declared = _DECLARED.match(body)
        name = declared[1].decode().lower() if declared is not None else "utf-8"
        encoding = "ascii" if body.isascii() else ENCODINGS.get(name, "")
    if not encoding:
        raise XmlError("an unknown encoding")
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding, "replace")
        raise XmlError(f"not {encoding.upper()}", before, len(before)) from None
    illegal = _ILLEGAL.search(text)
    if illegal is not None:
        raise XmlError("a character that XML cannot hold", text, illegal.start())
    return text


def _apply(token: re.Match[str], stack: list[Element]) -> None:
    """Add a token to the document. `stack` holds the document and its open elements."""
    inside, name, text, raw = len(stack) > 1, token["name"], token["text"], token["raw"]
    if text is not None and inside:
        if "]]>" in text:
            raise XmlError("]]> outside of a CDATA section", at=text.index("]]>"))
        stack[-1].text += unescape(text)
    elif raw is not None and inside:
        stack[-1].text += raw
    elif raw is not None or (text is not None and text.strip(_SPACE)):
        raise XmlError("text outside of the root element")
    elif token["close"]:
        if token["empty"] or token["attributes"] or not inside or stack.pop().name != name:
            raise XmlError("tags do not match")
    elif name:
        _check_attributes(token["attributes"])
        if stack[0].children and not inside:
            raise XmlError("a second root element")
        stack[-1].children.append(Element(name, document=token.string, at=token.start()))
        if not token["empty"]:
            stack.append(stack[-1].children[-1])
        if len(stack) - 1 > DEPTH_MAX:
            raise XmlError("nested too deeply")


def unescape(text: str) -> str:
    return _REFERENCE.sub(_expand, text) if "&" in text else text


def _after_opening(text: str) -> int:
    opening = _OPENING.match(text)
    assert opening is not None, "the pattern matches an empty text as well"
    for quoted in ("double", "single"):
        if opening[quoted] not in (None, "1.0"):
            raise XmlError("a version of XML other than 1.0", text, opening.start(quoted))
    return opening.end()


def _expand(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return _NAMED[name]
    if not decimal and not hexadecimal:
        raise XmlError("an unknown entity", at=match.start())
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if code > 0x10FFFF or _ILLEGAL.match(chr(code)):
        raise XmlError("a reference to a character that XML cannot hold", at=match.start())
    return chr(code)


def _check_attributes(text: str) -> None:
    """Check the form of attributes. Their values have no meaning here."""
    pairs = _ATTRIBUTE.findall(text)
    if len({name for name, _, _ in pairs}) != len(pairs):
        raise XmlError("a repeated attribute")
    for _, double, single in pairs:
        unescape(double or single)
