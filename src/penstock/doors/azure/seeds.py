"""The `azure` settings of a seed: metadata and stored access policies of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.broker.model import TopicOptions
from penstock.doors.azure.names import is_metadata_name
from penstock.doors.azure.policies import Policy, decode_policies, encode_policies, fault_of
from penstock.doors.azure.queues import METADATA, METADATA_MAX_BYTES, POLICIES, decode_metadata, encode_metadata
from penstock.errors import InvalidArgumentError


class Seeds:
    """Reads and shows the `azure` settings of a topic or queue in a seed."""

    keys = frozenset({METADATA, POLICIES})

    def read(self, kind: str, settings: Mapping[str, Any], project: str, options: Any) -> Mapping[str, str]:
        if kind != "topic":
            raise InvalidArgumentError("The azure settings belong to topics and queues, not to subscriptions")
        if unknown := [name for name in settings if name not in ("metadata", "policies")]:
            raise InvalidArgumentError(f"The azure settings are metadata and policies, not {unknown[0]}")
        extras = {
            METADATA: encode_metadata(_metadata(settings.get("metadata", {}))),
            POLICIES: encode_policies(policies) if (policies := _policies(settings.get("policies", []))) else "",
        }
        return {name: value for name, value in extras.items() if value}

    def show(self, kind: str, extras: Mapping[str, str]) -> Mapping[str, Any]:
        policies = decode_policies(extras.get(POLICIES, ""))
        settings = {
            "metadata": decode_metadata(TopicOptions(extras=dict(extras))),
            "policies": [{k: v for k, v in msgspec.to_builtins(policy).items() if v} for policy in policies],
        }
        return {name: value for name, value in settings.items() if value}

    def merge(self, kind: str, known: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
        return {key: wanted[key] for key in self.keys if key in wanted and wanted[key] != known.get(key)}

    def needs(self, kind: str, extras: Mapping[str, str]) -> list[tuple[str, str]]:
        return []


def _metadata(value: object) -> dict[str, str]:
    try:
        metadata = msgspec.convert(value, dict[str, str])
    except msgspec.ValidationError:
        raise InvalidArgumentError("metadata must be a table of strings") from None
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > METADATA_MAX_BYTES or not all(
        is_metadata_name(name) and value.isascii() and value.isprintable() for name, value in metadata.items()
    ):
        raise InvalidArgumentError(
            f"metadata needs names of letters, digits and _, values in ASCII, and at most {METADATA_MAX_BYTES} bytes"
        )
    return metadata


def _policies(value: object) -> list[Policy]:
    try:
        policies = msgspec.convert(value, list[Policy])
    except msgspec.ValidationError:
        raise InvalidArgumentError("A policy has an id, and start, expiry and permission as strings") from None
    if fault := fault_of(policies):
        raise InvalidArgumentError(fault)
    return policies
