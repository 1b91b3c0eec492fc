"""Limits for bodies that are checked and shown by schemas of protocol buffers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.doors.google.schemas.avro_binary import TooLargeError
from penstock.doors.google.schemas.protobuf import ProtoSchema
from penstock.doors.google.schemas.validation import Checks


@pytest.mark.parametrize(
    "definition",
    [
        "message R { message Q { bool NAME = 1; } repeated Q q = 1; }",
        "message R { message Q { E e = 1; } repeated Q q = 1; enum E { NONE = 0; NAME = 1; } }",
    ],
)
def test_a_message_whose_json_would_be_mostly_names_is_accepted_and_not_shown(definition: str) -> None:
    schema = ProtoSchema(f'syntax = "proto3"; {definition.replace("NAME", "n" * 10_000)}')
    entry = b"\x0a\x02\x08\x01"
    schema.check_binary(entry * 100_000)
    with pytest.raises(TooLargeError, match="too large to be shown"):
        schema.json_of(entry * 100_000)
    assert len(schema.json_of(entry * 2)) > 20_000


def test_a_message_with_too_many_values_is_accepted_and_not_shown() -> None:
    schema = ProtoSchema(
        'syntax = "proto3"; message R { repeated R r = 1; map<int32, R> m = 2; repeated int32 n = 3; }'
    )
    for unit in (b"\x0a\x00", b"\x1a\x04\x01\x02\x03\x04"):
        schema.check_binary(unit * 500_001)
        with pytest.raises(TooLargeError, match="more than 500,000 values"):
            schema.json_of(unit * 500_001)
    assert schema.json_of(b"\x12\x04\x08\x07\x12\x00") == '{"m":{"7":{}}}'.replace(":", ": ")


@pytest.mark.parametrize(
    ("sizes", "schemas", "is_inline"),
    [([100] * 10, 1, True), ([100] * 10, 20, False), ([4] * 1000, 1, False), ([64 << 10], 1, False), ([], 1, True)],
)
def test_bodies_that_may_have_many_values_are_checked_beside_the_event_loop(
    sizes: list[int], schemas: int, is_inline: bool
) -> None:
    async def thread_of_check() -> threading.Thread:
        return await Checks().run(threading.current_thread, sizes, schemas)

    async def main() -> None:
        assert (await thread_of_check() is threading.current_thread()) == is_inline

    asyncio.run(main())
