"""A real server process with only the Google door open, for the vendor's own clients."""

from __future__ import annotations

from pathlib import Path

from tests.server_process import ServerProcess


class GoogleServer(ServerProcess):
    ends_clean = True

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, *arguments, doors=["pubsub"])
        self.address = self.addresses["pubsub"]
