"""Credentials: every kind works, and no field of a signature can be changed."""

from __future__ import annotations

import base64
from email.utils import formatdate
from urllib.parse import quote

import pytest

from penstock.broker.model import SECOND
from penstock.doors.azure.dates import iso
from tests.doors.azure.harness import Answer, Harness, body_of, opened
from tests.doors.azure.signing import (
    ACCOUNT,
    KEY,
    VERSION,
    account_fields,
    account_sas,
    query,
    service_fields,
    shared_key,
    shared_key_lite,
)

SOON, PAST, LATER = "2098-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "2098-06-01T00:00:00Z"


def code_of(answer: Answer) -> str:
    return answer.code if answer.status >= 400 else str(answer.status)


# ---------------------------------------------------------------------- SharedKey


def headers_of(azure: Harness, **more: str) -> dict[str, str]:
    now = formatdate(azure.clock.wall() / SECOND, usegmt=True)
    return {"x-ms-date": now, "x-ms-version": VERSION} | {k.replace("_", "-"): v for k, v in more.items()}


LIST = f"/{ACCOUNT}/?comp=list&prefix=a%26b&maxresults=7"


def test_shared_key_and_lite_are_accepted(azure: Harness) -> None:
    for sign in (shared_key, shared_key_lite):
        headers = headers_of(azure)
        assert azure.send("GET", LIST, headers=headers | {"Authorization": sign("GET", LIST, headers)}).status == 200


def test_shared_key_covers_a_body_and_its_headers(orders: Harness) -> None:
    body, target = body_of("x"), f"/{ACCOUNT}/orders/messages?messagettl=60"
    headers = headers_of(orders, Content_Length=str(len(body)), Content_Type="application/xml", x_ms_meta_b_c="1")
    signed = headers | {"Authorization": shared_key("POST", target, headers)}
    assert orders.send("POST", target, body, signed).status == 201
    for name, value in [
        ("Content-Type", "text/plain"),
        ("x-ms-version", "2020-02-10"),
        ("x-ms-meta-b-c", "2"),
        ("x-ms-new", "1"),
        ("Content-MD5", "x"),
        ("If-Match", "x"),
        ("Range", "bytes=0-1"),
        ("Content-Language", "de"),
        ("x-ms-date", formatdate(orders.clock.wall() / SECOND - 60, usegmt=True)),
    ]:
        answer = orders.send("POST", target, body, signed | {name: value})
        assert (answer.status, answer.code) == (403, "AuthenticationFailed"), name
    for changed in (target.replace("60", "61"), target.replace("orders", "other"), target + "&x=y"):
        assert orders.send("POST", changed, body, signed).code == "AuthenticationFailed"
    assert orders.send("PUT", target, body, signed).status in (403, 405)


def test_the_order_of_headers_may_be_the_collation_of_the_service(azure: Harness) -> None:
    """In byte order `x-ms-meta-a_b` comes after `x-ms-meta-aa`. In the service's order it comes before."""
    target = f"/{ACCOUNT}/orders"
    headers = headers_of(azure) | {"x-ms-meta-a_b": "1", "x-ms-meta-aa": "2"}
    by_bytes = shared_key("PUT", target, headers)
    lines = [f"x-ms-date:{headers['x-ms-date']}", "x-ms-meta-a_b:1", "x-ms-meta-aa:2", f"x-ms-version:{VERSION}"]
    text = "PUT\n" + "\n" * 11 + "\n".join(lines) + f"\n/{ACCOUNT}{target}"
    from tests.doors.azure.signing import signature

    collated = f"SharedKey {ACCOUNT}:{signature(text)}"
    assert (
        collated == by_bytes or azure.send("PUT", target, headers=headers | {"Authorization": by_bytes}).status == 201
    )
    assert azure.send("PUT", target, headers=headers | {"Authorization": collated}).status in (201, 204)


