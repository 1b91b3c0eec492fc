"""Signatures as a client makes them, written from the protocol's description and not from the door's code."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote, unquote

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"
FAR = "2099-01-01T00:00:00Z"

ACCOUNT_FIELDS = ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses")
SERVICE_FIELDS = ("si", "sip", "spr", "sv")
DELEGATION_FIELDS = ("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "sip", "spr", "sv")


def signature(text: str, key: str = KEY) -> str:
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), "sha256")).decode()


def query(fields: dict[str, str]) -> str:
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items() if value)


def account_fields(key: str = KEY, account: str = ACCOUNT, **changes: str) -> dict[str, str]:
    fields = {"sv": VERSION, "ss": "q", "srt": "sco", "sp": "rwdlacup", "se": FAR} | changes
    lines = [account, *(fields.get(name, "") for name in ACCOUNT_FIELDS)]
    if fields["sv"] < "2020-12-06":
        lines = lines[:-1]
    return fields | {"sig": signature("\n".join(lines) + "\n", key)}


def account_sas(**changes: str) -> str:
    return query(account_fields(**changes))


def service_fields(queue: str, key: str = KEY, account: str = ACCOUNT, **changes: str) -> dict[str, str]:
    fields = {"sv": VERSION, "sp": "raup", "se": FAR} | changes
    opening = [fields.get(name, "") for name in ("sp", "st", "se")]
    if fields["sv"] < "2015-04-05":
        lines = [*opening, f"/{account}/{queue}", fields.get("si", ""), fields["sv"]]
    else:
        lines = [*opening, f"/queue/{account}/{queue}", *(fields.get(name, "") for name in SERVICE_FIELDS)]
    return {name: value for name, value in fields.items() if value} | {"sig": signature("\n".join(lines), key)}


def delegation_fields(queue: str, key: str, **fields: str) -> dict[str, str]:
    fields = {"sv": VERSION, "sp": "raup", "se": FAR} | fields
    lines = [fields.get(name, "") for name in ("sp", "st", "se")] + [f"/queue/{ACCOUNT}/{queue}"]
    lines += [fields.get(name, "") for name in DELEGATION_FIELDS]
    return fields | {"sig": signature("\n".join(lines), key)}


STANDARD_HEADERS = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


def shared_key(method: str, target: str, headers: dict[str, str], *, key: str = KEY, account: str = ACCOUNT) -> str:
    """Return the Authorization header of a request to `target`, a path with its query."""
    path, _, given = target.partition("?")
    low = {name.lower(): value for name, value in headers.items()}
    lines = [method, *(low.get(name, "") for name in STANDARD_HEADERS)]
    lines += [f"{name}:{low[name]}" for name in sorted(low) if name.startswith("x-ms-")]
    text = "\n".join(lines) + f"\n/{account}{path}"
    for part in sorted(given.split("&")) if given else []:
        name, _, value = part.partition("=")
        text += f"\n{name.lower()}:{unquote(value)}"
    return f"SharedKey {account}:{signature(text, key)}"


def shared_key_lite(method: str, target: str, headers: dict[str, str]) -> str:
    path, _, given = target.partition("?")
    low = {name.lower(): value for name, value in headers.items()}
    text = f"{method}\n{low.get('content-md5', '')}\n{low.get('content-type', '')}\n\n"
    text += "".join(f"{name}:{low[name]}\n" for name in sorted(low) if name.startswith("x-ms-"))
    comp = dict(part.partition("=")[::2] for part in given.split("&")).get("comp")
    text += f"/{ACCOUNT}{path}" + (f"?comp={comp}" if comp else "")
    return f"SharedKeyLite {ACCOUNT}:{signature(text)}"


def token(claims: dict[str, object]) -> str:
    """Return a JWT with these claims and an arbitrary signature."""
    import json

    parts = [{"alg": "none"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).decode()])
