"""TLS, bearer tokens and user delegation: authentication, permissions, and signatures of a signed-in user."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from penstock.broker.model import SECOND
from penstock.doors.azure.accounts import read_accounts
from penstock.doors.azure.auth import Authorizer
from penstock.doors.azure.call import Call
from penstock.doors.azure.dates import iso
from penstock.doors.azure.errors import AzureError
from penstock.doors.azure.operations import Operation
from penstock.wire.http1_message import Request
from tests.doors.azure.harness import Answer, Harness, body_of, opened
from tests.doors.azure.signing import ACCOUNT, KEY, account_sas, delegation_fields, query, signature, token
from tests.doors.clocks import clock_at

FIELDS = dict.fromkeys(["skoid", "sktid", "skt", "ske", "sks", "skv"], "")
NAMES = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA, tmp_path: Path) -> Iterator[Harness]:
    with opened_with_tls(authority, tmp_path) as harness:
        yield harness


@contextmanager
def opened_with_tls(authority: trustme.CA, tmp_path: Path, **options: str) -> Iterator[Harness]:
    certificate = authority.issue_cert("localhost")
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.private_key_pem.write_to_path(key)
    pem.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    with opened(tls_cert=str(pem), tls_key=str(key), oauth="basic", **options) as harness:
        harness.secure = ssl.create_default_context()
        authority.configure_trust(harness.secure)
        yield harness


def claims(harness: Harness, **changes: object) -> dict[str, object]:
    now = harness.clock.wall() // SECOND
    return {
        "iss": "https://sts.windows.net/tenant/",
        "aud": "https://storage.azure.com",
        "nbf": now - 10,
        "iat": now - 10,
        "exp": now + 3600,
        "oid": "user",
        "tid": "tenant",
    } | changes


def signed_in(harness: Harness, method: str, path: str, body: bytes | None = None, **changes: object) -> Answer:
    return harness.ask(method, path, body, sas="", Authorization=f"Bearer {token(claims(harness, **changes))}")


def test_refusals_of_tokens_can_be_worded_as_azurite_words_them(authority: trustme.CA, tmp_path: Path) -> None:
    with opened_with_tls(authority, tmp_path, wording="azurite") as azurite:
        for changes, word in (({"iss": "https://evil.example/"}, "issuer"), ({"aud": "https://other.net"}, "audience")):
            answer = signed_in(azurite, "GET", "?comp=list", **changes)
            assert answer.text("AuthenticationErrorDetail") == f"Invalid token {word}."
        azurite.create("orders")
        answer = signed_in(azurite, "GET", "orders?comp=acl")
        assert (answer.status, answer.code) == (403, "AuthorizationFailure")
        assert answer.text("Message").startswith("Server failed to authenticate the request. ")


def test_tls_is_spoken_and_nothing_else(secure: Harness) -> None:
    assert secure.ask("PUT", "orders").status == 201
    assert secure.ask("GET", "?comp=list", sas=account_sas(spr="https")).texts("Name") == ["orders"]
    secure.secure = None
    with pytest.raises((ConnectionError, OSError)):
        secure.ask("GET", "?comp=list")


def test_an_untrusted_certificate_is_not_trusted(secure: Harness) -> None:
    secure.secure = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        secure.ask("GET", "?comp=list")


def test_a_token_lets_its_user_in(secure: Harness) -> None:
    assert signed_in(secure, "PUT", "orders").status == 201
    assert signed_in(secure, "POST", "orders/messages", body_of("x")).status == 201
    for audience in ("https://storage.azure.com/", f"https://{ACCOUNT}.queue.core.windows.net"):
        assert signed_in(secure, "GET", "orders/messages", aud=audience).status == 200


def test_a_token_with_deep_claims_is_refused(secure: Harness) -> None:
    for levels in (1_000, 10_000):
        deep = f'{{"iss": {"[" * levels}{"]" * levels}}}'.encode()
        header, _, signature = token(claims(secure)).split(".")
        forged = f"{header}.{base64.urlsafe_b64encode(deep).decode().rstrip('=')}.{signature}"
        answer = secure.ask("GET", "?comp=list", sas="", Authorization=f"Bearer {forged}")
        assert (answer.status, answer.code) == (401, "InvalidAuthenticationInfo")


CLOUDS = ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "core.cloudapi.de"]


@pytest.mark.parametrize(
    "audience",
    [
        *(f"https://storage.azure.{end}" for end in ("com", "cn", "us", "de")),
        *(f"https://{ACCOUNT}.queue.{cloud}" for cloud in CLOUDS),
        "e406a681-f3d4-42a8-90b6-c2b029497af1",
    ],
)
def test_a_token_may_be_of_any_cloud(secure: Harness, audience: str) -> None:
    for spelled in (audience, f"{audience}/", [audience]):
        assert signed_in(secure, "GET", "?comp=list", aud=spelled).status == 200
    other = audience.replace(ACCOUNT, "other") if ACCOUNT in audience else f"x{audience}"
    assert signed_in(secure, "GET", "?comp=list", aud=other).status == 401


def test_a_token_is_enough_for_policies_since_a_version_of_the_service(secure: Harness) -> None:
    """Get and Set Queue ACL accept a token from version 2025-07-05 on, and only a key before."""
    signed_in(secure, "PUT", "orders")
    body = b"<SignedIdentifiers><SignedIdentifier><Id>one</Id></SignedIdentifier></SignedIdentifiers>"
    bearer = f"Bearer {token(claims(secure))}"
    for method, given, status in (("PUT", body, 204), ("GET", None, 200), ("HEAD", None, 200)):
        for version, expected in (("2025-07-05", status), ("2026-10-06", status), ("2025-05-05", 403)):
            answer = secure.ask(method, "orders?comp=acl", given, sas="", Authorization=bearer, x_ms_version=version)
            assert answer.status == expected
            assert answer.headers.get("x-ms-error-code") == (None if expected < 300 else "AuthorizationFailure")
    answer = secure.ask("GET", "orders?comp=acl", sas="", Authorization=bearer, x_ms_version="2025-07-05")
    assert answer.texts("Id") == ["one"]
    answer = secure.ask("POST", "orders?comp=redrive", sas="", Authorization=bearer, x_ms_version="2025-07-05")
    assert answer.code == "AuthorizationFailure"


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"exp": 1}, "Lifetime validation failed. The token is expired."),
        ({"nbf": 1 << 39}, "Lifetime validation failed. The token is not yet valid."),
        ({"iss": "https://evil.example/"}, "Issuer validation failed. Issuer did not match."),
        ({"aud": "https://vault.azure.net"}, "Audience validation failed. Audience did not match."),
    ],
)
def test_an_invalid_token_is_refused_with_the_texts_of_the_service(
    secure: Harness, changes: dict[str, object], detail: str
) -> None:
    answer = signed_in(secure, "GET", "?comp=list", **changes)
    assert answer.text("AuthenticationErrorDetail") == detail
    assert answer.text("Message").startswith(
        "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.\n"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"nbf": 1 << 39},
        {"iat": 1 << 39},
        {"exp": None},
        {"exp": "soon"},
        {"iss": "https://evil.example/"},
        {"aud": "https://vault.azure.net"},
        {"aud": "https://other.queue.core.windows.net"},
    ],
)
def test_a_token_that_is_not_good_is_challenged(secure: Harness, changes: dict[str, object]) -> None:
    answer = signed_in(secure, "GET", "?comp=list", **changes)
    assert (answer.status, answer.code) == (401, "InvalidAuthenticationInfo")
    assert answer.headers["www-authenticate"].startswith("Bearer authorization_uri=https://")
    assert "resource_id=https://storage.azure.com" in answer.headers["www-authenticate"]


@pytest.mark.parametrize("text", ["", "x", "a.b", "a.!!.c", "a.e30.c", "a.W10.c", "é.é.é"])
def test_an_invalid_token_is_challenged(secure: Harness, text: str) -> None:
    assert secure.ask("GET", "?comp=list", sas="", Authorization=f"Bearer {text}").status == 401


def test_a_request_without_credentials_is_challenged(secure: Harness) -> None:
    answer = secure.ask("GET", "?comp=list", sas="")
    assert (answer.status, "www-authenticate" in answer.headers) == (401, True)


def test_without_tls_no_token_counts() -> None:
    with opened(oauth="basic") as harness:
        assert signed_in(harness, "GET", "?comp=list").code == "AuthenticationFailed"


@pytest.mark.parametrize(
    ("name", "value"),
    [("Via", "1.1 p"), ("X-Real-IP", "192.0.2.7"), ("X-Forwarded-For", "192.0.2.7"), ("Host", "broker.example")],
)
def test_a_forwarded_token_is_refused(secure: Harness, name: str, value: str) -> None:
    """A proxy on this machine adds a header, or passes on the Host that its client asked for."""
    bearer = f"Bearer {token(claims(secure))}"
    answer = secure.ask("GET", "?comp=list", sas="", **{"Authorization": bearer, name: value})
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")


@pytest.mark.parametrize(("oauth", "guarded"), [("basic", True), ("open", False)])
def test_tokens_from_another_machine_need_the_open_setting(oauth: str, guarded: bool) -> None:
    """With open, the door counts as unguarded, so doctor and the start of the server name it as open."""
    clock = clock_at(None)
    account = read_accounts(f"company:{KEY}")
    authorizer = Authorizer(account, wall=clock.wall, secure=True, oauth=oauth)
    now = clock.wall() // SECOND
    times = {"nbf": now - 10, "iat": now - 10, "exp": now + 3600}
    bearer = token({"iss": "https://sts.windows.net/t/", "aud": "https://storage.azure.com", **times})
    headers = [("host", "broker.example"), ("authorization", f"Bearer {bearer}")]
    call = Call(Request("GET", "/company", "", headers, b"", "192.0.2.7", dict(headers)), "id")
    call.account, call.version = "company", "2021-08-06"
    assert authorizer.open_to_forged_tokens is not guarded
    if guarded:
        with pytest.raises(AzureError, match="AuthenticationFailed"):
            authorizer.authorize(call, Operation.LIST_QUEUES, clock.wall(), {})
    else:
        assert (
            authorizer.authorize(call, Operation.LIST_QUEUES, clock.wall(), {})["iss"] == "https://sts.windows.net/t/"
        )


# ---------------------------------------------------------------------- user delegation


def ask_key(harness: Harness, *, start: str = "", expiry: str = "", tenant: str = "") -> Answer:
    now = harness.clock.wall()
    start, expiry = start or iso(now), expiry or iso(now + 3600 * SECOND)
    more = f"<DelegatedUserTid>{tenant}</DelegatedUserTid>" if tenant else ""
    body = f"<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry>{more}</KeyInfo>".encode()
    return signed_in(harness, "POST", "?restype=service&comp=userdelegationkey", body)


def delegation(answer: Answer, **more: str) -> dict[str, str]:
    values = dict(zip(FIELDS, (answer.text(name) for name in NAMES), strict=True))
    return delegation_fields("orders", answer.text("Value"), **values, **more)


def test_a_delegated_key_signs_and_the_same_question_has_the_same_key(secure: Harness) -> None:
    signed_in(secure, "PUT", "orders")
    answer = ask_key(secure)
    assert [answer.text(name) for name in ("SignedOid", "SignedTid", "SignedService")] == ["user", "tenant", "q"]
    assert ask_key(secure).text("Value") == answer.text("Value")
    assert secure.ask("GET", "orders/messages", sas=query(delegation(answer))).status == 200
    assert secure.ask("DELETE", "orders", sas=query(delegation(answer))).code == "AuthorizationFailure"


@pytest.mark.parametrize(
    "field", ["skoid", "sktid", "skt", "ske", "sks", "skv", "sp", "se", "sv", "sig", "skdutid", "sduoid", "sip", "spr"]
)
def test_no_field_of_a_delegation_can_be_changed(secure: Harness, field: str) -> None:
    signed_in(secure, "PUT", "orders")
    fields = delegation(ask_key(secure))
    later = iso(secure.clock.wall() + 1800 * SECOND)
    others = {"se": later, "ske": later, "skt": "2020-01-01T00:00:00Z", "sv": "2022-11-02", "skv": "2022-11-02"}
    others |= {"sks": "b", "sp": "rp", "spr": "https", "sip": "127.0.0.1", "sig": signature("other")}
    answer = secure.ask("GET", "orders/messages", sas=query(fields | {field: others.get(field, "other")}))
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")


def test_a_delegation_ends_with_its_key(secure: Harness) -> None:
    signed_in(secure, "PUT", "orders")
    fields = query(delegation(ask_key(secure)))
    secure.clock.advance(3601)
    assert secure.ask("GET", "orders/messages", sas=fields).code == "AuthenticationFailed"


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_tokens_and_keys_are_checked_by_the_wall_clock(secure: Harness, seconds: int) -> None:
    old = token(claims(secure))
    secure.clock.set_wall(seconds)
    assert secure.ask("GET", "?comp=list", sas="", Authorization=f"Bearer {old}").status == 401
    assert signed_in(secure, "PUT", "orders").status == 201
    assert secure.ask("GET", "orders/messages", sas=query(delegation(ask_key(secure)))).status == 200


def test_a_delegation_may_be_for_one_user_only(secure: Harness) -> None:
    signed_in(secure, "PUT", "orders")
    sas = query(delegation(ask_key(secure, tenant="home"), skdutid="home", sduoid="friend"))
    assert secure.ask("GET", "orders/messages", sas=sas).code == "AuthenticationFailed"
    for user, status in (("friend", 200), ("stranger", 403)):
        bearer = f"Bearer {token(claims(secure, oid=user))}"
        assert secure.ask("GET", "orders/messages", sas=sas, Authorization=bearer).status == status


def test_a_key_lasts_a_week_at_most_and_only_users_get_one(secure: Harness) -> None:
    now = secure.clock.wall()
    for given in (
        {"expiry": iso(now + 8 * 86400 * SECOND)},
        {"start": iso(now + 7200 * SECOND)},
        {"start": iso(now + 8 * 86400 * SECOND), "expiry": iso(now + 9 * 86400 * SECOND)},
        {"expiry": "later"},
    ):
        answer = ask_key(secure, **given)
        assert (answer.status, answer.code) == (400, "InvalidXmlNodeValue")
        assert answer.text("XmlNodeValue") in given.values() or answer.text("XmlNodeName") == "Expiry"
    answer = secure.ask("POST", "?restype=service&comp=userdelegationkey", b"<KeyInfo/>")
    assert answer.code == "AuthorizationFailure"
    assert KEY.encode() not in ask_key(secure).body
