"""Any request is answered with a success or a refusal, never with a bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.http1_message import Request, Response, encode
from tests.doors.azure.direct import opened_directly
from tests.doors.azure.signing import ACCOUNT, account_sas, query, service_fields

METHODS = st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"])
PARTS = st.sampled_from(
    ["", ACCOUNT, f"{ACCOUNT}-secondary", "queue", "orders", "messages", "..", "%2e", "%ff", "\xe9"]
)
# fmt: off
NAMES = st.sampled_from([
    "comp", "restype", "popreceipt", "visibilitytimeout", "messagettl", "numofmessages", "peekonly", "prefix", "marker",
    "maxresults", "include", "sv", "ss", "srt", "sp", "st", "se", "si", "sip", "spr", "ses", "sig", "skoid", "sktid",
    "skt", "ske", "sks", "skv", "skdutid", "sduoid", "timeout", "x",
])
WORDS = st.sampled_from([
    "list", "properties", "stats", "userdelegationkey", "metadata", "acl", "redrive", "service", "true", "0", "1", "-1",
    "33", "MDAw",
])
HEADER_NAMES = st.sampled_from([
    "authorization", "x-ms-date", "date", "x-ms-version", "x-ms-meta-a", "x-ms-meta-", "x-ms-client-request-id",
    "origin", "access-control-request-method", "access-control-request-headers", "content-md5",
])
# fmt: on
VALUES = st.one_of(
    WORDS,
    st.sampled_from(["%00", "%ED%A0%80", "+", "%2B", "", "1" * 30, "2021-08-06", "2099-01-01T00:00:00Z", "127.0.0.1"]),
    st.text(st.characters(max_codepoint=0xFF, exclude_characters="\r\n\0 "), max_size=12),
)
HEADER_VALUES = st.one_of(
    st.sampled_from([f"SharedKey {ACCOUNT}:AAAA", "Bearer a.e30.c", "2021-08-06", "GET", "*", "https://a"]),
    st.text(st.characters(max_codepoint=0xFF, exclude_characters="\r\n\0"), max_size=20),
)
HEADERS = st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=4)
BODIES = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    st.text(alphabet="<>/&;QueueMsagTxt \"'!-[]", max_size=60).map(str.encode),
    st.just(b"<QueueMessage><MessageText>x</MessageText></QueueMessage>"),
    st.just(b"<SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier></SignedIdentifiers>"),
    st.just(b"<StorageServiceProperties><Cors/></StorageServiceProperties>"),
)
SIGNATURES = st.sampled_from(["", account_sas(), query(service_fields("orders")), account_sas(sip="::1"), "sig=x&sv=x"])


@pytest.fixture(scope="module")
def answer() -> Iterator[Callable[[Request], Response]]:
    with opened_directly() as direct:
        yield direct.answer


@settings(max_examples=600, deadline=None)
@given(
    method=METHODS,
    parts=st.lists(PARTS, max_size=5),
    pairs=st.lists(st.tuples(NAMES, VALUES), max_size=4),
    headers=HEADERS,
    body=BODIES,
    sas=SIGNATURES,
)
def test_every_request_has_an_answer(
    answer: Callable[[Request], Response],
    method: str,
    parts: list[str],
    pairs: list[tuple[str, str]],
    headers: list[tuple[str, str]],
    body: bytes,
    sas: str,
) -> None:
    given = "&".join([*(f"{name}={value}" for name, value in pairs), *([sas] if sas else [])])
    sent = [("host", "127.0.0.1"), *headers]
    spelled = [name.encode() for name, _ in sent]
    path = "/" + "/".join(parts)
    response = answer(Request(method, path, given, sent, body, "127.0.0.1", dict(sent), spelled))
    assert response.status < 500, response
    encode(response, date="now")
    if response.body:
        ElementTree.fromstring(response.body)


SINGLE = "authorization date origin content-md5 content-type access-control-request-method"
VENDOR = "x-ms-version x-ms-date x-ms-meta-a x-ms-client-request-id"


@pytest.mark.parametrize("name", f"{SINGLE} {VENDOR}".split())
def test_a_repeated_header_is_refused(answer: Callable[[Request], Response], name: str) -> None:
    """Otherwise one of the two values would be ignored."""
    sent = [("host", "127.0.0.1"), (name, "one"), (name, "two")]
    spelled = [each.encode() for each, _ in sent]
    request = Request("PUT", f"/{ACCOUNT}/orders", account_sas(), sent, b"", "127.0.0.1", dict(sent), spelled)
    response = answer(request)
    assert (response.status, dict(response.headers)["x-ms-error-code"]) == (400, "InvalidHeaderValue")
