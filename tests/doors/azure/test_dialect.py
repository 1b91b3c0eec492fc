"""The dialect of seed 003 under /queue/{account}/..., clause by clause."""

from __future__ import annotations

import base64
import uuid

import pytest

from tests.doors.azure.harness import RFC1123, Answer, Harness, body_of, opened, place_of
from tests.doors.azure.signing import account_sas

HELLO = base64.b64encode(b"Hello, World!").decode()


@pytest.fixture
def inbox(azure: Harness) -> Harness:
    assert azure.dialect("PUT", "inbox").status == 201
    return azure


def put(harness: Harness, text: str = HELLO, query: str = "") -> Answer:
    return harness.dialect("POST", f"inbox/messages{query}", body_of(text))


def get(harness: Harness, query: str = "") -> Answer:
    return harness.dialect("GET", f"inbox/messages{query}")


def count(harness: Harness) -> int:
    return int(harness.dialect("GET", "inbox?comp=metadata").headers["x-ms-approximate-messages-count"])


def test_put_message(inbox: Harness) -> None:
    """003 AC1: 201 with id, times and receipt; visibilitytimeout 0..604800, messagettl 1..604800."""
    answer = put(inbox, query="?visibilitytimeout=30&messagettl=3600")
    assert answer.status == 201
    assert answer.text("MessageId")
    assert answer.text("PopReceipt")
    for name in ("InsertionTime", "ExpirationTime", "TimeNextVisible"):
        assert RFC1123.fullmatch(answer.text(name))
    assert get(inbox).texts("MessageId") == []
    inbox.clock.advance(30)
    assert get(inbox).texts("MessageText") == [HELLO]
    for name, seconds in (("visibilitytimeout", 604801), ("visibilitytimeout", -1)):
        assert put(inbox, query=f"?{name}={seconds}").code == "OutOfRangeQueryParameterValue"
    for seconds in (0, -1, 604801):
        answer = put(inbox, query=f"?messagettl={seconds}")
        assert (answer.status, answer.code) == (400, "OutOfRangeQueryParameterValue")
        assert (answer.text("MinimumAllowed"), answer.text("MaximumAllowed")) == ("1", "604800")
    assert put(inbox, query="?messagettl=604800").status == 201


def test_put_message_refuses_empty_text_and_unknown_queues(inbox: Harness) -> None:
    """003 AC1: empty text is InvalidMessageContent, an unknown queue QueueNotFound."""
    assert (put(inbox, "").status, put(inbox, "").code) == (400, "InvalidMessageContent")
    answer = inbox.dialect("POST", "absent/messages", body_of(HELLO))
    assert (answer.status, answer.code) == (404, "QueueNotFound")


def test_get_messages(inbox: Harness) -> None:
    """003 AC2: up to 32, invisible for the timeout, counted, with a new receipt each time, expired ones removed."""
    put(inbox, query="?messagettl=1")
    inbox.clock.advance(1)
    for _ in range(33):
        put(inbox)
    first = get(inbox, "?numofmessages=32&visibilitytimeout=60")
    assert first.status == 200
    assert first.texts("DequeueCount") == ["1"] * 32
    assert len(get(inbox, "?numofmessages=32").texts("MessageId")) == 1
    inbox.clock.advance(60)
    again = get(inbox, "?numofmessages=1")
    assert again.text("DequeueCount") == "2"
    assert again.text("PopReceipt") not in first.texts("PopReceipt")
    assert get(inbox, "?numofmessages=33").status == 400


def test_get_with_a_visibility_of_0_leaves_messages_visible(inbox: Harness) -> None:
    """003 AC2: visibilitytimeout 0 is allowed, and the very next get has the message again."""
    put(inbox)
    assert [get(inbox, "?visibilitytimeout=0").text("DequeueCount") for _ in range(3)] == ["1", "2", "3"]


def test_peek_messages(inbox: Harness) -> None:
    """003 AC3: nothing changes, and there is no receipt or next visibility.

    Hidden and expired messages are not shown.
    """
    put(inbox)
    put(inbox, query="?visibilitytimeout=60")
    put(inbox, query="?messagettl=1")
    inbox.clock.advance(1)
    for _ in range(2):
        peeked = get(inbox, "?peekonly=true&numofmessages=32")
        assert peeked.texts("DequeueCount") == ["0"]
        assert peeked.texts("PopReceipt") == peeked.texts("TimeNextVisible") == []
    assert get(inbox).texts("DequeueCount") == ["1"]


