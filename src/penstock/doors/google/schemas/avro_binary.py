"""Avro's binary encoding, walked without building values: a bounded check before the C reader sees the bytes."""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 100  # nested records, arrays and maps, as in protocol buffers
VALUES_MAX = 500_000  # in one message; an array of floating point numbers counts as one
VALUES_FREE, VALUES_PER_BYTE = 200, 8  # a smaller message has fewer: values such as null take no bytes
NAMES_FREE, NAMES_PER_BYTE = 64 << 10, 16  # characters of names in the JSON of a message, by its size
FULL_NAME_CHARACTERS_MAX = 512  # of a type in a definition: the libraries repeat it for every field and reference
VARINT_BYTES_MAX = 10
DECIMAL_BYTES_MAX = 256  # of a number that is shown: the time to write its digits grows with the square of its size

_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class TooLargeError(ValueError):
    """A message that is nested too deeply or has too many values."""


def too_deep() -> TooLargeError:
    return TooLargeError(f"The message is nested deeper than {DEPTH_MAX} levels.")


def check_full_name(name: str) -> None:
    """Raise ValueError if the name of a type, with its namespace or package, is too long."""
    if len(name) > FULL_NAME_CHARACTERS_MAX:
        raise ValueError(f"a name is longer than {FULL_NAME_CHARACTERS_MAX} characters: {name[:50]}...")


def values_max(size: int) -> int:
    """Return how many values a message of `size` bytes may have."""
    return min(VALUES_MAX, VALUES_FREE + VALUES_PER_BYTE * size)


def check_names(characters: int, size: int) -> None:
    """Raise TooLargeError if the JSON of a message of `size` bytes would be mostly names that are not in its bytes."""
    if characters > NAMES_FREE + NAMES_PER_BYTE * size:
        raise TooLargeError("Decoded, this message is too large to be shown.")


class Walk:
    """One walk over the bytes of one message."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        """`named`: the named types of the schema, by full name."""
        self._data = data
        self._named = named
        self._at = 0
        self._values = 0
        self._values_max = values_max(len(data))
        self._name_lengths: dict[int, int] = {}  # by the identity of a record's schema
        self.has_long_decimal = False
        self.name_characters = 0  # of fields and symbols that the message has as JSON and not in its bytes

    def check(self, schema: Any) -> None:
        """Raise TooLargeError beyond a limit, another ValueError if the bytes do not fit the schema."""
        self._value(schema, 0)
        if self._at != len(self._data):
            raise ValueError("bytes left over")

    def _value(self, schema: Any, depth: int) -> None:
        while isinstance(schema, list):
            index = self._long()
            if not 0 <= index < len(schema):
                raise ValueError("the union has no such branch")
            schema = schema[index]
        kind = schema["type"] if isinstance(schema, dict) else schema
        width = _WIDTHS.get(kind) if isinstance(kind, str) else None
        if width is not None:
            self._skip(width)
        elif kind in ("int", "long"):
            self._long()
        elif kind in ("string", "bytes"):
            start = self._skip(self._long())
            if kind == "string":
                self._data[start : self._at].decode()
            elif self._at - start > DECIMAL_BYTES_MAX:
                self._note_decimal(schema)
        elif depth >= DEPTH_MAX:
            raise too_deep()
        elif isinstance(schema, dict):
            self._complex(schema, kind, depth)
        else:
            self._value(self._named[schema], depth)

    def _complex(self, schema: dict[str, Any], kind: Any, depth: int) -> None:
        if kind in ("record", "error"):
            self._charge(len(schema["fields"]))
            self.name_characters += self._name_length(schema)
            for field in schema["fields"]:
                self._value(field["type"], depth + 1)
        elif kind == "array":
            self._blocks(schema["items"], depth + 1, keys=False)
        elif kind == "map":
            self._blocks(schema["values"], depth + 1, keys=True)
        elif kind == "fixed":
            self._skip(schema["size"])
            if schema["size"] > DECIMAL_BYTES_MAX:
                self._note_decimal(schema)
        elif kind == "enum":
            index = self._long()
            if not 0 <= index < len(schema["symbols"]):
                raise ValueError("the enum has no such symbol")
            self.name_characters += len(schema["symbols"][index])
        else:  # a type wrapped in an object
            self._value(kind, depth + 1)

    def _blocks(self, items: Any, depth: int, *, keys: bool) -> None:
        width = _WIDTHS.get(items) if isinstance(items, str) and not keys else None
        while count := self._long():
            if count < 0:  # then the size of the block in bytes follows
                count = -count
                self._long()
            if width:
                self._charge(1)
                self._skip(width * count)
                continue
            self._charge(count)
            for _ in range(count):
                if keys:
                    self._value("string", depth)
                self._value(items, depth)

    def _charge(self, values: int) -> None:
        self._values += values
        if self._values > self._values_max:
            raise TooLargeError(f"The message has more than {self._values_max:,} values.")

    def _note_decimal(self, schema: Any) -> None:
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            self.has_long_decimal = True

    def _name_length(self, record: dict[str, Any]) -> int:
        length = self._name_lengths.get(id(record))
        if length is None:
            length = self._name_lengths[id(record)] = sum(len(field["name"]) for field in record["fields"])
        return length

    def _skip(self, size: int) -> int:
        """Skip bytes. Return the index of the first."""
        start = self._at
        if not 0 <= size <= len(self._data) - start:
            raise ValueError("the bytes end too early")
        self._at = start + size
        return start

    def _long(self) -> int:
        value, shift, at = 0, 0, self._at
        for byte in self._data[at : at + VARINT_BYTES_MAX]:
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._at = at
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ValueError("a number that does not end")