@pytest.mark.parametrize("seconds", [-16 * 60, 16 * 60])
def test_a_clock_more_than_15_minutes_off_is_refused(azure: Harness, seconds: int) -> None:
    headers = headers_of(azure)
    signed = headers | {"Authorization": shared_key("GET", LIST, headers)}
    azure.clock.set_wall(seconds)
    assert azure.send("GET", LIST, headers=signed).code == "AuthenticationFailed"


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_credentials_are_checked_by_the_wall_clock(azure: Harness, seconds: int) -> None:
    """After a sleep or a correction of the time, the wall clocks of the server and its clients agree again."""
    before = headers_of(azure)
    azure.clock.set_wall(seconds)
    after = headers_of(azure)
    for headers, status in ((before, 403), (after, 200)):
        signed = headers | {"Authorization": shared_key("GET", LIST, headers)}
        assert azure.send("GET", LIST, headers=signed).status == status
    now = azure.clock.wall()
    for ends, status in ((now - 60 * SECOND, 403), (now + 60 * SECOND, 200)):
        sas = account_sas(st=iso(ends - 3600 * SECOND), se=iso(ends))
        assert azure.ask("GET", "?comp=list", sas=sas).status == status


def test_a_request_without_a_date_is_refused(azure: Harness) -> None:
    headers = {"x-ms-version": VERSION}
    assert azure.send("GET", LIST, headers=headers | {"Authorization": shared_key("GET", LIST, headers)}).status == 403


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "SharedKey",
        f"SharedKey {ACCOUNT}",
        f"SharedKey {ACCOUNT}:",
        f"SharedKey {ACCOUNT}:not base64!",
        f"SharedKey {ACCOUNT}:{base64.b64encode(b'x' * 32).decode()}",
        f"SharedKey other:{base64.b64encode(b'x' * 32).decode()}",
        f"SharedKeyLite {ACCOUNT}:{base64.b64encode(b'x').decode()}",
        "Basic dXNlcjpwYXNz",
        "Bearer abc.def.ghi",
        "SharedKey ÿþ:é",
    ],
)
def test_bad_credentials(azure: Harness, authorization: str) -> None:
    headers = headers_of(azure) | ({"Authorization": authorization} if authorization else {})
    answer = azure.send("GET", LIST, headers=headers)
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")
    assert answer.text("AuthenticationErrorDetail")


def test_two_kinds_of_credentials_are_refused(azure: Harness) -> None:
    target = f"/{ACCOUNT}/?comp=list&{azure.sas}"
    headers = headers_of(azure)
    signed = headers | {"Authorization": shared_key("GET", target, headers)}
    assert azure.send("GET", target, headers=signed).code == "AuthenticationFailed"


def test_the_secondary_may_be_signed_with_and_without_its_suffix(azure: Harness) -> None:
    for path in (f"/{ACCOUNT}-secondary/?comp=list", f"/{ACCOUNT}/?comp=list"):
        headers = headers_of(azure)
        signed = headers | {"Authorization": shared_key("GET", path, headers)}
        assert azure.send("GET", f"/{ACCOUNT}-secondary/?comp=list", headers=signed).status == 200


def test_accounts_have_two_keys_each_and_accept_no_other() -> None:
    first, second, third = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b", b"c"))
    with opened(accounts=f"one:{first}:{second};two:{third}") as azure:
        for account, key, status in [
            ("one", first, 200),
            ("one", second, 200),
            ("two", third, 200),
            ("one", third, 403),
            ("two", first, 403),
            (ACCOUNT, KEY, 404),
        ]:
            sas = account_sas(key=key, account=account)
            assert azure.send("GET", f"/{account}?comp=list&{sas}").status == status


# ---------------------------------------------------------------------- account SAS


ALL = {"st": PAST, "sip": "127.0.0.0-127.0.0.9", "spr": "https,http", "ses": "scope"}


