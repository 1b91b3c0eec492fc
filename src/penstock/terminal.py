"""Safe output of text from users and other machines: names, labels, attributes, keys, bodies, error texts.

A terminal acts on control characters, and characters of no width or another direction make text look like other text.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TextIO

# Control, format (bidirectional marks, zero-width characters, tags), half surrogate pairs, line and paragraph ends.
UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LINE_BREAKING = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_LINE_BREAKING |= {ord(character): escape for character, escape in _SHORT.items()}
_LINE_BREAKING |= {0x2028: "\\u2028", 0x2029: "\\u2029"}
_NOT_ASCII = re.compile(r"[^ -~]")


def escape_controls(text: str) -> str:
    """Return the text as one line without control characters, and otherwise exact: a field of a line in a pipe."""
    return text if text.isprintable() else text.translate(_LINE_BREAKING)


def safe_text(text: str, keep: str = "") -> str:
    """Return the text with every character escaped that a terminal must not be sent, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(character if _is_safe(character, keep) else _escape(character) for character in text)


def safe_json(text: str) -> str:
    """Return lines of JSON with the same characters escaped as JSON does it, so that the value stays the same."""
    if text.isprintable():
        return text
    return _NOT_ASCII.sub(lambda match: match[0] if _is_safe(match[0], "\n") else _json_escape(match[0]), text)


def tell(text: str, *, file: TextIO | None = None, end: str = "\n", keep: str = "") -> None:
    """Print text that may hold names and other data: safe on a terminal, one exact line elsewhere."""
    stream = file or sys.stdout
    safe = safe_text(text, keep) if stream.isatty() or keep else escape_controls(text)
    print(safe, file=stream, end=end, flush=True)


def _is_safe(character: str, keep: str) -> bool:
    return character.isprintable() or character in keep or unicodedata.category(character) not in UNSAFE_CATEGORIES


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def write_body(body: bytes, end: bytes) -> None:
    """Write the body of a message to standard output: exact bytes, or on a terminal safe text."""
    if sys.stdout.isatty():
        body = safe_text(body.decode("utf-8", "backslashreplace"), "\n\t").encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(body + end)
    sys.stdout.buffer.flush()
