"""The pure functions of the console, called in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def page(browser: Browser, server: ServerProcess) -> Iterator[Page]:
    """Yield one page for all tests, which leave no state behind."""
    page = browser.new_page(base_url=f"http://{server.addresses['http']}", timezone_id="UTC")
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
        (
            "prettyJson",
            '{"a":[1.50,{}],"b":"x:{\\\\\\""}',
            {"pretty": '{\n  "a": [\n    1.50,\n    {}\n  ],\n  "b": "x:{\\\\\\""\n}', "left": 0},
        ),
        ("prettyJson", "not json", None),
        ("prettyJson", " [] ", {"pretty": "[]", "left": 0}),
        ("readAttributes", 'a = b=c\n" d "=" e\\n"\n"f=g"=1\n""=', {"a": "b=c", " d ": " e\n", "f=g": "1", "": ""}),
        ("lastPart", "projects/p/topics/t", "t"),
    ],
)
def test_formatting(page: Page, function: str, given: Any, written: Any) -> None:
    assert call(page, "lib/format.js", function, given) == written


def test_huge_or_deep_json_is_formatted_up_to_the_limit(page: Page) -> None:
    """The page generates the texts, because sending them would take long."""
    made = """async (parts) => {
      const text = parts.map(([piece, times]) => piece.repeat(times)).join("");
      const { pretty, left } = (await import('/console/lib/format.js')).prettyJson(text, 1000);
      return [pretty.length, left, pretty.slice(0, 9)];
    }"""
    assert page.evaluate(made, [['["', 1], ["x", 9_000_000], ['"]', 1]]) == [1000, 8_999_007, '[\n  "xxxx']
    assert page.evaluate(made, [["1", 9_000_000]]) == [1000, 8_999_000, "111111111"]
    assert page.evaluate(made, [["[", 60_000], ["]", 60_000]]) == [1000, 120_000 - 31, "[\n  [\n   "]


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (" 1,000 ", {"from": "1000"}),
        ("-1,000", {"from": "-1000"}),
        ("-1h30m", {"at": "-1h30m"}),
        ("2026-11-16T10:00:00.123456Z", {"at": "2026-11-16T10:00:00.123456Z"}),
        ("2026-11-16 10:00:00+09:00", {"at": "2026-11-16T01:00:00Z"}),
        ("2024-02-29", {"at": "2024-02-29T00:00:00Z"}),
        ("", {}),
    ],
)
def test_parse_a_start(page: Page, typed: str, read: dict[str, str]) -> None:
    assert call(page, "lib/route.js", "readPlace", typed) == read


@pytest.mark.parametrize(
    "typed", ["2026-02-29", "2026-11-16 24:00", "2026-11-16 10:60", "2026-11-16T10:00+99:00", "1,00"]
)
def test_invalid_starts(page: Page, typed: str) -> None:
    error = "From must be an offset" if typed == "1,00" else f"{typed} is not a valid time."
    with pytest.raises(Error, match=re.escape(error)):
        call(page, "lib/route.js", "readPlace", typed)


def test_a_time_that_clocks_skip_is_invalid(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page(base_url=f"http://{server.addresses['http']}", timezone_id="America/New_York")
    page.goto("/")
    with pytest.raises(Error, match=re.escape("2026-03-08 02:30 is not a valid time.")):
        call(page, "lib/route.js", "readPlace", "2026-03-08 02:30")
    for typed, read in (
        ("2026-03-08 03:30", "2026-03-08T07:30:00Z"),
        ("2026-03-08 02:30Z", "2026-03-08T02:30:00Z"),
        ("2026-03-08", "2026-03-08T05:00:00Z"),
        ("2026-11-01 01:30:00.5", "2026-11-01T05:30:00.5Z"),
    ):
        assert call(page, "lib/route.js", "readPlace", typed) == {"at": read}
    page.close()


def test_attributes_survive_a_form(page: Page) -> None:
    attributes = {"multi": "a\r\nb=c", " spaced ": " v ", "k=e": '"1"', "": "", "ü\0": "\u2028"}
    lines = call(page, "lib/format.js", "writeAttributes", attributes)
    assert len(lines.split("\n")) == len(attributes)
    assert "\r" not in lines
    assert call(page, "lib/format.js", "readAttributes", lines) == attributes


def test_labels_survive_one_line(page: Page) -> None:
    labels = {"a": "x, b=c", "k=,": '"', "": "", "plain": '5" pipe', " s ": ', "'}
    line = call(page, "lib/format.js", "writeLabels", labels)
    assert call(page, "lib/format.js", "readLabels", line) == labels
    assert call(page, "lib/format.js", "readLabels", 'a = 1,b=5" pipe,, c=2"') == {"a": "1", "b": '5" pipe', "c": '2"'}


@pytest.mark.parametrize(
    ("typed", "error"), [("a=1\n a =2", "Duplicate attribute: a"), ("b", "Invalid attribute, expected name=value: b")]
)
def test_invalid_attributes(page: Page, typed: str, error: str) -> None:
    with pytest.raises(Error, match=re.escape(error)):
        call(page, "lib/format.js", "readAttributes", typed)


def test_an_address_is_parsed_as_it_was_formatted(page: Page) -> None:
    parts, query = ["topics", "projects/p/topics/a b?&#%/ü"], {"filter": 'attributes.a = "b&c"', "from": "-5"}
    hash_ = call(page, "lib/route.js", "format", parts, query)
    assert call(page, "lib/route.js", "parse", hash_) == {"parts": parts, "query": query}
