"""OIDC tokens for push, signed with a key of this server. Anyone may read the public key.

The private key is generated once and stored with the data. A token is valid for one hour and one audience, and is
reused until shortly before it expires.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from penstock.broker.model import SECOND
from penstock.engine.port import Documents

KIND, NAME = "google.push-key", "rsa"
ISSUER = "https://accounts.google.com"  # required by the libraries that verify tokens
LIFE_SECONDS = 3600
RENEW_SECONDS = 300

CERTS_PATH = "/oauth2/v3/certs"
DISCOVERY_PATH = "/.well-known/openid-configuration"


class Tokens:
    def __init__(self, queue: Documents, now: Callable[[], int]) -> None:
        self._queue = queue
        self._now = now
        self._key: Any = None
        self._lock = asyncio.Lock()
        self._issued: dict[tuple[str, str], tuple[int, str]] = {}  # (email, audience) -> (expiry, token)

    async def authorization(self, email: str, audience: str) -> str:
        """Return the value of an Authorization header."""
        now = self._now() // SECOND
        issued = self._issued.get((email, audience))
        if issued is not None and issued[0] - LIFE_SECONDS <= now < issued[0] - RENEW_SECONDS:
            return f"Bearer {issued[1]}"
        token = self._sign(await self._private_key(), email, audience, now)
        if len(self._issued) > 1000:
            self._issued.clear()
        self._issued[email, audience] = (now + LIFE_SECONDS, token)
        return f"Bearer {token}"

    def _sign(self, key: Any, email: str, audience: str, now: int) -> str:
        claims: dict[str, Any] = {"iss": ISSUER, "aud": audience, "iat": now, "exp": now + LIFE_SECONDS}
        claims |= {"azp": email, "sub": email, "email": email, "email_verified": True}
        return _sign_token(key, {"alg": "RS256", "typ": "JWT", "kid": key_id(key)}, claims)

    async def _private_key(self) -> Any:
        async with self._lock:
            if self._key is None:
                kept = await self._queue.document(KIND, NAME)
                self._key = await asyncio.to_thread(_load if kept else _generate_key, kept or b"")
                if not kept:
                    await self._queue.put_document(KIND, NAME, _dump(self._key))
        return self._key

    # ------------------------------------------------------------------ the public part

    async def certs(self) -> bytes:
        """Return the JSON Web Key Set. It is empty until the first token."""
        kept = await self._queue.document(KIND, NAME)
        return json.dumps({"keys": [_public(_load(kept))] if kept else []}).encode()

    async def discovery(self, base: str) -> bytes:
        algorithms = ["RS256"]
        content = {"issuer": ISSUER, "jwks_uri": f"{base}{CERTS_PATH}", "response_types_supported": ["id_token"]}
        content |= {"subject_types_supported": ["public"], "id_token_signing_alg_values_supported": algorithms}
        return json.dumps(content).encode()


def _sign_token(key: Any, head: dict[str, str], claims: dict[str, Any]) -> str:
    """Return a JSON Web Token (RFC 7519), signed with RS256 (RFC 7515)."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    content = f"{_base64url(json.dumps(head).encode())}.{_base64url(json.dumps(claims).encode())}"
    return f"{content}.{_base64url(key.sign(content.encode(), PKCS1v15(), SHA256()))}"


def _generate_key(_: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _load(pem: bytes) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(pem, None)


def _dump(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    pem: bytes = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    return pem


def key_id(key: Any) -> str:
    modulus = key.public_key().public_numbers().n
    return f"{modulus & (1 << 80) - 1:020x}"


def _public(key: Any) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    modulus, exponent = _encode_unsigned(numbers.n), _encode_unsigned(numbers.e)
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": key_id(key), "n": modulus, "e": exponent}


def _encode_unsigned(number: int) -> str:
    return _base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
