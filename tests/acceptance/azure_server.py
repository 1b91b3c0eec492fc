"""A real server process with its Azure door, and clients of the official SDK for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from azure.storage.queue import QueueClient, QueueServiceClient

from tests.server_process import ServerProcess

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def connection_string(url: str, account: str = ACCOUNT) -> str:
    scheme = url.partition(":")[0]
    return f"DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={KEY};QueueEndpoint={url};"


class AzureClients:
    """Clients of the development account at an address."""

    def __init__(self, address: str, scheme: str = "http") -> None:
        self.address = address
        self.url = f"{scheme}://{address}/{ACCOUNT}"
        self.connection_string = connection_string(self.url)

    def service(self) -> QueueServiceClient:
        return QueueServiceClient.from_connection_string(self.connection_string, retry_total=0)

    def queue(self, name: str, *, create: bool = True, **options: object) -> QueueClient:
        client = QueueClient.from_connection_string(self.connection_string, name, retry_total=0, **options)
        if create:
            client.create_queue()
        return client


class AzureServer(ServerProcess, AzureClients):
    """A `penstock serve` process with the Azure door only, unless other doors are given, or a `penstock azurite`
    process.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        azurite: bool = False,
        doors: Sequence[str] = ("azure",),
        **settings: str,
    ) -> None:
        if azurite:
            command = ("penstock", "azurite", "--queuePort", "0")
            super().__init__(folder, *arguments, doors=None, command=command, **settings)
        else:
            super().__init__(folder, *arguments, doors=doors, **settings)
        scheme = "https" if "azure_tls_cert" in settings or "--cert" in arguments else "http"
        AzureClients.__init__(self, self.addresses["azure"], scheme)
