"""The delivery settings of a subscription that is not pulled: push, BigQuery, Cloud Storage, Bigtable.

This server delivers only to push endpoints. Other settings are checked against the bounds in the .proto files and kept.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.doors.google import ranges
from penstock.doors.google.errors import bad_argument, invalid

DESTINATIONS = ("bigquery_config", "cloud_storage_config", "bigtable_config")
VERSION_KEY, VERSION = "x-goog-version", "v1"
VERSIONS = frozenset({"v1", "v1beta1", "v1beta2"})

ACK_DEADLINE_SECONDS = 10.0
FILE_SECONDS, FILE_MIN_SECONDS, FILE_MAX_SECONDS = 5 * ranges.MINUTE, ranges.MINUTE, 10 * ranges.MINUTE
FILE_MIN_BYTES, FILE_MAX_BYTES = 1000, 10 << 30
FILE_MIN_MESSAGES = 1000

KEPT = ("message_transforms", "ingestion_data_source_settings", *DESTINATIONS)
WARNINGS_MAX = 1000


class KeptSettings:
    """Settings that are stored and returned but not acted on. The first use on each resource is logged."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: set[tuple[str, str]] = set()  # resource and field

    def note(self, name: str, message: Any) -> None:
        """Log the settings of a Topic or Subscription that will not run."""
        for field, value in message.ListFields():
            if field.name not in KEPT or (field.is_repeated and all(transform.disabled for transform in value)):
                continue
            if (name, field.name) not in self._logged and len(self._logged) < WARNINGS_MAX:
                self._logged.add((name, field.name))
                self._log.warning("%s has %s, which this server stores but does not run", name, field.name)


def check_destinations(subscription: Any) -> None:
    pushes = bool(subscription.push_config.push_endpoint)
    chosen = [name for name in DESTINATIONS if subscription.HasField(name)]
    if len(chosen) + pushes > 1:
        raise invalid("A subscription may have at most one of push, BigQuery, Cloud Storage and Bigtable delivery.")
    if subscription.enable_exactly_once_delivery and (chosen or pushes):
        raise invalid("Exactly-once delivery is for subscriptions that are pulled.")
    if "bigquery_config" in chosen:
        _check_table(subscription.bigquery_config)
    if "cloud_storage_config" in chosen:
        _check_files(subscription.cloud_storage_config, subscription.ack_deadline_seconds)


def fill_version(config: Any, former: Any = None) -> None:
    """Fill in the version of the push format: that of the former PushConfig, or v1 if there is an endpoint.

    The version stays when the endpoint is removed, because a request that does not name a field does not change it.
    """
    former_version = former.attributes.get(VERSION_KEY, "") if former is not None else ""
    version = former_version or (VERSION if config.push_endpoint else "")
    if version:
        config.attributes.setdefault(VERSION_KEY, version)
    if config.attributes.get(VERSION_KEY, VERSION) not in VERSIONS:
        raise bad_argument("push_config.attributes")


def default_ack_deadline(subscription: Any) -> float:
    """Return the ack deadline of a subscription that names none. With Cloud Storage it is the time for one file."""
    if not subscription.HasField("cloud_storage_config"):
        return ACK_DEADLINE_SECONDS
    return ranges.seconds(subscription.cloud_storage_config.max_duration) or FILE_SECONDS


def _check_table(config: Any) -> None:
    if not config.table:
        raise bad_argument("bigquery_config.table")
    if config.use_topic_schema and config.use_table_schema:
        raise bad_argument("bigquery_config.use_table_schema")


def _check_files(config: Any, ack_deadline: int) -> None:
    name = "cloud_storage_config"
    if not config.bucket:
        raise bad_argument(f"{name}.bucket")
    if config.filename_suffix.endswith("/"):
        raise bad_argument(f"{name}.filename_suffix")
    if config.HasField("max_duration"):
        seconds = ranges.seconds(config.max_duration)
        ranges.within(f"{name}.max_duration", seconds, FILE_MIN_SECONDS, FILE_MAX_SECONDS)
        if 0 < ack_deadline < seconds:
            raise invalid(f"The value for {name}.max_duration must not be larger than ack_deadline_seconds.")
    if config.max_bytes:
        ranges.within(f"{name}.max_bytes", config.max_bytes, FILE_MIN_BYTES, FILE_MAX_BYTES)
    if config.max_messages:
        ranges.within(f"{name}.max_messages", config.max_messages, FILE_MIN_MESSAGES, None)
