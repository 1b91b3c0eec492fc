"""Names, roles and contrast of every page, as axe judges them: nothing serious, light and dark, wide and narrow."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.console.test_pages import PAGES

LOOKS = [{"scheme": "light"}, {"scheme": "dark"}, {"size": "phone"}]


@pytest.mark.parametrize("page", LOOKS, indirect=True, ids=["light", "dark", "phone"])
def test_axe_finds_nothing_serious(page: Page) -> None:
    page.goto("/")
    found = []
    for name, (place, heading) in PAGES.items():
        page.goto(f"/{place}")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        for each in Axe().run(page).response["violations"]:
            if each["impact"] in ("serious", "critical"):
                found.append(f"{name}: {each['id']}: {[node['html'][:120] for node in each['nodes'][:3]]}")
    assert not found, "\n".join(found)


def test_axe_finds_nothing_serious_in_a_dialog(page: Page) -> None:
    page.goto("/#/topics/orders")
    page.get_by_role("button", name="New subscription").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    violations = Axe().run(page).response["violations"]
    assert [each["id"] for each in violations if each["impact"] in ("serious", "critical")] == []