def test_update_message(inbox: Harness) -> None:
    """003 AC4: 204, a new receipt and time in headers, the text changed if one was sent."""
    put(inbox)
    got = get(inbox)
    new = base64.b64encode(b"Updated message").decode()
    answer = inbox.dialect("PUT", f"{place_of(got, 'inbox')}&visibilitytimeout=0", body_of(new))
    assert answer.status == 204
    assert answer.headers["x-ms-popreceipt"] != got.text("PopReceipt")
    assert RFC1123.fullmatch(answer.headers["x-ms-time-next-visible"])
    assert get(inbox).text("MessageText") == new


def test_update_message_validates(inbox: Harness) -> None:
    """003 AC4: an old receipt is InvalidPopReceipt, an unknown or expired message MessageNotFound."""
    put(inbox, query="?messagettl=100")
    got = get(inbox, "?visibilitytimeout=1")
    place = f"{place_of(got, 'inbox')}&visibilitytimeout=1"
    inbox.clock.advance(1)
    get(inbox)
    answer = inbox.dialect("PUT", place)
    assert (answer.status, answer.code) == (400, "InvalidPopReceipt")
    answer = inbox.dialect("PUT", f"inbox/messages/{uuid.uuid4()}?popreceipt=MDAw&visibilitytimeout=1")
    assert (answer.status, answer.code) == (404, "MessageNotFound")
    inbox.clock.advance(100)
    assert inbox.dialect("PUT", place).code == "MessageNotFound"


def test_delete_message(inbox: Harness) -> None:
    """003 AC5: 204 with a good receipt, and the count goes down."""
    put(inbox)
    got = get(inbox)
    assert count(inbox) == 1
    assert inbox.dialect("DELETE", place_of(got, "inbox")).status == 204
    assert count(inbox) == 0
    answer = inbox.dialect("DELETE", place_of(got, "inbox"))
    assert (answer.status, answer.code) == (404, "MessageNotFound")


def test_delete_message_validates_its_receipt(inbox: Harness) -> None:
    """003 AC5: any other receipt is InvalidPopReceipt, and the message stays."""
    put(inbox)
    found = get(inbox).text("MessageId")
    wrong = base64.b64encode(uuid.uuid4().bytes).decode().replace("+", "%2B")
    answer = inbox.dialect("DELETE", f"inbox/messages/{found}?popreceipt={wrong}")
    assert (answer.status, answer.code) == (400, "InvalidPopReceipt")
    assert count(inbox) == 1


@pytest.mark.parametrize("receipt", ["not*base64", "abc", "", "AgAAAAMAAAAAAAAA"])
def test_a_receipt_is_judged_after_queue_and_message(inbox: Harness, receipt: str) -> None:
    """003 AC4, AC5: QueueNotFound, then MessageNotFound, then InvalidPopReceipt, whatever the receipt looks like."""
    put(inbox)
    found = get(inbox).text("MessageId")
    for method, more in (("DELETE", ""), ("PUT", "&visibilitytimeout=1")):
        for place, expected in (
            (f"absent/messages/{found}", (404, "QueueNotFound")),
            (f"inbox/messages/{uuid.uuid4()}", (404, "MessageNotFound")),
            (f"inbox/messages/{found}", (400, "InvalidPopReceipt")),
        ):
            answer = inbox.dialect(method, f"{place}?popreceipt={receipt}{more}")
            assert (answer.status, answer.code) == expected
    assert count(inbox) == 1


def test_metadata_may_have_names_with_a_hyphen(azure: Harness) -> None:
    """003: the dialect takes the metadata of the specification's clients, whose names have hyphens."""
    assert azure.dialect("PUT", "inbox", **{"x-ms-meta-my-key": "1"}).status == 201
    assert azure.dialect("GET", "inbox?comp=metadata").headers["x-ms-meta-my-key"] == "1"
    assert azure.dialect("GET", "?comp=list&include=metadata").xml.findtext("Queues/Queue/Metadata/my-key") == "1"
    assert azure.dialect("PUT", "inbox?comp=metadata", **{"x-ms-meta-other-key": "2"}).status == 204
    assert azure.dialect("GET", "inbox?comp=metadata").headers["x-ms-meta-other-key"] == "2"
    for name in ("-a", "1-a", "a.b"):
        assert azure.dialect("PUT", "other", **{f"x-ms-meta-{name}": "1"}).code == "InvalidMetadata"


