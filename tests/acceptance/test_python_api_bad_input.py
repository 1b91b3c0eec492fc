"""Invalid input: the error has the right class, code and message, and no message is lost."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from penstock import InvalidArgumentError, MessageQueue, NotFoundError, PubSub, UnavailableError
from tests.acceptance.python_api import Harness, bodies, story

DEADLINE = "Ack deadline must be between 1 and 600 seconds"
RETENTION = "Message retention must be between 10 minutes and 7 days"

OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"ack_deadline_seconds": 0}, DEADLINE),
    ({"ack_deadline_seconds": 601}, DEADLINE),
    ({"ack_deadline": timedelta(hours=1)}, DEADLINE),
    ({"ack_deadline_seconds": "10"}, "ack_deadline_seconds must be a number of seconds, not str"),
    ({"ack_deadline_seconds": True}, "ack_deadline_seconds must be a number of seconds, not bool"),
    ({"ack_deadline_seconds": -1}, "ack_deadline_seconds must not be negative or beyond reason: -1"),
    ({"min_ack_deadline": 0}, DEADLINE),
    ({"max_ack_deadline": 1000}, DEADLINE),
    ({"ackDeadlineSeconds": 10}, "Unknown subscription option: ackDeadlineSeconds"),
    ({"colour": "red"}, "Unknown subscription option: colour"),
    ({"flow_control": 5}, "flow_control must be a dictionary, not int"),
    ({"flow_control": {"max_messages": 0}}, "flow_control.max_messages must be a whole number, at least 1"),
    ({"flow_control": {"max_messages": 1.5}}, "flow_control.max_messages must be a whole number, at least 1"),
    ({"flow_control": {"max_bytes": "1"}}, "flow_control.max_bytes must be a whole number, at least 1"),
    ({"flow_control": {"max_size": 1}}, "Unknown option: flow_control.max_size"),
    (
        {"flow_control": {"allow_excess_messages": 1}},
        "flow_control.allow_excess_messages must be True or False, not int",
    ),
    ({"flow_control": {"max_extension": "x"}}, "flow_control.max_extension must be a number of seconds, not str"),
    ({"max_extension_time": -5}, "max_extension_time must not be negative or beyond reason: -5"),
    ({"batching": {"max_messages": 0}}, "batching.max_messages must be a whole number, at least 1"),
    ({"batching": {"max_milliseconds": "1"}}, "batching.max_milliseconds must be a number, at least 0"),
    ({"close_options": {"behavior": "nack"}}, "close_options.behavior must be one of NACK, WAIT: 'nack'"),
    ({"close_options": {"timeout": {"minutes": 1}}}, "close_options.timeout: unknown part of a duration: minutes"),
    ({"streaming_options": {"max_streams": 0}}, "streaming_options.max_streams must be a whole number, at least 1"),
    ({"use_legacy_flow_control": "no"}, "use_legacy_flow_control must be True or False, not str"),
]

STORED: list[tuple[dict[str, Any], str]] = [
    ({"message_retention_duration": 599}, RETENTION),
    ({"message_retention_duration": timedelta(days=8)}, RETENTION),
    ({"filter": "attributes.x ="}, "ilter"),
    ({"filter": 5}, "filter must be a string, not int"),
    ({"labels": {"a": 1}}, "labels must be a dictionary of strings"),
    ({"push_config": "https://example.org"}, "push_config must be a dictionary of strings"),
    ({"dead_letter_policy": {"max_delivery_attempts": 0}}, "max_delivery_attempts must be a whole number, at least 1"),
    ({"dead_letter_policy": {"dead_letter_topic": 5}}, "A name in topics must be a non-empty string"),
    (
        {"retry_policy": {"minimum_backoff": 20, "maximum_backoff": 10}},
        "The maximum backoff must not be below the minimum",
    ),
    ({"retry_policy": {"first": 1}}, "Unknown part of retry_policy: first"),
    ({"enable_message_ordering": 1}, "enable_message_ordering must be True or False, not int"),
    ({"enable_exactly_once_delivery": "yes"}, "enable_exactly_once_delivery must be True or False, not str"),
    ({"topic": 5}, "A name in topics must be a non-empty string"),
    ({"topic": "a/b"}, "Not a name in topics: a/b. Give NAME or projects/PROJECT/topics/NAME"),
    ({"topic": "projects/p/subscriptions/s"}, "Not a name in topics: projects/p/subscriptions/s."),
    ({"gax_opts": {"timeout": "x"}}, "gax_opts.timeout must be a number, at least 0"),
    ({"gax_opts": {"speed": 1}}, "Unknown option: gax_opts.speed"),
]

MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"data": "text"}, "Message data must be bytes, not str"),
    ({"data": None}, "Message data must be bytes, not NoneType"),
    ({"data": {"json": 1}}, "Message data must be bytes, not dict"),
    ({"data": b"", "attributes": {"a": 1}}, "Attribute values must be strings: a"),
    ({"data": b"", "attributes": {1: "a"}}, "Attribute keys must be strings"),
    ({"data": b"", "attributes": {"": "a"}}, "Attribute keys must not be empty"),
    ({"data": b"", "attributes": ["a"]}, "Message attributes must be a dictionary of strings"),
    ({"data": b"", "attributes": {"goog-a": "b"}}, "Attribute key uses a reserved prefix: goog-a"),
    ({"data": b"", "attributes": {"k" * 257: "v"}}, "Attribute key exceeds maximum of 256 bytes"),
    ({"data": b"", "attributes": {"k": "v" * 1025}}, "Attribute value exceeds maximum of 1024 bytes"),
    ({"data": b"", "attributes": {"k": "\ud800"}}, "Text must be valid Unicode, without lone surrogates"),
    ({"data": b"", "ordering_key": 5}, "Ordering key must be a string"),
    ({"data": b"", "ordering_key": "k" * 1025}, "Ordering key exceeds maximum of 1024 bytes"),
    ({"data": b"x" * (10 * 1024 * 1024 + 1)}, "Message size exceeds maximum of 10MB"),
]

TOPIC: list[tuple[dict[str, Any], str]] = [
    ({"batching": {"max_bytes": 0}}, "batching.max_bytes must be a whole number, at least 1"),
    ({"flow_control": {"max_messages": 1}}, "Unknown option: flow_control.max_messages"),
    ({"flow_control": {"limit_exceeded_behavior": "WAIT"}}, "must be one of BLOCK, ERROR, IGNORE: 'WAIT'"),
    ({"enable_message_ordering": 1}, "enable_message_ordering must be True or False, not int"),
    ({"labels": {}}, "Unknown topic option: labels"),
]


def refused(words: str) -> Any:
    return pytest.raises(InvalidArgumentError, match=re.escape(words))


@pytest.mark.parametrize(("options", "words"), OPTIONS)
def test_options_of_a_reader_are_checked_when_they_are_given(options: dict[str, Any], words: str) -> None:
    pubsub = PubSub()
    with refused(words) as error:
        pubsub.subscription("s", options)
    assert error.value.code == 3
    subscription = pubsub.subscription("s")
    before = subscription.options
    with refused(words):
        subscription.set_options(**options)
    assert subscription.options == before


@story("memory")
async def test_options_of_a_subscription_are_checked_when_it_is_made(harness: Harness) -> None:
    topic = await harness.topic()
    for options, words in [*OPTIONS, *STORED]:
        with refused(words):
            await harness.pubsub.subscription("s").create({"topic": topic.name, **options})
        assert not await harness.pubsub.subscription("s").exists(), options
    subscription = await topic.create_subscription("s")
    for options, words in STORED:
        if "topic" not in options and "gax_opts" not in options:
            with refused(words):
                await subscription.set_metadata(options)
    with refused("Message ordering cannot be changed once a subscription exists"):
        await subscription.set_metadata(enable_message_ordering=True)
    with refused("Options must be a dictionary, not int"):
        await subscription.set_metadata(5)  # type: ignore[arg-type]
    with refused("push_config must be a dictionary of strings"):
        await subscription.modify_push_config({"a": 1})  # type: ignore[dict-item]
    assert (await subscription.get_metadata()).enable_message_ordering is False


@story()
async def test_only_the_invalid_message_of_several_is_refused(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("s")
    good = []
    for message, words in MESSAGES:
        good.append(topic.publish(b"good"))
        with refused(words) as error:
            await topic.publish_message(**message)
        assert error.value.code == 3
        with refused(words):
            topic.publish(**message)
    with refused("The value cannot be encoded as JSON"):
        await topic.publish_json({"a": object()})
    for publishing in good:
        assert await publishing
    assert bodies(await subscription.pull(100)) == ["good"] * len(MESSAGES)


@story("memory")
async def test_bytearray_and_memoryview_are_accepted_as_data(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("s")
    buffer = bytearray(b"abc")
    publishing = topic.publish(buffer)
    buffer[0] = 0
    await publishing
    await topic.publish_message(memoryview(b"def"))  # type: ignore[arg-type]
    assert bodies(await subscription.pull(10)) == ["abc", "def"]


@pytest.mark.parametrize(("options", "words"), TOPIC)
def test_options_of_a_publisher_are_checked(options: dict[str, Any], words: str) -> None:
    with refused(words):
        PubSub().topic("t", options)


@story("memory")
async def test_a_deadline_out_of_range_is_refused_by_its_message(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("s")
    await topic.publish_message(b"a")
    (message,) = await subscription.pull(1)
    for seconds in (-1, 601, float("nan"), "5", True, None):
        with refused("Ack deadline must be between 0 and 600 seconds") as error:
            message.modify_ack_deadline(seconds)  # type: ignore[arg-type]
        assert error.value.code == 3
    message.modify_ack_deadline(600)
    await harness.advance(300)
    assert await subscription.pull(1) == []


@story("memory", "shared memory")
async def test_use_after_close_is_refused(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("s")
    await topic.publish_message(b"a")
    (message,) = await subscription.pull(1)
    await harness.pubsub.close()
    for operation in (topic.publish_message, topic.exists, subscription.pull, subscription.create):
        with pytest.raises(UnavailableError, match="This PubSub is closed") as error:
            await operation()
        assert error.value.code == 14
    with pytest.raises(UnavailableError):
        subscription.open()
    message.ack()
    await harness.quiet()


def test_names_and_parts_of_a_client_are_checked() -> None:
    for project in ("", "a/b", None, 5):
        with refused("project_id must be a non-empty string without slashes"):
            PubSub(project)  # type: ignore[arg-type]
    with refused("queue must be a MessageQueue, not str"):
        PubSub(queue="queue")  # type: ignore[arg-type]
    with refused("Set either queue, or data, limits and clock, not both"):
        PubSub(queue=MessageQueue(), data="folder")
    for name in ("", None, 5, "projects/p/topics/", "a/b"):
        with pytest.raises(InvalidArgumentError):
            PubSub().topic(name)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            PubSub().subscription(name)  # type: ignore[arg-type]


@story("memory")
async def test_missing_resources_raise_not_found(harness: Harness) -> None:
    topic = harness.pubsub.topic("nothing")
    words = "Topic not found: projects/penstock/topics/nothing"
    for publishing in (topic.publish_message(b"a"), topic.publish_json({}), topic.publish(b"b")):
        with pytest.raises(NotFoundError, match=words) as error:
            await publishing
        assert error.value.code == 5
    with pytest.raises(NotFoundError, match="Subscription not found: projects/penstock/subscriptions/nothing"):
        await harness.pubsub.subscription("nothing").pull()
    with pytest.raises(NotFoundError, match="Subscription not found"):
        harness.pubsub.subscription("nothing").open()
