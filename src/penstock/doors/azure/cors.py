"""CORS: the headers that tell a browser which origins may use the service."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.doors.azure.errors import AzureError, Pairs
from penstock.doors.azure.properties import CorsRule
from penstock.wire.http1_message import Request


def preflight_headers(request: Request, rules: Sequence[CorsRule]) -> Pairs:
    """Return the headers that answer an OPTIONS request. Raise AzureError if no rule allows the request."""
    origin, method = request.header("origin"), request.header("access-control-request-method").upper()
    for name, value in (("Origin", origin), ("Access-Control-Request-Method", method)):
        if not value:
            raise AzureError(
                "InvalidHeaderValue", ("HeaderName", name), message="A required CORS header is not present."
            )
    names = [name.strip() for name in request.header("access-control-request-headers").split(",") if name.strip()]
    for rule in rules:
        if method in rule.methods and _allows_origin(rule, origin) and _allows_headers(rule, names):
            headers = [*_origin_headers(rule, origin), ("Access-Control-Allow-Methods", method)]
            if names:
                headers.append(("Access-Control-Allow-Headers", ",".join(names)))
            return [*headers, ("Access-Control-Max-Age", str(rule.max_age_seconds))]
    raise AzureError("CorsPreflightFailure")


def request_headers(request: Request, rules: Sequence[CorsRule]) -> Pairs:
    """Return the headers for an answer to a page of another origin."""
    origin = request.header("origin")
    for rule in rules:
        if request.method in rule.methods and _allows_origin(rule, origin):
            exposed = [("Access-Control-Expose-Headers", ",".join(rule.exposed_headers))]
            return [*_origin_headers(rule, origin), *(exposed if rule.exposed_headers else [])]
    return [("Vary", "Origin")] if rules else []


def _origin_headers(rule: CorsRule, origin: str) -> list[tuple[str, str]]:
    if "*" in rule.origins:
        return [("Access-Control-Allow-Origin", "*")]
    credentials = ("Access-Control-Allow-Credentials", "true")
    return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), credentials]


def _allows_origin(rule: CorsRule, origin: str) -> bool:
    if "*" in rule.origins or origin in rule.origins:
        return True
    return any(_is_subdomain(origin, pattern) for pattern in rule.origins)


def _is_subdomain(origin: str, pattern: str) -> bool:
    """Return whether an origin matches a pattern such as `https://*.page.example`."""
    before, star, domain = pattern.partition("*.")
    if not star or not origin.startswith(before) or not origin.endswith(f".{domain}"):
        return False
    return re.fullmatch(r"[\w.-]+", origin[len(before) : -len(domain) - 1], re.ASCII) is not None


def _allows_headers(rule: CorsRule, names: Sequence[str]) -> bool:
    allowed = {name.lower() for name in rule.allowed_headers}
    prefixes = tuple(name[:-1] for name in allowed if name.endswith("*"))
    return all(name.lower() in allowed or name.lower().startswith(prefixes) for name in names)
