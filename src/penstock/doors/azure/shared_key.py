"""SharedKey and SharedKeyLite: the request, written out as the vendor's clients write it, signed with a key.

Clients differ in how they sort headers, read a plus and name the secondary, so a few spellings are tried; each of them
covers the whole request as it was sent.
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
# The service sorts header names by a collation that passes over hyphens and puts signs before digits and letters.
_COLLATION = {ord("-"): None, ord("'"): None} | {
    ord(sign): chr(rank) for rank, sign in enumerate("!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz", 1)
}


def check_shared_key(call: Call, account: Account, credentials: str, *, lite: bool, now: int) -> None:
    """AzureError unless `account:signature` was made with a key of the account for this request, recently."""
    name, _, encoded = credentials.partition(":")
    if name.removesuffix(SECONDARY) != account.name:
        raise not_authentic("The account of the Authorization header is not the account of the request.")
    signature = decode_signature(encoded)
    header = call.request.header
    sent_at = parse_rfc1123(header("x-ms-date") or header("date"))
    if sent_at is None or abs(now - sent_at) > SKEW_SECONDS * SECOND:
        raise not_authentic("The date header is missing, malformed or too far from the time of this server.")
    if not any(account.signed(text, signature) for text in _spellings(call, name, lite)):
        raise not_authentic("The signature did not match the request.")


def decode_signature(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise not_authentic("The signature is not Base64.") from None


def _spellings(call: Call, name: str, lite: bool) -> Iterator[str]:
    """The texts that a client may have signed for this one request, the usual one first."""
    path, seen = call.request.path, set()
    paths = [path]
    if call.secondary:
        paths.append(path.replace(f"/{call.account}{SECONDARY}", f"/{call.account}", 1))
    names = dict.fromkeys([call.account, name, call.account + SECONDARY] if call.secondary else [call.account])
    for plain, spaced, owner, place in product((True, False), (False, True), names, paths):
        headers = _headers(call, plain)
        if lite:
            comp = call.parameters.get("comp")
            text = _lite_head(call) + headers + f"/{owner}{place}" + (f"?comp={comp}" if comp else "")
        else:
            text = _head(call) + headers + f"/{owner}{place}" + _query(call, spaced)
        if text not in seen:
            seen.add(text)
            yield text


def _head(call: Call) -> str:
    index = call.request.index
    values = [index.get(name, "") for name in _SIGNED]
    values[2] = "" if values[2] == "0" else values[2]
    values[5] = "" if "x-ms-date" in index else values[5]
    return f"{call.request.method}\n" + "\n".join(values) + "\n"


def _lite_head(call: Call) -> str:
    index = call.request.index
    date = "" if "x-ms-date" in index else index.get("date", "")
    return f"{call.request.method}\n{index.get('content-md5', '')}\n{index.get('content-type', '')}\n{date}\n"


def _headers(call: Call, plain: bool) -> str:
    headers: dict[str, list[str]] = {}
    for name, value in call.request.headers:
        if name.startswith("x-ms-"):
            headers.setdefault(name, []).append(value.strip())
    names = sorted(headers) if plain else sorted(headers, key=lambda name: (name.translate(_COLLATION), name))
    # Names and values are Latin-1 as read; what was signed are the bytes as sent.
    text = "".join(f"{name}:{','.join(headers[name])}\n" for name in names)
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def _query(call: Call, spaced: bool) -> str:
    values: dict[str, list[str]] = {}
    for part in call.request.query.split("&"):
        name, _, value = part.partition("=")
        if name:
            value = value.replace("+", " ") if spaced else value
            values.setdefault(unquote(name).lower(), []).append(unquote(value, errors="surrogateescape"))
    return "".join(f"\n{name}:{','.join(sorted(values[name]))}" for name in sorted(values))
