"""The overview: rates by protocol, the flow, and charts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from penstock.admin.client import Client, path_of
from tests.acceptance.odd_names import make_store
from tests.console.actions import make_dead_letters, make_topic
from tests.console.conftest import at_work
from tests.console.test_format import call
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield a separate server, because the flow shows only the busiest and the oldest subscriptions."""
    with at_work(tmp_path_factory.mktemp("overview")) as server:
        yield server


def test_rates_by_protocol(page: Page) -> None:
    page.goto("/#/overview")
    table = page.get_by_role("table", name="Rates by protocol")
    row = table.get_by_role("row").filter(has_text="text")
    for column in (2, 3, 4):
        expect(row.locator(f"td:nth-child({column})")).not_to_have_text("0/s")
    expect(table.get_by_role("row").last.locator("td").nth(5)).to_have_text("0/s")


def test_pipes_lead_from_protocols_to_destinations(page: Page) -> None:
    page.goto("/#/overview")
    for label in ("Text", "work", "billing", "archive"):
        expect(page.locator(".box", has_text=label).first).to_be_visible()
    expect(page.locator(".pipe.on").first).to_be_attached()
    expect(page.locator(".pipe.dead").first).to_be_attached()
    page.locator(".box", has_text="billing").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("billing")


def test_dead_letters_have_a_pipe(page: Page, server: ServerProcess) -> None:
    with Client(server.addresses["http"]) as admin:
        make_dead_letters(admin, "failing", 50)
    page.goto("/#/overview")
    box = page.locator(".box", has_text="dead letters,").filter(has_text="failing-dead")
    expect(box.locator("small")).to_have_text(re.compile(r"^dead letters, [1-9][\d.]*/s$"))
    expect(page.locator(".pipe.dead.on")).to_have_count(1)


def test_stuck_subscriptions_are_red(page: Page) -> None:
    def age(route: Route) -> None:
        """Answer as if an hour had passed."""
        answer = route.fetch()
        body = answer.json()
        for each in body["subscriptions"]:
            if each["id"] == "archive":
                each["oldest_age_seconds"] = each["due_age_seconds"] = 3600
        route.fulfill(response=answer, body=json.dumps(body))

    page.route("**/admin/v1/subscriptions?*", age)
    page.goto("/#/overview")
    stuck = page.locator(".box.stuck", has_text="archive")
    expect(stuck).to_contain_text("stuck for 1 h, backlog ")
    expect(page.locator(".pipe.stuck").first).to_be_attached()
    expect(page.get_by_text("Red: messages have waited for more than 1 min")).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")


def test_the_totals_are_explained(page: Page) -> None:
    page.goto("/#/overview")
    expect(page.get_by_text("Totals count a dead-lettered message")).to_be_visible()


def test_the_pointer_reads_all_charts_at_one_time(page: Page) -> None:
    page.goto("/#/overview")
    expect(page.locator(".chart")).to_have_count(8)
    expect(page.locator(".chart time")).to_have_count(0)
    page.locator(".chart .u-over").first.hover()
    expect(page.locator(".chart time")).to_have_count(8)


def test_a_time_range_has_an_address(page: Page) -> None:
    page.goto("/#/overview")
    page.get_by_role("button", name="24 h").click()
    expect(page).to_have_url(re.compile("range=24h"))
    page.reload()
    expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")


def test_an_invalid_name_does_not_blank_the_page(page: Page, tmp_path: Path) -> None:
    """Earlier servers created queues with names that are invalid today. The console shows them."""
    make_store(tmp_path / "data")
    with ServerProcess(tmp_path, f"--data={tmp_path / 'data'}", doors=["http", "text"]) as old:
        with Client(old.addresses["http"]) as admin:
            for number in range(
                30
            ):  # more than the page lists, so that it requests the topic of a subscription by its name
                admin.post("/topics", {"name": f"quiet-{number}"})
                admin.post("/topics", {"name": f"a-quiet-{number}"})
        page.goto(f"http://{old.addresses['http']}/#/overview")
        expect(page.get_by_role("table", name="Rates by protocol")).to_be_visible()
        expect(page.locator(".box", has_text="no\u00a0break").first).to_be_visible()
        page.goto("about:blank")  # so that the page sends no request to a stopped server


BOXES: list[list[dict[str, Any]]] = [
    [{"key": key, "label": key, "note": "", "href": ""} for key in column]
    for column in (("d",), ("t",), ("a", "b"), ())
]


def test_pipes_are_as_wide_as_their_rates_and_lie_side_by_side(page: Page) -> None:
    pipes = [
        {"from": "d", "to": "t", "rate": 400},
        {"from": "t", "to": "a", "rate": 300},
        {"from": "t", "to": "b", "rate": 100},
        {"from": "t", "to": "nowhere", "rate": 100},
    ]
    page.goto("/")
    paths = call(page, "parts/flow.js", "arrange", BOXES, pipes, 1000)["paths"]
    assert [path["width"] for path in paths] == ["26.0", "19.5", "6.5"]
    first, second = (float(path["line"].split(",")[1].split(" ")[0]) for path in paths[1:])
    assert round(second - first, 1) == 13.0, "half of each width"


