"""Update masks: the fields of a resource that an update sets, down to sub-fields."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from penstock.doors.google.errors import CallError, invalid

_EXAMPLES = {  # the examples in production's errors, with production's spelling mistake
    "Subscription": ("push_config", "pushConfig"),
    "Topic": ("schema_settings", "schemaSetings"),
}


def apply_update_mask(current: Any, update: Any, paths: Sequence[str], mutable: Set[str]) -> Any:
    """Return a copy of `current` with the fields named by `paths` as they are in `update`.

    Pub/Sub has no wildcard: `*` is refused as an unknown field.
    """
    kind = current.DESCRIPTOR.name
    if not paths:
        raise invalid(
            f"The update_mask in the Update{kind}Request must be set, and must contain a non-empty paths list."
        )
    result = type(current)()
    result.CopyFrom(current)
    for path in paths:
        steps = path.split(".")
        _check(current.DESCRIPTOR, kind, path, steps, mutable)
        _copy(result, update, steps)
    return result


def _check(descriptor: Any, kind: str, path: str, steps: list[str], mutable: Set[str]) -> None:
    for index, step in enumerate(steps):
        field = descriptor.fields_by_name.get(step) if descriptor is not None else None
        if field is None:
            good, bad = _EXAMPLES.get(kind, _EXAMPLES["Subscription"])
            raise _refusal(
                kind,
                f"{path[:100]} is not a known {kind} field. Note that field paths must be of the form '{good}' "
                f"rather than '{bad}'.",
            )
        if index == 0 and step not in mutable:
            raise _refusal(kind, f"the {step} field in the {kind} is not mutable.")
        descriptor = None if field.is_repeated else field.message_type


def _refusal(kind: str, reason: str) -> CallError:
    return invalid(f"Invalid update_mask provided in the Update{kind}Request: {reason}")


def _copy(target: Any, source: Any, steps: list[str]) -> None:
    for step in steps[:-1]:
        source = getattr(source, step)
        target = getattr(target, step)
        target.SetInParent()
    name = steps[-1]
    field = target.DESCRIPTOR.fields_by_name[name]
    target.ClearField(name)
    if field.is_repeated:
        getattr(target, name).MergeFrom(getattr(source, name))
    elif field.message_type is None:
        setattr(target, name, getattr(source, name))
    elif source.HasField(name):
        getattr(target, name).MergeFrom(getattr(source, name))
        getattr(target, name).SetInParent()  # merging an empty message does not make the field present
