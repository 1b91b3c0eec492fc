"""The pure functions of the console, run in the browser they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def page(browser: Browser, server: ServerProcess) -> Iterator[Page]:
    """One for all of them: nothing is left behind."""
    page = browser.new_page(base_url=f"http://{server.addresses['http']}")
    page.goto("/")
    yield page
    page.close()


def call(page: Page, module: str, function: str, *arguments: Any) -> Any:
    return page.evaluate(f"async (given) => (await import('/console/{module}')).{function}(...given)", list(arguments))


@pytest.mark.parametrize(
    ("function", "given", "written"),
    [
        ("short", 0, "0"),
        ("short", 999, "999"),
        ("short", 9_999, "9,999"),
        ("short", 12_345, "12.3k"),
        ("short", 1_234_567, "1.23M"),
        ("short", 0.25, "0.25"),
        ("bytes", 0, "0 B"),
        ("bytes", 1023, "1023 B"),
        ("bytes", 1536, "1.5 KiB"),
        ("bytes", 5 << 30, "5.0 GiB"),
        ("duration", 0, "0 s"),
        ("duration", 0.000253, "253 µs"),
        ("duration", 0.0042, "4.2 ms"),
        ("duration", 9.96, "10 s"),
        ("duration", 75, "1 min 15 s"),
        ("duration", 3600, "1 h"),
        ("duration", 90_000, "1 d 1 h"),
        ("prettyJson", '{"a":[1.50,{}],"b":"x:{"}', '{\n  "a": [\n    1.50,\n    {}\n  ],\n  "b": "x:{"\n}'),
        ("prettyJson", "not json", None),
        ("prettyJson", "[]", "[]"),
        ("lastPart", "projects/p/topics/t", "t"),
    ],
)
def test_how_values_are_written(page: Page, function: str, given: Any, written: Any) -> None:
    assert call(page, "lib/format.js", function, given) == written


def test_an_address_survives_there_and_back(page: Page) -> None:
    parts, query = ["topics", "projects/p/topics/a b?&#%/ü"], {"filter": 'attributes.a = "b&c"', "from": "-5"}
    hash_ = call(page, "lib/route.js", "format", parts, query)
    assert call(page, "lib/route.js", "parse", hash_) == {"parts": parts, "query": query}
