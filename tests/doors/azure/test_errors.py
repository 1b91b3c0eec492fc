"""Each row of the error table: the status, the code in header and body, and the rest of the body."""

from __future__ import annotations

import base64
import hashlib
import http.client
from collections.abc import Callable
from itertools import product

import pytest

from penstock import errors
from penstock.doors.azure.errors import BROKER_ERRORS, CODES, STATUSES, from_broker
from penstock.errors import PenstockError
from tests.doors.azure.harness import Answer, Harness, body_of, place_of
from tests.doors.azure.signing import ACCOUNT

WEEK = 604800


def leaves(kind: type[PenstockError]) -> list[type[PenstockError]]:
    below = [leaf for each in kind.__subclasses__() for leaf in leaves(each)]
    return below or [kind]


def test_every_error_of_the_broker_has_a_row() -> None:
    for kind in leaves(errors.PenstockError):
        if kind.__module__.startswith("penstock."):
            assert any(base in BROKER_ERRORS for base in kind.__mro__), kind
            assert from_broker(kind("secret")).code in CODES


def test_every_code_that_is_used_is_known() -> None:
    assert set(BROKER_ERRORS.values()) | set(STATUSES.values()) <= CODES.keys()


@pytest.mark.parametrize(
    ("method", "path", "code", "extras"),
    [
        ("GET", "orders/messages?numofmessages=0", "OutOfRangeQueryParameterValue", ("numofmessages", "0", "1", "32")),
        (
            "GET",
            "orders/messages?numofmessages=33",
            "OutOfRangeQueryParameterValue",
            ("numofmessages", "33", "1", "32"),
        ),
        (
            "GET",
            "orders/messages?visibilitytimeout=0",
            "OutOfRangeQueryParameterValue",
            ("visibilitytimeout", "0", "1", str(WEEK)),
        ),
        (
            "GET",
            f"orders/messages?visibilitytimeout={WEEK + 1}",
            "OutOfRangeQueryParameterValue",
            ("visibilitytimeout", str(WEEK + 1), "1", str(WEEK)),
        ),
        (
            "POST",
            "orders/messages?visibilitytimeout=-1",
            "OutOfRangeQueryParameterValue",
            ("visibilitytimeout", "-1", "0", str(WEEK)),
        ),
        ("GET", "?comp=list&maxresults=0", "OutOfRangeQueryParameterValue", ("maxresults", "0", "1", "5000")),
        ("GET", "?comp=list&timeout=0", "OutOfRangeQueryParameterValue", ("timeout", "0", "1", "2147483647")),
    ],
)
def test_a_number_out_of_range(
    orders: Harness, method: str, path: str, code: str, extras: tuple[str, str, str, str]
) -> None:
    answer = orders.ask(method, path, body_of("x") if method == "POST" else None)
    assert (answer.status, answer.code) == (400, code)
    names = ("QueryParameterName", "QueryParameterValue", "MinimumAllowed", "MaximumAllowed")
    assert tuple(answer.text(name) for name in names) == extras


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "orders/messages?messagettl=0", "messagettl must be at least 1, or -1 for ever"),
        ("POST", "orders/messages?messagettl=-2", "messagettl must be at least 1, or -1 for ever"),
        (
            "POST",
            "orders/messages?messagettl=10&visibilitytimeout=10",
            "messagettl must be greater than visibilitytimeout",
        ),
        ("POST", "orders/messages?messagettl=ten", "Not an integer"),
        ("GET", "orders/messages?numofmessages=1.5", "Not an integer"),
        ("GET", "orders/messages?timeout=abc", "Not an integer"),
        ("POST", "orders/messages?timeout=", "Not an integer"),
        ("GET", "?comp=list&timeout=1.5", "Not an integer"),
        ("GET", "orders/messages?peekonly=maybe", "Not a boolean"),
        ("GET", "orders/messages?peekonly=1", "Not a boolean"),
        ("GET", "orders/messages?peekonly=true&visibilitytimeout=5", "Not a valid parameter in conjunction with peek"),
        ("GET", "orders/messages?visibilitytimeout=%C2%B2", "Not an integer"),
        ("GET", "orders/messages?numofmessages=1&numofmessages=2", "Given more than once"),
        ("DELETE", "orders/messages/x", "Invalid pop receipt format"),
        ("DELETE", "orders/messages/x?popreceipt=not*base64", "Invalid pop receipt format"),
        ("DELETE", "orders/messages/x?popreceipt=abc", "Invalid pop receipt format"),
        ("GET", "orders?comp=nothing", "Not a known operation"),
        ("GET", "?restype=service&comp=stats", "Statistics are at the secondary endpoint"),
        ("GET", "?comp=list&include=everything", "Only metadata can be included"),
    ],
)
def test_an_invalid_value(orders: Harness, method: str, path: str, reason: str) -> None:
    answer = orders.ask(method, path, body_of("x") if method == "POST" else None)
    assert (answer.status, answer.code, answer.text("Reason")) == (400, "InvalidQueryParameterValue", reason)


