"""A browser, a server with real clients at work, and pages of the console. An error on a page fails the test."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from penstock.admin.client import Client
from penstock.text import Client as TextClient
from tests.console.browser import FLAGS, HELP, find
from tests.server_process import ServerProcess

BOXES = """[...document.querySelectorAll('.tile, .panel, .chart, .scroll, header')]
    .map((each) => Object.values(each.getBoundingClientRect().toJSON()))"""  # the positions of the parts of each page
expect.set_options(timeout=20_000)  # only a failing test waits this long
PATIENCE = 60_000  # milliseconds
SIZES = {"phone": (375, 812), "laptop": (1280, 800), "wide": (2560, 1440)}


@pytest.fixture(scope="module")  # Playwright has a loop in this thread, and tests of other modules need their own
def browser() -> Iterator[Browser]:
    path = find()
    assert path is not None, HELP
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def at_work(folder: Path) -> Iterator[ServerProcess]:
    """Yield a server with a few topics, and clients that publish and consume."""
    with ServerProcess(folder, "--memory") as server:
        with Client(server.addresses["http"]) as admin:
            make_topology(admin)
        stop = threading.Event()
        traffic = threading.Thread(target=run_traffic, args=(server, stop))
        traffic.start()
        yield server
        stop.set()
        traffic.join()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with at_work(tmp_path_factory.mktemp("console")) as server:
        yield server


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[Client]:
    with Client(server.addresses["http"]) as admin:
        yield admin


def make_topology(admin: Client) -> None:
    admin.post("/topics", {"name": "orders", "labels": {"team": "shop"}})
    admin.post("/topics", {"name": "orders-dead"})
    admin.post("/subscriptions", {"name": "orders-dead-keep", "topic": "orders-dead"})
    dead = {"dead_letter_topic": "projects/penstock/topics/orders-dead", "max_delivery_attempts": 5}
    admin.post("/subscriptions", {"name": "billing", "topic": "orders", "options": {"dead_letter_policy": dead}})
    admin.post("/subscriptions", {"name": "archive", "topic": "orders"})
    for number in range(120):
        body = {"order": number, "total": 10**20 + number, "items": [{"sku": f"A-{number}", "count": number % 4}]}
        kind = "order" if number % 3 else "refund"
        message = {"data": json.dumps(body), "attributes": {"kind": kind}, "ordering_key": f"customer-{number % 7}"}
        admin.post("/topics/orders/messages", {"messages": [message]})
    admin.post("/topics/orders/messages", {"messages": [{"data_base64": "AP8QgA==", "attributes": {"kind": "bytes"}}]})


def run_traffic(server: ServerProcess, stop: threading.Event) -> None:
    """Use a queue of the text protocol with one consumer, and hold leases in `billing`."""
    with Client(server.addresses["http"]) as admin, TextClient(server.addresses["text"]) as client:
        while not stop.wait(0.2):
            client.send_many("work", [f"job {number}".encode() for number in range(20)])
            for _, message in zip(range(20), client.consume("work", wait_seconds=1), strict=False):
                message.ack()
            admin.post("/subscriptions/billing/pull", {"max_messages": 2, "lease_seconds": 20})


@pytest.fixture
def page(browser: Browser, server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Yield a page of the console with `size`, `scheme` and `zone` from its parameter."""
    wanted: dict[str, Any] = getattr(request, "param", {})
    width, height = SIZES[wanted.get("size", "laptop")]
    context = browser.new_context(
        base_url=f"http://{server.addresses['http']}",
        viewport={"width": width, "height": height},
        color_scheme=wanted.get("scheme", "light"),
        reduced_motion="reduce",
        timezone_id=wanted.get("zone"),
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda line: None if expected(line) else problems.append(f"{line.type}: {line.text}"))
    yield page
    context.close()
    assert not problems, problems


def expected(line: ConsoleMessage) -> bool:
    """Return whether a line is expected, such as the browser's own line for a refused request."""
    refused = re.match(r"Failed to load resource: the server responded with a status of 4\d\d", line.text)
    return line.type not in ("error", "warning") or refused is not None
