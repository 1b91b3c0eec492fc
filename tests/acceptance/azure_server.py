"""A real `penstock serve` process with its Azure door, and clients of the official SDK for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from azure.storage.queue import QueueClient, QueueServiceClient

SECONDS = 30  # only a failing test waits so long
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ALONE = [part for door in ("pubsub", "text", "flight", "http") for part in (f"--{door}-port", "off")]


class Served:
    def __init__(self, process: subprocess.Popen[str], address: str, scheme: str, banner: str) -> None:
        self.process = process
        self.banner = banner
        self.address = address
        self.url = f"{scheme}://{address}/{ACCOUNT}"
        self.connection_string = (
            f"DefaultEndpointsProtocol={scheme};AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={self.url};"
        )

    def service(self) -> QueueServiceClient:
        return QueueServiceClient.from_connection_string(self.connection_string, retry_total=0)

    def queue(self, name: str, *, create: bool = True, **options: object) -> QueueClient:
        client = QueueClient.from_connection_string(self.connection_string, name, retry_total=0, **options)
        if create:
            client.create_queue()
        return client

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)


@contextmanager
def serving(folder: Path, *arguments: str, command: str = "serve", **settings: str) -> Iterator[Served]:
    """The server on a free port until the end of the block; settings go through its environment."""
    ready_file = folder / "ready.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    environment |= {f"PENSTOCK_{name.upper()}": value for name, value in settings.items()}
    ports = ["--azure-port", "0", *ALONE] if command == "serve" else ["--queuePort", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", command, *ports, "--ready-file", str(ready_file), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        try:
            banner = _wait_until_ready(process)
            scheme = "https" if "azure_tls_cert" in settings or "--cert" in arguments else "http"
            yield Served(process, json.loads(ready_file.read_text())["azure"], scheme, banner)
        finally:
            process.kill()


def _wait_until_ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    watch = threading.Timer(SECONDS, process.kill)
    watch.start()
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("Ready."):
                return "".join(said)
        raise AssertionError(f"not ready: {said}")
    finally:
        watch.cancel()
