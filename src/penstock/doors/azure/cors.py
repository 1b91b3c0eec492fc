"""CORS: which pages of which origins a browser lets at the service."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.doors.azure.errors import AzureError, Pairs
from penstock.doors.azure.properties import CorsRule
from penstock.wire.message import Request


def preflight_headers(request: Request, rules: Sequence[CorsRule]) -> Pairs:
    """The answer to an OPTIONS request. AzureError if no rule allows what it asks."""
    origin, method = request.header("origin"), request.header("access-control-request-method").upper()
    for name, value in (("Origin", origin), ("Access-Control-Request-Method", method)):
        if not value:
            raise AzureError(
                "InvalidHeaderValue", ("HeaderName", name), message="A required CORS header is not present."
            )
    wanted = [word.strip() for word in request.header("access-control-request-headers").split(",") if word.strip()]
    for rule in rules:
        if method in rule.methods and _is_origin(rule, origin) and _all_allowed(rule, wanted):
            headers = [*_origin(rule, origin), ("Access-Control-Allow-Methods", method)]
            if wanted:
                headers.append(("Access-Control-Allow-Headers", ",".join(wanted)))
            return [*headers, ("Access-Control-Max-Age", str(rule.max_age_seconds))]
    raise AzureError("CorsPreflightFailure")


def request_headers(request: Request, rules: Sequence[CorsRule]) -> Pairs:
    """What an answer to a page of another origin carries."""
    origin = request.header("origin")
    for rule in rules:
        if request.method in rule.methods and _is_origin(rule, origin):
            exposed = [("Access-Control-Expose-Headers", ",".join(rule.exposed_headers))]
            return [*_origin(rule, origin), *(exposed if rule.exposed_headers else [])]
    return [("Vary", "Origin")] if rules else []


def _origin(rule: CorsRule, origin: str) -> list[tuple[str, str]]:
    if "*" in rule.origins:
        return [("Access-Control-Allow-Origin", "*")]
    credentials = ("Access-Control-Allow-Credentials", "true")
    return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin"), credentials]


def _is_origin(rule: CorsRule, origin: str) -> bool:
    return "*" in rule.origins or origin in rule.origins or any(_is_below(origin, each) for each in rule.origins)


def _is_below(origin: str, pattern: str) -> bool:
    """Whether an origin is a subdomain of `https://*.page.example`."""
    before, star, domain = pattern.partition("*.")
    if not star or not origin.startswith(before) or not origin.endswith(f".{domain}"):
        return False
    return re.fullmatch(r"[\w.-]+", origin[len(before) : -len(domain) - 1], re.ASCII) is not None


def _all_allowed(rule: CorsRule, wanted: Sequence[str]) -> bool:
    names = {allowed.lower() for allowed in rule.allowed_headers}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return all(word.lower() in names or word.lower().startswith(prefixes) for word in wanted)
