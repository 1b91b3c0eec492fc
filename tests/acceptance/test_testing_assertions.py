"""The assertions of the test kit, with Google's and Azure's clients and Penstock's text client."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.pubsub_v1.types import PublisherOptions

from penstock.errors import NotFoundError, UnavailableError
from penstock.testing import Project, Queue, Server, Subscription, Topic, server

SECONDS = 60.0  # only a failing test waits this long
SHORTLY = 0.2  # seconds to wait for something that must not happen

# the flag makes a pull return without waiting
pytestmark = pytest.mark.filterwarnings("ignore:The return_immediately flag")


class Google:
    def __init__(self, project: Project) -> None:
        self.project, self.clock = project, project.clock
        ordered = PublisherOptions(enable_message_ordering=True)
        self.publisher = project.google_publisher(publisher_options=ordered)
        self.subscriber = project.google_subscriber()
        self.orders, self.billing = project.topic("orders"), project.subscription("billing")
        self.publisher.create_topic(name=self.orders)

    def subscribe(self, **options: Any) -> Google:
        self.subscriber.create_subscription({"name": self.billing, "topic": self.orders, **options})
        return self

    def publish(self, text: str, ordering_key: str = "", **attributes: str) -> str:
        published = self.publisher.publish(self.orders, text.encode(), ordering_key=ordering_key, **attributes)
        return str(published.result(SECONDS))

    def pull(self) -> list[Any]:
        request = {"subscription": self.billing, "max_messages": 10, "return_immediately": True}
        return list(self.subscriber.pull(request, timeout=SECONDS).received_messages)

    def ack(self, *received: Any) -> None:
        self.subscriber.acknowledge(subscription=self.billing, ack_ids=[each.ack_id for each in received])

    def nack(self, *received: Any) -> None:
        ids = [each.ack_id for each in received]
        self.subscriber.modify_ack_deadline(subscription=self.billing, ack_ids=ids, ack_deadline_seconds=0)


@pytest.fixture
def google(penstock_project: Project) -> Google:
    return Google(penstock_project)


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        call(*arguments, **options)
    return str(raised.value)


# ---------------------------------------------------------------------- names


def test_names_are_strings_for_clients(penstock_project: Project) -> None:
    topic, queue = penstock_project.topic("orders"), penstock_project.queue("work")
    assert isinstance(topic, Topic)
    assert topic == f"projects/{penstock_project.name}/topics/orders"
    assert (topic.id, queue, queue.id) == ("orders", "work", "work")
    assert isinstance(queue.subscription, Subscription)
    assert queue.topic.id == "work"


def test_missing_resources_raise_not_found(penstock_project: Project) -> None:
    with pytest.raises(NotFoundError, match=r"Topic not found: projects/.*/topics/nowhere"):
        penstock_project.topic("nowhere").published()
    with pytest.raises(NotFoundError, match=r"Subscription not found: projects/.*/subscriptions/nobody"):
        penstock_project.subscription("nobody").settle()
    with pytest.raises(NotFoundError):
        penstock_project.queue("nothing").messages  # noqa: B018 - asking is what is tested


# ---------------------------------------------------------------------- published


def test_published_finds_matching_messages(google: Google) -> None:
    google.publish("one", kind="new", of="billing")
    google.publish("two", kind="new", ordering_key="k")
    orders = google.orders
    assert [each.text for each in orders.published()] == ["one", "two"]
    assert [each.data for each in orders.published(attributes={"kind": "new"})] == [b"one", b"two"]
    (one,) = orders.published("one", attributes={"kind": "new"}, times=1)
    assert (one.offset, one.attributes, one.ordering_key) == (0, {"kind": "new", "of": "billing"}, "")
    (two,) = orders.published(b"two", ordering_key="k")
    assert two.id == str(int(one.id) + 1)
    assert orders.published("three", times=0) == []
    orders.published(ordering_key="", times=1)


def test_published_lists_the_messages_when_none_matches(google: Google) -> None:
    assert refused(google.orders.published, "one") == (
        "No message with data 'one' was published to orders. The topic has no messages."
    )
    google.publish("two", kind="old")
    google.publish("one", ordering_key="k")
    text = refused(google.orders.published, "one", attributes={"kind": "new"}, ordering_key="")
    wanted = "data 'one' and attributes {'kind': 'new'} and ordering key ''"
    assert text.splitlines() == [
        f"No message with {wanted} was published to orders. The messages are:",
        "  0: 'two' kind='old'  (other data, kind is 'old')",
        "  1: 'one' key='k'  (ordering key 'k', no attribute kind)",
    ]
    text = refused(google.orders.published, "one", times=0)
    assert text.startswith("1 message with data 'one' was published to orders, not 0. The messages are:\n")
    assert "\n  1: 'one' key='k'" in text


def test_of_many_messages_the_most_similar_are_listed(google: Google) -> None:
    for number in range(30):
        google.publish(str(number), kind="new" if number == 29 else "old")
    text = refused(google.orders.published, "x" * 100, attributes={"kind": "new"})
    assert f"data '{'x' * 59}... (100 bytes)" in text
    first, *_, last = text.splitlines()[1:]
    assert (first, last) == ("  29: '29' kind='new'  (other data)", "  and 10 more")


def test_published_raises_unavailable_if_messages_were_removed(google: Google) -> None:
    google.publish("old")
    google.clock.advance(days=2)
    google.publish("young")
    google.orders.published("young")
    for times in (None, 0, 1):
        with pytest.raises(UnavailableError, match="orders no longer has its first message"):
            google.orders.published("old", times=times)
    text = refused(google.orders.published, "young", times=0)
    assert text.startswith("1 message with data 'young' was published to orders, not 0.")


def test_published_finds_bytes_that_are_not_utf8(google: Google) -> None:
    google.publisher.publish(google.orders, b"\xff\x00").result(SECONDS)
    google.orders.published(b"\xff\x00", times=1)
    assert r"0: b'\xff\x00'  (other data)" in refused(google.orders.published, b"\xfe")


# ---------------------------------------------------------------------- settle


def test_settle_ends_when_the_last_message_is_acked(google: Google) -> None:
    google.subscribe().publish("one")
    (received,) = google.pull()
    timer = threading.Timer(0.1, google.ack, [received])
    timer.start()
    google.billing.settle(SECONDS)
    timer.join()
    google.project.settle(seconds=0)


def test_settle_lists_the_messages_that_are_left(google: Google) -> None:
    policy = {"minimum_backoff": timedelta(seconds=600), "maximum_backoff": timedelta(seconds=600)}
    google.clock.freeze("2100-01-01T00:00:00Z")
    google.subscribe(ack_deadline_seconds=60, retry_policy=policy, enable_message_ordering=True)
    for text in ("failed", "leased"):
        google.publish(text)
    first, _ = google.pull()
    google.nack(first)
    google.publish("new")
    error_text = refused(google.billing.settle, SHORTLY)
    assert error_text.splitlines() == [
        "Not settled after 0.2 seconds; the time of the project is 2100-01-01 00:00:00 UTC, and stands still:",
        "  billing",
        "    0: 'failed' delivered 1 time, waits until 2100-01-01 00:10:00 UTC",
        "    1: 'leased' is leased by a consumer (Pub/Sub API) until 2100-01-01 00:01:00 UTC, delivered 1 time",
        "    2: 'new' was never delivered",
    ]
    google.clock.advance(61)
    assert "1: 'leased' delivered 1 time, waits until" in refused(google.project.settle, seconds=0)
    google.clock.advance(3600)
    assert "1: 'leased' delivered 1 time, is ready" in refused(google.project.settle, seconds=0)


def test_settle_lists_messages_held_by_their_ordering_key(google: Google) -> None:
    google.subscribe(enable_message_ordering=True)
    for text in ("first", "second"):
        google.publish(text, ordering_key="k")
    (received,) = google.pull()[:1]
    google.nack(received)
    assert "0: 'first' delivered 1 time" in refused(google.billing.settle, 0)
    assert re.search(
        r"1: 'second' (was never delivered|waits for an earlier|delivered 1 time)", refused(google.billing.settle, 0)
    )


def test_settle_ignores_filtered_messages(google: Google) -> None:
    google.subscribe(filter='attributes.kind = "new"')
    google.publish("old", kind="old")
    google.billing.settle(0)
    google.publish("new", kind="new")
    assert "1: 'new' was never delivered" in refused(google.billing.settle, 0)


def test_settle_counts_expired_messages_as_settled(google: Google) -> None:
    google.subscribe(message_retention_duration=timedelta(days=1)).publish("old")
    work = google.project.azure_queue_service().create_queue("work")
    work.send_message("an hour", time_to_live=3600)
    work.send_message("later", visibility_timeout=7200)
    google.clock.freeze()
    text = refused(google.project.settle, seconds=0)
    assert re.search(r"work\n    0: 'an hour' was never delivered\n    1: 'later' is not visible before ", text), text
    google.clock.advance(3600)
    text = refused(google.project.settle, seconds=0)
    assert "an hour" not in text
    assert "later" in text
    google.clock.advance(days=1)
    google.billing.settle(0)


def test_settle_with_an_automatic_clock(google: Google) -> None:
    policy = {"minimum_backoff": timedelta(seconds=600), "maximum_backoff": timedelta(seconds=600)}
    google.subscribe(retry_policy=policy)
    google.clock.automatic()
    attempts = list[int]()

    def answer(message: Any) -> None:
        attempts.append(1)
        message.nack() if len(attempts) < 4 else message.ack()

    stream = google.subscriber.subscribe(google.billing, callback=answer)
    google.publish("poison")
    google.project.settle(seconds=SECONDS)
    stream.cancel()
    stream.result(SECONDS)
    assert len(attempts) == 4


def test_settle_says_why_an_automatic_clock_stands_still(google: Google) -> None:
    """No consumer has requested the message yet."""
    google.project.azure_queue_service().create_queue("work").send_message("later", visibility_timeout=7200)
    google.clock.automatic()
    text = refused(google.project.settle, seconds=SHORTLY)
    why = "is automatic, and stands still because no client waits or asks for a message; move it with clock.advance:"
    assert text.splitlines()[0].endswith(f" UTC, {why}")


def test_settle_of_some_subscriptions_ignores_the_others(google: Google) -> None:
    google.subscribe().publish("one")
    audit = google.project.subscription("audit")
    google.subscriber.create_subscription(name=audit, topic=google.orders)
    google.project.settle(audit, seconds=0)
    assert "  billing\n" in refused(google.project.settle, audit, google.billing, seconds=0)


def test_a_detached_subscription_is_settled(google: Google) -> None:
    google.subscribe().publish("one")
    google.publisher.detach_subscription(request={"subscription": google.billing})
    google.billing.settle(0)


def test_long_lists_are_cut(google: Google) -> None:
    google.subscribe()
    for number in range(25):
        google.publish(str(number))
    lines = refused(google.billing.settle, 0).splitlines()
    assert (len(lines), lines[-1]) == (23, "    and more")


# ---------------------------------------------------------------------- deliveries


def test_deliveries_and_acks_of_a_message(google: Google) -> None:
    google.clock.freeze("2100-01-01T00:00:00Z")
    google.subscribe(ack_deadline_seconds=60)
    number = google.publish("one")
    assert google.billing.deliveries(number) == []
    google.nack(*google.pull())
    google.pull()
    google.clock.advance(60)
    (received,) = google.pull()
    google.ack(received)
    outcomes = [(delivery.door, delivery.outcome) for delivery in google.billing.deliveries(number)]
    assert outcomes == [("pubsub", "returned"), ("pubsub", "lapsed"), ("pubsub", "acked")]
    assert [f"{each:%M:%S}" for each in google.billing.acks(received)] == ["01:00"]
    assert google.billing.deliveries(received.message) == google.billing.deliveries(received)


def test_a_delivery_that_is_not_answered_is_open(google: Google) -> None:
    google.subscribe().publish("one")
    (received,) = google.pull()
    (delivery,) = google.billing.deliveries(received)
    assert (delivery.outcome, delivery.ended_at) == ("open", None)
    assert google.billing.acks(received) == []


def test_an_ack_after_the_deadline_that_still_counts_ends_its_delivery(google: Google) -> None:
    google.subscribe(ack_deadline_seconds=10).publish("one")
    (received,) = google.pull()
    google.clock.advance(11)
    google.ack(received)
    assert [each.outcome for each in google.billing.deliveries(received)] == ["acked"]


def test_invalid_message_ids_are_refused(google: Google) -> None:
    google.subscribe()
    assert refused(google.billing.deliveries, "5") == "No message with the id 5 was published to orders"
    number = int(google.publish("one"))
    for wrong in (number + 1, number - 1):
        assert refused(google.billing.acks, str(wrong)) == f"No message with the id {wrong} was published to orders"
    assert refused(google.billing.acks, "one").startswith("'one' is not a message id; pass an id,")


def test_never_redelivered(google: Google) -> None:
    google.subscribe()
    first, second = google.publish("one"), google.publish("two")
    one, _ = google.pull()
    google.ack(one)
    google.clock.advance(hours=1)
    google.billing.never_redelivered()
    google.nack(*google.pull())
    google.billing.never_redelivered(first)
    for text in (refused(google.billing.never_redelivered), refused(google.billing.never_redelivered, first, second)):
        assert text.startswith("billing redelivered 1 message:\n  message 1: 2 times\n    ")
        assert "Delivered to billing (Pub/Sub API)." in text
        assert "The ack deadline in billing expired" in text


def test_an_incomplete_history_raises_unavailable() -> None:
    """The stories of all projects share one ring buffer."""
    with server() as own:
        google = Google(own.project()).subscribe()
        number = google.publish("one")
        google.billing.never_redelivered(number)
        push_out_of_the_ring(own)
        for ask in (google.billing.deliveries, google.billing.acks, google.billing.never_redelivered):
            with pytest.raises(UnavailableError, match="no longer knows the whole history of message 0 of orders"):
                ask(number)
        with pytest.raises(UnavailableError):
            google.billing.never_redelivered()
        google.orders.published("one")
        young = google.publish("two")
        assert google.billing.deliveries(young) == []


def push_out_of_the_ring(own: Server) -> None:
    admin, project = own.admin, own.project("other").name
    admin.post("/topics", {"name": "many", "project": project})
    admin.post("/subscriptions", {"name": "many", "topic": "many", "project": project})
    messages = [{"data": "x"}] * 1000
    receipts = list[str]()
    for _ in range(10):
        admin.post("/topics/many/messages", {"messages": messages}, project=project)
        pulled = admin.post("/subscriptions/many/pull", {"max_messages": 1000}, project=project)["deliveries"]
        receipts += [each["receipt"] for each in pulled]
    for _ in range(20):
        admin.post("/subscriptions/many/extend", {"receipts": receipts, "seconds": 600}, project=project)


# ---------------------------------------------------------------------- dead letters


def dead_letters(google: Google) -> Google:
    dead = google.project.topic("dead")
    google.publisher.create_topic(name=dead)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
    return google.subscribe(dead_letter_policy=policy)


def test_dead_letters_of_a_subscription(google: Google) -> None:
    dead_letters(google).publish("bad", kind="new")
    assert google.billing.dead_letters() == []
    for _ in range(5):
        google.nack(*google.pull())
    google.publisher.publish(google.project.topic("dead"), b"not one").result(SECONDS)
    (dead,) = google.billing.dead_letters()
    assert (dead.text, dead.attributes["kind"]) == ("bad", "new")
    google.billing.settle(0)


def test_a_subscription_without_a_dead_letter_topic_says_so(google: Google) -> None:
    google.subscribe()
    assert refused(google.billing.dead_letters) == "billing has no dead letter topic"


def test_removed_dead_letters_raise_unavailable(google: Google) -> None:
    dead_letters(google).publish("bad")
    for _ in range(5):
        google.nack(*google.pull())
    google.clock.advance(days=2)
    with pytest.raises(UnavailableError, match="dead has only 0 of 1 dead letters of billing"):
        google.billing.dead_letters()


# ---------------------------------------------------------------------- queues


@pytest.fixture
def work(penstock_project: Project, azure_queue_service: Any) -> Queue:
    queue = penstock_project.queue("work")
    azure_queue_service.create_queue(queue)
    return queue


def test_a_queue_of_azure(work: Queue, azure_queue_service: Any, penstock_project: Project) -> None:
    client = azure_queue_service.get_queue_client(work)
    sent = client.send_message("one")
    (held,) = client.receive_messages(visibility_timeout=30)
    assert [each.outcome for each in work.deliveries(held)] == ["open"]
    work.never_redelivered()
    text = refused(work.settle, 0)
    assert re.search(
        r"  work\n    0: 'one' is leased by a consumer \(Azure Queue API\) until .* UTC, delivered 1 time", text
    ), text
    penstock_project.clock.advance(30)
    (again,) = client.receive_messages()
    assert refused(work.never_redelivered).startswith("work redelivered 1 message:")
    client.delete_message(again)
    work.settle(0)
    assert [(each.door, each.outcome) for each in work.deliveries(sent)] == [("azure", "lapsed"), ("azure", "acked")]
    assert len(work.acks(sent.id)) == 1
    assert [each.text for each in work.published("one")] == ["one"], "deleted or not"


def test_the_dead_letters_of_a_queue_are_in_its_poison_queue(work: Queue, azure_queue_service: Any) -> None:
    with pytest.raises(NotFoundError, match="work-poison"):
        work.dead_letters()
    azure_queue_service.create_queue("work-poison").send_message("bad")
    assert [each.text for each in work.dead_letters()] == ["bad"]


def test_a_queue_of_the_text_protocol(penstock_project: Project) -> None:
    text, orders = penstock_project.text_client(), penstock_project.queue("orders")
    text.send(penstock_project.text_queue("orders"), b"one")
    (message,) = text.consume(penstock_project.text_queue("orders"), wait_seconds=0.5)
    assert [each.door for each in orders.deliveries(message)] == ["text"]
    message.ack()
    orders.settle()


# ---------------------------------------------------------------------- faults


def test_faults_belong_to_the_project_and_end_with_it(penstock: Server) -> None:
    project, other = penstock.project(), penstock.project()
    fault = project.faults.add(door="azure", verb="create", error="permission_denied")
    assert fault.rule["project"] == project.name
    with pytest.raises(Exception, match="not authorized"):
        project.azure_queue_service().create_queue("work")
    other.azure_queue_service().create_queue("work")
    assert [each.id for each in project.faults] == [fault.id]
    project.end()
    assert list(project.faults) == []
    other.end()


def test_the_fixture(penstock_faults: Any, penstock_project: Project) -> None:
    assert penstock_faults is penstock_project.faults


# ---------------------------------------------------------------------- the story


def test_the_story_has_dates_and_bytes(google: Google) -> None:
    google.clock.freeze("2100-01-31T23:59:30Z")
    google.subscribe(ack_deadline_seconds=60)
    google.publisher.publish(google.orders, b"\x00\xff", kind="new").result(SECONDS)
    google.pull()
    google.clock.advance(days=2)
    google.pull()
    output = google.project.story()
    for line in (
        "    0: b'\\x00\\xff' kind='new'",
        "      2100-01-31 23:59:30.000 Published.",
        "      2100-01-31 23:59:30.000 Delivered to billing (Pub/Sub API). Ack deadline 2100-02-01 00:00:30 UTC.",
        "      2100-02-02 23:59:30.000 Delivered to billing (Pub/Sub API). Ack deadline 2100-02-03 00:00:30 UTC.",
    ):
        assert f"\n{line}\n" in output
    assert "    2100-02-02 23:59:30.000 Delivered" in refused(google.billing.never_redelivered)
