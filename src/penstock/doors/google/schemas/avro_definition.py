"""The structure of an Avro definition: which parts a type has, and of which kind.

fastavro accepts some definitions without it, with which its readers then fail, and reports others in Python's words. It
checks what this module leaves out: references to named types, symbols, default values and logical types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_structure(schema: Any, path: str = "") -> None:
    """Raise ValueError, with the path of the field, if a definition is not built as Avro's specification says."""
    if isinstance(schema, list):
        for branch in schema:
            if isinstance(branch, list):
                raise _problem(path, "a union must not contain another union")
            check_structure(branch, path)
    elif isinstance(schema, dict):
        _check_object(schema, path)
    elif not isinstance(schema, str):
        raise _problem(path, "a type must be a name, an object or a list")


def _check_object(schema: Mapping[str, Any], path: str) -> None:
    kind = schema.get("type")
    if not isinstance(kind, str):
        raise _problem(path, "the type of an object must be a name")
    if kind in ("record", "error", "enum", "fixed"):
        _check_name(schema, path)
    if kind in ("record", "error"):
        _check_fields(schema.get("fields"), path)
    elif kind == "enum" and not _is_list_of_texts(schema.get("symbols")):
        raise _problem(path, "an enum must have a list of symbols")
    elif kind == "fixed":
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise _problem(path, "a fixed type must have a size of 0 or more bytes")
    elif kind == "array":
        check_structure(schema.get("items"), f"{path}[]")
    elif kind == "map":
        check_structure(schema.get("values"), f"{path}{{}}")


def _check_fields(fields: Any, path: str) -> None:
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise _problem(path, "a record must have a list of fields")
    for field in fields:
        _check_name(field, path)
        check_structure(field.get("type"), f"{path}.{field['name']}" if path else field["name"])


def _check_name(named: Mapping[str, Any], path: str) -> None:
    """Check the name, namespace and aliases of a type or a field."""
    if not isinstance(named.get("name"), str):
        raise _problem(path, "a record, enum, fixed type or field must have a name")
    if not isinstance(named.get("namespace") or "", str) or not _is_list_of_texts(named.get("aliases") or []):
        raise _problem(path, f"the namespace or the aliases of {named['name'][:100]} are invalid")


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _problem(path: str, sentence: str) -> ValueError:
    return ValueError(f"{path[:100]}: {sentence}" if path else sentence)
