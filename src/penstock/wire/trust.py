"""The credentials of callers: TLS, with or without client certificates, and bearer tokens."""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Sequence

from penstock.errors import InvalidArgumentError


def server_context(
    door: str, certificate: str | None, key: str | None, *, client_ca: str | None = None, protocols: Sequence[str] = ()
) -> ssl.SSLContext | None:
    """Return a context for TLS 1.2 or newer, or None without a certificate.

    `client_ca`: only clients with a certificate that it signed may connect. `door`: prefix of the settings, for errors.
    `protocols`: offered by ALPN.
    """
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocols:
        context.set_alpn_protocols(list(protocols))
    settings = f"{door}_tls_cert and {door}_tls_key"
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            settings = f"{door}_tls_client_ca"
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError:
        raise InvalidArgumentError(
            f"{settings} cannot be used: expected PEM, and a key that belongs to the certificate"
        ) from None
    except OSError as error:
        raise InvalidArgumentError(f"{settings} cannot be used: {error.strerror}") from None
    return context


class BearerTokens:
    """The valid bearer tokens. They are compared in constant time."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [token.encode() for token in tokens]

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def admit(self, authorization: bytes) -> bool:
        """Return whether an Authorization header has one of the tokens."""
        scheme, _, token = authorization.partition(b" ")
        matches = [hmac.compare_digest(token.strip(), valid) for valid in self._tokens]
        return scheme.lower() == b"bearer" and any(matches)
