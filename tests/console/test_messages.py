"""The page of messages: offsets, times, filters, and bodies in every format without losing a digit."""

from __future__ import annotations

import base64
import io
import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import fastavro
import pytest
from playwright.sync_api import Page, expect

from penstock.admin.client import Client
from tests.console.actions import address, make_topic, press, result, submit
from tests.console.pictures import keep
from tests.unchecked import publish_unchecked

AVRO = {"type": "record", "name": "Reading", "fields": [{"name": "id", "type": "long"}]}
PROTO = 'syntax = "proto3"; message State { string name = 1; int64 post_code = 2; }'
STATE = b"\x0a\x06Alaska\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
ODD = "projects/odd/topics/a~b+c%2Fd.e"


def test_bodies_are_decoded_by_the_schema_of_their_topic(page: Page, admin: Client) -> None:
    schemas = [
        {"name": "reading", "type": "AVRO", "definition": json.dumps(AVRO)},
        {"name": "state", "type": "PROTOCOL_BUFFER", "definition": PROTO},
    ]
    topics = [
        {"name": f"{each}s", "pubsub": {"schema_settings": {"schema": each, "encoding": "BINARY"}}}
        for each in ("reading", "state")
    ]
    admin.post("/topology", {"schemas": schemas, "topics": topics})
    publish_unchecked(admin, "readings", b"no avro here")
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), {"id": 2**63 - 1})
    for topic, data in (("readings", body.getvalue()), ("states", STATE)):
        message = {"data_base64": base64.b64encode(data).decode()}
        admin.post(f"/topics/{topic}/messages", {"messages": [message]})
    page.goto(address("topics", "readings", "/messages?open=1"))
    detail = page.get_by_role("article")
    expect(detail.get_by_role("button", name="avro")).to_have_attribute("aria-pressed", "true")
    expect(detail.locator("pre .json-number")).to_have_text("9223372036854775807")
    keep(page, "avro")
    page.goto(address("topics", "readings", "/messages?open=0"))
    expect(detail.locator(".problem")).to_have_text("The body does not fit the schema.")
    page.goto(address("topics", "states", "/messages?open=0"))
    expect(detail.locator("pre")).to_contain_text('"post_code": "9223372036854775807"')
    detail.get_by_role("button", name="base64").click()
    expect(detail.locator("pre")).to_have_text(base64.b64encode(STATE).decode())
    page.goto(address("topics", "states"))
    expect(page.locator("dl").filter(has_text="Full name")).to_contain_text("projects/penstock/schemas/state")


def test_large_numbers_are_shown_as_they_were_sent(page: Page, admin: Client) -> None:
    make_topic(admin, "numbers", [{"data": '{"a": 1e400, "b": 12345678901234567890, "c": -0, "d": 1.50}'}])
    page.goto(address("topics", "numbers", "/messages?open=0"))
    expect(page.locator("pre .json-number")).to_have_text(["1e400", "12345678901234567890", "-0", "1.50"])


def test_a_large_body_is_shown_in_part_and_saved_whole(page: Page, admin: Client, tmp_path: Path) -> None:
    body = json.dumps({"rows": ["x" * 90] * 95_000})
    make_topic(admin, "large", [{"data": "small"}, {"data": body}])
    page.goto(address("topics", "large", "/messages?from=0"))
    expect(page.locator("a.message .offset")).to_have_text(["0", "1"])
    page.locator("a.message").nth(1).click()
    detail = page.get_by_role("article")
    expect(detail.locator("pre")).to_contain_text("more characters (use Save to get the whole body)", timeout=15_000)
    with page.expect_download() as saved:
        detail.get_by_role("button", name="Save").click()
    saved.value.save_as(tmp_path / "body")
    assert (tmp_path / "body").read_text() == body


def test_long_hexadecimal_refers_to_save(page: Page, admin: Client) -> None:
    make_topic(admin, "hexadecimal", [{"data": "x" * (65_536 + 3)}])
    page.goto(address("topics", "hexadecimal", "/messages?open=0&as=hex"))
    shown = page.get_by_role("article").locator("pre")
    expect(shown).to_contain_text("0000fff0  78 78")
    expect(shown).to_contain_text("... 3 bytes more (use Save to get the whole body)")