def test_stuck_subscriptions(page: Page) -> None:
    page.goto("/")
    waits = {"backlog_messages": 1, "oldest_age_seconds": 61, "due_age_seconds": 61, "ack_rate": 0}
    assert call(page, "views/picture.js", "isStuck", waits)
    # 0, because the waiting messages are delayed
    for change in ({"ack_rate": 0.1}, {"due_age_seconds": 0}, {"backlog_messages": 0}):
        assert not call(page, "views/picture.js", "isStuck", waits | change)


def test_the_flow_shows_stuck_and_busy_subscriptions(page: Page) -> None:
    """Stuck and busy subscriptions share the space, before any idle one."""
    page.goto("/")
    common = {"topic": "t", "due_age_seconds": 0, "backlog_messages": 0, "ack_rate": 0, "deliver_rate": 0}
    stuck = [common | {"name": f"s{n}", "backlog_messages": 1, "due_age_seconds": 99 - n} for n in range(9)]
    busy = [common | {"name": f"b{n}", "deliver_rate": 9 - n} for n in range(9)]
    idle = [common | {"name": f"i{n}"} for n in range(9)]

    def chosen(busy: list[dict[str, Any]], due: list[dict[str, Any]]) -> list[str]:
        return [each["name"] for each in call(page, "views/picture.js", "selectSubscriptions", busy, due)]

    assert chosen(busy, stuck) == ["b0", "b1", "b2", "b3", "b4", "s0", "s1", "s2", "s3", "s4"]
    assert chosen([*busy[:2], *idle], stuck) == ["b0", "b1", *(f"s{n}" for n in range(8))]
    assert chosen(busy[:2] + idle, idle) == ["b0", "b1", *(f"i{n}" for n in range(8))]


def test_delayed_messages_do_not_hide_stuck_ones(page: Page, server: ServerProcess) -> None:
    with Client(server.addresses["http"]) as admin:
        for number in range(12):
            make_topic(admin, f"delayed-{number}", [{"data": "x", "delay_seconds": 600}], f"delayed-{number}-sub")
        make_topic(admin, "young", [{"data": "x"}], "young-sub")
        names = [each["id"] for each in admin.get("/subscriptions", sort="-due", page_size=1000)["subscriptions"]]
        assert names.index("young-sub") < min(names.index(f"delayed-{number}-sub") for number in range(12))
    with page.expect_response(lambda answer: "/subscriptions?sort=-due" in answer.url):
        page.goto("/#/overview")


def test_a_full_store_is_shown(page: Page) -> None:
    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["journal"] |= {"full": True, "free_bytes": 6 << 20}
        route.fulfill(response=answer, body=json.dumps(body))

    page.route("**/admin/v1/server", fill)
    page.goto("/#/overview")
    tile = page.locator(".tile.alert", has_text="Disk")
    expect(tile).to_contain_text("full: publishes fail")
    page.unroute_all(behavior="ignoreErrors")


def test_an_invalid_range_shows_the_default(page: Page) -> None:
    page.goto("/#/overview?range=constructor")
    expect(page.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")


def test_topics_beyond_the_busiest_have_their_rates_and_projects(page: Page, server: ServerProcess) -> None:
    """The topics of shown subscriptions are shown, even if ten other topics are busier."""
    with Client(server.addresses["http"]) as admin:
        admin.post("/topology", {"topics": [{"name": f"busier-{number:02}"} for number in range(12)]})
        admin.post("/topics", {"name": "far", "project": "other"})
        admin.post("/subscriptions", {"name": "far-sub", "project": "other", "topic": "far"})
        for name in (*(f"busier-{number:02}" for number in range(12)), "projects/other/topics/far"):
            messages = [{"data": "x"}] * (200 if "busier" in name else 20)
            admin.post(f"{path_of('topics', name)}/messages", {"messages": messages})
        admin.post(f"{path_of('subscriptions', 'projects/other/subscriptions/far-sub')}/pull", {"max_messages": 20})
    page.goto("/#/overview")
    box = page.locator(".box", has=page.get_by_text("other/far", exact=True))
    expect(box).to_be_visible()
    expect(box.locator("small")).to_have_text(re.compile(r"^[1-9][\d.]*/s$|^0\.\d+/s$"))


def test_labels_of_an_axis_are_as_wide_as_their_text(page: Page) -> None:
    def old(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        at = body["fields"].index("oldest_age_seconds")
        for row in body["rows"]:
            row[at] = 4000
        route.fulfill(response=answer, body=json.dumps(body))

    page.route("**/admin/v1/samples?what=server*", old)
    page.add_init_script(
        """const draw = CanvasRenderingContext2D.prototype.fillText;
        window.cut = [];
        window.seen = new Promise((resolve) => (window.tell = resolve));
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
          const left = this.getTransform().transformPoint({ x, y }).x - this.measureText(text).width;
          if (this.textAlign === "right" && left < 0) window.cut.push(text);
          if (/min$/.test(text)) window.tell();
          return draw.call(this, text, x, y, ...rest);
        };"""
    )
    page.goto("/#/overview")
    page.evaluate("window.seen")  # one of the curves is drawn
    assert page.evaluate("window.cut") == []
    page.unroute_all(behavior="ignoreErrors")
