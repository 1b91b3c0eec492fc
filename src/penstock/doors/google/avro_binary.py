"""Avro's binary encoding, walked without building values: a bounded check before the C reader sees the bytes."""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 100  # nested records, arrays and maps, as in protocol buffers
VALUES_MAX = 500_000  # in one message; an array of floating point numbers counts as one
VARINT_BYTES_MAX = 10

_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class TooLargeError(ValueError):
    """A message that is nested too deeply or has too many values."""


def too_deep() -> TooLargeError:
    return TooLargeError(f"The message is nested deeper than {DEPTH_MAX} levels.")


class Walk:
    """One walk over the bytes of one message."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        """`named`: the named types of the schema, by full name."""
        self._data = data
        self._named = named
        self._at = 0
        self._values = 0

    def check(self, schema: Any) -> None:
        """Raise TooLargeError beyond a limit, another ValueError if the bytes do not fit the schema."""
        self._value(schema, 0)
        if self._at != len(self._data):
            raise ValueError("bytes left over")

    def _value(self, schema: Any, depth: int) -> None:
        while isinstance(schema, list):
            index = self._long()
            if not 0 <= index < len(schema):
                raise ValueError("a choice that the union does not have")
            schema = schema[index]
        kind = schema["type"] if isinstance(schema, dict) else schema
        width = _WIDTHS.get(kind) if isinstance(kind, str) else None
        if width is not None:
            self._skip(width)
        elif kind in ("int", "long"):
            self._long()
        elif kind in ("string", "bytes"):
            begin = self._skip(self._long())
            if kind == "string":
                self._data[begin : self._at].decode()
        elif depth >= DEPTH_MAX:
            raise too_deep()
        elif isinstance(schema, dict):
            self._complex(schema, kind, depth)
        else:
            self._value(self._named[schema], depth)

    def _complex(self, schema: dict[str, Any], kind: Any, depth: int) -> None:
        if kind in ("record", "error"):
            self._charge(len(schema["fields"]))
            for field in schema["fields"]:
                self._value(field["type"], depth + 1)
        elif kind == "array":
            self._blocks(schema["items"], depth + 1, keys=False)
        elif kind == "map":
            self._blocks(schema["values"], depth + 1, keys=True)
        elif kind == "fixed":
            self._skip(schema["size"])
        elif kind == "enum":
            if not 0 <= self._long() < len(schema["symbols"]):
                raise ValueError("a symbol that the enum does not have")
        else:  # a type in a wrapper
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
        if self._values > VALUES_MAX:
            raise TooLargeError(f"The message has more than {VALUES_MAX:,} values.")

    def _skip(self, size: int) -> int:
        """Pass over bytes. Return where they begin."""
        begin = self._at
        if not 0 <= size <= len(self._data) - begin:
            raise ValueError("the bytes end too early")
        self._at = begin + size
        return begin

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
