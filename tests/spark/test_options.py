"""Options are parsed into one record, and what is wrong with them is said by name."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

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
def test_every_option_is_read_into_its_field_whatever_its_case(option: Any) -> None:
    written, value = BEST[option.name]
    assert getattr(parse({option.name.upper(): written}), option.field) == value


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_every_option_refuses_what_it_does_not_know(option: Any) -> None:
    said = refused({option.name: WORST[option.name]})
    assert f"option {option.name} must be {option.expects}" in said


@pytest.mark.parametrize("option", TABLE, ids=lambda option: option.name)
def test_every_option_is_refused_by_name_where_it_does_not_fit(option: Any) -> None:
    for use in set(Use) - option.uses:
        raw = {"topic": "t", option.name: BEST[option.name][0]}
        said = refused(raw, use)
        assert f"option {option.name} is for a " in said
        assert said.endswith(f"not for a {use.value}")


def test_the_table_and_the_record_have_the_same_fields() -> None:
    assert {option.field for option in TABLE} | {"given"} == {field.name for field in fields(Options)}


@pytest.mark.parametrize("option", [each for each in TABLE if each.default], ids=lambda option: option.name)
def test_the_defaults_of_the_table_are_those_of_the_record(option: Any) -> None:
    in_words = {"projectId", "startingOffsets", "endingOffsets", "columns", "tlsRootCertificates"}
    if option.name not in in_words:
        assert option.read(option.default) == getattr(parse({}), option.field)


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases_are_other_names(alias: str, name: str) -> None:
    field = next(option.field for option in TABLE if option.name == name)
    assert getattr(parse({alias: "x"}), field) == getattr(parse({name: "x"}), field)


def test_an_unknown_option_is_answered_with_the_nearest_one() -> None:
    assert refused({"maxOffsetPerTrigger": "1"}).endswith(
        "unknown option maxOffsetPerTrigger; did you mean maxOffsetsPerTrigger?"
    )
    assert "did you mean subscriptionId?" in refused({"subscriptionid_": "1"})
    assert "there are endpoint, topic," in refused({"xyzzy": "1"})


@pytest.mark.parametrize(
    ("foreign", "hint"),
    [
        ("assign", "give topic or topics"),
        ("kafka.bootstrap.servers", "the option endpoint"),
        ("groupIdPrefix", "the option consumerName"),
        ("startingOffsetsByTimestamp", "the option startingTimestamp"),
        ("kafka.security.protocol", "options of Kafka's clients mean nothing here"),
    ],
)
def test_an_option_of_another_source_is_answered_with_what_there_is_here(foreign: str, hint: str) -> None:
    said = refused({foreign: "x"})
    assert said.startswith(f"penstock: unknown option {foreign}; ")
    assert hint in said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets is latest in a batch read, which then has no rows"),
        ({"startingOffsets": '{"t": -1}'}, "startingOffsets is latest in a batch read"),
        ({"endingOffsets": "earliest"}, "endingOffsets is earliest in a batch read, which then has no rows"),
        ({"endingOffsets": '{"t": -2}'}, "endingOffsets is earliest in a batch read"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "startingTimestamp is later than endingTimestamp"),
    ],
)
def test_a_batch_that_can_have_no_rows_is_refused(raw: dict[str, str], said: str) -> None:
    assert said in refused({"topic": "t"} | raw, Use.BATCH_READ)


def test_a_transaction_has_a_name_and_a_version() -> None:
    for raw in ({"txnAppId": "a"}, {"txnVersion": "1"}):
        assert "txnAppId and txnVersion go together" in refused({"topic": "t"} | raw, Use.WRITE)
    parse({"topic": "t", "txnAppId": "a", "txnVersion": "1"}).check(Use.WRITE)


def test_an_option_given_twice_is_refused() -> None:
    assert refused({"topic": "a", "path": "b"}).endswith("option topic is given twice, as topic and as path")


def test_what_belongs_to_spark_is_left_to_spark() -> None:
    assert parse({"checkpointLocation": "somewhere", "queryName": "q"}).given == frozenset()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "none is given"),
        ({"topic": "a", "topics": "a,b"}, "topic and topics are given"),
        ({"topics": "a,b", "topicPattern": "a"}, "topicPattern and topics are given"),
    ],
)
def test_one_option_says_what_to_read(raw: dict[str, str], said: str) -> None:
    assert said in refused(raw, Use.BATCH_READ)
    with pytest.raises(PenstockError, match=said):
        parse(raw).check(*READS)


def test_offsets_and_times_exclude_each_other() -> None:
    raw = {"topic": "t", "startingOffsets": "latest", "startingTimestamp": "1"}
    assert "startingOffsets and startingTimestamp are both given" in refused(raw, Use.STREAM_READ)


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
    assert "option columns names 'payload'" in refused({"columns": "payload"})
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
