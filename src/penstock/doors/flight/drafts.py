"""Record batches in, drafts out: what a client uploads, checked and turned into what the broker publishes.

The rule kept here: work is done by column, and Python sees each value once. What the broker would refuse is refused
here, in its own words, before anything is sent on: the broker takes our sizes on trust.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import sub
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.broker.limits import Limits, check_draft
from penstock.broker.model import NO_ATTRIBUTES, Draft
from penstock.doors.flight.letters import Row, Rows
from penstock.doors.flight.repeated_maps import numbers, repeated_maps
from penstock.errors import InvalidArgumentError

PIECE_ROWS = 10_000
PIECE_BYTES = 4 << 20
BATCH_ROWS_MAX = 250_000
BATCH_BYTES_MAX = 64 << 20

_STRINGS = (pa.string(), pa.large_string())
_BINARIES = (pa.binary(), pa.large_binary())


def check_schema(schema: pa.Schema) -> None:
    """Refuse columns that would be left out or misread, by name and type."""
    seen: set[str] = set()
    for field in schema:
        accepts = _COLUMNS.get(field.name)
        if accepts is None:
            raise InvalidArgumentError(f"Column {field.name} ({field.type}) is not known: there are {_KNOWN}")
        if not accepts(field.type):
            raise InvalidArgumentError(f"Column {field.name} is {field.type}; it must be {_TYPES[field.name]}")
        if field.name in seen:
            raise InvalidArgumentError(f"Column {field.name} is there twice")
        seen.add(field.name)
    if "data" not in seen:
        raise InvalidArgumentError("Column data is missing")


def _is_text(kind: Any) -> bool:
    return kind in _STRINGS


def _is_body(kind: Any) -> bool:
    return kind in _STRINGS or kind in _BINARIES or pa.types.is_fixed_size_binary(kind)


def _is_map(kind: Any) -> bool:
    return bool(pa.types.is_map(kind)) and kind.key_type in _STRINGS and kind.item_type in _STRINGS


_COLUMNS: dict[str, Callable[[Any], bool]] = {
    "data": _is_body,
    "topic": _is_text,
    "attributes": _is_map,
    "ordering_key": _is_text,
}
_KNOWN = "data, topic, attributes and ordering_key"
_TYPES = {
    "data": "binary or string",
    "topic": "string",
    "attributes": "map<string, string>",
    "ordering_key": "string",
}


class Sheet(NamedTuple):
    """A record batch as drafts, with the topic of each row where rows name one."""

    drafts: list[Row]
    sizes: list[int]
    topics: list[str | None] | None


def read_batch(batch: pa.RecordBatch, limits: Limits, extra: int = 0) -> Sheet:
    """`extra`: bytes of attributes that will be added to each message."""
    if batch.num_rows > BATCH_ROWS_MAX or batch.nbytes > BATCH_BYTES_MAX:
        raise InvalidArgumentError(
            f"A record batch may have at most {BATCH_ROWS_MAX} rows and {BATCH_BYTES_MAX >> 20} MiB; send smaller ones"
        )
    try:
        return _read(batch, limits, extra)
    except UnicodeDecodeError:
        raise InvalidArgumentError("Text must be valid UTF-8") from None


def _read(batch: pa.RecordBatch, limits: Limits, extra: int) -> Sheet:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    data = columns["data"]
    if data.null_count:
        raise InvalidArgumentError("Column data has a null; every message needs data")
    bodies, sizes = _bodies(data)
    count = len(bodies)
    attributes: Sequence[dict[str, str]] = [NO_ATTRIBUTES] * count
    keys: Sequence[str] = [""] * count
    plain = True
    if "attributes" in columns and len(columns["attributes"].keys):
        attributes, added, plain = _attributes(columns["attributes"], limits)
        sizes = list(map(int.__add__, sizes, added))
    if "ordering_key" in columns:
        keys, added = _texts(columns["ordering_key"], "")
        plain = plain and max(added, default=0) <= (limits.ordering_key_max_bytes or 1 << 31)
        sizes = list(map(int.__add__, sizes, added))
    drafts: list[Row] = list(zip(bodies, attributes, keys, strict=True))
    most = limits.message_max_bytes - extra if limits.message_max_bytes else 1 << 31
    if not plain or max(sizes, default=0) > most:
        sizes = [check_draft(Draft(*draft), limits) for draft in drafts]
    topics = _texts(columns["topic"], None)[0] if "topic" in columns else None
    return Sheet(drafts, sizes, topics)


# ---------------------------------------------------------------------- columns


def _bodies(column: pa.Array) -> tuple[list[bytes], list[int]]:
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    offsets, blob = _layout(column)
    return [blob[first:until] for first, until in pairwise(offsets)], _lengths(offsets)


def _texts(column: pa.Array, null: Any) -> tuple[list[Any], list[int]]:
    """The values of a string column, with something in place of nulls, and their lengths in bytes."""
    if column.null_count == len(column):
        return [null] * len(column), [0] * len(column)
    offsets, blob = _layout(column)
    lengths = _lengths(offsets)
    if blob.isascii():
        text = blob.decode("ascii")
        values: list[Any] = [text[first:until] for first, until in pairwise(offsets)]
    else:
        values = [blob[first:until].decode() for first, until in pairwise(offsets)]
    if column.null_count:
        for index, valid in enumerate(column.is_valid().to_pylist()):
            if not valid:
                values[index], lengths[index] = null, 0
    return values, lengths


def _attributes(column: pa.MapArray, limits: Limits) -> tuple[list[dict[str, str]], list[int], bool]:
    """The maps, the bytes in each, and whether all of them are surely within the limits."""
    if column.null_count:
        column = _without_nulls(column)
    repeats = repeated_maps(column)
    if repeats is None:
        return _maps(column, limits)
    different, sizes, plain = _maps(repeats.different, limits)
    indices = repeats.indices
    return [different[index] for index in indices], [sizes[index] for index in indices], plain


def _maps(column: pa.MapArray, limits: Limits) -> tuple[list[dict[str, str]], list[int], bool]:
    offsets = numbers(column.offsets)
    first, last = offsets[0], offsets[-1]
    pair_keys, pair_items = column.keys[first:last], column.items[first:last]
    if pair_items.null_count:
        raise InvalidArgumentError("Column attributes has a null value; attribute values are strings")
    keys, key_bytes = _texts(pair_keys, "")
    items, item_bytes = _texts(pair_items, "")
    edges = [offset - first for offset in offsets]
    pairs = list(zip(keys, items, strict=True))
    found = [dict(pairs[a:b]) for a, b in pairwise(edges)]
    sums = list(accumulate(map(int.__add__, key_bytes, item_bytes), initial=0))
    sizes = [sums[b] - sums[a] for a, b in pairwise(edges)]
    plain = (
        max(key_bytes, default=0) <= limits.attribute_key_max_bytes
        and max(item_bytes, default=0) <= limits.attribute_value_max_bytes
        and not limits.attributes_max
        and all(key and not key.startswith(limits.reserved_prefixes) for key in set(keys))
        and sum(map(len, found)) == len(keys)  # a key that is there twice counts once
    )
    return found, sizes, plain


def _without_nulls(column: pa.MapArray) -> pa.MapArray:
    """A null map is a map of nothing, and may have anything behind it."""
    return pa.array([each or [] for each in column.to_pylist()], column.type)


def _layout(column: pa.Array) -> tuple[list[int], bytes]:
    """Where the values of a column of bytes begin and end, and the bytes; what a slice leaves out is left out."""
    wide = column.type in (pa.large_string(), pa.large_binary())
    if not len(column):
        return [0], b""
    _, places, content = column.buffers()
    width, code = (8, "q") if wide else (4, "i")
    view = memoryview(places)[column.offset * width : (column.offset + len(column) + 1) * width]
    offsets = list(struct.unpack(f"={len(column) + 1}{code}", view))
    first = offsets[0]
    blob = bytes(memoryview(content)[first : offsets[-1]]) if content is not None else b""
    return ([offset - first for offset in offsets] if first else offsets), blob


def _lengths(offsets: list[int]) -> list[int]:
    return list(map(sub, offsets[1:], offsets))


# ---------------------------------------------------------------------- what goes over the link


def by_topic(sheet: Sheet, default: str | None, full_name: Callable[[str], str]) -> dict[str, Rows]:
    """The rows of each topic, in the order in which topics first come."""
    if sheet.topics is None:
        if default is None:
            raise InvalidArgumentError("There is no topic: name one in the command, or in a column topic")
        return {default: Rows(sheet.drafts, sheet.sizes)}
    names = {name: full_name(name) if name else default for name in dict.fromkeys(sheet.topics)}
    if None in names.values():
        raise InvalidArgumentError("A row has no topic, and the command names none")
    if len(set(names.values())) == 1:
        return {next(iter(names.values())) or "": Rows(sheet.drafts, sheet.sizes)}
    found: dict[str, Rows] = {name: Rows([], []) for name in names.values() if name}
    for draft, size, topic in zip(sheet.drafts, sheet.sizes, sheet.topics, strict=True):
        rows = found[names[topic] or ""]
        rows.drafts.append(draft)
        rows.sizes.append(size)
    return found


def pieces(rows: Rows) -> list[Rows]:
    """Rows in frames that the server reads without keeping others waiting."""
    if len(rows.drafts) <= PIECE_ROWS and sum(rows.sizes) <= PIECE_BYTES:
        return [rows]
    found: list[Rows] = []
    start, size = 0, 0
    for index, each in enumerate(rows.sizes):
        if index > start and (index - start >= PIECE_ROWS or size + each > PIECE_BYTES):
            found.append(Rows(rows.drafts[start:index], rows.sizes[start:index]))
            start, size = index, 0
        size += each
    return [*found, Rows(rows.drafts[start:], rows.sizes[start:])]
