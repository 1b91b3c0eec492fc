"""TLS contexts and bearer tokens, which all doors share."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock.errors import InvalidArgumentError
from penstock.wire.trust import BearerTokens, server_context


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (b"Bearer good", True),
        (b"bearer  good ", True),
        (b"BEARER other", True),
        ("Bearer \u00fc".encode(), True),
        (b"Bearer goods", False),
        (b"Bearer goo", False),
        (b"Bearer ", False),
        (b"Bearer", False),
        (b"Basic good", False),
        (b"good", False),
        (b"", False),
    ],
)
def test_a_token_needs_the_bearer_scheme(authorization: bytes, admitted: bool) -> None:
    assert BearerTokens(["good", "other", "\u00fc"]).admit(authorization) is admitted


def test_without_tokens_no_token_is_valid() -> None:
    assert not BearerTokens([])
    assert not BearerTokens([]).admit(b"Bearer ")


def test_without_a_certificate_there_is_no_tls() -> None:
    assert server_context("text", None, None) is None


def test_errors_about_files_name_their_settings(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^azure_tls_cert and azure_tls_key cannot be used: "):
        server_context("azure", str(tmp_path / "absent.pem"), None)
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    with pytest.raises(InvalidArgumentError, match=r"^pubsub_tls_cert and pubsub_tls_key cannot be used: "):
        server_context("pubsub", str(junk), None)
    good = tmp_path / "good.pem"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(good))
    with pytest.raises(InvalidArgumentError, match=r"^text_tls_client_ca cannot be used: "):
        server_context("text", str(good), None, client_ca=str(junk))


def test_old_versions_are_refused_and_client_certificates_asked_for(tmp_path: Path) -> None:
    authority, certificate, ca = trustme.CA(), tmp_path / "server.pem", tmp_path / "ca.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    authority.cert_pem.write_to_path(str(ca))
    context = server_context("text", str(certificate), None)
    assert context is not None
    assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_2, ssl.CERT_NONE)
    asking = server_context("text", str(certificate), None, client_ca=str(ca))
    assert asking is not None
    assert asking.verify_mode is ssl.CERT_REQUIRED