def test_bodies_that_are_hard_to_lay_out(page: Page, admin: Client) -> None:
    make_topic(admin, "hard", [{"data": f'{{"a": "{"x" * 9_000_000}"}}'}, {"data": "[" * 60_000 + "]" * 60_000}])
    detail = page.get_by_role("article")
    for offset, begins in enumerate(('{\n  "a": "xxx', "[\n  [\n    [\n")):
        page.goto(address("topics", "hard", f"/messages?open={offset}"))
        expect(detail.locator(".story")).to_contain_text("Published.")
        expect(detail.get_by_role("button", name="Save")).to_be_visible()
        shown_text = detail.locator("pre").text_content() or ""
        assert shown_text.startswith(begins)
        assert shown_text.endswith("more characters (use Save to get the whole body)")


def test_publish_again_sends_the_same_bytes(page: Page, admin: Client) -> None:
    attributes = {"multi": "a\nb=c", " spaced ": " v ", "k=e": "1", "said": '"x"', "__proto__": ""}
    odd = {"data": "line1\r\nline2 {n} {uuid} {now}", "attributes": attributes, "ordering_key": " a\nb"}
    plain = {"data": "\n{n}", "ordering_key": "customer 7"}
    make_topic(admin, "again", [odd, plain])
    for offset in range(2):
        page.goto(address("topics", "again", f"/messages?open={offset}"))
        press(page, "Publish again")
        expect(page.get_by_label("Replace {n}")).not_to_be_checked()
        submit(page, "Publish")
        expect(result(page)).to_have_text(f"1 message published, starting at offset {2 + offset}.")
    stored = admin.get("/topics/again/messages", **{"from": 0})["messages"]
    same = [[each[key] for key in ("data", "attributes", "ordering_key")] for each in stored]
    assert same[2:] == same[:2]


def test_move_through_messages_by_offset_and_time(page: Page, admin: Client) -> None:
    """The order of rows stays the same, and Back returns page by page."""
    make_topic(admin, "paged", [{"data": f"{each}"} for each in range(1000)])
    admin.post("/topics/paged/messages", {"messages": [{"data": f"{each}"} for each in range(250)]})
    offsets = page.locator("a.message .offset")
    page.goto(address("topics", "paged", "/messages"))
    for button, ends in (("Older", ("1,149", "1,050")), ("Older", ("1,049", "950")), ("Newer", ("1,149", "1,050"))):
        page.get_by_role("button", name=button, exact=True).click()
        expect(offsets.first).to_have_text(ends[0])
        expect(offsets.last).to_have_text(ends[1])
    for first in ("1,049", "1,149", "1,249"):
        page.go_back()
        expect(offsets.first).to_have_text(first)
    show = page.get_by_role("button", name="Show", exact=True)
    page.get_by_label("From", exact=True).fill("1,007")
    show.click()
    expect(offsets.first).to_have_text("1,007")
    page.get_by_role("button", name="Older", exact=True).click()
    expect(offsets.first).to_have_text("907")
    expect(offsets.last).to_have_text("1,006")
    page.get_by_label("or time").fill("2020-01-01T10:00:00")
    show.click()
    expect(offsets.first).to_have_text("0")
    for given in ("2026-13-45 10:00", "2026-11-16 25:00", "2026-02-31", "yesterday"):
        page.get_by_label("From", exact=True).fill(given)
        show.click()
        what = "From must be an offset (1,000)" if given == "yesterday" else f"{given} is not a valid time."
        expect(page.get_by_role("alert")).to_contain_text(what)
        expect(offsets).to_have_count(0)
        expect(page.locator(".pager")).not_to_contain_text("searched")
    page.get_by_label("From", exact=True).fill("7")
    page.get_by_label("or time").fill("2020-01-01T10:00:00")
    show.click()
    expect(page.get_by_role("alert")).to_have_text("Enter From or a time, not both.")
    page.get_by_label("Text", exact=True).fill("typed")
    page.get_by_role("button", name="Latest").click()
    expect(offsets.first).to_have_text("1,249")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_label("From", exact=True)).to_have_value("")
    expect(page.get_by_label("or time")).to_have_value("")
    expect(page.get_by_label("Text", exact=True)).to_have_value("typed")


def test_an_invalid_filter_can_be_corrected(page: Page, admin: Client) -> None:
    make_topic(admin, "corrected", [{"data": "x"}])
    for query in ("filter=bad", "until=abc", "at=2026-02-31T10:00:00Z"):
        page.goto("/#/overview")
        page.goto(address("topics", "corrected", f"/messages?{query}"))
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.locator("a.message")).to_have_count(0)
        for label in ("From", "Attributes"):
            page.get_by_label(label, exact=True).fill("")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.locator("a.message")).to_have_count(1)
        expect(page.get_by_role("alert")).to_have_count(0)
    page.goto("/#/overview")
    page.goto("/#/topics?sort=bogus")
    expect(page.get_by_role("alert")).to_contain_text("sort must be")
    page.get_by_role("link", name="Clear all filters").click()
    expect(page.locator("tbody a").first).to_be_visible()


