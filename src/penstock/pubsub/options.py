"""What a consumer and a publisher may set, as records, and how they are read from what a program wrote.

The rule kept here: each option has one Python spelling; what belongs to the subscription itself is turned into the
broker's options by `engine.options`, what belongs to the one who reads from it stays here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.options import ACK_DEADLINE_MAX_SECONDS, ACK_DEADLINE_MIN_SECONDS, OPTIONS, seconds
from penstock.errors import InvalidArgumentError
from penstock.pubsub.checks import anything, bounded_seconds, checked, flag, number, one_of, strings, whole

MIB = 1024 * 1024
RETENTION_MIN_SECONDS = 600
RETENTION_MAX_SECONDS = 7 * 86400

NACK = "NACK"
WAIT = "WAIT"
BLOCK = "BLOCK"
ERROR = "ERROR"
IGNORE = "IGNORE"


@dataclass(frozen=True, slots=True)
class FlowControl:
    """How much a consumer holds at a time."""

    max_messages: int = 1000
    max_bytes: int = 100 * MIB
    allow_excess_messages: bool = False  # with room for one, take as many as come at once
    max_extension_seconds: float = 3600.0  # how long leases are extended while listeners run; 0: not at all


@dataclass(frozen=True, slots=True)
class AnswerBatching:
    """How many acks and nacks travel together."""

    max_messages: int = 3000
    max_seconds: float = 0.0  # 0: those of one turn of the event loop


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    flow_control: FlowControl = FlowControl()
    batching: AnswerBatching = AnswerBatching()
    ack_deadline_seconds: float | None = None  # None: that of the subscription
    min_ack_deadline_seconds: float = 0.0
    max_ack_deadline_seconds: float = ACK_DEADLINE_MAX_SECONDS
    close_behavior: str = WAIT
    close_timeout_seconds: float | None = None  # None: until answered or the lease ends

    def lease_seconds(self, stored: float) -> float:
        """The lease a consumer asks for, where the subscription has `stored`."""
        wanted = stored if self.ack_deadline_seconds is None else self.ack_deadline_seconds
        return max(self.min_ack_deadline_seconds, min(wanted, self.max_ack_deadline_seconds))


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    max_messages: int = 100
    max_bytes: int = MIB
    max_seconds: float = 0.0  # 0: what is published in one turn of the event loop
    outstanding_messages: int = 0  # accepted and not yet stored; 0: no limit
    outstanding_bytes: int = 0
    limit_exceeded_behavior: str = BLOCK
    ordering: bool = True  # after a failure, its ordering key is paused


_DEADLINE = bounded_seconds(
    ACK_DEADLINE_MIN_SECONDS,
    ACK_DEADLINE_MAX_SECONDS,
    f"Ack deadline must be between {ACK_DEADLINE_MIN_SECONDS} and {ACK_DEADLINE_MAX_SECONDS} seconds",
)
_RETENTION = bounded_seconds(
    RETENTION_MIN_SECONDS, RETENTION_MAX_SECONDS, "Message retention must be between 10 minutes and 7 days"
)
_FLOW_CONTROL = {
    "max_messages": whole(1),
    "max_bytes": whole(1),
    "allow_excess_messages": flag,
    "max_extension": seconds,
}
_BATCHING = {"max_messages": whole(1), "max_milliseconds": number}
_CLOSE = {"behavior": one_of(NACK, WAIT), "timeout": seconds}
_STREAMING = {"max_streams": whole(1), "timeout": number}

# Of the one who reads.
_CONSUMER = {
    "flow_control": anything,
    "batching": anything,
    "close_options": anything,
    "streaming_options": anything,
    "ack_deadline_seconds": _DEADLINE,
    "ack_deadline": _DEADLINE,
    "min_ack_deadline": _DEADLINE,
    "max_ack_deadline": _DEADLINE,
    "max_extension_time": seconds,
    "use_legacy_flow_control": flag,
}

# Of the subscription itself; `engine.options` knows them, these are the ones it does not.
_OWN = {"topic": anything, "push_config": strings, "gax_opts": anything}

_STORED = {name for name in OPTIONS if name != "flow_control"}


def consumer_options(given: Mapping[str, Any], start: ConsumerOptions) -> ConsumerOptions:
    """The options of a consumer, for what was given; other options are looked at and left."""
    check_names(given)
    own = checked({name: value for name, value in given.items() if name in _CONSUMER}, _CONSUMER, "option")
    checked(own.get("streaming_options", {}), _STREAMING, "option", "streaming_options")
    flow = checked(own.get("flow_control", {}), _FLOW_CONTROL, "option", "flow_control")
    extension = own.get("max_extension_time", flow.pop("max_extension", None))
    if extension is not None:
        flow["max_extension_seconds"] = extension
    return replace(
        start,
        flow_control=replace(start.flow_control, **flow),
        batching=replace(start.batching, **_batching(own)),
        **_deadlines(own),
        **_closing(own),
    )


def check_names(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in _CONSUMER and name not in _OWN and name not in _STORED:
            raise InvalidArgumentError(f"Unknown subscription option: {name}")


def stored_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given options that the subscription keeps, ready for `engine.options`."""
    stored = {name: value for name, value in given.items() if name in _STORED and value is not None}
    if "message_retention_duration" in stored:
        _RETENTION(stored["message_retention_duration"], "message_retention_duration")
    return stored


def _deadlines(own: Mapping[str, Any]) -> dict[str, Any]:
    deadlines = {}
    for name in ("ack_deadline", "ack_deadline_seconds"):
        if name in own:
            deadlines["ack_deadline_seconds"] = own[name]
    for name in ("min_ack_deadline", "max_ack_deadline"):
        if name in own:
            deadlines[f"{name}_seconds"] = own[name]
    return deadlines


def _closing(own: Mapping[str, Any]) -> dict[str, Any]:
    given = checked(own.get("close_options", {}), _CLOSE, "option", "close_options")
    names = {"behavior": "close_behavior", "timeout": "close_timeout_seconds"}
    return {names[name]: value for name, value in given.items()}


def _batching(own: Mapping[str, Any]) -> dict[str, Any]:
    given = checked(own.get("batching", {}), _BATCHING, "option", "batching")
    if "max_milliseconds" in given:
        given["max_seconds"] = given.pop("max_milliseconds") / 1000
    return given


_PUBLISHER = {"batching": anything, "flow_control": anything, "enable_message_ordering": flag}
_PUBLISHER_BATCHING = {**_BATCHING, "max_bytes": whole(1)}
_PUBLISHER_FLOW = {
    "max_outstanding_messages": whole(1),
    "max_outstanding_bytes": whole(1),
    "limit_exceeded_behavior": one_of(BLOCK, ERROR, IGNORE),
}


def publisher_options(given: Mapping[str, Any], start: PublisherOptions) -> PublisherOptions:
    own = checked(given, _PUBLISHER, "topic option")
    batching = checked(own.get("batching", {}), _PUBLISHER_BATCHING, "option", "batching")
    if "max_milliseconds" in batching:
        batching["max_seconds"] = batching.pop("max_milliseconds") / 1000
    flow = checked(own.get("flow_control", {}), _PUBLISHER_FLOW, "option", "flow_control")
    limits = {name.removeprefix("max_"): value for name, value in flow.items()}
    if "enable_message_ordering" in own:
        limits["ordering"] = own["enable_message_ordering"]
    return replace(start, **batching, **limits)