LOSING = [  # documents whose content would be lost if they were accepted
    b"<QueueMessage><MessageText>a<b>bold</b>c</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>one</MessageText><MessageText>two</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>one</MessageText><Other>two</Other></QueueMessage>",
    b"<QueueMessage>lost<MessageText>one</MessageText></QueueMessage>",
]


@pytest.mark.parametrize("body", LOSING)
def test_no_content_is_lost(orders: Harness, body: bytes) -> None:
    """003 AC1: markup that is not escaped, or a second text, is refused whole, in the dialect as well."""
    answer = orders.ask("POST", "orders/messages", body)
    assert (answer.status, answer.code) == (400, "InvalidXmlDocument")
    assert orders.dialect("PUT", "inbox").status == 201
    answer = orders.dialect("POST", "inbox/messages", body)
    assert (answer.status, answer.code) == (400, "InvalidXmlDocument")
    assert (orders.count(), orders.dialect("GET", "inbox/messages").texts("MessageId")) == (0, [])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"<QueueMessage/>",
        b"<QueueMessage><Other>x</Other></QueueMessage>",
        b"<Message><MessageText>x</MessageText></Message>",
        b"<QueueMessage><MessageText>x</QueueMessage>",
        b"<QueueMessage><MessageText>\x01</MessageText></QueueMessage>",
        b"<QueueMessage><MessageText>&#0;</MessageText></QueueMessage>",
        b"<QueueMessage><MessageText>&unknown;</MessageText></QueueMessage>",
        b"<QueueMessage><MessageText>\xff</MessageText></QueueMessage>",
        b'<!DOCTYPE q [<!ENTITY e "boom">]><QueueMessage><MessageText>&e;</MessageText></QueueMessage>',
        b'<?xml-stylesheet href="x"?><QueueMessage><MessageText>x</MessageText></QueueMessage>',
    ],
)
def test_bad_xml(orders: Harness, body: bytes) -> None:
    answer = orders.ask("POST", "orders/messages", body)
    assert (answer.status, answer.code) == (400, "InvalidXmlDocument")
    assert orders.count() == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "absent/messages"),
        ("GET", "absent/messages"),
        ("GET", "absent/messages?peekonly=true"),
        ("DELETE", "absent/messages"),
        ("DELETE", "absent/messages/x?popreceipt=MDAw"),
        ("PUT", "absent/messages/x?popreceipt=MDAw&visibilitytimeout=1"),
        ("DELETE", "absent"),
        ("GET", "absent?comp=metadata"),
        ("PUT", "absent?comp=metadata"),
    ],
)
def test_an_unknown_queue(azure: Harness, method: str, path: str) -> None:
    answer = azure.ask(method, path, body_of("x") if method == "POST" else None)
    assert (answer.status, answer.code) == (404, "QueueNotFound")


def test_an_unknown_message(orders: Harness) -> None:
    answer = orders.ask("DELETE", "orders/messages/550e8400-e29b-41d4-a716-446655440000?popreceipt=MDAw")
    assert (answer.status, answer.code) == (404, "MessageNotFound")


def test_an_unknown_account(azure: Harness) -> None:
    answer = azure.send("GET", f"/nobody?comp=list&{azure.sas}")
    assert (answer.status, answer.code) == (404, "ResourceNotFound")