@pytest.mark.parametrize("field", ["sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "ses", "sig"])
def test_no_field_of_an_account_sas_can_be_changed(azure: Harness, field: str) -> None:
    fields = account_fields(**ALL)
    target = f"/{ACCOUNT}?comp=list&"
    assert azure.send("GET", target + query(fields)).status == 200
    others = {
        "sv": "2022-11-02",
        "ss": "qb",
        "srt": "s",
        "sp": "rl",
        "st": "2002-01-01T00:00:00Z",
        "se": SOON,
        "sip": "127.0.0.1",
        "spr": "http,https",
        "ses": "other",
        "sig": base64.b64encode(bytes(32)).decode(),
    }
    without = {name: value for name, value in fields.items() if name != field}
    for changed in (fields | {field: others[field]}, without, fields | {field: fields[field] + " "}):
        answer = azure.send("GET", target + query(changed))
        assert (answer.status, answer.code) == (403, "AuthenticationFailed"), changed
    twice = f"{query(fields)}&{field}={quote(fields[field], safe='')}"
    assert azure.send("GET", target + twice).code == "AuthenticationFailed"


def test_a_signature_is_checked_to_its_last_bit(azure: Harness) -> None:
    fields = account_fields()
    raw = base64.b64decode(fields["sig"])
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        sas = query(fields | {"sig": base64.b64encode(changed).decode()})
        assert azure.send("GET", f"/{ACCOUNT}?comp=list&{sas}").status == 403


def test_a_bare_plus_in_a_signature_is_a_plus(azure: Harness) -> None:
    fields = next(f for n in range(1000) if "+" in (f := account_fields(ses=str(n)))["sig"])
    sas = query(fields).replace("%2B", "+")
    assert azure.send("GET", f"/{ACCOUNT}?comp=list&{sas}").status == 200


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sp": "r"}, "AuthorizationPermissionMismatch"),
        ({"ss": "b"}, "AuthorizationServiceMismatch"),
        ({"srt": "co"}, "AuthorizationResourceTypeMismatch"),
        ({"spr": "https"}, "AuthorizationProtocolMismatch"),
        ({"sip": "10.0.0.1"}, "AuthorizationSourceIPMismatch"),
        ({"sip": "10.0.0.1-10.0.0.9"}, "AuthorizationSourceIPMismatch"),
        ({"se": PAST}, "AuthenticationFailed"),
        ({"st": LATER}, "AuthenticationFailed"),
        ({"se": "tomorrow"}, "AuthenticationFailed"),
        ({"se": "2098-01-01T00:00:00+02:00"}, "AuthenticationFailed"),
        ({"sv": "2011-08-18"}, "AuthenticationFailed"),
        ({"sv": "2020-06-12"}, "200"),
        ({"st": "2020-01-01"}, "200"),
        ({"st": "2020-01-01T00:00Z"}, "200"),
        ({"st": "2020-01-01T00:00:00.0000000Z"}, "200"),
        ({"sip": "127.0.0.1"}, "200"),
    ],
)
def test_every_restriction_of_an_account_sas_is_enforced(azure: Harness, changes: dict[str, str], code: str) -> None:
    assert code_of(azure.ask("GET", "?comp=list", sas=account_sas(**changes))) == code


@pytest.mark.parametrize(
    ("method", "path", "permissions", "types"),
    [
        ("GET", "?comp=list", "l", "s"),
        ("GET", "?restype=service&comp=properties", "r", "s"),
        ("PUT", "?restype=service&comp=properties", "w", "s"),
        ("PUT", "new", "cw", "c"),
        ("DELETE", "orders", "d", "c"),
        ("GET", "orders?comp=metadata", "r", "c"),
        ("PUT", "orders?comp=metadata", "w", "c"),
        ("POST", "orders/messages", "a", "o"),
        ("GET", "orders/messages", "p", "o"),
        ("GET", "orders/messages?peekonly=true", "r", "o"),
        ("DELETE", "orders/messages", "d", "o"),
        ("PUT", "orders/messages/x?popreceipt=MDAw&visibilitytimeout=1", "u", "o"),
        ("DELETE", "orders/messages/x?popreceipt=MDAw", "p", "o"),
        ("GET", "orders?comp=acl", "", ""),
        ("PUT", "orders?comp=acl", "", ""),
        ("POST", "orders-poison?comp=redrive", "", ""),
    ],
)
def test_each_operation_needs_its_permission(
    orders: Harness, method: str, path: str, permissions: str, types: str
) -> None:
    body = body_of("x") if path == "orders/messages" and method == "POST" else None
    for letter in "rwdlacup":
        for kind in "sco":
            answer = orders.ask(method, path, body, sas=account_sas(sp=letter, srt=kind))
            allowed = letter in permissions and kind in types
            assert (answer.status != 403) is allowed, (letter, kind, answer)
            if path == "orders" and answer.status == 204:
                orders.create("orders")


