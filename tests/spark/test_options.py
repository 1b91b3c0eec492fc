"""Options of the data source: parsing, and the error of each invalid option."""

from __future__ import annotations

import time
from dataclasses import fields
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pyspark_penstock.errors import PenstockError
from pyspark_penstock.options import ALIASES, READS, TABLE, Options, Use, parse
from pyspark_penstock.schema import COLUMNS

BEST = {
    "endpoint": ("broker.example:9000", "broker.example:9000"),
    "topic": ("orders", "orders"),
    "topics": ("a, b", ("a", "b")),
    "topicPattern": (".*/topics/o.*", ".*/topics/o.*"),
    "projectId": ("shop", "shop"),
    "consumerName": ("nightly", "nightly"),
    "startingOffsets": ('{"a": 3, "b": -1, "c": -2}', {"a": 3, "b": -1, "c": -2}),
    "endingOffsets": ("LATEST", "latest"),
    "startingTimestamp": ("1700000000000", 1_700_000_000_000_000),
    "endingTimestamp": ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000),
    "timeZone": ("Asia/Tokyo", ZoneInfo("Asia/Tokyo")),
    "startingOffsetsByTimestampStrategy": ("latest", "latest"),
    "maxOffsetsPerTrigger": ("10", 10),
    "maxBytesPerTrigger": ("4m", 4 << 20),
    "minOffsetsPerTrigger": ("5", 5),
    "maxTriggerDelay": ("30s", 30),
    "minPartitions": ("8", 8),
    "maxRecordsPerPartition": ("100", 100),
    "maxBytesPerPartition": ("1024", 1024),
    "failOnDataLoss": ("false", False),
    "includeAttributes": ("False", False),
    "columns": ("data,offset", ("offset", "data")),
    "pushFilters": ("true", True),
    "retryTimeoutSeconds": ("2.5", 2.5),
    "token": ("secret", "secret"),
    "tls": ("true", True),
    "tlsRootCertificates": ("-----BEGIN CERTIFICATE-----", b"-----BEGIN CERTIFICATE-----"),
    "createTopics": ("true", True),
    "transactional": ("true", True),
    "maxRowsPerRequest": ("7", 7),
    "txnAppId": ("nightly", "nightly"),
    "txnVersion": ("0", 0),
}
WORST = {
    "endpoint": "broker.example",
    "topic": "",
    "topics": "a,,b",
    "topicPattern": "(",
    "projectId": " ",
    "consumerName": "",
    "startingOffsets": '{"a": "3"}',
    "endingOffsets": '{"a": -3}',
    "startingTimestamp": "yesterday",
    "endingTimestamp": "-5",
    "timeZone": "Atlantis",
    "startingOffsetsByTimestampStrategy": "earliest",
    "maxOffsetsPerTrigger": "0",
    "maxBytesPerTrigger": "4 parsecs",
    "minOffsetsPerTrigger": "some",
    "maxTriggerDelay": "soon",
    "minPartitions": "-1",
    "maxRecordsPerPartition": "1.5",
    "maxBytesPerPartition": "0",
    "failOnDataLoss": "perhaps",
    "includeAttributes": "1",
    "columns": "data,data",
    "pushFilters": "offset",
    "retryTimeoutSeconds": "inf",
    "token": " ",
    "tls": "yes",
    "tlsRootCertificates": "no/such/file.pem",
    "createTopics": "on",
    "transactional": "",
    "maxRowsPerRequest": "ten",
    "txnAppId": " ",
    "txnVersion": "-1",
}


def refused(raw: dict[str, str], use: Use | None = None) -> str:
    with pytest.raises(PenstockError) as caught:
        _check(raw, use)
    assert str(caught.value).startswith("penstock: ")
    return str(caught.value)


def _check(raw: dict[str, str], use: Use | None) -> None:
    options = parse(raw)
    if use is not None:
        options.check(use)


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_every_option_is_parsed_in_any_case(option: Any) -> None:
    written, value = BEST[option.name]
    assert getattr(parse({option.name.upper(): written}), option.field) == value


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_every_option_refuses_invalid_values(option: Any) -> None:
    text = refused({option.name: WORST[option.name]})
    assert f"option {option.name} must be {option.expects}" in text


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_every_option_is_refused_for_other_uses(option: Any) -> None:
    for use in set(Use) - option.uses:
        raw = {"topic": "t", option.name: BEST[option.name][0]}
        text = refused(raw, use)
        assert f"option {option.name} is for a " in text
        assert text.endswith(f"not for a {use.value}")


def test_the_table_and_the_record_have_the_same_fields() -> None:
    assert {option.field for option in TABLE} | {"given"} == {field.name for field in fields(Options)}


@pytest.mark.parametrize("option", [each for each in TABLE if each.default], ids=lambda option: option.name)
def test_the_table_has_the_defaults_of_the_record(option: Any) -> None:
    in_words = {"timeZone", "projectId", "startingOffsets", "endingOffsets", "columns", "tlsRootCertificates"}
    if option.name not in in_words:
        assert option.read(option.default) == getattr(parse({}), option.field)


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases_set_the_same_field(alias: str, name: str) -> None:
    field = next(option.field for option in TABLE if option.name == name)
    assert getattr(parse({alias: "x"}), field) == getattr(parse({name: "x"}), field)


def test_an_unknown_option_names_the_nearest_one() -> None:
    assert refused({"maxOffsetPerTrigger": "1"}).endswith(
        "unknown option maxOffsetPerTrigger; did you mean maxOffsetsPerTrigger?"
    )
    assert "did you mean subscriptionId?" in refused({"subscriptionid_": "1"})
    assert "the options are endpoint, topic," in refused({"xyzzy": "1"})


