"""The source in SQL, with user schemas, tokens and TLS."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_penstock.client import BrokerClient
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.options import parse
from tests.spark.conftest import MakeTopic
from tests.spark.queries import failure, sentence
from tests.spark.servers import Server

Load = Callable[..., Any]


def test_a_view_is_a_topic(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"a", b"b", b"c")
    spark.sql(f"CREATE TEMPORARY VIEW seen USING penstock OPTIONS (endpoint '{server.endpoint}', topic '{topic}')")
    try:
        rows = spark.sql("SELECT offset, CAST(data AS STRING) AS text FROM seen WHERE offset > 0 ORDER BY offset")
        assert [(row.offset, row.text) for row in rows.collect()] == [(1, "b"), (2, "c")]
        server.publish(topic, [b"d"])  # a view keeps the state of its first use, like a DataFrame
        assert spark.sql("SELECT count(*) AS n FROM seen").first().n == 3
    finally:
        spark.catalog.dropTempView("seen")


def test_a_table_takes_its_options_with_the_query(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"a", b"b")
    spark.sql(f"CREATE TABLE kept USING penstock OPTIONS (topic '{topic}')")
    try:
        given = {"endpoint": server.endpoint, "topic": topic, "startingOffsets": json.dumps({topic: 1})}
        options = ", ".join(f"`{name}` = '{value}'" for name, value in given.items())
        rows = spark.sql(f"SELECT offset FROM kept WITH ({options})")
        assert [row.offset for row in rows.collect()] == [1]
    finally:
        spark.sql("DROP TABLE kept")


def test_rows_are_inserted_into_a_table(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    spark.sql("CREATE TABLE filled (data STRING) USING penstock")
    try:
        spark.sql(f"INSERT INTO filled WITH (`endpoint` = '{server.endpoint}', topic = '{topic}') VALUES ('a')")
        assert server.data(topic) == [b"a"]
        rows = spark.sql(f"SELECT data FROM filled WITH (`endpoint` = '{server.endpoint}', topic = '{topic}')")
        assert [row.data for row in rows.collect()] == ["a"]
        server.publish(topic, [b"\xff"])
        again = f"SELECT data FROM filled WITH (`endpoint` = '{server.endpoint}', topic = '{topic}', columns = 'data')"
        text = sentence(failure(lambda: spark.sql(again).collect()))
        assert text == "a message is not valid UTF-8; read the column data as binary"
    finally:
        spark.sql("DROP TABLE filled")


def test_a_schema_chooses_columns_in_any_order(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"a")
    source = spark.read.format("penstock").options(endpoint=server.endpoint, topic=topic)
    row = source.schema("data binary, offset bigint").load().first()
    assert list(row.asDict()) == ["data", "offset"]
    assert (bytes(row.data), row.offset) == (b"a", 0)
    text = failure(lambda: source.schema("offset string").load().collect())
    assert sentence(text) == "column offset is bigint, not string; cast it in the query"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a server with TLS and a token, and the certificate to trust."""
    folder = tmp_path_factory.mktemp("guarded")
    certificate, key = make_certificate(folder)
    settings = {"flight_tokens": "hush", "flight_tls_cert": str(certificate), "flight_tls_key": str(key)}
    with Server(folder, "--memory", **settings) as running:
        running.rest("PUT", "projects/penstock/topics/guarded", {})
        running.rest_publish("projects/penstock/topics/guarded", b"secret", {})
        yield running, certificate


def make_certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_a_guarded_broker_is_read_with_token_and_tls(spark: Any, guarded: tuple[Server, Path]) -> None:
    server, certificate = guarded
    endpoint = f"localhost:{server.endpoint.rpartition(':')[2]}"
    options = {"endpoint": endpoint, "topic": "guarded", "tls": "true", "tlsRootCertificates": str(certificate)}
    source = spark.read.format("penstock")
    assert bytes(source.options(**options, token="hush").load().first().data) == b"secret"
    quick = {"retryTimeoutSeconds": "0.5"}
    text = sentence(failure(lambda: spark.read.format("penstock").options(**options, **quick).load().collect()))
    assert text.endswith("set the option token")
    distrustful = {name: value for name, value in options.items() if name != "tlsRootCertificates"} | quick
    text = sentence(failure(lambda: spark.read.format("penstock").options(**distrustful).load().collect()))
    assert text.startswith(f"cannot reach the broker at {endpoint} (")
    assert "its certificate was not issued by one of tlsRootCertificates" in text


def cannot_reach(server: Server, door: str, **options: str) -> str:
    port = server.addresses[door].rpartition(":")[2]
    raw = {"endpoint": f"localhost:{port}", "topic": "t", "retryTimeoutSeconds": "0"} | options
    with pytest.raises(PenstockError) as caught:
        BrokerClient(parse(raw).access).bounds()
    return str(caught.value)


def test_a_wrong_root_certificate_is_named(guarded: tuple[Server, Path], tmp_path: Path) -> None:
    server, certificate = guarded
    other, _ = make_certificate(tmp_path)
    tls = {"tls": "true", "tlsRootCertificates": str(other)}
    assert "its certificate was not issued by one of tlsRootCertificates" in cannot_reach(server, "flight", **tls)
    (tmp_path / "empty.pem").write_text("no certificate")
    tls = {"tls": "true", "tlsRootCertificates": str(tmp_path / "empty.pem")}
    assert "tlsRootCertificates has no certificate that can be read" in cannot_reach(server, "flight", **tls)
    tls = {"tls": "true", "tlsRootCertificates": str(certificate)}
    assert "it does not speak TLS, and the option tls is true" in cannot_reach(server, "pubsub", **tls)


def test_a_wrong_port_is_named(guarded: tuple[Server, Path]) -> None:
    server, _ = guarded
    assert "speaks gRPC, but not Flight: that is the Pub/Sub port. The option endpoint" in cannot_reach(
        server, "pubsub"
    )
    for door in ("http", "azure"):
        assert "that is a port for HTTP and not the Flight port" in cannot_reach(server, door)
    for door in ("text", "flight"):  # grpc+tls needs TLS
        assert "is that the Flight port, and does it want the option tls?" in cannot_reach(server, door)