# ---------------------------------------------------------------------- service SAS and stored policies


@pytest.mark.parametrize("field", ["sv", "sp", "st", "se", "sip", "spr", "sig"])
def test_no_field_of_a_service_sas_can_be_changed(orders: Harness, field: str) -> None:
    fields = service_fields("orders", st=PAST, sip="127.0.0.1", spr="https,http")
    assert orders.ask("GET", "orders/messages", sas=query(fields)).status == 200
    others = {"sv": "2022-11-02", "sp": "rap", "st": "2002-01-01", "se": SOON, "sip": "127.0.0.2", "spr": "https"}
    changed = others.get(field, base64.b64encode(bytes(32)).decode())
    without = {name: value for name, value in fields.items() if name != field}
    for bad in (fields | {field: changed}, without, fields | {"si": "policy"}):
        assert orders.ask("GET", "orders/messages", sas=query(bad)).code == "AuthenticationFailed"


def test_a_service_sas_is_for_its_queue_only(orders: Harness) -> None:
    orders.create("other")
    sas = query(service_fields("orders"))
    assert orders.ask("GET", "other/messages", sas=sas).code == "AuthenticationFailed"
    assert orders.ask("GET", "?comp=list", sas=sas).code == "AuthenticationFailed"


def test_an_older_service_sas_names_its_queue_without_the_service(orders: Harness) -> None:
    assert orders.ask("GET", "orders/messages", sas=query(service_fields("orders", sv="2014-02-14"))).status == 200


@pytest.mark.parametrize(
    ("method", "path", "permission"),
    [
        ("GET", "orders/messages?peekonly=true", "r"),
        ("GET", "orders?comp=metadata", "r"),
        ("POST", "orders/messages", "a"),
        ("PUT", "orders/messages/x?popreceipt=MDAw&visibilitytimeout=1", "u"),
        ("GET", "orders/messages", "p"),
        ("DELETE", "orders/messages/x?popreceipt=MDAw", "p"),
        ("DELETE", "orders/messages", ""),
        ("PUT", "orders", ""),
        ("DELETE", "orders", ""),
        ("PUT", "orders?comp=metadata", ""),
        ("GET", "orders?comp=acl", ""),
    ],
)
def test_a_service_sas_allows_only_its_permissions(orders: Harness, method: str, path: str, permission: str) -> None:
    body = body_of("x") if method == "POST" else None
    for letter in "raup":
        answer = orders.ask(method, path, body, sas=query(service_fields("orders", sp=letter)))
        assert (answer.status != 403) is (letter in permission), (letter, answer)


def set_policies(azure: Harness, *policies: str) -> None:
    target, body = f"/{ACCOUNT}/orders?comp=acl", f"<SignedIdentifiers>{''.join(policies)}</SignedIdentifiers>".encode()
    headers = headers_of(azure, Content_Length=str(len(body)))
    answer = azure.send("PUT", target, body, headers | {"Authorization": shared_key("PUT", target, headers)})
    assert answer.status == 204, answer


def policy(name: str, **fields: str) -> str:
    inner = "".join(f"<{key}>{value}</{key}>" for key, value in fields.items())
    return f"<SignedIdentifier><Id>{name}</Id><AccessPolicy>{inner}</AccessPolicy></SignedIdentifier>"


