"""Names, roles and contrast of every page and dialog: axe finds no serious faults."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.console import pictures
from tests.console.actions import press
from tests.console.test_pages import PAGES, TOPIC

ALL: dict[str, Any] = {"resultTypes": ["violations"]}
CONTRAST = ALL | {"runOnly": ["color-contrast"]}
NO_CONTRAST = ALL | {"rules": {"color-contrast": {"enabled": False}}}
LOOKS = [({"scheme": "light"}, ALL), ({"scheme": "dark"}, CONTRAST), ({"size": "phone"}, NO_CONTRAST)]


def serious(page: Page, options: dict[str, Any], part: str = "html") -> list[str]:
    pictures.settle(page)
    result = page.evaluate("([part, options]) => axe.run(part, options)", [part, options])
    return [
        f"{page.url}: {each['id']}: {[node['html'][:120] for node in each['nodes'][:3]]}"
        for each in result["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(("page", "options"), LOOKS, indirect=["page"], ids=["light", "dark", "phone"])
def test_axe_finds_nothing_serious(page: Page, options: dict[str, Any]) -> None:
    page.goto("/")
    page.evaluate(AXE_SCRIPT)
    found = []
    for place, _ in PAGES.values():
        page.goto(f"/{place}")
        found += serious(page, options)
    for button in ("Publish", "New subscription", "Delete"):
        page.goto(f"/#/topics/{TOPIC}")
        press(page, button)
        found += serious(page, options, "dialog")
        page.keyboard.press("Escape")
    assert not found, "\n".join(found)
