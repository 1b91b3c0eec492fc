"""User delegation keys: keys with which a signed-in user signs, in place of the account's key.

Nothing is stored. A key is an HMAC of the user and the time range, made with the account's own key, so any node can
compute it again from the fields of a signature.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from penstock.broker.model import SECOND
from penstock.doors.azure.accounts import Account, Key
from penstock.doors.azure.dates import iso, parse_iso
from penstock.doors.azure.errors import invalid_node, not_authentic
from penstock.doors.azure.xml import DECLARATION, Element, elements

MAX_SECONDS = 7 * 86400
SERVICE = "q"
_FIELDS = ("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid")


def delegated_accounts(account: Account, fields: Mapping[str, str]) -> list[Account]:
    """Return the account with its delegation key for the fields of a signature, once for each key of the account."""
    if fields.get("sks") != SERVICE:
        raise not_authentic("The delegated key is for another service.")
    return [Account(account.name, [Key(key.sign(_text(account.name, fields)))]) for key in account.keys]


def answer_key_request(account: Account, body: Element, claims: Mapping[str, object], version: str, now: int) -> bytes:
    """Return the user delegation key that KeyInfo asks for."""
    values = body.values("Start", "Expiry", "DelegatedUserTid")
    start, expiry = values.get("Start") or iso(now), values.get("Expiry", "")
    since, until, last = parse_iso(start), parse_iso(expiry), now + MAX_SECONDS * SECOND
    if since is None or since > last:
        raise invalid_node("Start", start, "A time in UTC, at most 7 days from now")
    if until is None or until <= since or until <= now or until > last:
        raise invalid_node("Expiry", expiry, "A time in UTC, after the start and at most 7 days from now")
    tenant = values.get("DelegatedUserTid", "")
    user, home = str(claims.get("oid", "")), str(claims.get("tid", ""))
    fields = dict(zip(_FIELDS, (user, home, start, expiry, SERVICE, version, tenant), strict=True))
    value = base64.b64encode(account.keys[0].sign(_text(account.name, fields))).decode()
    parts = [
        ("SignedOid", user),
        ("SignedTid", home),
        ("SignedStart", start),
        ("SignedExpiry", expiry),
        ("SignedService", SERVICE),
        ("SignedVersion", version),
        *([("SignedDelegatedUserTid", tenant)] if tenant else []),
        ("Value", value),
    ]
    return f"{DECLARATION}<UserDelegationKey>{elements(parts)}</UserDelegationKey>".encode()


def _text(account: str, fields: Mapping[str, str]) -> str:
    return "\n".join(["user delegation key", account, *(fields.get(name, "") for name in _FIELDS)])