@pytest.mark.parametrize(
    ("stored", "own", "allowed"),
    [
        ({"Start": PAST, "Expiry": LATER, "Permission": "p"}, {"sp": "", "se": ""}, True),
        ({"Start": PAST, "Permission": "p"}, {"sp": "", "se": LATER}, True),
        ({"Expiry": LATER}, {"sp": "p", "se": ""}, True),
        ({}, {"sp": "p", "se": LATER}, True),
        ({"Permission": "p"}, {"sp": "p", "se": LATER}, False),
        ({"Expiry": LATER}, {"sp": "p", "se": LATER}, False),
        ({"Start": PAST}, {"sp": "p", "se": LATER, "st": PAST}, False),
        ({"Permission": "p"}, {"sp": "", "se": ""}, False),
        ({"Expiry": LATER}, {"sp": "", "se": ""}, False),
        ({"Permission": "r"}, {"sp": "", "se": LATER}, False),
        ({"Expiry": PAST, "Permission": "p"}, {"sp": "", "se": ""}, False),
        ({"Start": LATER, "Permission": "p"}, {"sp": "", "se": SOON}, False),
    ],
)
def test_each_field_comes_from_the_signature_or_from_the_policy(
    orders: Harness, stored: dict[str, str], own: dict[str, str], allowed: bool
) -> None:
    set_policies(orders, policy("it", **stored))
    sas = query(service_fields("orders", si="it", **own))
    assert (orders.ask("GET", "orders/messages", sas=sas).status == 200) is allowed


def test_a_signature_ends_with_its_policy(orders: Harness) -> None:
    set_policies(orders, policy("it", Permission="p", Expiry=LATER))
    sas = query(service_fields("orders", si="it", sp="", se=""))
    assert orders.ask("GET", "orders/messages", sas=sas).status == 200
    set_policies(orders)
    assert orders.ask("GET", "orders/messages", sas=sas).code == "AuthenticationFailed"


@pytest.mark.parametrize(
    "body",
    [
        "<SignedIdentifiers>" + "".join(policy(f"p{n}") for n in range(6)) + "</SignedIdentifiers>",
        f"<SignedIdentifiers>{policy('same')}{policy('same')}</SignedIdentifiers>",
        f"<SignedIdentifiers>{policy('x' * 65)}</SignedIdentifiers>",
        f"<SignedIdentifiers>{policy('')}</SignedIdentifiers>",
        f"<SignedIdentifiers>{policy('a', Permission='rx')}</SignedIdentifiers>",
        f"<SignedIdentifiers>{policy('a', Start='today')}</SignedIdentifiers>",
        "<SignedIdentifiers><Other/></SignedIdentifiers>",
        "<Other/>",
    ],
)
def test_invalid_policies_are_refused(orders: Harness, body: str) -> None:
    target = f"/{ACCOUNT}/orders?comp=acl"
    headers = headers_of(orders, Content_Length=str(len(body)))
    signed = headers | {"Authorization": shared_key("PUT", target, headers)}
    answer = orders.send("PUT", target, body.encode(), signed)
    assert (answer.status, answer.code) == (400, "InvalidXmlDocument")


def test_policies_come_back_as_they_were_given(orders: Harness) -> None:
    bare = "<SignedIdentifier><Id>bare</Id></SignedIdentifier>"
    given = [policy("a&amp;b", Start=PAST, Expiry=LATER, Permission="raup"), policy("empty"), bare]
    set_policies(orders, *given)
    target = f"/{ACCOUNT}/orders?comp=acl"
    headers = headers_of(orders)
    answer = orders.send("GET", target, headers=headers | {"Authorization": shared_key("GET", target, headers)})
    assert answer.body.decode().partition("?>")[2] == f"<SignedIdentifiers>{''.join(given)}</SignedIdentifiers>"
    set_policies(orders)
    headers = headers_of(orders)
    answer = orders.send("GET", target, headers=headers | {"Authorization": shared_key("GET", target, headers)})
    assert answer.body.endswith(b"<SignedIdentifiers />")


def test_the_time_frame_of_a_signature_is_worded_as_by_the_service(azure: Harness) -> None:
    sas = account_sas(st="2020-01-01T00:00:00Z", se="2020-01-02T00:00:00Z")
    answer = azure.ask("GET", "?comp=list", sas=sas)
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")
    assert answer.text("Message").startswith(
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly "
        "including the signature.\n"
    )
    assert answer.text("AuthenticationErrorDetail").startswith(
        "Signature not valid in the specified time frame: Start [Wed, 01 Jan 2020 00:00:00 GMT] - "
        "Expiry [Thu, 02 Jan 2020 00:00:00 GMT] - Current ["
    )


