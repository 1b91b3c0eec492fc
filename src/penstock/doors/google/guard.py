"""Who may call: bearer tokens, and TLS for the way there.

The rule kept here: without tokens in the settings everyone who reaches the port may call; with them nobody may
without one, whatever the method. Tokens are compared in a time that says nothing about them.
"""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Sequence

from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.health import SERVICE as HEALTH
from penstock.errors import InvalidArgumentError


class Guard:
    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [token.encode() for token in tokens]

    def admit(self, headers: dict[str, str], path: str) -> None:
        """CallError unless the caller may call this."""
        if not self._tokens or path.startswith(f"/{HEALTH}/"):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = given.strip().encode("latin-1", "replace")
        known = [hmac.compare_digest(token, each) for each in self._tokens]
        if scheme.lower() != "bearer" or not any(known):
            raise CallError(Code.UNAUTHENTICATED, "Request had invalid authentication credentials.")


def server_context(certificate: str | None, private_key: str | None) -> ssl.SSLContext | None:
    """TLS for a server that speaks HTTP/2 and HTTP/1.1; None without a certificate."""
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(certificate, private_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"pubsub_tls_cert and pubsub_tls_key cannot be used: {error}") from None
    return context
