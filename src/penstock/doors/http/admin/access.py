"""Access to the admin API: by bearer token, or from this machine if there are no tokens, and never by foreign pages."""

from __future__ import annotations

from penstock.doors.http.errors import error_response
from penstock.doors.http.options import HttpOptions
from penstock.wire.hosts import is_from_here
from penstock.wire.http1 import Request, Response
from penstock.wire.trust import BearerTokens

READS = ("GET", "HEAD")
_CHALLENGE = ("WWW-Authenticate", "Bearer")
_DEFAULT_PORTS = {"http": "80", "https": "443"}

_HOW = "Send the header Authorization: Bearer TOKEN, or give the command --token."
NO_TOKENS = "Without tokens only programs on the server's machine may use the admin API; see the setting http_tokens."
FOREIGN_PAGE = "Web pages of another origin may not use the admin API."


class Access:
    def __init__(self, options: HttpOptions) -> None:
        self._all, self._read = BearerTokens(options.tokens), BearerTokens(options.read_tokens)

    @property
    def guarded(self) -> bool:
        """Return whether clients need a token."""
        return bool(self._all) or bool(self._read)

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is not allowed, or None."""
        if "origin" in request.index and not _same_origin(request):
            return error_response(403, FOREIGN_PAGE)
        if not self.guarded:
            return None if is_from_here(request) else error_response(403, NO_TOKENS)
        if self.may_change(request):
            return None
        if not self._read.admit(_credentials(request)):
            sentence = "Unknown token." if request.header("authorization") else "A token is required."
            return error_response(401, f"{sentence} {_HOW}", _CHALLENGE)
        return None if request.method in READS else error_response(403, "This token may only read.")

    def may_change(self, request: Request) -> bool:
        """Return whether a client has full access."""
        return self._all.admit(_credentials(request)) if self.guarded else is_from_here(request)


def _credentials(request: Request) -> bytes:
    return request.header("authorization").encode("latin-1", "replace")


def _same_origin(request: Request) -> bool:
    scheme, _, place = request.header("origin").lower().partition("://")
    host = request.header("host").lower()
    port = _DEFAULT_PORTS.get(scheme, "")
    return bool(place) and place.removesuffix(f":{port}") == host.removesuffix(f":{port}")