@pytest.mark.parametrize("receipt", [base64.b64encode(b"of some other server").decode(), "MDAw", "AgAAAAMAAAAAAAAA"])
def test_a_foreign_receipt(orders: Harness, receipt: str) -> None:
    orders.put()
    found = orders.get().text("MessageId")
    answer = orders.ask("DELETE", f"orders/messages/{found}?popreceipt={receipt}")
    assert (answer.status, answer.code) == (400, "PopReceiptMismatch")


def test_a_stale_receipt(orders: Harness) -> None:
    orders.put()
    got = orders.get(visibilitytimeout=1)
    orders.clock.advance(1)
    orders.get()
    for method, more in (("DELETE", ""), ("PUT", "&visibilitytimeout=1")):
        answer = orders.ask(method, place_of(got) + more)
        assert (answer.status, answer.code) == (400, "PopReceiptMismatch")


def test_an_update_needs_its_timeout(orders: Harness) -> None:
    orders.put()
    answer = orders.ask("PUT", place_of(orders.get()))
    assert (answer.status, answer.code) == (400, "MissingRequiredQueryParameter")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ab", "OutOfRangeInput"),
        ("a" * 64, "OutOfRangeInput"),
        ("Capital", "InvalidResourceName"),
        ("under_score", "InvalidResourceName"),
        ("-start", "InvalidResourceName"),
        ("end-", "InvalidResourceName"),
        ("two--hyphens", "InvalidResourceName"),
        ("sp%20ace", "InvalidResourceName"),
        ("..%2f..%2fetc", "InvalidUri"),
        ("%c3%bcmlaut", "InvalidResourceName"),
    ],
)
def test_an_invalid_queue_name(azure: Harness, name: str, code: str) -> None:
    """For every operation: QueueNotFound would be true, but would hide the mistake in the name."""
    for method, path in (
        ("PUT", name),
        ("DELETE", name),
        ("GET", f"{name}?comp=metadata"),
        ("PUT", f"{name}?comp=metadata"),
        ("GET", f"{name}/messages"),
        ("GET", f"{name}/messages?peekonly=true"),
        ("POST", f"{name}/messages"),
        ("DELETE", f"{name}/messages"),
        ("DELETE", f"{name}/messages/x?popreceipt=MDAw"),
    ):
        answer = azure.ask(method, path, body_of("x") if method == "POST" else None)
        assert (answer.status, answer.code) == (400, code), (method, path)


def test_an_invalid_name_is_refused_as_by_the_service(azure: Harness) -> None:
    length = "The specified resource name length is not within the permissible limits.\n"
    assert azure.ask("PUT", "ab").text("Message").startswith(length)
    characters = "The specifed resource name contains invalid characters.\n"  # spelled as the service spells it
    assert azure.ask("PUT", "under_score").text("Message").startswith(characters)
    assert azure.dialect("GET", "under_score/messages").code == "InvalidQueueName"
    range_words = "One of the request inputs is out of range.\n"
    assert azure.ask("GET", "?comp=list&marker=%2Fother%2Fqueue").text("Message").startswith(range_words)


@pytest.mark.parametrize("name", ["abc", "1-digit-first", "a" * 63, "000"])
def test_a_valid_queue_name(azure: Harness, name: str) -> None:
    assert azure.ask("PUT", name).status == 201


def test_a_text_over_the_limit(orders: Harness) -> None:
    assert orders.ask("POST", "orders/messages", body_of("x" * 65536)).status == 201
    answer = orders.ask("POST", "orders/messages", body_of("x" * 65537))
    assert (answer.status, answer.code, answer.text("MaxLimit")) == (413, "RequestBodyTooLarge", "65536")
    answer = orders.ask("POST", "orders/messages", body_of("ü" * 32769))
    assert (answer.status, answer.code) == (413, "RequestBodyTooLarge")


