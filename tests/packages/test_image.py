"""The image without Docker: its steps as a script in an empty folder, and the result, run as another user.

Not tested, because there is no Docker daemon: a build by Docker itself, its size, other processors, and Docker's own
read-only root and volumes (here the user has no permission to write anywhere else).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.shim import Shim
from tests.acceptance.test_shims import listening, put_and_get, round_trip
from tests.packages.dockerfile import Image
from tests.server_process import ROOT, SECONDS

pytestmark = pytest.mark.nightly

SOMEBODY = "54321"  # a user id and group id that this machine does not use


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-image-"))
    folder.chmod(0o755)  # another user must be able to open the folder
    try:
        built = Image(folder)
        built.build((ROOT / "Dockerfile").read_text())
        shutil.rmtree(folder / "src")  # the last stage does not have it
        yield built
    finally:
        shutil.rmtree(folder)


class Container(Shim):
    """A command of the image, run as a user who can only write into its volumes."""

    def __init__(self, image: Image, folder: Path, *command: str, **variables: str) -> None:
        self.image = image
        as_somebody: tuple[str, ...] = ()
        if os.getuid() == 0:
            as_somebody = ("setpriv", "--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups", "--no-new-privs")
        inside = [image.path(word) for word in command or image.command]
        super().__init__(folder, inside, before=as_somebody, work=image.work, **image.environment | variables)

    def health(self) -> int:
        found = subprocess.run(self.image.health, env=self.environment, check=False, timeout=SECONDS)
        return found.returncode


@pytest.fixture
def free() -> dict[str, str]:
    """Return settings with free ports in place of the image's fixed ones."""
    names = ("PUBSUB", "PUBSUB_SECOND", "READY", "AZURE", "AZURE_BLOB", "AZURE_TABLE", "TEXT")
    with socket.socket() as taken:  # the health check needs this port
        taken.bind(("", 0))
        http = str(taken.getsockname()[1])
    return {f"PENSTOCK_{name}_PORT": "0" for name in names} | {"PENSTOCK_HTTP_PORT": http}


def test_the_image_has_no_root_and_no_entry_point(image: Image) -> None:
    assert image.user.isdigit()
    assert image.user != "0"
    assert "ENTRYPOINT [" not in (ROOT / "Dockerfile").read_text()
    assert not list(image.folder.glob("opt/penstock/lib/*/site-packages/pip"))
    assert not list(image.folder.glob("opt/penstock/lib/*/site-packages/pyarrow")), "only LOCK=serve has it"


def test_its_own_command_serves_any_user_seeds_keeps_and_stops_at_once(
    image: Image, free: dict[str, str], tmp_path: Path
) -> None:
    seeds = {"PUBSUB_PROJECT1": "demo,orders:billing"}
    with Container(image, tmp_path, **seeds, **free) as server:
        server.wait_for(r"Ready\.")
        port = server.wait_for(r"also at 0\.0\.0\.0:(\d+)")[1]
        server.wait_for(r"ready +0\.0\.0\.0:(\d+)")
        assert server.health() == 0
        round_trip(int(port))
        assert server.stop() == 0
        assert server.stop_seconds() < 1
        assert server.health() != 0
    with Container(image, tmp_path, **seeds, **free) as again:
        again.wait_for(r"Ready\.")
        assert "0 made" in again.output, "the store was kept, so the seed exists already"
        assert again.stop() == 0
    if os.getuid() == 0:
        written = [path for path in image.folder.rglob("*") if path.lstat().st_uid == int(SOMEBODY)]
        volume = image.folder / "var" / "lib" / "penstock"
        assert written
        assert all(path.is_relative_to(volume) for path in written)


def test_secrets_come_from_files(image: Image, free: dict[str, str], tmp_path: Path) -> None:
    tokens = image.folder / "run" / "secrets" / "tokens"
    tokens.parent.mkdir(parents=True)
    tokens.write_text("s3cret\n")
    secrets = {"PENSTOCK_HTTP_TOKENS_FILE": str(tokens), "PENSTOCK_MEMORY": "1"}
    with Container(image, tmp_path, **secrets, **free) as server:
        server.wait_for(r"Ready\.")
        assert server.health() == 0, "health needs no token"
        port = free["PENSTOCK_HTTP_PORT"]
        for header, status in (("x: y", "401"), ("Authorization: Bearer s3cret", "200")):
            command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", header]
            asked = [*command, f"http://127.0.0.1:{port}/admin/v1/server"]
            assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == status


def test_a_module_of_testcontainers_starts_it(image: Image, free: dict[str, str], tmp_path: Path) -> None:
    """Testcontainers for Java, Go and Node starts the image with a shell, and for .NET with the command alone."""
    start = "gcloud beta emulators pubsub start --host-port 0.0.0.0:0"
    for command in (("/bin/sh", "-c", start), tuple(start.split())):
        with Container(image, tmp_path, *command, **free) as server:
            round_trip(int(server.wait_for(r"Server started, listening on (\d+)")[1]))
            assert server.health() == 0
            assert server.stop() == 0
            assert server.stop_seconds() < 1


def test_azurite_starts_on_its_volume(image: Image, free: dict[str, str], tmp_path: Path) -> None:
    hosts = ("--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "0.0.0.0")
    ports = ("--blobPort", "0", "--queuePort", "0", "--tablePort", "0")
    with Container(image, tmp_path, "azurite", "-l", "/data", *hosts, *ports, **free) as server:
        for service in ("Blob", "Table"):
            listening(server, service)
        put_and_get(listening(server, "Queue"))
        assert server.health() == 0
        assert server.stop() == 0
    assert (image.folder / "data" / "penstock-data" / "penstock.db").exists()
