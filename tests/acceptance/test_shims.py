"""The vendors' commands as each Testcontainers module starts them, with the vendors' own clients.

The command lines and the awaited log messages are those of the modules. The ports are free ones.
"""

from __future__ import annotations

import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fcntl import ioctl
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueServiceClient
from google.api_core.exceptions import ServiceUnavailable
from google.auth.credentials import AnonymousCredentials
from google.cloud import pubsub_v1

from tests.acceptance.azure_server import ACCOUNT, KEY
from tests.acceptance.shim import Shim, write_shims
from tests.server_process import SECONDS, refused

# The modules use /bin/sh, which is bash in the image. Bash replaces itself with the command, and dash would not.
SHELL = ("bash", "-c")
START = "gcloud beta emulators pubsub start --host-port 0.0.0.0:0"
PIECES = ("gcloud", "beta", "emulators", "pubsub", "start", "--host-port", "0.0.0.0:0")
LISTENS = r"Server started, listening on (\d+)"
# Language -> command, and the log message that says that it is ready.
PUBSUB = {
    "java": ((*SHELL, START), r"(?s).*started.*$"),
    "go": ((*SHELL, f"{START} --project=test-project"), "started"),
    "node": ((*SHELL, f"{START} --project=test-project"), "Server started"),
    "dotnet": (PIECES, r"(?s).*started.*$"),
}
ALL_HOSTS = ("--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "0.0.0.0")
FREE_PORTS = ("--blobPort", "0", "--queuePort", "0", "--tablePort", "0")
AZURITE = {
    "java": ("azurite", *ALL_HOSTS),
    "go": ("azurite", *ALL_HOSTS),
    "node": ("azurite", *ALL_HOSTS, "--inMemoryPersistence", "--extentMemoryLimit", "64", "--skipApiVersionCheck"),
    "dotnet": ("azurite", *ALL_HOSTS, "--inMemoryPersistence"),
}
AS_FIRST_PROCESS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@contextmanager
def pubsub_clients(port: int) -> Iterator[tuple[pubsub_v1.PublisherClient, pubsub_v1.SubscriberClient]]:
    """Yield clients that are created as the Python module creates them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", f"localhost:{port}")
        options = {"client_options": {"api_endpoint": f"localhost:{port}"}, "credentials": AnonymousCredentials()}
        publisher, subscriber = pubsub_v1.PublisherClient(**options), pubsub_v1.SubscriberClient(**options)
    with closing(publisher.transport), subscriber:
        yield publisher, subscriber
        publisher.stop()


def round_trip(port: int, project: str = "test-project") -> None:
    topic, subscription = f"projects/{project}/topics/orders", f"projects/{project}/subscriptions/billing"
    with pubsub_clients(port) as (publisher, subscriber):
        publisher.create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic)
        publisher.publish(topic, b"one espresso").result(SECONDS)
        (received,) = subscriber.pull(subscription=subscription, max_messages=1).received_messages
        assert received.message.data == b"one espresso"
        subscriber.acknowledge(subscription=subscription, ack_ids=[received.ack_id])


@pytest.mark.parametrize("language", PUBSUB)
def test_the_pubsub_module_of_a_language_gets_its_log_message(tmp_path: Path, language: str) -> None:
    command, message = PUBSUB[language]
    with Shim(tmp_path, command) as shim:
        shim.wait_for(message)
        round_trip(int(shim.wait_for(LISTENS)[1]))
        assert shim.stop() == 0
        assert shim.stop_seconds() < 1


def test_the_pubsub_module_of_python_calls_without_waiting(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
    command = (
        "gcloud",
        "beta",
        "emulators",
        "pubsub",
        "start",
        "--project=test-project",
        f"--host-port=0.0.0.0:{port}",
    )
    with Shim(tmp_path, command):
        round_trip(port)


def test_the_awaited_message_comes_after_the_seed(tmp_path: Path) -> None:
    """Images that seed by variables open their ports then, and the ready port last."""
    variables = {"PENSTOCK_SEED": "auto", "PUBSUB_PROJECT1": "demo,orders:billing~30,plain"}
    ports = {"PENSTOCK_PUBSUB_SECOND_PORT": "0", "PENSTOCK_READY_PORT": "0"}
    with Shim(tmp_path, (*SHELL, START), **variables, **ports) as shim:
        port = int(shim.wait_for(LISTENS)[1])
        assert "started" not in shim.output.partition("[pubsub]")[0]
        with pubsub_clients(port) as (publisher, subscriber):
            found = subscriber.get_subscription(subscription="projects/demo/subscriptions/billing")
            assert (found.topic, found.ack_deadline_seconds) == ("projects/demo/topics/orders", 30)
            assert {each.name for each in publisher.list_topics(project="projects/demo")} == {
                "projects/demo/topics/orders",
                "projects/demo/topics/plain",
            }
        second = int(shim.wait_for(r"also at 0\.0\.0\.0:(\d+)")[1])
        round_trip(second, "other-project")
        ready = int(shim.wait_for(r"ready +0\.0\.0\.0:(\d+)")[1])
        with socket.create_connection(("127.0.0.1", ready), SECONDS) as connection:
            assert connection.recv(1) == b""


def test_a_data_folder_keeps_what_the_emulator_would_forget_and_env_init_finds_it(tmp_path: Path) -> None:
    flags = f"--data-dir={tmp_path / 'kept'}"
    start = ("gcloud", "--quiet", "emulators", "pubsub", "start", "--host-port=localhost:0", flags)
    with Shim(tmp_path, start) as shim:
        round_trip(int(shim.wait_for(LISTENS)[1]))
        assert shim.stop(signal.SIGINT) == 0
    with Shim(tmp_path, start) as shim:
        port = int(shim.wait_for(LISTENS)[1])
        told = subprocess.run(
            [*("gcloud", "beta", "emulators", "pubsub", "env-init"), flags],
            env=shim.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        assert told.stdout.startswith("export PUBSUB_EMULATOR_HOST=")
        assert told.stdout.endswith(f":{port}\n")
        with pubsub_clients(port) as (publisher, _):
            assert [each.name for each in publisher.list_topics(project="projects/test-project")]


def test_an_open_stream_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    shim = Shim(tmp_path, PIECES, PUBSUB_PROJECT1="demo,orders:billing", PENSTOCK_SEED="env")
    with shim, pubsub_clients(int(shim.wait_for(LISTENS)[1])) as (publisher, subscriber):
        publisher.publish("projects/demo/topics/orders", b"x").result(SECONDS)
        requests = SimpleQueue[pubsub_v1.types.StreamingPullRequest | None]()
        requests.put(
            pubsub_v1.types.StreamingPullRequest(
                subscription="projects/demo/subscriptions/billing", stream_ack_deadline_seconds=10
            )
        )
        stream = iter(subscriber.streaming_pull(iter(requests.get, None)))
        assert next(stream).received_messages
        assert shim.stop() == 0
        assert shim.stop_seconds() < 1
        with pytest.raises(ServiceUnavailable):
            next(stream)
        requests.put(None)


# ---------------------------------------------------------------------- azurite


def azure_client(port: int, account: str = ACCOUNT) -> QueueServiceClient:
    url = f"http://127.0.0.1:{port}/{account}"
    string = f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={KEY};QueueEndpoint={url};"
    return QueueServiceClient.from_connection_string(string, retry_total=0)


def put_and_get(port: int, account: str = ACCOUNT) -> None:
    with azure_client(port, account) as service, service.create_queue("orders") as queue:
        queue.send_message("one espresso")
        assert queue.receive_message().content == "one espresso"


def listening(shim: Shim, service: str) -> int:
    return int(shim.wait_for(rf"{service} service is successfully listening at http://0\.0\.0\.0:(\d+)")[1])


@pytest.mark.parametrize("language", AZURITE)
def test_the_azurite_module_of_a_language_gets_its_log_message(tmp_path: Path, language: str) -> None:
    with Shim(tmp_path, (*AZURITE[language], *FREE_PORTS)) as shim:
        blob, queue, table = (listening(shim, service) for service in ("Blob", "Queue", "Table"))
        for port in (blob, table):
            socket.create_connection(("127.0.0.1", port), SECONDS).close()
        put_and_get(queue)
        with azure_client(blob) as service, pytest.raises(HttpResponseError) as refusal:
            service.create_queue("orders")
        assert (refusal.value.status_code, refusal.value.error_code) == (501, "APINotImplemented")
        assert "there are no blobs here" in str(refusal.value)
        assert shim.stop() == 0
        assert shim.stop_seconds() < 1


def test_the_azurite_module_of_python_gives_accounts_and_no_command(tmp_path: Path) -> None:
    """So the image's own command has to serve the accounts, and to answer at the first of the ports."""
    ports = {f"PENSTOCK_{name}_PORT": "0" for name in ("AZURE", "AZURE_BLOB", "AZURE_TABLE")}
    closed = {f"PENSTOCK_{name}_PORT": "off" for name in ("HTTP", "TEXT", "FLIGHT", "PUBSUB")}
    settings = {"PENSTOCK_SEED": "auto", "PENSTOCK_MEMORY": "1", "PENSTOCK_HOST": "0.0.0.0"}
    command = (sys.executable, "-m", "penstock", "serve")
    with Shim(tmp_path, command, AZURITE_ACCOUNTS=f"mine:{KEY}", **ports, **closed, **settings) as shim:
        blob = int(shim.wait_for(r"azure_blob +0\.0\.0\.0:(\d+)")[1])
        socket.create_connection(("127.0.0.1", blob), SECONDS).close()
        put_and_get(int(shim.wait_for(r"azure +0\.0\.0\.0:(\d+)")[1]), "mine")


# ---------------------------------------------------------------------- the first process of a container


@pytest.fixture
def first_process(tmp_path: Path) -> Iterator[Shim]:
    """Yield the shim as process 1, with an orphan that exists before it begins to serve."""
    tried = subprocess.run([*AS_FIRST_PROCESS, "true"], capture_output=True, check=False, timeout=SECONDS)
    if tried.returncode:
        pytest.skip("NOT TRIED: this machine does not let us make a process namespace")
    orphan = "(exec sleep 86399 &); exec "
    with Shim(tmp_path, (*SHELL, orphan + START), before=AS_FIRST_PROCESS) as shim:
        shim.wait_for(LISTENS)
        yield shim


def first_of(shim: Shim) -> psutil.Process:
    """Return process 1 of this namespace."""
    (first,) = psutil.Process(shim.process.pid).children()
    return first


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_as_first_process_it_stops_at_a_signal(first_process: Shim, number: int) -> None:
    assert first_process.stop(number, pid=first_of(first_process).pid) == 0
    assert first_process.stop_seconds() < 1


def test_as_first_process_it_reaps_orphans(first_process: Shim) -> None:
    orphans = [each for each in first_of(first_process).children() if each.name() == "sleep"]
    assert len(orphans) == 1
    orphans[0].kill()
    orphans[0].wait(SECONDS)  # until the namespace is empty
    assert "zombie" not in [each.status() for each in first_of(first_process).children()]


def test_as_first_process_ctrl_c_is_one_signal(first_process: Shim, tmp_path: Path) -> None:
    """A terminal sends the signal to the first process and to the server.

    A second signal would stop the server without closing.
    """
    ours, theirs = pty.openpty()
    command = [*AS_FIRST_PROCESS, *SHELL, f"exec {START}"]
    shell = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=first_process.environment,
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    seen = b""
    while b"Ctrl-C stops" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, b"\x03")
    assert shell.wait(SECONDS) == 0, seen
    os.close(ours)


# ---------------------------------------------------------------------- the scripts


def test_scripts_are_readable_by_all_users_and_replace_no_other_command(tmp_path: Path) -> None:
    write_shims(tmp_path / "a")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["azurite", "azurite-queue", "gcloud"]
    for path in (tmp_path / "a").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    (tmp_path / "a" / "gcloud").write_text("#!/bin/sh\necho the vendor's\n")
    code, sentence = refused("shims", str(tmp_path / "a"))
    assert (code, sentence.count("\n")) == (1, 1)
    assert "gcloud is not a shim of Penstock. Use --force to replace it" in sentence
    assert "the vendor's" in (tmp_path / "a" / "gcloud").read_text()
    assert refused("shims", str(tmp_path / "a"), "--force")[0] == 0


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, sentence = refused("shims", str(tmp_path / "file"))
    assert (code, sentence.count("\n")) == (1, 1)
    assert "Cannot write" in sentence


@pytest.mark.parametrize("words", [["auth", "login"], ["components", "install", "beta", "--quiet"], []])
def test_other_gcloud_commands_are_refused_with_an_explanation(words: list[str]) -> None:
    code, sentence = refused("gcloud", *words)
    assert (code, sentence.count("\n")) == (2, 1)
