"""The most frequent messages, compared with protobuf's parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.consuming import Delivery
from penstock.broker.model import Draft, Message
from penstock.broker.publishing import Appended
from penstock.doors.google import codec
from penstock.doors.google import messages as m

texts = st.text(max_size=30)
attributes = st.dictionaries(texts, texts, max_size=5)
deliveries = st.builds(
    lambda data, attributes, key, at, offset, stamp, attempt: Delivery(
        Message(data, attributes, key, at, offset, 0, 0, 0, 0), 7, 3 << 40, stamp, attempt
    ),
    st.binary(max_size=9000),
    attributes,
    texts,
    st.integers(0, 2**62),
    st.integers(0, 2**38),
    st.integers(1, 3) | st.integers(1, 2**63 - 1),
    st.integers(1, 100_000),
)


@given(st.lists(deliveries, max_size=4), st.booleans())
def test_received_messages_equal_those_that_protobuf_parses(
    given_deliveries: list[Delivery], with_attempts: bool
) -> None:
    read = m.PullResponse.FromString(codec.received_messages(given_deliveries, with_attempts=with_attempts))
    assert len(read.received_messages) == len(given_deliveries)
    for received, delivery in zip(read.received_messages, given_deliveries, strict=True):
        message = delivery.message
        assert received.ack_id == delivery.receipt
        assert received.delivery_attempt == (delivery.attempt if with_attempts else 0)
        assert (received.message.data, dict(received.message.attributes)) == (message.data, message.attributes)
        assert (received.message.message_id, received.message.ordering_key) == (delivery.id, message.ordering_key)
        assert received.message.publish_time.ToNanoseconds() == message.publish_time


@given(st.lists(st.tuples(st.binary(max_size=50), attributes, texts), max_size=4))
def test_drafts_have_the_content_of_the_request(sent: list[tuple[bytes, dict[str, str], str]]) -> None:
    messages = [m.PubsubMessage(data=data, attributes=named, ordering_key=key) for data, named, key in sent]
    request = m.PublishRequest.FromString(m.PublishRequest(messages=messages).SerializeToString())
    assert codec.drafts(request.messages) == [Draft(data, named, key) for data, named, key in sent]


@given(st.integers(1, 2**62), st.integers(0, 2**38), st.integers(0, 50))
def test_the_ids_of_a_publish(first_id: int, first: int, total: int) -> None:
    appended = Appended(first_id, first, total)
    read = m.PublishResponse.FromString(codec.publish_response(appended))
    assert list(read.message_ids) == appended.message_ids()
    assert appended.message_ids() == [str(first_id + first + place) for place in range(total)]


def test_the_properties_of_a_subscription() -> None:
    for exactly_once in (False, True):
        for ordering in (False, True):
            encoded = codec.subscription_properties(exactly_once=exactly_once, ordering=ordering)
            read = m.StreamingPullResponse.FromString(encoded).subscription_properties
            assert (read.exactly_once_delivery_enabled, read.message_ordering_enabled) == (exactly_once, ordering)