def test_an_open_message_updates_its_story(page: Page, admin: Client) -> None:
    make_topic(admin, "followed", [{"data": "x"}], "followed-sub")
    page.goto(address("topics", "followed", "/messages?open=0"))
    story = page.locator(".story li")
    expect(story).to_have_text(re.compile("Published"))
    (delivery,) = admin.post("/subscriptions/followed-sub/pull", {"max_messages": 1})["deliveries"]
    expect(story).to_have_count(2)
    admin.post("/subscriptions/followed-sub/ack", {"receipts": [delivery["receipt"]]})
    expect(story).to_contain_text(["Published", "Delivered to followed-sub", "Acked by followed-sub"])
    expect(page.locator("a.message")).not_to_contain_text("now")
    admin.post("/topics/followed/messages", {"messages": [{"data": "y"}, {"data": "z"}]})
    page.get_by_role("button", name="Show 2 newer messages").click()
    expect(page.locator("a.message .offset")).to_have_text(["2", "1", "0"])
    press(page, "Publish again")
    submit(page, "Publish")
    expect(result(page)).to_be_visible()
    submit(page, "Close")
    expect(page.locator("a.message .offset")).to_have_text(["3", "2", "1", "0"])
    expect(page.get_by_role("button", name="No newer messages")).to_be_disabled()


def test_a_search_covers_the_whole_topic(page: Page, admin: Client) -> None:
    make_topic(admin, "wide", [{"data": f"row {each}"} for each in range(600)])
    page.goto(address("topics", "wide", "/messages?from=500&text=row+3"))
    expect(page.get_by_text("No matching messages.")).to_be_visible()
    page.get_by_role("button", name="Search the whole topic").click()
    expect(page.get_by_text("111 messages found")).to_be_visible()
    page.reload()
    expect(page.get_by_text("111 messages found")).to_be_visible()
    page.locator("a.message").nth(1).click()
    expect(page.get_by_role("article", name="Message 30")).to_be_visible()
    page.get_by_label("Text", exact=True).fill("row 599")
    page.keyboard.press("Enter")
    expect(page.locator("a.message .offset")).to_have_text(["599"])
    page.goto(address("topics", "wide", "/messages?text=row+59&all=yes"))
    expect(page.get_by_text("11 messages found")).to_be_visible()
    expect(page.locator("a.message .offset").first).to_have_text("599")


def test_a_search_with_many_matches_renders_in_intervals(page: Page, admin: Client) -> None:
    make_topic(admin, "many", [])
    for _ in range(3):
        publish(admin, "many", 1000)
    page.goto(address("topics", "many", "/messages?text=needle"))
    expect(page.locator("a.message")).to_have_count(100)
    page.evaluate("""() => {
      window.drawn = 0; // how often the count was
      const watch = new MutationObserver((seen) => (window.drawn += seen.length));
      watch.observe(document.querySelector(".pager .quiet"), { characterData: true, subtree: true });
    }""")
    page.get_by_role("button", name="Search the whole topic").click()
    expect(page.get_by_text("1,000 messages found (the limit), 1,000 searched")).to_be_visible()
    expect(page.get_by_role("button", name="Search the whole topic")).to_be_visible()
    assert 0 < page.evaluate("window.drawn") < 300
    page.get_by_label("Text", exact=True).fill("needle 42")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Search the whole topic").click()
    expect(page.get_by_text("33 messages found, 3,000 searched")).to_be_visible()


