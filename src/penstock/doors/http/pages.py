"""The console: the files of its folder, served so that no foreign script runs in them and no page frames them."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from importlib.resources import files
from typing import NamedTuple

from penstock.doors.http.errors import error_response
from penstock.wire.http1 import Request, Response

BASE = "/console/"
INDEX = "index.html"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_QUALITY = re.compile(r"[01](\.\d{0,3})?")
_FOLDERS = ("", "lib", "parts", "vendor", "views")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


def preference(header: str, kind: str) -> float:
    """How much a client wants something, from 0 to 1, by what it names most exactly (RFC 9110, section 12.5)."""
    wanted: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = [each.strip() for each in part.split(";")]
        given = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        wanted[name] = float(given) if _QUALITY.fullmatch(given) else 0.0
    group = kind.partition("/")[0] + "/*"
    return next((wanted[name] for name in (kind, group, "*/*", "*") if name in wanted), 0.0)


class Page(NamedTuple):
    kind: str
    body: bytes
    packed: bytes
    tag: str


class Pages:
    def answer(self, request: Request, name: str) -> Response:
        """A file of the console, by its name there."""
        page = self._pages.get(name)
        if page is None:
            return error_response(404, "The console has no such file.")
        headers = [("ETag", page.tag), ("Cache-Control", "no-cache"), ("Vary", "Accept, Accept-Encoding"), *_SAFE]
        known = [each.strip() for each in request.header("if-none-match").split(",")]
        if page.tag in known or page.tag.removeprefix("W/") in known or known == ["*"]:
            return Response(304, headers)
        headers.append(("Content-Type", page.kind))
        if not preference(request.header("accept-encoding"), "gzip"):
            return Response(200, headers, page.body)
        return Response(200, [*headers, ("Content-Encoding", "gzip")], page.packed)

    @cached_property
    def _pages(self) -> dict[str, Page]:
        """Read when they are first asked for: most servers are never looked at."""
        found: dict[str, Page] = {}
        root = files("penstock.doors.http") / "console"
        for folder in _FOLDERS:
            for each in (root / folder if folder else root).iterdir():
                kind = _TYPES.get(each.name.rpartition(".")[2])
                if kind is not None and each.is_file():
                    body = each.read_bytes()
                    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
                    name = f"{folder}/{each.name}" if folder else each.name
                    found[name] = Page(kind, body, gzip.compress(body, mtime=0), tag)
        return found
