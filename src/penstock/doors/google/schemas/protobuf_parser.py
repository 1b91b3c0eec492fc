"""A parser for the text of a .proto file. The result is a descriptor.

    file    := (syntax | package | import | option | message | enum | ";")*
    message := "message" NAME "{" (field | map | oneof | nested message or enum | option | reserved)* "}"

The parser descends over tokens, with limits for their number and for the depth. It passes over options. Only the
well-known types can be imported. Anything else is refused with the number of its line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import Any, NoReturn

from google.protobuf import descriptor_pb2

from penstock.doors.google.messages import WELL_KNOWN

DEPTH_MAX = 32
TOKENS_MAX = 25_000  # about 5,000 fields; the text is parsed in the event loop
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<word>\.?[A-Za-z_][\w.]*)|(?P<number>[-+]?[0-9][\w.]*)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}\[\]()<>=;,:/-])""",
    re.DOTALL,
)
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
_LABELS = {"optional": _FIELD.LABEL_OPTIONAL, "required": _FIELD.LABEL_REQUIRED, "repeated": _FIELD.LABEL_REPEATED}
_NUMBER_MAX = (1 << 29) - 1
_NUMBERS_OF_THE_LANGUAGE = range(19_000, 20_000)


class Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._proto3 = False

    # ------------------------------------------------------------------ tokens

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise ValueError("the text ends too early")
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        token = self._next()
        if token != wanted:
            self._refuse(token, f"expected {wanted!r}")

    def _accept(self, wanted: str) -> bool:
        if self._peek() == wanted:
            self._at += 1
            return True
        return False

    def _refuse(self, token: str, why: str) -> NoReturn:
        line = self._tokens[max(self._at - 1, 0)][1] if self._tokens else 1
        raise ValueError(f"line {line}: {why}, found {token[:40]!r}")

    def _name(self) -> str:
        token = self._next()
        if not token.isidentifier():
            self._refuse(token, "expected a name")
        return token

    def _number(self) -> int:
        token = self._next()
        try:
            return int(token, 0)
        except ValueError:
            self._refuse(token, "expected a number")

    def _skip_statement(self) -> None:
        """Skip to the semicolon that ends this statement, over anything in brackets."""
        depth = 0
        while (mark := self._next()) != ";" or depth:
            depth += (mark in "{[(") - (mark in "}])")

    def _end_with_options(self) -> None:
        """Skip the options of a field or value, if any, and its semicolon."""
        depth = int(self._accept("["))
        while depth:
            mark = self._next()
            depth += (mark in "{[(") - (mark in "}])")
        self._expect(";")

    # ------------------------------------------------------------------ the file

    def file(self) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name="schema.proto", syntax="proto2")
        while self._peek():
            self._statement(file)
        return file

    def _statement(self, file: Any) -> None:
        word = self._next()
        if word == "syntax":
            self._syntax(file)
        elif word == "package":
            file.package = self._next()
            self._expect(";")
        elif word == "import":
            self._import(file)
        elif word == "option":
            self._skip_statement()
        elif word == "message":
            self._message(file.message_type.add(), 0)
        elif word == "enum":
            self._enum(file.enum_type.add())
        elif word != ";":
            self._refuse(word, "expected a message")

    def _syntax(self, file: Any) -> None:
        self._expect("=")
        syntax = self._next().strip("\"'")
        if syntax not in ("proto2", "proto3"):
            self._refuse(syntax, "expected proto2 or proto3")
        file.syntax = syntax
        self._proto3 = syntax == "proto3"
        self._expect(";")

    def _import(self, file: Any) -> None:
        name = self._next()
        if name in ("public", "weak"):
            name = self._next()
        name = name.strip("\"'")
        if name not in {module.DESCRIPTOR.name for module in WELL_KNOWN}:
            self._refuse(name, "only the well-known types can be imported")
        file.dependency.append(name)
        self._expect(";")

    # ------------------------------------------------------------------ messages

    def _message(self, message: Any, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ValueError("messages are nested too deeply")
        message.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            self._member(message, depth)
        for field in message.field:  # an optional field is a oneof of its own, after the declared oneofs
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
        _check_reserved(message)

    def _member(self, message: Any, depth: int) -> None:
        word = self._next()
        if word == "message" and self._peek().isidentifier():
            self._message(message.nested_type.add(), depth + 1)
        elif word == "enum" and self._peek().isidentifier():
            self._enum(message.enum_type.add())
        elif word == "reserved":
            self._parse_reserved(message)
        elif word in ("option", "extensions"):
            self._skip_statement()
        elif word == "oneof":
            self._oneof(message)
        elif word == "map" and self._peek() == "<":
            self._map(message)
        elif word in _LABELS:
            self._field(message, _LABELS[word], self._next(), explicit=True)
        elif word != ";":
            if not self._proto3:
                self._refuse(word, "a proto2 field needs a label")
            self._field(message, _FIELD.LABEL_OPTIONAL, word)

    def _parse_reserved(self, message: Any) -> None:
        while True:
            if self._peek()[:1] in ("'", '"'):
                message.reserved_name.append(self._next()[1:-1])
            else:
                first = last = self._number()
                if self._accept("to"):
                    last = _NUMBER_MAX if self._accept("max") else self._number()
                message.reserved_range.add(start=first, end=last + 1)
            if not self._accept(","):
                break
        self._expect(";")

    def _field(self, message: Any, label: int, kind: str, *, oneof: int = -1, explicit: bool = False) -> Any:
        field = message.field.add(label=label)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        elif kind == "group" or not kind.lstrip(".").replace(".", "_").isidentifier():
            self._refuse(kind, "expected a type")
        else:
            field.type_name = kind
        field.name = self._name()
        self._expect("=")
        field.number = self._number()
        if not 1 <= field.number <= _NUMBER_MAX:
            self._refuse(str(field.number), "expected a field number")
        self._end_with_options()
        if oneof >= 0:
            field.oneof_index = oneof
        elif self._proto3 and explicit and label == _FIELD.LABEL_OPTIONAL:
            field.proto3_optional = True
        return field

    def _oneof(self, message: Any) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while not self._accept("}"):
            word = self._next()
            if word == "option":
                self._skip_statement()
            else:
                self._field(message, _FIELD.LABEL_OPTIONAL, word, oneof=index)

    def _map(self, message: Any) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        if key not in _SCALARS or key in ("float", "double", "bytes"):
            self._refuse(key, "expected the type of a key")
        index = len(message.nested_type)
        entry = message.nested_type.add()
        field = self._field(message, _FIELD.LABEL_REPEATED, "Entry")
        entry.name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry.options.map_entry = True
        field.type_name = message.nested_type[index].name
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            inner = entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
            if kind in _SCALARS:
                inner.type = _SCALARS[kind]
            else:
                inner.type_name = kind

    def _enum(self, enum: Any) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            word = self._next()
            if word in ("option", "reserved"):
                if word == "option":
                    enum.options.allow_alias |= self._peek() == "allow_alias"
                self._skip_statement()
            elif word != ";":
                self._expect("=")
                enum.value.add(name=word, number=self._number())
                self._end_with_options()


def _check_reserved(message: Any) -> None:
    """Raise ValueError if a field has a reserved name or number, of the message or of the language."""
    names = set(message.reserved_name)
    ranges = sorted((reserved.start, reserved.end) for reserved in message.reserved_range)
    starts = [start for start, _ in ranges]
    if any(end > start for (_, end), (start, _) in pairwise(ranges)):
        raise ValueError(f"the reserved numbers of {message.name} overlap")
    for field in message.field:
        index = bisect_right(starts, field.number) - 1
        is_reserved = field.number in _NUMBERS_OF_THE_LANGUAGE or (index >= 0 and field.number < ranges[index][1])
        if is_reserved or field.name in names:
            raise ValueError(f"the name or the number of field {field.name} = {field.number} is reserved")


def _tokens(text: str) -> list[tuple[str, int]]:
    """Split text into words, numbers, strings and marks, each with its line number."""
    tokens, at, line = [], 0, 1
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"line {line}: unexpected {text[at]!r}")
        if token.lastgroup:
            tokens.append((token.group(), line))
            if len(tokens) > TOKENS_MAX:
                raise ValueError(f"line {line}: there are more than {TOKENS_MAX:,} words and marks")
        line += token.group().count("\n")
        at = token.end()
    return tokens
