"""Protocol buffer schemas: the text of a .proto file read into a descriptor, and messages held against it.

    file    := (syntax | package | import | option | message | enum | extend | ";")*
    message := "message" NAME "{" (field | map | oneof | group of options | nested message or enum | reserved)* "}"

A descent over tokens with a cap on length and depth. Options are passed over; imports may only name the well-known
types; what is not understood is refused with the line it stands on.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.message import DecodeError

from penstock.doors.google.messages import WELL_KNOWN, well_known_pool

DEPTH_MAX = 32
TOKENS_MAX = 25_000  # about 5,000 fields; the text is parsed in the event loop
COMPILED_BYTES_MAX = 300 << 10  # as many as a definition in text may have
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


class ProtoSchema:
    """The one top-level message of a definition, or the root of a compiled one."""

    def __init__(self, definition: str, compiled: bytes = b"", root: str = "") -> None:
        try:
            self._kind = _compiled_class(compiled, root) if compiled else _message_class(Parser(definition).file())
        except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
            raise ValueError(f"Protocol buffer schema definition is not valid: {str(error)[:200]}") from None

    def check_json(self, data: bytes) -> None:
        message = json_format.Parse(data.decode(), self._kind(), descriptor_pool=self._kind.DESCRIPTOR.file.pool)
        self._check_whole(message)

    def check_binary(self, data: bytes) -> None:
        self._check_whole(self._kind.FromString(data))

    def json_of(self, data: bytes) -> str:
        message, pool = self._kind.FromString(data), self._kind.DESCRIPTOR.file.pool
        self._check_whole(message)
        return str(
            json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True, descriptor_pool=pool)
        )

    def _check_whole(self, message: Any) -> None:
        if not message.IsInitialized():
            raise ValueError("a required field is missing")


def _message_class(file: Any) -> Any:
    if len(file.message_type) != 1:
        raise ValueError("there must be exactly one top-level message")
    pool = well_known_pool()
    pool.Add(file)
    name = file.message_type[0].name
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{file.package}.{name}" if file.package else name)
    )


def _compiled_class(compiled: bytes, root: str) -> Any:
    """The root message of a serialised FileDescriptorSet."""
    if len(compiled) > COMPILED_BYTES_MAX:
        raise ValueError(f"the compiled schema has {len(compiled):,} bytes, at most {COMPILED_BYTES_MAX:,} are allowed")
    pool = well_known_pool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        if not file.name.startswith("google/protobuf/"):
            pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(root))


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
        """Up to the semicolon that ends this statement, over whatever is in brackets."""
        depth = 0
        while (mark := self._next()) != ";" or depth:
            depth += (mark in "{[(") - (mark in "}])")

    def _end_with_options(self) -> None:
        """The semicolon of a field or value, after options in brackets if there are any."""
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
        for field in message.field:  # each optional one is a oneof of its own, behind the written ones
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _member(self, message: Any, depth: int) -> None:
        word = self._next()
        if word == "message" and self._peek().isidentifier():
            self._message(message.nested_type.add(), depth + 1)
        elif word == "enum" and self._peek().isidentifier():
            self._enum(message.enum_type.add())
        elif word in ("option", "reserved", "extensions"):
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
        place = len(message.nested_type)
        entry = message.nested_type.add()
        field = self._field(message, _FIELD.LABEL_REPEATED, "Entry")
        entry.name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry.options.map_entry = True
        field.type_name = message.nested_type[place].name
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


def _tokens(text: str) -> list[tuple[str, int]]:
    """Words, numbers, strings and marks, each with its line."""
    tokens, at, line = [], 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {line}: unexpected {text[at]!r}")
        if found.lastgroup:
            tokens.append((found.group(), line))
            if len(tokens) > TOKENS_MAX:
                raise ValueError(f"line {line}: there are more than {TOKENS_MAX:,} words and marks")
        line += found.group().count("\n")
        at = found.end()
    return tokens
