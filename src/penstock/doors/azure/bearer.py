"""Bearer tokens, checked as in Azurite's basic mode: times, issuer and audience, but not the signature."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.broker.model import SECOND
from penstock.doors.azure.errors import AzureError

ISSUERS = (
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net",
)
RESOURCE = "https://storage.azure.com"
RESOURCES = (RESOURCE, "https://storage.azure.cn", "https://storage.azure.us", "https://storage.azure.de")
CLOUDS = ("core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "core.cloudapi.de")
_APPLICATION = "e406a681-f3d4-42a8-90b6-c2b029497af1"
_ZERO = "00000000-0000-0000-0000-000000000000"


class Wording(NamedTuple):
    """Error messages in which the service and Azurite differ, and which tests of users may quote."""

    issuer: str
    audience: str
    key_only: str  # for an operation that a token does not allow. Empty: the usual message of AuthorizationFailure


WORDINGS = {
    "azure": Wording(
        "Issuer validation failed. Issuer did not match.", "Audience validation failed. Audience did not match.", ""
    ),
    "azurite": Wording(
        "Invalid token issuer.",
        "Invalid token audience.",
        "Server failed to authenticate the request. This operation needs a shared key, not a token.",
    ),
}


def check_token(token: str, account: str, now: int, wording: Wording) -> Mapping[str, Any]:
    """Return the claims of a token. Raise AzureError with a challenge if it is invalid for this account now."""
    claims = _claims(token)
    times = [_time(claims, name) for name in ("nbf", "iat", "exp")]
    if claims is None or None in times:
        raise invalid_token("The token is not a JWT with nbf, iat and exp.")
    not_before, issued, expires = (int(time or 0) * SECOND for time in times)
    if now >= expires:
        raise invalid_token("Lifetime validation failed. The token is expired.")
    if now < not_before or now < issued:
        raise invalid_token("Lifetime validation failed. The token is not yet valid.")
    if not str(claims.get("iss", "")).startswith(ISSUERS):
        raise invalid_token(wording.issuer)
    claim = claims.get("aud", "")
    audiences = {str(audience).rstrip("/") for audience in (claim if isinstance(claim, list) else [claim])}
    if audiences.isdisjoint({*RESOURCES, _APPLICATION, *(f"https://{account}.queue.{cloud}" for cloud in CLOUDS)}):
        raise invalid_token(wording.audience)
    return claims


def invalid_token(detail: str) -> AzureError:
    challenge = f"Bearer authorization_uri=https://login.microsoftonline.com/{_ZERO}/oauth2/authorize"
    headers = (("WWW-Authenticate", f"{challenge} resource_id={RESOURCE}"),)
    return AzureError("InvalidAuthenticationInfo", ("AuthenticationErrorDetail", detail), headers=headers)


def _claims(token: str) -> dict[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(text, type=dict[str, Any])
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return None


def _time(claims: dict[str, Any] | None, name: str) -> int | None:
    value = claims.get(name) if claims is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else None
