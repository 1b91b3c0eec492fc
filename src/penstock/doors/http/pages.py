"""The files of the console, with headers that forbid foreign scripts and frames."""

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
    """Return a client's preference for a kind, from 0 to 1, by its most exact match (RFC 9110, section 12.5)."""
    qualities: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = [piece.strip() for piece in part.split(";")]
        quality = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
        qualities[name] = float(quality) if _QUALITY.fullmatch(quality) else 0.0
    group = kind.partition("/")[0] + "/*"
    return next((qualities[name] for name in (kind, group, "*/*", "*") if name in qualities), 0.0)


class Page(NamedTuple):
    kind: str
    body: bytes
    compressed: bytes
    tag: str


class Pages:
    def answer(self, request: Request, name: str) -> Response:
        """Return the response with a file of the console."""
        page = self._pages.get(name)
        if page is None:
            return error_response(404, "The console has no such file.")
        headers = [("ETag", page.tag), ("Cache-Control", "no-cache"), ("Vary", "Accept, Accept-Encoding"), *_SAFE]
        cached_tags = [tag.strip() for tag in request.header("if-none-match").split(",")]
        if page.tag in cached_tags or page.tag.removeprefix("W/") in cached_tags or cached_tags == ["*"]:
            return Response(304, headers)
        headers.append(("Content-Type", page.kind))
        if not preference(request.header("accept-encoding"), "gzip"):
            return Response(200, headers, page.body)
        return Response(200, [*headers, ("Content-Encoding", "gzip")], page.compressed)

    @cached_property
    def _pages(self) -> dict[str, Page]:
        """The files by name. They are read with the first request, because most servers never get one."""
        pages: dict[str, Page] = {}
        root = files("penstock.doors.http") / "console"
        for folder in _FOLDERS:
            for file in (root / folder if folder else root).iterdir():
                kind = _TYPES.get(file.name.rpartition(".")[2])
                if kind is not None and file.is_file():
                    body = file.read_bytes()
                    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
                    name = f"{folder}/{file.name}" if folder else file.name
                    pages[name] = Page(kind, body, gzip.compress(body, mtime=0), tag)
        return pages
