"""Messages on the standard paths: put, get, peek, update, delete and clear."""

from __future__ import annotations

import pytest

from tests.doors.azure.harness import RFC1123, Harness, body_of, place_of

FIELDS = [
    "MessageId",
    "InsertionTime",
    "ExpirationTime",
    "PopReceipt",
    "TimeNextVisible",
    "DequeueCount",
    "MessageText",
]


def test_a_put_answers_the_id_and_the_receipt(orders: Harness) -> None:
    answer = orders.put("hello")
    (item,) = answer.xml
    assert answer.xml.tag == "QueueMessagesList"
    assert [field.tag for field in item] == FIELDS[:5]
    assert all(RFC1123.fullmatch(answer.text(name)) for name in ("InsertionTime", "ExpirationTime", "TimeNextVisible"))
    assert answer.headers["content-type"] == "application/xml"


def test_a_get_answers_every_field_in_order_and_counts(orders: Harness) -> None:
    put = orders.put("hello")
    got = orders.get()
    assert [field.tag for field in got.xml[0]] == FIELDS
    assert got.text("MessageId") == put.text("MessageId")
    assert got.text("InsertionTime") == put.text("InsertionTime")
    assert got.text("ExpirationTime") == put.text("ExpirationTime")
    assert got.text("PopReceipt") != put.text("PopReceipt")
    assert (got.text("DequeueCount"), got.text("MessageText")) == ("1", "hello")


def test_a_message_is_invisible_for_its_timeout_and_then_comes_again(orders: Harness) -> None:
    orders.put()
    assert orders.get(visibilitytimeout=5).texts("DequeueCount") == ["1"]
    assert orders.get().body.endswith(b"<QueueMessagesList />")
    orders.clock.advance(5)
    assert orders.get().texts("DequeueCount") == ["2"]


def test_the_default_timeout_is_30_seconds(orders: Harness) -> None:
    orders.put()
    orders.get()
    orders.clock.advance(29)
    assert orders.get().texts("MessageId") == []
    orders.clock.advance(1)
    assert len(orders.get().texts("MessageId")) == 1


def test_messages_come_in_the_order_they_were_put(orders: Harness) -> None:
    for number in range(5):
        orders.put(str(number))
    assert orders.get(numofmessages=3).texts("MessageText") == ["0", "1", "2"]
    assert orders.get(numofmessages=32).texts("MessageText") == ["3", "4"]


def test_a_put_may_hide_its_message_for_a_while(orders: Harness) -> None:
    orders.put("later", visibilitytimeout=60)
    orders.put("now")
    assert orders.get(numofmessages=32).texts("MessageText") == ["now"]
    orders.clock.advance(60)
    assert "later" in orders.get(numofmessages=32).texts("MessageText")


def test_a_message_expires(orders: Harness) -> None:
    orders.put(messagettl=10)
    orders.clock.advance(9)
    assert len(orders.peek().texts("MessageId")) == 1
    orders.clock.advance(1)
    assert orders.get().texts("MessageId") == []


def test_a_life_of_minus_one_never_ends(orders: Harness) -> None:
    answer = orders.put(messagettl=-1)
    assert answer.text("ExpirationTime") == "Fri, 31 Dec 9999 23:59:59 GMT"
    orders.clock.advance(400 * 86400)
    assert len(orders.get().texts("MessageId")) == 1


def test_a_life_may_be_longer_than_a_week(orders: Harness) -> None:
    orders.put(messagettl=30 * 86400)
    orders.clock.advance(29 * 86400)
    assert len(orders.get().texts("MessageId")) == 1


def test_a_peek_changes_nothing_and_shows_no_receipt(orders: Harness) -> None:
    orders.put("a")
    orders.put("b")
    for _ in range(2):
        peeked = orders.peek(numofmessages=32)
        assert peeked.texts("MessageText") == ["a", "b"]
        assert peeked.texts("DequeueCount") == ["0", "0"]
        assert [field.tag for field in peeked.xml[0]] == [
            f for f in FIELDS if f not in ("PopReceipt", "TimeNextVisible")
        ]
    assert orders.get(numofmessages=32).texts("DequeueCount") == ["1", "1"]
    assert orders.peek().texts("MessageId") == []


def test_an_update_gives_a_new_receipt_a_new_text_and_a_new_time(orders: Harness) -> None:
    orders.put("old")
    got = orders.get()
    answer = orders.ask("PUT", f"{place_of(got)}&visibilitytimeout=10", body_of("new"))
    assert answer.status == 204
    assert RFC1123.fullmatch(answer.headers["x-ms-time-next-visible"])
    assert answer.headers["x-ms-popreceipt"] != got.text("PopReceipt")
    orders.clock.advance(10)
    again = orders.get()
    assert (again.text("MessageText"), again.text("DequeueCount")) == ("new", "2")