def test_a_search_can_be_stopped(page: Page, admin: Client) -> None:
    make_topic(admin, "endless", [{"data": f"needle {each}"} for each in range(300)])
    page.add_init_script("""
      const ask = window.fetch; // of an answer that is streamed, the end does not come
      window.fetch = async (where, options) => {
        const answer = await ask(where, options);
        if (!String(where).includes("/stream?")) return answer;
        const { readable, writable } = new TransformStream();
        answer.body.pipeTo(writable, { preventClose: true });
        options.signal.addEventListener("abort", () => {
          window.stopped = true;
          writable.abort();
        });
        return new Response(readable, answer);
      };
    """)
    page.goto(address("topics", "endless", "/messages?text=needle+1&all=yes"))
    expect(page.get_by_text("111 messages found, 300 searched")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Searched")).to_be_visible()
    expect(page.get_by_role("button", name="Older")).to_be_disabled()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Search the whole topic")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.get_by_text("111 messages found")).to_be_visible()  # the results stay
    expect(page.get_by_role("alert")).to_have_count(0)
    assert page.evaluate("window.stopped")
    page.get_by_role("button", name="Latest").click()
    expect(page.get_by_text("100 messages found")).to_be_visible()


def publish(admin: Client, topic: str, number: int) -> None:
    messages = [{"data": f"needle {each}"} for each in range(number)]
    admin.post(f"/topics/{topic}/messages", {"messages": messages})


def test_deleted_messages_cannot_be_opened(page: Page, admin: Client) -> None:
    make_topic(admin, "renewed", [{"data": f"old {each}"} for each in range(20)])
    offsets = page.locator("a.message .offset")
    page.goto(address("topics", "renewed", "/messages?open=2"))
    expect(offsets).to_have_count(20)
    admin.delete("/topics/renewed")
    make_topic(admin, "renewed", [{"data": f"new {each}"} for each in range(4)], "renewed-sub")
    expect(offsets).to_have_text(["3", "2", "1", "0"])
    expect(page.locator(".pager")).to_contain_text("offsets 0 to 4; 4 messages")
    expect(page.get_by_role("article")).to_have_count(0)
    admin.post("/topics/renewed/purge")
    publish(admin, "renewed", 1)
    expect(page.locator(".pager")).to_contain_text("offsets 4 to 5; 4 messages; 4 deleted since")
    expect(page.locator(".message")).to_have_count(4)
    expect(page.locator("a.message")).to_have_count(0)
    page.get_by_role("button", name="Show 1 newer message").click()
    expect(offsets).to_have_text(["4"])


def test_a_recreated_topic_clears_search_results(page: Page, admin: Client) -> None:
    make_topic(admin, "searched", [{"data": f"hit {each}"} for each in range(5)])
    page.goto(address("topics", "searched", "/messages?text=hit&all=yes&open=1"))
    expect(page.get_by_text("5 messages found")).to_be_visible()
    expect(page.get_by_role("article")).to_be_visible()
    page.keyboard.press("p")
    expect(page.locator(".connection")).to_have_text("paused")
    admin.delete("/topics/searched")
    make_topic(admin, "searched", [{"data": f"new {each}"} for each in range(3)])
    page.keyboard.press("p")
    expect(page.get_by_text("0 messages found")).to_be_visible()
    expect(page.locator(".message")).to_have_count(0)
    expect(page.get_by_role("article")).to_have_count(0)


def test_a_missing_topic_is_requested_less_often(page: Page, admin: Client) -> None:
    make_topic(admin, "vanished", [{"data": "x"}])
    page.clock.install()
    page.goto(address("topics", "vanished", "/messages"))
    expect(page.locator("a.message")).to_have_count(1)
    admin.delete("/topics/vanished")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("not found")
    page.evaluate("""() => {
      window.asked = 0;
      const { fetch } = window;
      window.fetch = (...given) => ((window.asked += given[0].includes("vanished")), fetch(...given));
    }""")
    for _ in range(2):
        page.clock.run_for(2000)
    assert page.evaluate("window.asked") == 0
    make_topic(admin, "vanished", [{"data": "y"}, {"data": "z"}])
    page.clock.run_for(4000)
    expect(page.locator("a.message")).to_have_count(2)
    expect(alert).to_have_count(0)


def test_dialogs_of_a_message_have_addresses(page: Page, admin: Client) -> None:
    make_topic(admin, "addressed", [{"data": "x"}])
    dialog = page.get_by_role("dialog")
    for button, title, do in (
        ("Publish again", "Publish to addressed", "publish"),
        ("Move message", "Move message 0", "move"),
    ):
        page.goto(address("topics", "addressed", "/messages?open=0"))
        press(page, button)
        expect(page).to_have_url(re.compile(f"open=0&do={do}$"))
        page.goto("/#/overview")
        page.goto(address("topics", "addressed", f"/messages?open=0&do={do}"))
        expect(dialog).to_contain_text(title)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page).to_have_url(re.compile("open=0$"))
        expect(page.get_by_role("article")).to_be_visible()


