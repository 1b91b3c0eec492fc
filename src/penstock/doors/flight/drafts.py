"""Uploaded record batches as checked drafts of messages. The server trusts the sizes computed here.

Work is done by column, and Python sees each value once. Rows that the broker would refuse are refused here, with the
same messages.
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
from penstock.doors.flight.ipc import Row, Rows
from penstock.doors.flight.repeated_maps import numbers, repeated_maps
from penstock.errors import InvalidArgumentError

PIECE_ROWS = 10_000
PIECE_BYTES = 4 << 20
BATCH_ROWS_MAX = 250_000
BATCH_BYTES_MAX = 64 << 20


def check_schema(schema: pa.Schema) -> None:
    """Refuse unknown columns and wrong types, by name."""
    seen: set[str] = set()
    for field in schema:
        if field.name not in _COLUMNS:
            columns = "data, topic, attributes and ordering_key"
            raise InvalidArgumentError(f"Column {field.name} ({field.type}) is not known: there are {columns}")
        expected, accepts = _COLUMNS[field.name]
        if not accepts(field.type):
            raise InvalidArgumentError(f"Column {field.name} is {field.type}; it must be {expected}")
        if field.name in seen:
            raise InvalidArgumentError(f"Column {field.name} is given twice")
        seen.add(field.name)
    if "data" not in seen:
        raise InvalidArgumentError("Column data is missing")


def _is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string())


def _is_body(kind: Any) -> bool:
    return _is_text(kind) or kind in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(kind)


def _is_map(kind: Any) -> bool:
    return bool(pa.types.is_map(kind)) and _is_text(kind.key_type) and _is_text(kind.item_type)


_COLUMNS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "data": ("binary or string", _is_body),
    "topic": ("string", _is_text),
    "attributes": ("map<string, string>", _is_map),
    "ordering_key": ("string", _is_text),
}


class UploadedBatch(NamedTuple):
    rows: Rows[Row]
    topics: list[str | None] | None  # by row. None: the batch has no column topic


def read_batch(batch: pa.RecordBatch, limits: Limits, extra: int = 0) -> UploadedBatch:
    """Read a record batch. `extra` is the size of attributes that will be added to each message, in bytes."""
    if batch.num_rows > BATCH_ROWS_MAX or batch.nbytes > BATCH_BYTES_MAX:
        raise InvalidArgumentError(
            f"A record batch may have at most {BATCH_ROWS_MAX} rows and {BATCH_BYTES_MAX >> 20} MiB; send smaller ones"
        )
    try:
        return _read(batch, limits, extra)
    except UnicodeDecodeError:
        raise InvalidArgumentError("Text must be valid UTF-8") from None


def _read(batch: pa.RecordBatch, limits: Limits, extra: int) -> UploadedBatch:
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
    return UploadedBatch(Rows(drafts, sizes), topics)


def _bodies(column: pa.Array) -> tuple[list[bytes], list[int]]:
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    offsets, blob = _layout(column)
    return [blob[first:until] for first, until in pairwise(offsets)], _lengths(offsets)


def _texts(column: pa.Array, null: Any) -> tuple[list[Any], list[int]]:
    """Return the values of a string column, with `null` in place of nulls, and their lengths in bytes."""
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
    """Return the maps, the size of each in bytes, and whether all of them are known to be within the limits."""
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
    maps = [dict(pairs[a:b]) for a, b in pairwise(edges)]
    sums = list(accumulate(map(int.__add__, key_bytes, item_bytes), initial=0))
    sizes = [sums[b] - sums[a] for a, b in pairwise(edges)]
    plain = (
        max(key_bytes, default=0) <= limits.attribute_key_max_bytes
        and max(item_bytes, default=0) <= limits.attribute_value_max_bytes
        and not limits.attributes_max
        and all(key and not key.startswith(limits.reserved_prefixes) for key in set(keys))
        and sum(map(len, maps)) == len(keys)  # no map repeats a key
    )
    return maps, sizes, plain


def _without_nulls(column: pa.MapArray) -> pa.MapArray:
    """Replace null maps, which may have entries, by empty maps."""
    return pa.array([value or [] for value in column.to_pylist()], column.type)


def _layout(column: pa.Array) -> tuple[list[int], bytes]:
    """Return the offsets of the values of a column of bytes, and the bytes, without those outside of a slice."""
    is_wide = column.type in (pa.large_string(), pa.large_binary())
    if not len(column):
        return [0], b""
    _, edges, content = column.buffers()
    width, code = (8, "q") if is_wide else (4, "i")
    view = memoryview(edges)[column.offset * width : (column.offset + len(column) + 1) * width]
    offsets = list(struct.unpack(f"={len(column) + 1}{code}", view))
    first = offsets[0]
    blob = bytes(memoryview(content)[first : offsets[-1]]) if content is not None else b""
    return ([offset - first for offset in offsets] if first else offsets), blob


def _lengths(offsets: list[int]) -> list[int]:
    return list(map(sub, offsets[1:], offsets))


def by_topic(batch: UploadedBatch, default: str | None, full_name: Callable[[str], str]) -> dict[str, Rows[Row]]:
    """Return the rows of each topic. Topics have the order of their first rows."""
    if batch.topics is None:
        if default is None:
            raise InvalidArgumentError("There is no topic: name one in the command, or in a column topic")
        return {default: batch.rows}
    names = {name: full_name(name) if name else default for name in dict.fromkeys(batch.topics)}
    if None in names.values():
        raise InvalidArgumentError("A row has no topic, and the command names none")
    if len(set(names.values())) == 1:
        return {next(iter(names.values())) or "": batch.rows}
    topics: dict[str, Rows[Row]] = {name: Rows([], []) for name in names.values() if name}
    for draft, size, topic in zip(batch.rows.drafts, batch.rows.sizes, batch.topics, strict=True):
        rows = topics[names[topic] or ""]
        rows.drafts.append(draft)
        rows.sizes.append(size)
    return topics


def split(rows: Rows[Row]) -> list[Rows[Row]]:
    """Split rows into pieces small enough for the server to read each without delaying other requests."""
    if len(rows.drafts) <= PIECE_ROWS and sum(rows.sizes) <= PIECE_BYTES:
        return [rows]
    pieces: list[Rows[Row]] = []
    start, piece_size = 0, 0
    for index, size in enumerate(rows.sizes):
        if index > start and (index - start >= PIECE_ROWS or piece_size + size > PIECE_BYTES):
            pieces.append(Rows(rows.drafts[start:index], rows.sizes[start:index]))
            start, piece_size = index, 0
        piece_size += size
    return [*pieces, Rows(rows.drafts[start:], rows.sizes[start:])]
