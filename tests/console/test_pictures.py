"""Pictures of every page and dialog, at three widths, light and dark, with their parts at the stored positions.

After an intended change of a page, `make pictures` updates them. Look at the pictures first (.artefacts/console).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.console import pictures
from tests.console.conftest import PATIENCE, SIZES, expected
from tests.console.scene import scene
from tests.server_process import ROOT, ServerProcess

UPDATE = os.environ.get("CONSOLE_PICTURES") == "update"
TOPIC, SUBSCRIPTION = "#/topics/invoices", "#/subscriptions/invoices-print"
PAGES = {
    "overview": "#/overview",
    "overview-hours": "#/overview?range=24h",
    "topics": "#/topics",
    "topics-names": "#/topics?show=names",
    "topics-none": "#/topics?search=nothing-is-called-so",
    "subscriptions": "#/subscriptions",
    "queues": "#/queues",
    "topic": TOPIC,
    "messages": f"{TOPIC}/messages?from=0",
    "message": f"{TOPIC}/messages?from=0&open=7",
    "message-hex": f"{TOPIC}/messages?from=0&open=7&as=hex",
    "subscription": SUBSCRIPTION,
    "moves": "#/moves",
    "snapshots": "#/snapshots",
    "server": "#/server",
    "unknown": "#/topics/nobody",
}
DIALOGS = {
    "new-topic": ("#/topics", "New topic"),
    "new-subscription": ("#/subscriptions", "New subscription"),
    "new-queue": ("#/queues", "New queue"),
    "publish": (TOPIC, "Publish"),
    "change-topic": (TOPIC, "Change"),
    "move-topic": (TOPIC, "Move messages"),
    "purge-topic": (TOPIC, "Purge"),
    "delete-topic": (TOPIC, "Delete"),
    "seek": (SUBSCRIPTION, "Seek"),
    "redrive": (SUBSCRIPTION, "Move messages"),
    "snapshot": (SUBSCRIPTION, "Snapshot"),
    "new-snapshot": ("#/snapshots", "New snapshot"),
    "change-subscription": (SUBSCRIPTION, "Change"),
    "purge-subscription": (SUBSCRIPTION, "Purge"),
    "delete-subscription": (SUBSCRIPTION, "Delete"),
    "keys": ("#/moves", "Keyboard shortcuts"),
}
OF_THE_MACHINE = {"server"}  # the paths are as long as they are
HISTORY_SECONDS = 75  # seconds of traffic before the picture of the README


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with scene(tmp_path_factory.mktemp("pictures")) as server:
        yield server


@pytest.fixture(scope="module")
def layout() -> Iterator[dict[str, Any]]:
    """Yield the stored layout. With UPDATE, store the current layout instead."""
    known: dict[str, Any] = json.loads(pictures.LAYOUT.read_text())
    yield known
    if UPDATE:
        pages = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(known["pages"].items()))
        pictures.LAYOUT.write_text(f'{{"fonts": {known["fonts"]}, "pages": {{\n{pages}\n}}}}\n')


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
def test_pages_and_dialogs_look_as_they_did(
    browser: Browser, shop: ServerProcess, layout: dict[str, Any], size: str
) -> None:
    width, height = SIZES[size]
    base = f"http://{shop.addresses['http']}"
    context = browser.new_context(base_url=base, viewport={"width": width, "height": height})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda line: None if expected(line) else problems.append(f"{line.type}: {line.text}"))
    page.goto("/")
    same_fonts = pictures.fonts(page) == layout["fonts"]
    if UPDATE:
        layout["fonts"] = pictures.fonts(page)
    names = []
    for name, (place, button) in {**{name: (place, "") for name, place in PAGES.items()}, **DIALOGS}.items():
        page.goto(f"/{place}")
        if button:
            page.get_by_role("button", name=button, exact=True).click()
            page.locator("dialog[open]").wait_for()  # some load their fields first
        pictures.settle(page)
        found = pictures.parts(page)
        where = f"{name}-{size}"
        if UPDATE:
            layout["pages"][where] = found
            page.keyboard.press("Escape")
            continue
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            names.append(f"{name}-{size}-{scheme}")
            assert pictures.keep(page, names[-1]).stat().st_size > 4_000
        dark, wide = pictures.parts(page), page.evaluate("document.documentElement.scrollWidth - innerWidth")
        page.emulate_media(color_scheme="light")
        if button:
            page.keyboard.press("Escape")
        if wide > 0:
            problems.append(f"{where}: {wide} pixels wider than the screen")
        fixed = size != "phone" and name not in OF_THE_MACHINE
        changed = pictures.differences(layout["pages"].get(where, []), found, same_lines=same_fonts and fixed)
        changed += [f"dark: {each}" for each in pictures.differences(found, dark, same_lines=fixed)]
        problems += [f"{where}: {each}" for each in changed]
    if names:
        pictures.note_changes(context.new_page(), names, size)
    context.close()
    assert not problems, "\n".join(["make pictures updates them, if the change was meant:", *problems])


def test_every_stored_layout_belongs_to_a_page(layout: dict[str, Any]) -> None:
    assert set(layout["pages"]) == {f"{name}-{size}" for name in (*PAGES, *DIALOGS) for size in SIZES}


def test_the_comparison_can_fail() -> None:
    known = [[".tile", 20, 100, 230, 84], ["h1", 20, 60, 0, 29]]
    assert pictures.differences(known, known, same_lines=True) == []
    assert pictures.differences(known, [[".tile", 20, 120, 230, 84], known[1]], same_lines=True) != []
    assert pictures.differences(known, [[".tile", 20, 120, 230, 84], known[1]], same_lines=False) == []
    assert pictures.differences(known, [[".tile", 20, 100, 180, 84], known[1]], same_lines=False) != []
    assert pictures.differences(known, known[:1], same_lines=False) == ["0 of h1, not 1"]


def test_the_readme_shows_the_page_as_it_is(browser: Browser, shop: ServerProcess) -> None:
    """The picture contains the fingerprint of its labels, titles and buttons."""
    page = browser.new_page(base_url=f"http://{shop.addresses['http']}", viewport={"width": 1280, "height": 1010})
    page.goto("/#/overview", timeout=PATIENCE)
    expect(page.locator(".chart")).to_have_count(8)
    pictures.settle(page)
    found = pictures.fingerprint(page)
    if UPDATE:
        page.wait_for_timeout(1000 * HISTORY_SECONDS)
        pictures.README_PICTURE.write_bytes(pictures.with_note(page.screenshot(), found))
    page.close()
    picture = pictures.README_PICTURE.read_bytes()
    assert pictures.note_of(picture) == found, "make pictures updates it"
    assert len(picture) < 200_000
    assert "](docs/console.png)" in (ROOT / "README.md").read_text()