def test_a_body_over_the_limit_of_the_server(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages", b"x" * 131585)
    assert (answer.status, answer.code, answer.text("MaxLimit")) == (413, "RequestBodyTooLarge", "131584")


def test_an_invalid_version(azure: Harness) -> None:
    answer = azure.ask("GET", "?comp=list", x_ms_version="newest")
    assert (answer.status, answer.code) == (400, "InvalidHeaderValue")
    assert (answer.text("HeaderName"), answer.text("HeaderValue")) == ("x-ms-version", "newest")


@pytest.mark.parametrize("version", ["2009-09-19", "2026-10-06", "2099-12-31"])
def test_any_version_is_accepted_and_echoed(azure: Harness, version: str) -> None:
    answer = azure.ask("GET", "?comp=list", x_ms_version=version)
    assert (answer.status, answer.headers["x-ms-version"]) == (200, version)


def test_a_long_life_needs_a_version_that_knows_it(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages?messagettl=604801", body_of("x"), x_ms_version="2017-04-17")
    assert answer.code == "OutOfRangeQueryParameterValue"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-ms-meta-": "x"}, "EmptyMetadataKey"),
        ({"x-ms-meta-1st": "x"}, "InvalidMetadata"),
        ({"x-ms-meta-a-b": "x"}, "InvalidMetadata"),
        ({"x-ms-meta-a": "gr\xfc\xdfe"}, "InvalidMetadata"),
        ({"x-ms-meta-a": "a\tb"}, "InvalidMetadata"),
        ({"x-ms-meta-big": "x" * 8190}, "MetadataTooLarge"),
    ],
)
def test_invalid_metadata(azure: Harness, headers: dict[str, str], code: str) -> None:
    answer = azure.send("PUT", f"/{ACCOUNT}/orders?{azure.sas}", headers=headers)
    assert (answer.status, answer.code) == (400, code)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("PATCH", "orders", 405, "UnsupportedHttpVerb"),
        ("POST", "orders?comp=metadata", 405, "UnsupportedHttpVerb"),
        ("GET", "orders/other", 400, "InvalidUri"),
        ("GET", "orders/messages/a/b", 400, "InvalidUri"),
        ("GET", "", 400, "InvalidUri"),
        ("GET", "?comp=list&marker=%2Fother%2Fqueue", 400, "OutOfRangeInput"),
        ("PUT", "?restype=service&comp=properties", 400, "InvalidXmlDocument"),
    ],
)
def test_unknown_operations(orders: Harness, method: str, path: str, status: int, code: str) -> None:
    answer = orders.ask(method, path)
    assert (answer.status, answer.code) == (status, code)


def test_an_error_says_its_request_and_time_and_repeats_no_control_characters(orders: Harness) -> None:
    answer = orders.ask("GET", "orders/messages?numofmessages=%00%01", x_ms_client_request_id="mine")
    message = answer.text("Message")
    assert f"RequestId:{answer.headers['x-ms-request-id']}\nTime:20" in message
    assert answer.headers["x-ms-client-request-id"] == "mine"
    assert answer.text("QueryParameterValue") == "\ufffd\ufffd"


def test_head_has_the_code_in_its_header_only(azure: Harness) -> None:
    answer = azure.ask("HEAD", "absent?comp=metadata")
    assert (answer.status, answer.body, answer.headers["x-ms-error-code"]) == (404, b"", "QueueNotFound")


def test_overload_is_server_busy(orders: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*arguments: object) -> None:
        raise errors.ResourceExhaustedError("no room for anybody")

    monkeypatch.setattr(orders.queue, "publish", full)
    answer = orders.ask("POST", "orders/messages", body_of("x"))
    assert (answer.status, answer.code) == (503, "ServerBusy")
    assert b"no room for anybody" not in answer.body


