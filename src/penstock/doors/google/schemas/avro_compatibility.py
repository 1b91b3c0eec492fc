"""The compatibility of revisions of an Avro schema: whether data written with one can be read with the other.

The rules are those of "Schema Resolution" in Avro's specification. Names of types are compared without their namespace.
"""

from __future__ import annotations

from typing import Any

from penstock.doors.google.schemas.avro_binary import DEPTH_MAX

PAIRS_MAX = 20_000  # pairs of types in one comparison, which bounds its time to about 0.1 s
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTIONS = {  # type of the reader -> types of the writer that it can take as well
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


class IncompatibleError(ValueError):
    """Data of one revision cannot be read with the other."""


class TooManyPairsError(ValueError):
    """A comparison that would take too long."""


class Resolution:
    """One comparison of a reader's schema with a writer's."""

    def __init__(self, reader_types: dict[str, Any], writer_types: dict[str, Any]) -> None:
        """Each dictionary has the named types of a schema, by full name."""
        self._reader_types = reader_types
        self._writer_types = writer_types
        # Pairs that fit, or whose comparison is under way, in the order in which their comparisons began.
        self._compared: dict[tuple[int, int], None] = {}
        self._branches: dict[int, dict[Any, list[Any]]] = {}  # of the reader's unions, by kind and name
        self._pair_count = 0

    def check(self, reader: Any, writer: Any, path: str = "", depth: int = 0) -> None:
        """Raise IncompatibleError if the reader cannot read all that the writer may write."""
        reader, writer = _plain(reader, self._reader_types), _plain(writer, self._writer_types)
        pair = (id(reader), id(writer))
        if depth > DEPTH_MAX or pair in self._compared:  # no message has more levels
            return
        self._pair_count += 1
        if self._pair_count > PAIRS_MAX:
            raise TooManyPairsError(f"the comparison needs more than {PAIRS_MAX:,} pairs of types")
        self._compared[pair] = None
        try:
            self._compare(reader, writer, path, depth)
        except IncompatibleError:
            while self._compared.popitem()[0] != pair:
                pass  # a later pair may fit only if this one does
            raise

    def _compare(self, reader: Any, writer: Any, path: str, depth: int) -> None:
        if isinstance(writer, list):
            for branch in writer:
                self.check(reader, branch, path, depth + 1)
        elif isinstance(reader, list):
            if not any(self._fits(branch, writer, path, depth + 1) for branch in self._candidates(reader, writer)):
                raise _mismatch(path, reader, writer)
        elif isinstance(reader, str) or isinstance(writer, str):
            if reader != writer and writer not in _PROMOTIONS.get(str(reader), ()):
                raise _mismatch(path, reader, writer)
        elif reader["type"] != writer["type"]:
            raise _mismatch(path, reader, writer)
        else:
            self._compare_complex(reader, writer, path, depth)

    def _candidates(self, union: list[Any], writer: Any) -> list[Any]:
        """Return the branches of a reader's union that have the kind and name of a writer's type."""
        branches = self._branches.get(id(union))
        if branches is None:
            branches = self._branches[id(union)] = {}
            for branch in union:
                plain = _plain(branch, self._reader_types)
                for key in _reader_keys(plain):
                    branches.setdefault(key, []).append(plain)
        return [branch for key in _writer_keys(writer) for branch in branches.get(key, ())]

    def _fits(self, reader: Any, writer: Any, path: str, depth: int) -> bool:
        try:
            self.check(reader, writer, path, depth)
        except IncompatibleError:
            return False
        return True

    def _compare_complex(self, reader: Any, writer: Any, path: str, depth: int) -> None:
        kind = reader["type"]
        if kind == "array":
            return self.check(reader["items"], writer["items"], f"{path}[]", depth + 1)
        if kind == "map":
            return self.check(reader["values"], writer["values"], f"{path}{{}}", depth + 1)
        if _short_name(reader["name"]) != _short_name(writer["name"]) and writer["name"] not in _aliases(reader):
            raise _mismatch(path, reader, writer)
        if kind == "fixed" and reader["size"] != writer["size"]:
            raise IncompatibleError(
                f"{_location(path)} has {writer['size']} bytes in one and {reader['size']} in the other"
            )
        if kind == "enum" and "default" not in reader:
            missing = [symbol for symbol in writer["symbols"] if symbol not in set(reader["symbols"])]
            if missing:
                raise IncompatibleError(f"{_location(path)} lacks the symbol {missing[0]} in one of them")
        if kind in ("record", "error"):
            self._compare_records(reader, writer, path, depth)

    def _compare_records(self, reader: Any, writer: Any, path: str, depth: int) -> None:
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            at = f"{path}.{field['name']}" if path else field["name"]
            names = [field["name"], *field.get("aliases", ())]
            source = next((written[name] for name in names if name in written), None)
            if source is not None:
                self.check(field["type"], source["type"], at, depth + 1)
            elif "default" not in field:
                raise IncompatibleError(f"field {at} is in one of them only and has no default")


def check_both(new: tuple[Any, dict[str, Any]], earlier: tuple[Any, dict[str, Any]]) -> None:
    """Raise IncompatibleError unless each schema, given with its named types, can read what the other writes."""
    Resolution(new[1], earlier[1]).check(new[0], earlier[0])
    Resolution(earlier[1], new[1]).check(earlier[0], new[0])


def _plain(schema: Any, named: dict[str, Any]) -> Any:
    """Follow references and wrappers to a primitive's name, a union or the definition of a type."""
    while True:
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return schema
            schema = named[schema]
        elif isinstance(schema, dict) and (not isinstance(schema["type"], str) or schema["type"] in _PRIMITIVES):
            schema = schema["type"]
        else:
            return schema


def _reader_keys(schema: Any) -> list[Any]:
    if isinstance(schema, str):
        return [schema, *_PROMOTIONS.get(schema, ())]
    if "name" not in schema:
        return [schema["type"]]
    return [(schema["type"], _short_name(schema["name"])), *((schema["type"], alias) for alias in _aliases(schema))]


def _writer_keys(schema: Any) -> list[Any]:
    if isinstance(schema, str):
        return [schema]
    if "name" not in schema:
        return [schema["type"]]
    return list(dict.fromkeys((schema["type"], name) for name in (_short_name(schema["name"]), schema["name"])))


def _short_name(name: str) -> str:
    return name.rpartition(".")[2]


def _aliases(schema: dict[str, Any]) -> list[str]:
    namespace = schema["name"].rpartition(".")[0]
    return [alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in schema.get("aliases", ())]


def _mismatch(path: str, reader: Any, writer: Any) -> IncompatibleError:
    return IncompatibleError(
        f"{_location(path)} of type {_type_name(reader)} is not compatible with type {_type_name(writer)}"
    )


def _location(path: str) -> str:
    return f"field {path}" if path else "the schema"


def _type_name(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))
