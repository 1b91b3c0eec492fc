"""Attribute filters of subscriptions, compiled once into a predicate over attributes.

    expr    := unary ("AND" unary)* | unary ("OR" unary)*      AND and OR never mix at one level without parentheses
    unary   := ("NOT" | "-") unary | primary
    primary := "(" expr ")" | "attributes" ":" KEY | "attributes" "." KEY ("=" | "!=") STRING
             | "hasPrefix" "(" "attributes" "." KEY "," STRING ")"
    KEY     := [A-Za-z0-9_-]+ | STRING

The parser makes one pass without regular expressions, and length and depth are bounded, so that the cost is at most
proportional to the length. An error names the column, from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import ascii_letters, digits, hexdigits, octdigits
from typing import NoReturn, TypeAlias

from penstock.errors import InvalidArgumentError

Attributes: TypeAlias = Mapping[str, str]
Predicate: TypeAlias = Callable[[Attributes], bool]

FILTER_BYTES_MAX = 256
FILTER_DEPTH_MAX = 32

_SPACES = " \t\r\n"
_WORD = frozenset(ascii_letters + digits + "_")
_KEY = _WORD | {"-"}
_PLAIN_ESCAPES = {'"': '"', "\\": "\\", "'": "'", "n": "\n", "t": "\t", "r": "\r"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


def compile_filter(text: str) -> Predicate:
    """Return the predicate of a filter, or raise InvalidArgumentError. The empty text matches everything."""
    if not text:
        return lambda attributes: True
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > FILTER_BYTES_MAX:
        raise InvalidArgumentError(f"Invalid filter: it has {size} bytes, at most {FILTER_BYTES_MAX} are allowed")
    parser = _Parser(text)
    predicate = parser.expression(depth=0)
    parser.expect_end()
    return predicate


class _Parser:
    """A recursive descent parser. `_at` is the index of the first character not parsed yet."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def expression(self, *, depth: int) -> Predicate:
        terms = [self._unary(depth)]
        joiner = ""
        while (word := self._peek_word()) in ("AND", "OR"):
            if joiner and word != joiner:
                self._refuse("AND and OR may not be mixed at one level without parentheses")
            joiner = word
            self._at += len(word)
            terms.append(self._unary(depth))
        return terms[0] if len(terms) == 1 else _join(terms, decisive=joiner == "OR")

    def expect_end(self) -> None:
        self._skip_spaces()
        if self._at < len(self._text):
            self._refuse("expected AND, OR or the end of the filter")

    def _unary(self, depth: int) -> Predicate:
        if depth > FILTER_DEPTH_MAX:
            self._refuse(f"nested more than {FILTER_DEPTH_MAX} deep")
        if self._accept("-") or self._accept_word("NOT"):
            term = self._unary(depth + 1)
            return lambda attributes: not term(attributes)
        return self._primary(depth)

    def _primary(self, depth: int) -> Predicate:
        if self._accept("("):
            inner = self.expression(depth=depth + 1)
            self._expect(")")
            return inner
        if self._accept_word("attributes"):
            return self._comparison()
        if self._accept_word("hasPrefix"):
            return self._prefix_test()
        self._refuse("expected attributes, hasPrefix, NOT, - or (")

    def _comparison(self) -> Predicate:
        if self._accept(":"):
            present = self._key()
            return lambda attributes: present in attributes
        if not self._accept("."):
            self._refuse("expected : or . after attributes")
        key = self._key()
        if self._accept("!="):
            other = self._string()  # an absent key differs from every value
            return lambda attributes: attributes.get(key) != other
        if self._accept("="):
            value = self._string()
            return lambda attributes: attributes.get(key) == value
        self._refuse("expected = or !=")

    def _prefix_test(self) -> Predicate:
        self._expect("(")
        if not self._accept_word("attributes"):
            self._refuse("expected attributes")
        self._expect(".")
        key = self._key()
        self._expect(",")
        prefix = self._string()
        self._expect(")")
        return lambda attributes: key in attributes and attributes[key].startswith(prefix)

    def _key(self) -> str:
        self._skip_spaces()
        if self._next() == '"':
            return self._string()
        key = self._run_of(_KEY)
        if not key:
            self._refuse("expected an attribute key (letters, digits, _ and -, anything else in double quotes)")
        self._at += len(key)
        return key

    def _string(self) -> str:
        if not self._accept('"'):
            self._refuse("expected a string in double quotes")
        opened = self._at - 1
        parts: list[str] = []
        while (character := self._next()) != '"':
            if not character:
                self._at = opened
                self._refuse("a string is not closed")
            parts.append(self._escape() if character == "\\" else character)
            self._at += 1
        self._at += 1
        return "".join(parts)

    def _escape(self) -> str:
        """Return the character of an escape, and stop on the last character of the escape."""
        kind = self._text[self._at + 1 : self._at + 2]
        if kind in _PLAIN_ESCAPES:
            self._at += 1
            return _PLAIN_ESCAPES[kind]
        if kind in _HEX_ESCAPES:
            return self._code(skip=2, length=_HEX_ESCAPES[kind], alphabet=hexdigits, base=16)
        return self._code(skip=1, length=3, alphabet=octdigits, base=8)

    def _code(self, *, skip: int, length: int, alphabet: str, base: int) -> str:
        first = self._at + skip
        number = self._text[first : first + length]
        if len(number) < length or any(digit not in alphabet for digit in number):
            self._refuse("unknown escape in a string")
        code = int(number, base)
        # Half of a surrogate pair is not a character, so no attribute can hold it.
        if code > 0x10FFFF or 0xD800 <= code < 0xE000 or (base == 8 and code > 0xFF):
            self._refuse("an escape in a string is not a character")
        self._at = first + length - 1
        return chr(code)

    def _accept(self, symbol: str) -> bool:
        self._skip_spaces()
        if not self._text.startswith(symbol, self._at):
            return False
        self._at += len(symbol)
        return True

    def _accept_word(self, word: str) -> bool:
        if self._peek_word() != word:
            return False
        self._at += len(word)
        return True

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            self._refuse(f"expected {symbol}")

    def _peek_word(self) -> str:
        self._skip_spaces()
        return self._run_of(_WORD)

    def _run_of(self, alphabet: frozenset[str]) -> str:
        end = self._at
        while end < len(self._text) and self._text[end] in alphabet:
            end += 1
        return self._text[self._at : end]

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACES:
            self._at += 1

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidArgumentError(f"Invalid filter: {what}, at column {self._at + 1}")


def _join(terms: list[Predicate], decisive: bool) -> Predicate:
    """Join terms by OR (the first true term decides) or by AND (the first false term)."""

    def matches(attributes: Attributes) -> bool:
        for term in terms:  # a plain loop: half the cost of all() over a generator, and this runs per message
            if term(attributes) is decisive:
                return decisive
        return not decisive

    return matches
