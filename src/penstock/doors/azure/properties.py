"""The properties of the service of an account: logging, metrics, CORS. As XML on the wire, as a record within.

The rule kept here: what a request leaves out keeps its value; what it says is checked whole before any of it counts.
Logging and metrics are kept and shown, as clients expect, and nothing is done with them.
"""

from __future__ import annotations

import re

import msgspec

from penstock.doors.azure.errors import invalid_xml
from penstock.doors.azure.markup import DECLARATION, Element, escape

DOCUMENTS = "azure-service-properties"  # the kind of document they are kept in, by account
CORS_RULES_MAX = 5
RETENTION_DAYS_MAX = 365
_VERSION = re.compile(r"\d+\.\d+", re.ASCII)


class Retention(msgspec.Struct, frozen=True):
    enabled: bool = False
    days: int | None = None


class Logging(msgspec.Struct, frozen=True):
    version: str = "1.0"
    delete: bool = False
    read: bool = False
    write: bool = False
    retention: Retention = Retention()


class Metrics(msgspec.Struct, frozen=True):
    version: str = "1.0"
    enabled: bool = False
    include_apis: bool | None = None
    retention: Retention = Retention()


class CorsRule(msgspec.Struct, frozen=True):
    origins: tuple[str, ...]
    methods: tuple[str, ...]
    allowed_headers: tuple[str, ...] = ()
    exposed_headers: tuple[str, ...] = ()
    max_age_seconds: int = 0


class Properties(msgspec.Struct, frozen=True):
    logging: Logging = Logging()
    hour_metrics: Metrics = Metrics()
    minute_metrics: Metrics = Metrics()
    cors: tuple[CorsRule, ...] = ()


def decode_properties(body: bytes | None) -> Properties:
    return msgspec.json.decode(body, type=Properties) if body else Properties()


def encode_properties(properties: Properties) -> bytes:
    return msgspec.json.encode(properties)


# ---------------------------------------------------------------------- from the wire


def read_properties(root: Element, known: Properties) -> Properties:
    """The properties a request leaves behind."""
    logging, hour, minute, cors = (root.child(n) for n in ("Logging", "HourMetrics", "MinuteMetrics", "Cors"))
    return Properties(
        known.logging if logging is None else _read_logging(logging),
        known.hour_metrics if hour is None else _read_metrics(hour),
        known.minute_metrics if minute is None else _read_metrics(minute),
        known.cors if cors is None else _read_cors(cors),
    )


def _read_logging(element: Element) -> Logging:
    delete, read, write = (_flag(element, name) for name in ("Delete", "Read", "Write"))
    return Logging(_version(element), delete, read, write, _read_retention(element))


def _read_metrics(element: Element) -> Metrics:
    enabled = _flag(element, "Enabled")
    include = None if element.child("IncludeAPIs") is None else _flag(element, "IncludeAPIs")
    if enabled and include is None:
        raise invalid_xml("IncludeAPIs is missing")
    return Metrics(_version(element), enabled, include if enabled else None, _read_retention(element))


def _read_retention(element: Element) -> Retention:
    policy = element.child("RetentionPolicy")
    if policy is None or not _flag(policy, "Enabled"):
        return Retention()
    days = _number(policy, "Days")
    if not 1 <= days <= RETENTION_DAYS_MAX:
        raise invalid_xml(f"Retention is 1 to {RETENTION_DAYS_MAX} days")
    return Retention(True, days)


def _read_cors(element: Element) -> tuple[CorsRule, ...]:
    if len(element.children) > CORS_RULES_MAX or any(each.name != "CorsRule" for each in element.children):
        raise invalid_xml(f"At most {CORS_RULES_MAX} CORS rules, and nothing else")
    return tuple(_read_rule(each) for each in element.children)


def _read_rule(element: Element) -> CorsRule:
    origins, methods = _words(element, "AllowedOrigins"), _words(element, "AllowedMethods")
    if not origins or not methods:
        raise invalid_xml("A CORS rule needs origins and methods")
    age = _number(element, "MaxAgeInSeconds") if element.text_of("MaxAgeInSeconds") else 0
    allowed, exposed = _words(element, "AllowedHeaders"), _words(element, "ExposedHeaders")
    return CorsRule(origins, tuple(method.upper() for method in methods), allowed, exposed, age)


def _version(element: Element) -> str:
    version = element.text_of("Version") or "1.0"
    if not _VERSION.fullmatch(version):
        raise invalid_xml("Version is not a version")
    return version


def _flag(element: Element, name: str) -> bool:
    text = (element.text_of(name) or "false").strip().lower()
    if text not in ("true", "false"):
        raise invalid_xml(f"{name} is true or false")
    return text == "true"


def _number(element: Element, name: str) -> int:
    text = (element.text_of(name) or "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise invalid_xml(f"{name} is a whole number")
    return int(text)


def _words(element: Element, name: str) -> tuple[str, ...]:
    words = [word.strip() for word in (element.text_of(name) or "").split(",")]
    if any(ord(sign) < 32 or ord(sign) > 126 for word in words for sign in word):
        raise invalid_xml(f"{name} holds what no header can hold")
    return tuple(word for word in words if word)


# ---------------------------------------------------------------------- to the wire


def write_properties(properties: Properties) -> bytes:
    logging = properties.logging
    switches = "".join(
        _switch(name, on) for name, on in (("Delete", logging.delete), ("Read", logging.read), ("Write", logging.write))
    )
    return (
        f"{DECLARATION}<StorageServiceProperties>"
        f"<Logging><Version>{logging.version}</Version>{switches}{_retention(logging.retention)}</Logging>"
        f"<HourMetrics>{_metrics(properties.hour_metrics)}</HourMetrics>"
        f"<MinuteMetrics>{_metrics(properties.minute_metrics)}</MinuteMetrics>"
        f"{_cors(properties.cors)}</StorageServiceProperties>"
    ).encode()


def _switch(name: str, on: bool) -> str:
    return f"<{name}>{'true' if on else 'false'}</{name}>"


def _retention(retention: Retention) -> str:
    days = "" if retention.days is None else f"<Days>{retention.days}</Days>"
    return f"<RetentionPolicy>{_switch('Enabled', retention.enabled)}{days}</RetentionPolicy>"


def _metrics(metrics: Metrics) -> str:
    include = "" if metrics.include_apis is None else _switch("IncludeAPIs", metrics.include_apis)
    head = f"<Version>{metrics.version}</Version>{_switch('Enabled', metrics.enabled)}"
    return f"{head}{include}{_retention(metrics.retention)}"


def _cors(rules: tuple[CorsRule, ...]) -> str:
    inner = "".join(
        f"<CorsRule><AllowedOrigins>{_joined(rule.origins)}</AllowedOrigins>"
        f"<AllowedMethods>{_joined(rule.methods)}</AllowedMethods>"
        f"<AllowedHeaders>{_joined(rule.allowed_headers)}</AllowedHeaders>"
        f"<ExposedHeaders>{_joined(rule.exposed_headers)}</ExposedHeaders>"
        f"<MaxAgeInSeconds>{rule.max_age_seconds}</MaxAgeInSeconds></CorsRule>"
        for rule in rules
    )
    return f"<Cors>{inner}</Cors>" if inner else "<Cors />"


def _joined(words: tuple[str, ...]) -> str:
    return escape(",".join(words))