def test_a_bug_is_an_internal_error_without_details(orders: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*arguments: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(orders.queue, "publish", broken)
    answer = orders.ask("POST", "orders/messages", body_of("x"))
    assert (answer.status, answer.code) == (500, "InternalError")
    assert b"secret" not in answer.body
    assert orders.ask("GET", "orders/messages").status == 200


def test_what_is_not_http_is_refused_in_xml(azure: Harness) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", azure.port, timeout=10)
    connection.putrequest("GET", "/", skip_host=True)
    connection.endheaders()
    response = connection.getresponse()
    answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    connection.close()
    assert (answer.status, answer.code) == (400, "InvalidInput")


def test_a_queue_of_another_topic_is_in_the_way(azure: Harness) -> None:
    """Another protocol created a subscription with the name of the queue, on another topic."""
    home = f"projects/{ACCOUNT}"
    azure.run(lambda: azure.queue.create_topic(f"{home}/topics/elsewhere"))
    azure.run(lambda: azure.queue.create_subscription(f"{home}/subscriptions/taken", f"{home}/topics/elsewhere"))
    answer = azure.ask("PUT", "taken")
    assert (answer.status, answer.code) == (409, "QueueAlreadyExists")


Refusal = Callable[[Harness], Answer]


def test_a_life_that_ends_while_hidden_names_the_visibility(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages?messagettl=10&visibilitytimeout=30", body_of("x"))
    assert (answer.text("QueryParameterName"), answer.text("QueryParameterValue")) == ("visibilitytimeout", "30")


CENTURY = 100 * 366 * 86400


@pytest.mark.parametrize("seconds", [CENTURY + 1, 10**17])
def test_a_time_to_live_that_was_cut_has_a_warning(orders: Harness, seconds: int) -> None:
    answer = orders.ask("POST", f"orders/messages?messagettl={seconds}", body_of("x"))
    assert (answer.status, answer.headers["warning"]) == (201, f'299 - "messagettl was cut to {CENTURY} seconds"')
    answer = orders.ask("POST", f"orders/messages?messagettl={CENTURY}", body_of("x"))
    assert (answer.status, "warning" in answer.headers) == (201, False)


@pytest.mark.parametrize("timeout", ["1", "30", "90", "100000"])
def test_a_timeout_is_accepted_everywhere(orders: Harness, timeout: str) -> None:
    assert orders.ask("GET", f"orders/messages?timeout={timeout}").status == 200
    assert orders.ask("GET", f"orders/messages?timeout={timeout}&peekonly=False").status == 200


@pytest.mark.parametrize(
    ("digest", "code"),
    [
        (base64.b64encode(hashlib.md5(body_of("x"), usedforsecurity=False).digest()).decode(), ""),
        (base64.b64encode(b"0" * 16).decode(), "Md5Mismatch"),
        (base64.b64encode(b"0" * 15).decode(), "InvalidMd5"),
        ("not*base64", "InvalidMd5"),
    ],
)
def test_a_body_must_match_its_md5(orders: Harness, digest: str, code: str) -> None:
    """A body with a Content-MD5 is stored only if the digest matches."""
    answer = orders.ask("POST", "orders/messages", body_of("x"), Content_MD5=digest)
    assert (answer.status, answer.headers.get("x-ms-error-code", "")) == (400 if code else 201, code)
    assert orders.count() == (0 if code else 1)


def test_guessed_receipts_delete_no_message(orders: Harness) -> None:
    """003: a receipt identifies its holder. Receipts that counted up in Base64 were guessed with 22 tries."""
    put = orders.ask("POST", "orders/messages", body_of("a"))
    held = orders.ask("GET", "orders/messages")
    message = held.text("MessageId")
    assert put.text("PopReceipt") != held.text("PopReceipt")
    for number, stamp in product(range(1, 8), range(12)):
        guess = base64.b64encode(f"0{number}-0-{stamp}".encode()).decode()
        assert orders.ask("DELETE", f"orders/messages/{message}?popreceipt={guess}").status == 400
    assert orders.ask("DELETE", place_of(held)).status == 204


def test_a_compressed_body_is_refused(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages", body_of("x"), Content_Encoding="gzip")
    assert (answer.status, answer.code) == (400, "UnsupportedHeader")
    assert orders.count() == 0


@pytest.mark.parametrize("code", ["AccountIsDisabled", "OperationTimedOut"])
def test_a_code_that_only_fault_injection_uses(orders: Harness, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    error = errors.UnavailableError("asked for")
    error.protocol_code = code

    async def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(orders.queue, "publish", fail)
    answer = orders.ask("POST", "orders/messages", body_of("x"))
    assert (answer.status, answer.code) == (CODES[code][0], code)


@pytest.mark.parametrize("header", [{}, {"If_Match": '"x"'}, {"If_None_Match": "*"}])
def test_unknown_parameters_and_headers_are_ignored(orders: Harness, header: dict[str, str]) -> None:
    answer = orders.ask("POST", "orders/messages?unheard=of", body_of("x"), **header)
    assert answer.status == 201