# ---------------------------------------------------------------------- texts of refusals, and versions


def test_a_mismatch_shows_the_string_to_sign(azure: Harness) -> None:
    """The service shows it, too, so a client can compare its own string line by line."""
    headers = headers_of(azure)
    wrong = shared_key("GET", LIST, headers, key=base64.b64encode(b"another key").decode())
    answer = azure.send("GET", LIST, headers=headers | {"Authorization": wrong})
    text = (
        "GET\n\n\n\n\n\n\n\n\n\n\n\n"
        f"x-ms-date:{headers['x-ms-date']}\nx-ms-version:{VERSION}\n/{ACCOUNT}/{ACCOUNT}/"
        "\ncomp:list\nmaxresults:7\nprefix:a&b"
    )
    assert (answer.status, answer.code) == (403, "AuthenticationFailed")
    assert answer.text("AuthenticationErrorDetail") == (
        f"The MAC signature found in the HTTP request '{wrong.partition(':')[2]}' is not the same as any computed "
        f"signature. Server used following string to sign: '{text}'."
    )


def test_a_mismatch_of_a_sas_shows_the_string_to_sign(azure: Harness) -> None:
    answer = azure.ask("GET", "?comp=list", sas=account_sas(key=base64.b64encode(b"another key").decode()))
    text = f"{ACCOUNT}\nrwdlacup\nq\nsco\n\n2099-01-01T00:00:00Z\n\n\n{VERSION}\n\n"
    assert answer.text("AuthenticationErrorDetail") == f"Signature did not match. String to sign used was {text}"


@pytest.mark.parametrize(("version", "length"), [("2014-02-14", "0"), ("2015-02-21", ""), (VERSION, "")])
def test_the_length_of_an_empty_body_is_signed_as_its_version_says(azure: Harness, version: str, length: str) -> None:
    target = f"/{ACCOUNT}/orders-{version}"
    headers = headers_of(azure) | {"x-ms-version": version}
    for signed, status in ((length, 201), ("0" if not length else "", 403)):
        authorization = shared_key("PUT", target, headers | {"Content-Length": signed})
        sent = headers | {"Content-Length": "0", "Authorization": authorization}
        assert azure.send("PUT", target, headers=sent).status == status, signed


@pytest.mark.parametrize("version", ["2025-13-45", "2025-02-30", "0000-01-01", "2025-1-1", "latest"])
def test_a_version_is_a_date(azure: Harness, version: str) -> None:
    answer = azure.ask("GET", "?comp=list", x_ms_version=version)
    assert (answer.status, answer.code, answer.text("HeaderName")) == (400, "InvalidHeaderValue", "x-ms-version")
    signed = azure.ask("GET", "?comp=list", sas=account_sas(sv=version))
    assert (signed.status, signed.code) == (403, "AuthenticationFailed")


def test_a_future_version_is_accepted(azure: Harness) -> None:
    assert azure.ask("GET", "?comp=list", x_ms_version="2031-12-31").status == 200


def test_bad_xml_has_a_line_and_a_position(orders: Harness) -> None:
    answer = orders.ask("POST", "orders/messages", b"<QueueMessage>\n <MessageText>a & b</MessageText></QueueMessage>")
    assert (answer.status, answer.code) == (400, "InvalidXmlDocument")
    assert (answer.text("LineNumber"), answer.text("LinePosition")) == ("2", "17")
    assert answer.text("Reason") == "an unknown entity"


def test_a_message_in_another_encoding_is_kept_whole(orders: Harness) -> None:
    for body in (
        body_of("häß").decode().encode("utf-16"),
        b'<?xml version="1.0" encoding="utf-16"?>' + body_of("ASCII"),
    ):
        assert orders.ask("POST", "orders/messages", body).status == 201
    assert orders.get(numofmessages=2).texts("MessageText") == ["häß", "ASCII"]