def test_a_name_with_special_characters_works_on_every_page(page: Page, admin: Client) -> None:
    make_topic(admin, ODD, [{"data": "x"}], "projects/odd/subscriptions/s")
    page.goto("/#/topics?project=odd")
    page.get_by_role("link", name=re.compile(r"a~b\+c%2Fd\.e$")).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic a~b+c%2Fd.e")
    page.get_by_role("link", name="Messages").click()
    expect(page.locator("a.message .offset")).to_have_text(["0"])
    page.locator("a.message").click()
    press(page, "Publish again")
    expect(page.get_by_label("Body", exact=True)).to_have_value("x")
    submit(page, "Publish")
    expect(result(page)).to_have_text("1 message published, starting at offset 1.")


@pytest.mark.parametrize("page", [{"zone": "Asia/Tokyo"}], indirect=True)
def test_a_story_uses_the_browsers_zone(page: Page, admin: Client) -> None:
    make_topic(admin, "zoned", [{"data": "x"}], "zoned-sub")
    (delivery,) = admin.post("/subscriptions/zoned-sub/pull", {"max_messages": 1, "lease_seconds": 60})["deliveries"]
    due = datetime.fromisoformat(delivery["deadline"]) + timedelta(hours=9)
    page.goto(address("topics", "zoned", "/messages?open=0"))
    expect(page.get_by_role("article")).to_contain_text("Story Asia/Tokyo time")
    expect(page.locator(".story li").nth(1)).to_have_text(
        re.compile(rf"\. Ack deadline (\d{{4}}-\d\d-\d\d )?{due:%H:%M:%S}\.$")
    )
    expect(page.get_by_role("article")).not_to_contain_text("UTC")
    cut = """(row) => {
      const [offset, age] = row.children;
      offset.textContent = "100,000,000,000";
      age.textContent = "18 min 48 s ago";
      return [offset, age].some((each) => each.scrollWidth > each.clientWidth);
    }"""
    for width, opened in ((375, ""), (1280, ""), (1280, "&open=0"), (2560, "&open=0")):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(address("topics", "zoned", f"/messages?from=0{opened}"))
        expect(page.get_by_role("article")).to_have_count(1 if opened else 0)
        assert not page.locator("a.message").evaluate(cut), (width, opened)


def test_a_story_says_if_earlier_events_are_unknown(page: Page, admin: Client) -> None:
    make_topic(admin, "told", [{"data": "x"}], "told-sub")
    (delivery,) = admin.post("/subscriptions/told-sub/pull", {"max_messages": 1})["deliveries"]
    admin.post("/subscriptions/told-sub/ack", {"receipts": [delivery["receipt"]]})
    page.goto(address("topics", "told", "/messages?open=0"))
    story = page.locator(".story li")
    expect(story).to_have_count(3)
    expect(story.nth(1)).to_contain_text("Delivered to told-sub (admin API)")
    expect(story.nth(2)).to_contain_text("Acked by told-sub.")
    expect(page.get_by_role("article")).to_contain_text(re.compile(r"Events before .*\d are not kept\."))


@pytest.mark.parametrize("page", [{"size": "phone"}, {"size": "laptop"}], indirect=True, ids=["phone", "laptop"])
def test_long_attributes_are_readable(page: Page, admin: Client, request: pytest.FixtureRequest) -> None:
    name = f"attributes-{request.node.callspec.id}"
    attributes = {
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "n" * 256: "v" * 1024,
        "lines": "line1\n  line2",
        " spaces ": " v ",
        "turned": "a\u202eb",
    }
    make_topic(admin, name, [{"data": "x", "attributes": attributes}])
    page.goto(address("topics", name, "/messages?open=0"))
    detail = page.get_by_role("article")
    expect(detail.locator("dt", has_text="CloudPubSub")).to_be_visible()
    over = detail.evaluate(
        """(panel) => [...panel.querySelectorAll('dl div')].filter((row) => {
          const [name, value] = row.children;
          const [left, right] = [name, value].map((each) => {
            const range = document.createRange();
            range.selectNodeContents(each);
            return range.getBoundingClientRect();
          });
          const apart = left.right <= right.left || left.bottom <= right.top;
          return !apart || right.right > panel.getBoundingClientRect().right;
        }).map((row) => row.textContent.slice(0, 60))"""
    )
    assert over == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert detail.evaluate("(panel) => panel.scrollWidth <= panel.clientWidth")
    shown = {
        each.locator("dt").inner_text(): each.locator("dd").inner_text()
        for each in detail.locator("dl").last.locator("div").all()
    }
    assert shown == attributes
    assert detail.locator("code.exact").last.evaluate("(each) => getComputedStyle(each).unicodeBidi") == "isolate"
    keep(page, f"attributes-{request.node.callspec.id}")
