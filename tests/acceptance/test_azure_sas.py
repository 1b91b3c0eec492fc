"""Shared access signatures of the official SDK: account, queue, stored policy and user delegation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.storage.queue import (
    AccessPolicy,
    AccountSasPermissions,
    QueueClient,
    QueueSasPermissions,
    QueueServiceClient,
    ResourceTypes,
    generate_account_sas,
    generate_queue_sas,
)

from penstock.testing import Server
from tests.acceptance.azure_server import ACCOUNT, KEY, AzureClients, AzureServer
from tests.doors.azure.signing import token


@pytest.fixture(scope="module")
def served(penstock: Server) -> AzureClients:
    return AzureClients(penstock["azure"])


def soon(hours: float = 1) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def queue_with(served: AzureClients, name: str, sas: str, **options: Any) -> QueueClient:
    return QueueClient(served.url, name, credential=sas, retry_total=0, **options)


def test_an_account_sas(served: AzureClients) -> None:
    permission = AccountSasPermissions(
        read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True
    )
    types = ResourceTypes(service=True, container=True, object=True)
    sas = generate_account_sas(ACCOUNT, KEY, types, permission, soon(), start=soon(-1), protocol="https,http")
    with QueueServiceClient(served.url, credential=sas, retry_total=0) as service:
        queue = service.create_queue("by-account")
        queue.send_message("hello")
        message = queue.receive_message()
        queue.delete_message(queue.update_message(message, visibility_timeout=5))
        assert [each.name for each in service.list_queues(name_starts_with="by-account")] == ["by-account"]
        service.delete_queue("by-account")
    reading = generate_account_sas(ACCOUNT, KEY, types, AccountSasPermissions(read=True), soon())
    with QueueServiceClient(served.url, credential=reading, retry_total=0) as service:
        with pytest.raises(HttpResponseError) as refused:
            service.create_queue("not-allowed")
        assert refused.value.error_code == "AuthorizationPermissionMismatch"


def test_a_queue_sas(served: AzureClients) -> None:
    served.queue("by-queue")
    every = QueueSasPermissions(read=True, add=True, update=True, process=True)
    sas = generate_queue_sas(ACCOUNT, "by-queue", KEY, every, soon(), ip="127.0.0.1")
    with queue_with(served, "by-queue", sas) as queue:
        queue.send_message("hello")
        assert queue.peek_messages()[0].content == "hello"
        queue.delete_message(queue.receive_message())
        assert queue.get_queue_properties().approximate_message_count == 0
        with pytest.raises(HttpResponseError):
            queue.clear_messages()
    for changed in (
        generate_queue_sas(ACCOUNT, "by-queue", KEY, every, soon(-1)),
        generate_queue_sas(ACCOUNT, "by-queue", KEY, every, soon(2), start=soon()),
        generate_queue_sas(ACCOUNT, "by-queue", KEY, every, soon(), ip="10.0.0.1"),
        generate_queue_sas(ACCOUNT, "by-queue", KEY, every, soon(), protocol="https"),
        generate_queue_sas(ACCOUNT, "other", KEY, every, soon()),
        sas.replace("sp=raup", "sp=rap"),
        sas.replace("sig=", "sig=A"),
    ):
        with queue_with(served, "by-queue", changed) as queue, pytest.raises(HttpResponseError):
            queue.receive_message()


def test_a_stored_policy_can_be_taken_away(served: AzureClients) -> None:
    owner = served.queue("by-policy")
    owner.set_queue_access_policy({"readers": AccessPolicy(QueueSasPermissions(read=True), expiry=soon())})
    sas = generate_queue_sas(ACCOUNT, "by-policy", KEY, policy_id="readers")
    with queue_with(served, "by-policy", sas) as queue:
        assert queue.peek_messages() == []
        with pytest.raises(HttpResponseError):
            queue.send_message("x")
        owner.set_queue_access_policy({})
        with pytest.raises(HttpResponseError):
            queue.peek_messages()
    owner.close()


# ---------------------------------------------------------------------- over TLS, signed in


class SignedIn:
    """A credential whose identity provider is this file."""

    def __init__(self, audience: str = "https://storage.azure.com") -> None:
        self.audience = audience

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        now = int(datetime.now(UTC).timestamp())
        claims = {"iss": "https://sts.windows.net/t/", "aud": self.audience, "nbf": now - 5, "iat": now - 5}
        return AccessToken(token({**claims, "exp": now + 600, "oid": "user", "tid": "tenant"}), now + 600)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AzureServer, str]]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    paths = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    certificate.private_key_pem.write_to_path(paths["key"])
    certificate.cert_chain_pems[0].write_to_path(paths["cert"])
    settings = {"azure_tls_cert": str(paths["cert"]), "azure_tls_key": str(paths["key"]), "azure_oauth": "basic"}
    with AzureServer(folder, "--memory", **settings) as server:
        yield server, str(paths["ca"])


def test_a_shared_key_over_tls(secure: tuple[AzureServer, str]) -> None:
    served, authority = secure
    client = QueueServiceClient.from_connection_string(served.connection_string, connection_verify=authority)
    with client as service:
        service.create_queue("over-tls").send_message("hello")
        assert service.get_queue_client("over-tls").receive_message().content == "hello"


def test_a_signed_in_user_delegates(secure: tuple[AzureServer, str]) -> None:
    served, authority = secure
    options: dict[str, Any] = {"connection_verify": authority, "retry_total": 0}
    with QueueServiceClient(served.url, credential=SignedIn(), **options) as service:
        service.create_queue("delegated").send_message("hello")
        key = service.get_user_delegation_key(expiry=soon(), start=datetime.now(UTC))
        assert (key.signed_oid, key.signed_service) == ("user", "q")
        process = QueueSasPermissions(process=True)
        sas = generate_queue_sas(ACCOUNT, "delegated", permission=process, expiry=soon(), user_delegation_key=key)
        with queue_with(served, "delegated", sas, connection_verify=authority) as queue:
            assert queue.receive_message().content == "hello"
            with pytest.raises(HttpResponseError):
                queue.send_message("not allowed")
        forged = queue_with(served, "delegated", sas.replace("skoid=user", "skoid=root"), connection_verify=authority)
        with forged as queue, pytest.raises(ClientAuthenticationError):
            queue.receive_message()


def test_a_token_for_another_audience_is_challenged_and_refused(secure: tuple[AzureServer, str]) -> None:
    served, authority = secure
    credential = SignedIn("https://vault.azure.net")
    client = QueueServiceClient(served.url, credential=credential, connection_verify=authority, retry_total=0)
    with client as service, pytest.raises(ClientAuthenticationError):
        list(service.list_queues())


def test_a_server_without_its_key_file_says_so(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.pem")
    with pytest.raises(AssertionError, match=r"did not start: .*azure_tls_cert"):
        AzureServer(tmp_path, "--memory", azure_tls_cert=absent)