def test_an_update_without_a_body_keeps_the_text(orders: Harness) -> None:
    orders.put("kept")
    assert orders.ask("PUT", f"{place_of(orders.get())}&visibilitytimeout=0").status == 204
    assert orders.get().text("MessageText") == "kept"


def test_a_receipt_of_an_update_is_good_and_the_old_one_is_not(orders: Harness) -> None:
    orders.put()
    got = orders.get()
    updated = orders.ask("PUT", f"{place_of(got)}&visibilitytimeout=60").headers["x-ms-popreceipt"]
    assert orders.ask("DELETE", place_of(got)).code == "PopReceiptMismatch"
    assert orders.ask("DELETE", f"orders/messages/{got.text('MessageId')}?popreceipt={updated}").status == 204


def test_a_put_receipt_is_good_until_the_first_get(orders: Harness) -> None:
    first, second = orders.put("1"), orders.put("2")
    assert orders.ask("DELETE", place_of(first)).status == 204
    assert orders.get(numofmessages=32).texts("MessageText") == ["2"]
    assert orders.ask("DELETE", place_of(second)).code == "PopReceiptMismatch"


def test_a_receipt_outlives_its_timeout_until_the_next_get(orders: Harness) -> None:
    orders.put()
    got = orders.get(visibilitytimeout=1)
    orders.clock.advance(2)
    assert orders.ask("DELETE", place_of(got)).status == 204
    assert orders.count() == 0


def test_a_deleted_message_is_not_found(orders: Harness) -> None:
    orders.put()
    got = orders.get()
    assert orders.ask("DELETE", place_of(got)).status == 204
    answer = orders.ask("DELETE", place_of(got))
    assert (answer.status, answer.code) == (404, "MessageNotFound")


def test_an_expired_message_is_not_found(orders: Harness) -> None:
    orders.put(messagettl=5)
    got = orders.get(visibilitytimeout=60)
    orders.clock.advance(6)
    assert orders.ask("PUT", f"{place_of(got)}&visibilitytimeout=5").code == "MessageNotFound"
    assert orders.ask("DELETE", place_of(got)).code == "MessageNotFound"


def test_a_visibility_beyond_the_expiry_is_accepted(orders: Harness) -> None:
    orders.put(messagettl=60)
    got = orders.get()
    assert orders.ask("PUT", f"{place_of(got)}&visibilitytimeout=604800").status == 204


def test_an_id_of_another_queue_is_not_found_here(orders: Harness) -> None:
    orders.create("other")
    orders.put()
    got = orders.get()
    assert orders.ask("DELETE", place_of(got, "other")).code == "MessageNotFound"


def test_a_clear_takes_hidden_messages_too(orders: Harness) -> None:
    orders.put("1", visibilitytimeout=100)
    orders.put("2")
    orders.get()
    assert orders.count() == 2
    assert orders.ask("DELETE", "orders/messages").status == 204
    assert orders.count() == 0
    orders.clock.advance(200)
    assert orders.get(numofmessages=32).texts("MessageId") == []


def test_the_count_includes_invisible_messages(orders: Harness) -> None:
    orders.put()
    orders.put()
    orders.get()
    assert orders.count() == 2


@pytest.mark.parametrize("text", ["", " ", "\n\t \n", "  padded  "])
def test_empty_and_blank_texts_come_back_exactly(orders: Harness, text: str) -> None:
    orders.put(text)
    assert orders.get().text("MessageText") == text


def test_any_content_type_is_accepted(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages", body_of("x"), Content_Type="application/x-www-form-urlencoded")
    assert answer.status == 201


def test_old_versions_get_a_put_without_a_body(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages", body_of("x"), x_ms_version="2015-12-11")
    assert (answer.status, answer.body) == (201, b"")


def test_bodies_of_other_doors_that_xml_cannot_hold_are_shown_in_base64(orders: Harness) -> None:
    from penstock.broker.model import Draft

    drafts = [Draft(b"\x00\xff"), Draft("ü".encode())]
    orders.run(lambda: orders.queue.publish("projects/devstoreaccount1/topics/orders", drafts))
    assert orders.get(numofmessages=2).texts("MessageText") == ["AP8=", "ü"]


@pytest.mark.parametrize(
    "body", [b"<QueueMessage/>", b"<QueueMessage></QueueMessage>", b"<QueueMessage>\n</QueueMessage>"]
)
def test_an_update_without_a_text_keeps_the_text(orders: Harness, body: bytes) -> None:
    orders.put("kept")
    assert orders.ask("PUT", f"{place_of(orders.get())}&visibilitytimeout=0", body).status == 204
    assert orders.get().text("MessageText") == "kept"
