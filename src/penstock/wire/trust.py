"""What a door asks of its callers: TLS, with client certificates or without, and bearer tokens."""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Sequence

from penstock.errors import InvalidArgumentError


def server_context(
    door: str, certificate: str | None, key: str | None, *, client_ca: str | None = None, protocols: Sequence[str] = ()
) -> ssl.SSLContext | None:
    """TLS 1.2 or newer; None without a certificate. With `client_ca`, only for clients whose certificate it signed.

    `door` names the settings that an error is about; `protocols` are offered by ALPN.
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
        raise InvalidArgumentError(f"{settings} cannot be used: expected PEM, and a key that fits") from None
    except OSError as error:
        raise InvalidArgumentError(f"{settings} cannot be used: {error.strerror}") from None
    return context


class BearerTokens:
    """The tokens that callers may show. They are compared in a time that says nothing about them."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [token.encode() for token in tokens]

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def admit(self, authorization: bytes) -> bool:
        """Whether the value of an Authorization header shows one of them."""
        scheme, _, token = authorization.partition(b" ")
        known = [hmac.compare_digest(token.strip(), each) for each in self._tokens]
        return scheme.lower() == b"bearer" and any(known)
