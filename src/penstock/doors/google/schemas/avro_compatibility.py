"""The compatibility of revisions of an Avro schema: whether data written with one can be read with the other.

The rules are those of "Schema Resolution" in Avro's specification. Names of types are compared without their namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PAIRS_MAX = 50_000  # pairs of types in one comparison, repeated ones too: the largest definition of nullable fields
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_PROMOTIONS = {  # type of the reader -> types of the writer that it can take as well
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}


class IncompatibleError(ValueError):
    """Data of one revision cannot be read with the other."""


class TooManyPairsError(ValueError):
    """A comparison that would take too long."""


class _Pair:
    """A type of the reader and a type of the writer, with the place where the comparison first met them."""

    def __init__(self, reader: Any, writer: Any, path: str) -> None:
        self.reader = reader
        self.writer = writer
        self.path = path
        # One branch of the reader's union that fits is enough. A pair of any other kind needs all its parts.
        self.is_choice = isinstance(reader, list) and not isinstance(writer, list)
        self.above: list[_Pair] = []  # pairs of which this pair is a part
        self.failures_left = 1  # until this pair does not fit
        self.problem: IncompatibleError | None = None

    def mismatch(self) -> IncompatibleError:
        reader, writer = _type_name(self.reader), _type_name(self.writer)
        return IncompatibleError(f"{_location(self.path)} of type {reader} is not compatible with type {writer}")

    def count_failure(self, problem: IncompatibleError) -> None:
        """Note that this pair, or one of its parts, does not fit. Pass this on to the pairs above."""
        failures = [(self, problem)]
        while failures:
            pair, problem = failures.pop()
            pair.failures_left -= 1
            if pair.failures_left <= 0 and pair.problem is None:
                pair.problem = pair.mismatch() if pair.is_choice else problem
                failures += ((above, pair.problem) for above in pair.above)


class Resolution:
    """One comparison of a reader's schema with a writer's.

    A pair of types fits unless it is found not to, so types that contain themselves end. A deep schema needs no stack.
    """

    def __init__(self, reader_types: dict[str, Any], writer_types: dict[str, Any]) -> None:
        """Each dictionary has the named types of a schema, by full name."""
        self._reader_types = reader_types
        self._writer_types = writer_types
        self._pairs: dict[tuple[int, int], _Pair] = {}  # by the identity of both types. Primitives have none
        self._branches: dict[int, dict[Any, list[Any]]] = {}  # of the reader's unions, by kind and name
        self._symbols: dict[int, frozenset[str]] = {}  # of the reader's enums
        self._pair_count = 0

    def check(self, reader: Any, writer: Any) -> None:
        """Raise IncompatibleError if the reader cannot read all that the writer may write."""
        root, _ = self._pair(reader, writer, "")
        pending = [root]
        while pending and root.problem is None:
            pair = pending.pop()
            try:
                pending += self._add_parts(pair)
            except IncompatibleError as problem:
                pair.count_failure(problem)
        if root.problem is not None:
            raise root.problem

    def _pair(self, reader: Any, writer: Any, path: str) -> tuple[_Pair, bool]:
        """Return the pair of two types, and whether it is new."""
        self._pair_count += 1
        if self._pair_count > PAIRS_MAX:
            raise TooManyPairsError(f"the comparison needs more than {PAIRS_MAX:,} pairs of types")
        reader, writer = _plain(reader, self._reader_types), _plain(writer, self._writer_types)
        if isinstance(reader, str) or isinstance(writer, str):
            return _Pair(reader, writer, path), True
        pair = self._pairs.get((id(reader), id(writer)))
        if pair is not None:
            return pair, False
        pair = self._pairs[id(reader), id(writer)] = _Pair(reader, writer, path)
        return pair, True

    def _add_parts(self, pair: _Pair) -> list[_Pair]:
        """Compare two types apart from their parts. Return the parts that are still to compare, the last one first."""
        parts = [self._pair(*part) for part in list(self._parts(pair))]  # none is added if the pair itself does not fit
        if pair.is_choice:
            if not parts:
                raise pair.mismatch()
            pair.failures_left = len(parts)
        for part, _ in parts:
            part.above.append(pair)
            if part.problem is not None:
                pair.count_failure(part.problem)
        return [part for part, is_new in reversed(parts) if is_new]

    def _parts(self, pair: _Pair) -> Iterator[tuple[Any, Any, str]]:
        """Yield the reader, the writer and the path of each part. Raise IncompatibleError if the pair does not fit."""
        reader, writer, path = pair.reader, pair.writer, pair.path
        if isinstance(writer, list):
            yield from ((reader, branch, path) for branch in writer)
        elif isinstance(reader, list):
            yield from ((branch, writer, path) for branch in self._candidates(reader, writer))
        elif isinstance(reader, str) or isinstance(writer, str):
            if reader != writer and (not isinstance(reader, str) or writer not in _PROMOTIONS.get(reader, ())):
                raise pair.mismatch()
        elif reader["type"] != writer["type"]:
            raise pair.mismatch()
        elif reader["type"] == "array":
            yield reader["items"], writer["items"], f"{path}[]"
        elif reader["type"] == "map":
            yield reader["values"], writer["values"], f"{path}{{}}"
        elif _short_name(reader["name"]) != _short_name(writer["name"]) and writer["name"] not in _aliases(reader):
            raise pair.mismatch()
        elif reader["type"] == "fixed":
            _check_sizes(reader, writer, path)
        elif reader["type"] == "enum":
            self._check_symbols(reader, writer, path)
        else:
            yield from _record_parts(reader, writer, path)

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

    def _check_symbols(self, reader: Any, writer: Any, path: str) -> None:
        if "default" in reader:
            return
        known = self._symbols.get(id(reader))
        if known is None:
            known = self._symbols[id(reader)] = frozenset(reader["symbols"])
        missing = next((symbol for symbol in writer["symbols"] if symbol not in known), None)
        if missing is not None:
            raise IncompatibleError(f"{_location(path)} lacks the symbol {missing} in one of them")


def _check_sizes(reader: Any, writer: Any, path: str) -> None:
    if reader["size"] != writer["size"]:
        raise IncompatibleError(
            f"{_location(path)} has {writer['size']} bytes in one and {reader['size']} in the other"
        )


def _record_parts(reader: Any, writer: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    written = {field["name"]: field for field in writer["fields"]}
    for field in reader["fields"]:
        at = f"{path}.{field['name']}" if path else field["name"]
        names = [field["name"], *field.get("aliases", ())]
        source = next((written[name] for name in names if name in written), None)
        if source is not None:
            yield field["type"], source["type"], at
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
    return [alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in schema.get("aliases") or ()]


def _location(path: str) -> str:
    return f"field {path}" if path else "the schema"


def _type_name(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))
