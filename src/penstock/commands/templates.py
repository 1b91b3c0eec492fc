"""Templates of the output of messages (`-f`, as in kcat), and variables in the bodies of published messages.

-f '%t %o %k %s\\n'          %t topic %p project %o offset %i id %k key %s body %S its size %T time %h attributes
'order {n} {uuid} {now}'    unknown names in braces stay as they are, so that JSON needs no escapes
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.value_parsers import EPOCH
from penstock.terminal import safe_text

Message = Mapping[str, Any]
Piece = bytes | Callable[[Message], bytes]

ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def body(message: Message) -> bytes:
    """Return the body of a message, or its decoded form if the server decoded it."""
    decoded = message.get("decoded")
    if decoded and decoded["text"] is not None:
        return str(decoded["text"]).encode()
    if message.get("data_base64") is not None:
        return base64.b64decode(message["data_base64"])
    return str(message.get("data") or "").encode()


def milliseconds(message: Message) -> int:
    return (datetime.fromisoformat(message["publish_time"]) - EPOCH) // timedelta(milliseconds=1)


def attributes(message: Message) -> str:
    """Return `a=1,b=2`, as kcat writes headers."""
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
KNOWN = " ".join(f"%{field}" for field in FIELDS)


def parse_template(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    for match in re.finditer(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|([^%\\]+)", text, re.DOTALL):
        field, escape, plain = match.groups()
        if plain is not None:
            pieces.append(plain.encode())
        elif field is not None:
            if field not in FIELDS:
                raise WrongUsageError(f"Unknown %{field} in the template. Known: {KNOWN}")
            pieces.append(FIELDS[field])
        elif len(escape) == 3:
            pieces.append(bytes.fromhex(escape[1:]))
        elif escape in ESCAPES:
            pieces.append(ESCAPES[escape])
        else:
            raise WrongUsageError(f"Unknown \\{escape} in the template. Known: \\n \\t \\r \\0 \\\\ \\xHH")
    return pieces


def render(pieces: list[Piece], message: Message, *, safe: bool = False) -> bytes:
    """Format a message. `safe` escapes the values for a terminal, but not the template."""
    return b"".join(piece if isinstance(piece, bytes) else _value(piece, message, safe) for piece in pieces)


def _value(field: Callable[[Message], bytes], message: Message, safe: bool) -> bytes:
    value = field(message)
    return (
        safe_text(value.decode("utf-8", "backslashreplace"), "\n\t" if field is body else "").encode()
        if safe
        else value
    )


# ---------------------------------------------------------------------- bodies

_VARIABLE = re.compile(r"\{(n|uuid|now|ms|random)\}")


def fill(text: str, number: int, now: datetime, unique: Callable[[], str], chance: Callable[[], int]) -> str:
    """Replace the variables of a body: {n}, {uuid}, {now}, {ms} and {random}, a number below 2^32."""
    values: dict[str, Callable[[], str]] = {
        "n": lambda: str(number),
        "uuid": unique,
        "now": lambda: now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "ms": lambda: str((now - EPOCH) // timedelta(milliseconds=1)),
        "random": lambda: str(chance()),
    }
    return _VARIABLE.sub(lambda match: values[match[1]](), text)


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """Return a dictionary from `key=value` texts."""
    read: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise WrongUsageError(f"{what} must be KEY=VALUE, not {text!r}")
        read[key] = value
    return read


def json_value(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise WrongUsageError(f"{what} must be JSON, not {text[:80]!r}") from None
