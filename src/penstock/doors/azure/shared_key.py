"""SharedKey and SharedKeyLite: signatures of a text that describes the request.

Clients differ in how they sort headers, decode a plus and name the secondary endpoint, so several variants of the text
are accepted. Each variant covers the whole request as it was sent.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from itertools import product
from urllib.parse import unquote

from penstock.broker.model import SECOND
from penstock.doors.azure.accounts import Account
from penstock.doors.azure.call import SECONDARY, Call
from penstock.doors.azure.dates import parse_rfc1123
from penstock.doors.azure.errors import not_authentic

SKEW_SECONDS = 15 * 60
_EMPTY_LENGTH_SINCE = "2015-02-21"  # older versions sign the length of an empty body as 0

_SIGNED = (
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
# The service sorts header names by a collation that ignores hyphens and puts symbols before digits and letters.
_COLLATION = {ord("-"): None, ord("'"): None} | {
    ord(sign): chr(rank) for rank, sign in enumerate("!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz", 1)
}


def check_shared_key(call: Call, account: Account, credentials: str, *, lite: bool, now: int) -> None:
    """Raise AzureError unless `account:signature` is a recent signature of this request."""
    name, _, encoded = credentials.partition(":")
    if name.removesuffix(SECONDARY) != account.name:
        raise not_authentic("The account of the Authorization header is not the account of the request.")
    signature = decode_signature(encoded)
    header = call.request.header
    sent_at = parse_rfc1123(header("x-ms-date") or header("date"))
    if sent_at is None or abs(now - sent_at) > SKEW_SECONDS * SECOND:
        raise not_authentic("The date header is missing, malformed or too far from the time of this server.")
    texts = list(_texts_to_sign(call, name, lite))
    if not any(account.verify(text, signature) for text in texts):
        raise not_authentic(
            f"The MAC signature found in the HTTP request '{encoded}' is not the same as any computed signature. "
            f"Server used following string to sign: '{texts[0]}'."
        )


def decode_signature(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise not_authentic("The signature is not Base64.") from None


def _texts_to_sign(call: Call, name: str, lite: bool) -> Iterator[str]:
    """Yield the texts that a client may have signed for this request, the usual one first."""
    path, seen = call.request.path, set()
    paths = [path]
    if call.secondary:
        paths.append(path.replace(f"/{call.account}{SECONDARY}", f"/{call.account}", 1))
    names = dict.fromkeys([call.account, name, call.account + SECONDARY] if call.secondary else [call.account])
    for plain_order, plus_is_space, owner, resource in product((True, False), (False, True), names, paths):
        headers = _headers(call, plain_order)
        if lite:
            comp = call.parameters.get("comp")
            text = _lite_head(call) + headers + f"/{owner}{resource}" + (f"?comp={comp}" if comp else "")
        else:
            text = _head(call) + headers + f"/{owner}{resource}" + _query(call, plus_is_space)
        if text not in seen:
            seen.add(text)
            yield text


def _head(call: Call) -> str:
    index = call.request.index
    values = [index.get(name, "") for name in _SIGNED]
    values[2] = "" if values[2] == "0" and call.version >= _EMPTY_LENGTH_SINCE else values[2]
    values[5] = "" if "x-ms-date" in index else values[5]
    return f"{call.request.method}\n" + "\n".join(values) + "\n"


def _lite_head(call: Call) -> str:
    index = call.request.index
    date = "" if "x-ms-date" in index else index.get("date", "")
    return f"{call.request.method}\n{index.get('content-md5', '')}\n{index.get('content-type', '')}\n{date}\n"


def _headers(call: Call, plain_order: bool) -> str:
    headers: dict[str, list[str]] = {}
    for name, value in call.request.headers:
        if name.startswith("x-ms-"):
            headers.setdefault(name, []).append(value.strip())
    names = sorted(headers) if plain_order else sorted(headers, key=lambda name: (name.translate(_COLLATION), name))
    # Names and values were read as Latin-1. The client signed the bytes as sent.
    text = "".join(f"{name}:{','.join(headers[name])}\n" for name in names)
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def _query(call: Call, plus_is_space: bool) -> str:
    values: dict[str, list[str]] = {}
    for part in call.request.query.split("&"):
        name, _, value = part.partition("=")
        if name:
            value = value.replace("+", " ") if plus_is_space else value
            values.setdefault(unquote(name).lower(), []).append(unquote(value, errors="surrogateescape"))
    return "".join(f"\n{name}:{','.join(sorted(values[name]))}" for name in sorted(values))
