"""The stored form of facts, messages and dumps, which must be readable forever (the rule of journal/codec.py)."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.dump import EntryDump, SnapshotDump, StateDump, SubscriptionDump, TopicDump
from penstock.broker.facts import (
    FACTS,
    Acked,
    Delivered,
    Fact,
    Published,
    SubscriptionChanged,
    TopicCreated,
    TopicDeleted,
)
from penstock.broker.model import FOREVER, NO_ATTRIBUTES, Message, Producer, SubscriptionOptions, TopicOptions
from penstock.errors import DamagedStoreError
from penstock.journal import codec

_encode = msgspec.msgpack.encode

# Float fields have whole numbers as well, which are stored as given, and 1 equals 1.0.
# This is the content of stores: add lines at the end, and never change one.
NUMBERS = (
    "1 TopicCreated, 2 TopicChanged, 3 TopicDeleted, 4 Published, 5 Forgotten, 6 ProducersForgotten, "
    "7 SubscriptionCreated, 8 SubscriptionChanged, 9 SubscriptionDeleted, 10 Detached, 11 Touched, 12 Delivered, "
    "13 Passed, 14 Held, 15 Delayed, 16 Acked, 17 Returned, 18 Extended, 19 Rewritten, 20 Adopted, 21 Removed, "
    "22 Sought, 23 SnapshotTaken, 24 SnapshotChanged, 25 SnapshotDropped, 26 DocumentPut, 27 DocumentRemoved, "
    "28 StoreNamed, 29 Compared"
)

_facts = st.one_of([st.builds(kind) if not kind._fields else st.from_type(kind) for kind in FACTS.values()])


def test_every_fact_has_a_number_and_every_number_a_fact() -> None:
    assert set(FACTS.values()) == set(get_args(Fact))
    assert len(set(FACTS.values())) == len(FACTS)
    assert ", ".join(f"{number} {kind.__name__}" for number, kind in FACTS.items()) == NUMBERS


@given(st.lists(_facts.filter(lambda fact: _storable(fact)), max_size=4))
def test_facts_come_back_as_they_were(facts: list[Fact]) -> None:
    decoded = codec.decode_facts(codec.encode_facts(facts))
    assert decoded == facts
    assert [type(fact) for fact in decoded] == [type(fact) for fact in facts]


def _storable(value: Any) -> bool:
    """Leave out values that no broker creates: numbers beyond 63 bits, not-a-number, lone surrogates."""
    try:
        return bool(msgspec.msgpack.decode(_encode(value)) is not None) and "nan" not in repr(value)
    except (OverflowError, UnicodeEncodeError):
        return False


def test_the_bytes_of_a_fact_are_its_number_and_its_fields() -> None:
    """A change of this test is a change of the format."""
    assert codec.encode_facts([Acked(3, 7, [1, 2])]) == _encode([[16, [3, 7, [1, 2]]]])


def test_a_fact_written_before_a_field_was_added_takes_its_default() -> None:
    old = _encode(
        [[4, [1, 2, 3, 4, 5, True]], [12, [1, 2, 3, 4, [5], [6]]], [1, [1, "t", 9, {"retention_seconds": 3}]]]
    )
    assert codec.decode_facts(old) == [
        Published(1, 2, 3, 4, 5, True),
        Delivered(1, 2, 3, 4, [5], [6]),
        TopicCreated(1, "t", 9, TopicOptions(retention_seconds=3)),
    ]


def test_the_encoding_library_fills_defaults_of_shorter_arrays() -> None:
    """The rule above depends on this. Otherwise the codec would have to fill them itself."""

    class Grown(NamedTuple):
        first: int
        added: str = "default"

    assert msgspec.msgpack.decode(_encode([1]), type=Grown) == Grown(1)


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", _encode([[16, [1]]]), _encode([[16, "text"]]), _encode(7), _encode([[3, [1, 2]]])]
)
def test_bytes_that_do_not_fit_are_damage(body: bytes) -> None:
    with pytest.raises(DamagedStoreError, match="cannot be decoded"):
        codec.decode_facts(body)


def test_a_fact_of_a_later_release_is_named_as_such() -> None:
    with pytest.raises(DamagedStoreError, match="unknown kind 99: it was written by a newer release"):
        codec.decode_facts(_encode([[99, []]]))


def test_messages_come_back_as_they_were() -> None:
    messages = [
        Message(bytes(range(256)), {"a": "b", "ü": "\N{SNOWMAN}"}, "key", 10**18, 5, 6, 7, 8, 9),
        Message(b"", NO_ATTRIBUTES, "", 10**18, 6, 2**62, 0, 0, FOREVER),
    ]
    assert codec.decode_messages(codec.encode_messages(messages)) == messages
    for body in (b"", b"\x91\x91\x01", codec.encode_messages(messages)[:-1]):
        with pytest.raises(DamagedStoreError, match="A batch of messages cannot be decoded"):
            codec.decode_messages(body)


def test_dumps_come_back_as_they_were() -> None:
    topic = TopicDump(1, "t", 2, TopicOptions(labels={"a": "b"}), 3, 4, 5, 6, 7, {"p": Producer(1, 2, {9: (10, 11)})})
    entries = [EntryDump(5, True, 1, 2, FOREVER, 3, "key", 0, None), EntryDump(6, False, 0, 0, 9, 3, "", 4, b"new")]
    options = SubscriptionOptions(filter="x", extras={"k": "v"})
    subscription = SubscriptionDump(
        2, "s", 1, "t", 3, 4, False, options, 7, 8, 9, 10, [(1, 2)], entries, {"key": [(8, 3)]}
    )
    snapshot = SnapshotDump("n", 1, "t", 2, 3, 4, 5, 6, [(7, 8), (9, 10)], {"l": "m"})
    dump = StateDump(9, [topic], [subscription], [snapshot], {"schema": {"one": b"body"}})
    decoded = codec.decode_dump(codec.encode_dump(dump))
    assert decoded == dump
    again = codec.decode_dump(codec.encode_dump(decoded))
    assert codec.encode_dump(again) == codec.encode_dump(decoded), "byte for byte, once seconds have become fractions"


def test_a_dump_that_does_not_fit_is_damage() -> None:
    with pytest.raises(DamagedStoreError, match="A snapshot cannot be decoded"):
        codec.decode_dump(_encode([1]))


class Text(str):
    """As numpy's texts are."""

    __slots__ = ()

    def __str__(self) -> str:
        return "shown"


class Whole(int):
    """As the numbers of a program's own enumerations may be."""


class Fraction(float):
    """As numpy's numbers are."""


def test_values_of_subclasses_are_stored_as_plain_ones() -> None:
    """They stopped the queue, because the encoder knows the plain types only."""
    given = [Message(b"", {Text("a"): Text("b")}, Text("key"), Whole(1), 2, 3, 4, 0, 0)]
    (stored,) = codec.decode_messages(codec.encode_messages(given))
    assert stored == given[0]
    assert [type(value) for value in (stored.ordering_key, stored.publish_time)] == [str, int]
    options = SubscriptionOptions(lease_seconds=Fraction(1.5), max_delivery_attempts=Whole(3), filter=Text("f"))
    fact = SubscriptionChanged(1, options)
    assert codec.decode_facts(codec.encode_facts([fact])) == [fact]
    with pytest.raises(TypeError, match="A complex cannot be stored"):
        codec.encode_facts([TopicDeleted(1j)])  # type: ignore[arg-type]