@pytest.mark.parametrize(
    ("foreign", "hint"),
    [
        ("assign", "set topic or topics"),
        ("kafka.bootstrap.servers", "the option endpoint"),
        ("groupIdPrefix", "the option consumerName"),
        ("startingOffsetsByTimestamp", "the option startingTimestamp"),
        ("kafka.security.protocol", "options of Kafka's clients have no effect here"),
    ],
)
def test_an_option_of_another_source_names_the_option_to_use(foreign: str, hint: str) -> None:
    text = refused({foreign: "x"})
    assert text.startswith(f"penstock: unknown option {foreign}; ")
    assert hint in text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is latest in a batch read, so the batch would be empty"),
        ({"startingOffsets": '{"t": -1}'}, "startingOffsets is latest in a batch read"),
        ({"endingOffsets": "earliest"}, "endingOffsets is earliest in a batch read, so the batch would be empty"),
        ({"endingOffsets": '{"t": -2}'}, "endingOffsets is earliest in a batch read"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "startingTimestamp is later than endingTimestamp"),
    ],
)
def test_a_batch_that_is_always_empty_is_refused(raw: dict[str, str], text: str) -> None:
    assert text in refused({"topic": "t"} | raw, Use.BATCH_READ)


def test_a_transaction_has_a_name_and_a_version() -> None:
    for raw in ({"txnAppId": "a"}, {"txnVersion": "1"}):
        assert "txnAppId and txnVersion go together" in refused({"topic": "t"} | raw, Use.WRITE)
    parse({"topic": "t", "txnAppId": "a", "txnVersion": "1"}).check(Use.WRITE)


def test_an_option_given_twice_is_refused() -> None:
    assert refused({"topic": "a", "path": "b"}).endswith("option topic is given twice, as topic and as path")


def test_options_of_spark_are_ignored() -> None:
    assert parse({"checkpointLocation": "somewhere", "queryName": "q"}).given == frozenset()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({}, "none is set"),
        ({"topic": "a", "topics": "a,b"}, "topic and topics are set"),
        ({"topics": "a,b", "topicPattern": "a"}, "topicPattern and topics are set"),
    ],
)
def test_exactly_one_option_selects_topics(raw: dict[str, str], text: str) -> None:
    assert text in refused(raw, Use.BATCH_READ)
    with pytest.raises(PenstockError, match=text):
        parse(raw).check(*READS)


def test_offsets_and_times_exclude_each_other() -> None:
    raw = {"topic": "t", "startingOffsets": "latest", "startingTimestamp": "1"}
    assert "startingOffsets and startingTimestamp are both set" in refused(raw, Use.STREAM_READ)


def test_a_sink_option_is_refused_while_a_read_is_loaded() -> None:
    with pytest.raises(PenstockError, match="option createTopics is for a write, not for a read"):
        parse({"topic": "t", "createTopics": "true"}).check(*READS)


def test_short_names_can_be_given_a_project() -> None:
    options = parse({"topics": "a,projects/q/topics/b", "projectId": "p"})
    assert options.source_topics == ("projects/p/topics/a", "projects/q/topics/b")
    assert parse({"topicId": "t", "projectId": "p"}).sink_topic == "projects/p/topics/t"


def test_columns_keep_their_order_and_can_leave_attributes_out() -> None:
    assert parse({"topic": "t"}).columns == COLUMNS
    assert parse({"columns": "data,topic"}).columns == ("topic", "data")
    assert "attributes" not in parse({"includeAttributes": "false"}).columns
    assert "option columns has an unknown column 'payload'" in refused({"columns": "payload"})
    assert "includeAttributes is false" in refused({"columns": "attributes", "includeAttributes": "false"})


def test_secrets_are_not_shown() -> None:
    options = parse({"token": "hush", "tlsRootCertificates": "-----BEGIN secret"})
    assert "hush" not in repr(options) + repr(options.access)
    assert "secret" not in repr(options) + repr(options.access)
    assert "hush/hush" not in refused({"tlsRootCertificates": "hush/hush"})


def test_certificates_are_read_where_the_options_are(tmp_path: Path) -> None:
    file = tmp_path / "roots.pem"
    file.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    assert parse({"tlsRootCertificates": str(file)}).tls_roots == b"-----BEGIN CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("written", "seconds"), [("250", 0.25), ("250ms", 0.25), ("15m", 900), ("2 h", 7200), ("1d", 86400)]
)
def test_durations_have_units_and_a_bare_number_is_milliseconds(written: str, seconds: float) -> None:
    assert parse({"maxTriggerDelay": written}).delay_seconds == seconds


@pytest.mark.parametrize(("written", "size"), [("1", 1), ("2k", 2048), ("3 MiB", 3 << 20), ("1GB", 1 << 30)])
def test_sizes_have_units(written: str, size: int) -> None:
    assert parse({"maxBytesPerTrigger": written}).bytes_per_trigger == size


@pytest.mark.parametrize("zone", ["America/New_York", "-05:00"])
def test_a_time_without_a_zone_is_in_that_of_the_option_the_session_or_the_machine(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = {"topic": "t", "startingTimestamp": "2023-11-14T17:13:20"}
    assert parse(raw | {"timeZone": zone}).starting_time == 1_700_000_000_000_000
    assert parse(raw, zone).starting_time == 1_700_000_000_000_000
    assert parse(raw | {"timeZone": zone}, "UTC").starting_time == 1_700_000_000_000_000
    zoned = raw | {"startingTimestamp": "2023-11-14T22:13:20Z"}
    assert parse(zoned | {"timeZone": zone}, "UTC").starting_time == 1_700_000_000_000_000
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert parse(raw).starting_time == 1_700_000_000_000_000
    finally:
        monkeypatch.undo()
        time.tzset()
