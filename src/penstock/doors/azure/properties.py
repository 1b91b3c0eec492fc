"""The service properties of an account (logging, metrics, CORS): XML to a record and back.

Logging and metrics are stored and shown, as clients expect, and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from penstock.doors.azure.errors import invalid_node, invalid_xml
from penstock.doors.azure.xml import DECLARATION, Element, elements

DOCUMENTS = "azure-service-properties"  # the kind of the documents that hold the properties, by account
CORS_RULES_MAX = 5
RETENTION_DAYS_MAX = 365
WORDS_MAX = 64  # origins, or names of headers, of a CORS rule
WORD_MAX = 256  # characters of an origin, or of the name of a header
PREFIXES_MAX = 2  # prefixes of names of headers, such as x-ms-meta-*
METHODS = frozenset({"DELETE", "GET", "HEAD", "MERGE", "OPTIONS", "PATCH", "POST", "PUT"})  # of CORS rules
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


def read_properties(root: Element, current: Properties) -> Properties:
    """Return the current properties with the changes that a request asks for."""
    fields = root.fields("Logging", "HourMetrics", "MinuteMetrics", "Cors")
    rules = fields["Cors"].items("CorsRule") if "Cors" in fields else []
    if len(rules) > CORS_RULES_MAX:
        raise invalid_xml(f"At most {CORS_RULES_MAX} CORS rules")
    return Properties(
        _read_logging(fields["Logging"]) if "Logging" in fields else current.logging,
        _read_metrics(fields["HourMetrics"]) if "HourMetrics" in fields else current.hour_metrics,
        _read_metrics(fields["MinuteMetrics"]) if "MinuteMetrics" in fields else current.minute_metrics,
        tuple(map(_read_rule, rules)) if "Cors" in fields else current.cors,
    )


def _read_logging(element: Element) -> Logging:
    fields = element.fields("Version", "Delete", "Read", "Write", "RetentionPolicy")
    delete, read, write = (_flag(fields, name) for name in ("Delete", "Read", "Write"))
    return Logging(_version(fields), delete, read, write, _read_retention(fields))


def _read_metrics(element: Element) -> Metrics:
    fields = element.fields("Version", "Enabled", "IncludeAPIs", "RetentionPolicy")
    enabled, include = _flag(fields, "Enabled"), _flag(fields, "IncludeAPIs") if "IncludeAPIs" in fields else None
    if enabled and include is None:
        raise invalid_xml("IncludeAPIs is missing")
    return Metrics(_version(fields), enabled, include, _read_retention(fields))


def _read_retention(fields: Mapping[str, Element]) -> Retention:
    if "RetentionPolicy" not in fields:
        return Retention()
    policy = fields["RetentionPolicy"].fields("Enabled", "Days")
    enabled = _flag(policy, "Enabled")
    if not enabled and "Days" not in policy:
        return Retention()
    days = _number(policy, "Days")
    if not 1 <= days <= RETENTION_DAYS_MAX:
        raise invalid_node("Days", str(days), f"Retention is 1 to {RETENTION_DAYS_MAX} days")
    return Retention(enabled, days)


def _read_rule(element: Element) -> CorsRule:
    fields = element.fields("AllowedOrigins", "AllowedMethods", "AllowedHeaders", "ExposedHeaders", "MaxAgeInSeconds")
    origins, methods = _words(fields, "AllowedOrigins"), _words(fields, "AllowedMethods")
    if not origins or not methods:
        raise invalid_xml("A CORS rule needs origins and methods")
    if len(origins) > WORDS_MAX:
        raise invalid_node("AllowedOrigins", _text(fields, "AllowedOrigins"), f"At most {WORDS_MAX} origins")
    if not METHODS.issuperset(method.upper() for method in methods):
        known = f"Methods are {', '.join(sorted(METHODS))}"
        raise invalid_node("AllowedMethods", _text(fields, "AllowedMethods"), known)
    age = _number(fields, "MaxAgeInSeconds") if _text(fields, "MaxAgeInSeconds") else 0
    allowed, exposed = _header_names(fields, "AllowedHeaders"), _header_names(fields, "ExposedHeaders")
    return CorsRule(origins, tuple(method.upper() for method in methods), allowed, exposed, age)


def _text(fields: Mapping[str, Element], name: str) -> str:
    return fields[name].value().strip() if name in fields else ""


def _version(fields: Mapping[str, Element]) -> str:
    version = _text(fields, "Version") or "1.0"
    if not _VERSION.fullmatch(version):
        raise invalid_node("Version", version, "Not a version")
    return version


def _flag(fields: Mapping[str, Element], name: str) -> bool:
    text = _text(fields, name) or "false"
    if text.lower() not in ("true", "false"):
        raise invalid_node(name, text, "True or false")
    return text.lower() == "true"


def _number(fields: Mapping[str, Element], name: str) -> int:
    if name not in fields:
        raise invalid_xml(f"{name} is missing")
    text = _text(fields, name)
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise invalid_node(name, text, "Not a whole number")
    return int(text)


def _header_names(fields: Mapping[str, Element], name: str) -> tuple[str, ...]:
    words = _words(fields, name)
    prefixes = sum(word.endswith("*") for word in words)
    if prefixes > PREFIXES_MAX or len(words) - prefixes > WORDS_MAX:
        raise invalid_node(name, _text(fields, name), f"At most {WORDS_MAX} headers and {PREFIXES_MAX} prefixes")
    return words


def _words(fields: Mapping[str, Element], name: str) -> tuple[str, ...]:
    words = [word.strip() for word in _text(fields, name).split(",")]
    if any(ord(sign) < 32 or ord(sign) > 126 for word in words for sign in word):
        raise invalid_node(name, _text(fields, name), "A character that no header can hold")
    if any(len(word) > WORD_MAX for word in words):
        raise invalid_node(name, _text(fields, name), f"More than {WORD_MAX} characters")
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
    inner = ""
    for rule in rules:
        fields = [
            ("AllowedOrigins", ",".join(rule.origins)),
            ("AllowedMethods", ",".join(rule.methods)),
            ("AllowedHeaders", ",".join(rule.allowed_headers)),
            ("ExposedHeaders", ",".join(rule.exposed_headers)),
            ("MaxAgeInSeconds", str(rule.max_age_seconds)),
        ]
        inner += f"<CorsRule>{elements(fields)}</CorsRule>"
    return f"<Cors>{inner}</Cors>" if inner else "<Cors />"
