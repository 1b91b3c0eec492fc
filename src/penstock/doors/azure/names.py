"""The broker's names in the vendor's form: message ids as UUIDs, receipts as pop receipts in Base64.

Nothing is stored. A message id is the broker's id, mixed with a check so that it reads like any other UUID. A pop
receipt is the broker's receipt in Base64. Any node can read them back, and neither needs escaping in a URL.
"""

from __future__ import annotations

import binascii
import re

QUEUE_NAME_MIN, QUEUE_NAME_MAX = 3, 63

_QUEUE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)

# Multiplying by an odd number is a bijection on 64 bits. The second product makes the other half of the UUID.
_WORD = (1 << 64) - 1
_MIX, _CHECK = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
_UNMIX = pow(_MIX, -1, 1 << 64)


def message_uuid(number: int) -> str:
    mixed = number * _MIX & _WORD
    # xxxxxxxx-xxxx-4xxx-8xcc-cccccccccccc: 64 bits of id, 56 bits of check, and the digits 4 and 8 of a version 4 UUID
    text = f"{mixed:016x}{(mixed ^ _CHECK) * _CHECK >> 8 & (1 << 56) - 1:014x}"
    return f"{text[:8]}-{text[8:12]}-4{text[12:15]}-8{text[15:18]}-{text[18:]}"


def parse_message_uuid(text: str) -> int | None:
    """Return the broker's id, or None if the text is not an id of ours."""
    lower = text.lower()
    try:
        mixed = int(lower[:8] + lower[9:13] + lower[15:18] + lower[20:21], 16)
    except ValueError:
        return None
    number = mixed * _UNMIX & _WORD
    return number if message_uuid(number) == lower else None


def pop_receipt(receipt: str) -> str:
    """Return the broker's receipt in Base64, with leading zeros so that it needs no padding."""
    padded = "0" * (-len(receipt) % 3) + receipt
    return binascii.b2a_base64(padded.encode(), newline=False).decode()


def is_base64(text: str) -> bool:
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def parse_pop_receipt(text: str) -> str | None:
    """Return the broker's receipt, or None if the text is not Base64. The receipt itself may still be invalid."""
    if not text or not is_base64(text):
        return None
    return binascii.a2b_base64(text).decode("latin-1").lstrip("0")


def is_queue_name(name: str) -> bool:
    return _QUEUE.fullmatch(name) is not None


def is_metadata_name(name: str) -> bool:
    return _IDENTIFIER.fullmatch(name) is not None
