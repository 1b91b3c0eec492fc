"""Templates: how a message is written (`-f`, as in kcat), and bodies that are different for each message.

-f '%t %o %k %s\\n'          %t topic %p project %o offset %i id %k key %s body %S its size %T time %h attributes
'order {n} {uuid} {now}'    what is not known in braces stays, so that JSON needs no escapes
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from penstock.commands.exits import WrongUsageError
from penstock.commands.times import EPOCH

Message = Mapping[str, Any]
Piece = bytes | Callable[[Message], bytes]

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def body(message: Message) -> bytes:
    """The exact bytes of a message as the server wrote it down; where it decoded them, its JSON."""
    decoded = message.get("decoded")
    if decoded and decoded["text"] is not None:
        return str(decoded["text"]).encode()
    if message.get("data_base64") is not None:
        return base64.b64decode(message["data_base64"])
    return str(message.get("data") or "").encode()


def milliseconds(message: Message) -> int:
    return (datetime.fromisoformat(message["publish_time"]) - EPOCH) // timedelta(milliseconds=1)


def attributes(message: Message) -> str:
    """`a=1,b=2`, as kcat writes headers."""
    return ",".join(f"{key}={value}" for key, value in (message.get("attributes") or {}).items())


def _project(message: Message) -> bytes:
    parts = str(message.get("topic", "")).split("/")
    return parts[1].encode() if len(parts) == 4 else b""


FIELDS: dict[str, Callable[[Message], bytes]] = {
    "t": lambda message: str(message.get("topic", "")).rpartition("/")[2].encode(),
    "p": _project,
    "o": lambda message: str(message["offset"]).encode(),
    "i": lambda message: str(message["id"]).encode(),
    "k": lambda message: str(message.get("ordering_key") or "").encode(),
    "K": lambda message: str(len(str(message.get("ordering_key") or "").encode())).encode(),
    "s": body,
    "S": lambda message: str(len(body(message))).encode(),
    "T": lambda message: str(milliseconds(message)).encode(),
    "h": lambda message: attributes(message).encode(),
    "r": lambda message: str(message.get("receipt", "")).encode(),
    "a": lambda message: str(message.get("attempt", "")).encode(),
    "%": lambda message: b"%",
}
KNOWN = " ".join(f"%{each}" for each in FIELDS)


def parse_template(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    for found in re.finditer(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|([^%\\]+)", text, re.DOTALL):
        field, escape, plain = found.groups()
        if plain is not None:
            pieces.append(plain.encode())
        elif field is not None:
            if field not in FIELDS:
                raise WrongUsageError(f"The template has an unknown %{field}; there are {KNOWN}")
            pieces.append(FIELDS[field])
        elif len(escape) == 3:
            pieces.append(bytes.fromhex(escape[1:]))
        elif escape in ESCAPES:
            pieces.append(ESCAPES[escape])
        else:
            raise WrongUsageError(f"The template has an unknown \\{escape}; there are \\n \\t \\r \\0 \\\\ \\xHH")
    return pieces


def render(pieces: list[Piece], message: Message) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else piece(message) for piece in pieces)


# ---------------------------------------------------------------------- bodies

_VARIABLE = re.compile(r"\{(n|uuid|now|ms|random)\}")


def fill(text: str, number: int, now: datetime, unique: Callable[[], str], chance: Callable[[], int]) -> str:
    """A body with its variables: {n} counts from 1, {uuid}, {now} and {ms} the time, {random} a number below 2^32."""
    values: dict[str, Callable[[], str]] = {
        "n": lambda: str(number),
        "uuid": unique,
        "now": lambda: now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "ms": lambda: str((now - EPOCH) // timedelta(milliseconds=1)),
        "random": lambda: str(chance()),
    }
    return _VARIABLE.sub(lambda found: values[found[1]](), text)


def pairs(given: list[str] | None, what: str) -> dict[str, str]:
    """`key=value` as many times as it was given."""
    read: dict[str, str] = {}
    for each in given or []:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise WrongUsageError(f"{what} is KEY=VALUE, not {each!r}")
        read[key] = value
    return read


def json_value(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise WrongUsageError(f"{what} is JSON, and this is not: {text[:80]!r}") from None