def test_a_message_may_be_hidden_for_the_whole_default_life(inbox: Harness) -> None:
    """003 AC1: visibilitytimeout up to 604800, with the default time to live.

    After that time the message can be received.
    """
    answer = put(inbox, query="?visibilitytimeout=604800")
    assert answer.status == 201
    inbox.clock.advance(604800 - 1)
    assert get(inbox).texts("MessageText") == []
    inbox.clock.advance(1)
    assert get(inbox).texts("MessageText") == [HELLO]
    assert put(inbox, query="?visibilitytimeout=10&messagettl=10").code == "InvalidQueryParameterValue"


def test_message_properties(inbox: Harness) -> None:
    """003 AC6: seven properties; the id is a version 4 UUID, the receipt Base64 and unique per delivery."""
    for _ in range(3):
        put(inbox)
    got = get(inbox, "?numofmessages=3&visibilitytimeout=1")
    fields = ["MessageId", "InsertionTime", "ExpirationTime", "PopReceipt", "TimeNextVisible"]
    assert [field.tag for field in got.xml[0]] == [*fields, "DequeueCount", "MessageText"]
    assert {uuid.UUID(text).version for text in got.texts("MessageId")} == {4}
    inbox.clock.advance(1)
    receipts = got.texts("PopReceipt") + get(inbox, "?numofmessages=3").texts("PopReceipt")
    assert len(set(receipts)) == 6
    assert all(base64.b64decode(text, validate=True) for text in receipts)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (HELLO, HELLO),
        ("Hello, World!", HELLO),
        ("Grüße", base64.b64encode("Grüße".encode()).decode()),
        ("Test", "Test"),
        ("Tes", "VGVz"),
        ("A===", "QT09PQ=="),
    ],
)
def test_text_is_base64_by_default(inbox: Harness, text: str, kept: str) -> None:
    """003 AC7: text in Base64 is unchanged, other text is encoded. `Test` is Base64 and is unchanged."""
    assert put(inbox, text).status == 201
    assert get(inbox).text("MessageText") == kept


def test_the_standard_path_never_encodes(azure: Harness) -> None:
    azure.create("orders")
    azure.put("Hello, World!")
    assert azure.get().text("MessageText") == "Hello, World!"


def test_creating_a_queue_again_is_always_a_conflict(inbox: Harness) -> None:
    assert (inbox.dialect("PUT", "inbox").status, inbox.dialect("PUT", "inbox").code) == (409, "QueueAlreadyExists")


def test_error_codes_of_the_dialect(azure: Harness) -> None:
    assert azure.dialect("PUT", "UPPER").code == "InvalidQueueName"
    assert azure.dialect("PUT", "ab").code == "InvalidQueueName"
    assert azure.dialect("PUT", "1st-queue").status == 201
    assert azure.dialect("GET", "1st-queue?comp=nothing").code == "InvalidQueryParameter"


def test_next_marker_is_the_last_name(azure: Harness) -> None:
    for name in ("queue1", "queue2", "queue3"):
        azure.dialect("PUT", name)
    page = azure.dialect("GET", "?comp=list&maxresults=2")
    assert b"<NextMarker>queue2</NextMarker>" in page.body
    assert azure.dialect("GET", "?comp=list&maxresults=2&marker=queue2").texts("Name") == ["queue3"]


def test_both_paths_lead_to_one_queue(azure: Harness) -> None:
    azure.create("orders")
    answer = azure.send("POST", "/queue/devstoreaccount1/orders/messages", body_of(HELLO))
    assert answer.status == 201
    assert azure.get().text("MessageText") == HELLO


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example:10001"}, {"Origin": "null"}]
)
def test_no_page_in_a_browser_can_use_the_dialect(azure: Harness, headers: dict[str, str]) -> None:
    answer = azure.dialect("PUT", "inbox", **headers)
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")


def test_with_keys_configured_the_dialect_wants_a_signature() -> None:
    key = base64.b64encode(b"k" * 32).decode()
    with opened(accounts=f"myaccount:{key}") as azure:
        assert azure.dialect("PUT", "inbox").code == "AuthenticationFailed"
        assert azure.dialect("PUT", f"inbox?{account_sas(key=key, account='myaccount')}").status == 201
        assert azure.send("PUT", "/queue/other/inbox").code == "ResourceNotFound"


def test_the_dialect_can_be_off() -> None:
    with opened(dialect=False) as azure:
        assert azure.dialect("PUT", "inbox").status in (400, 404)
