"""Moves of dead letters: one, matching ones, all; with a rate, progress and the result."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from tests.console.actions import address, make_dead_letters, make_topic, press, result, submit
from tests.console.pictures import keep
from tests.server_process import ServerProcess


def backlogs(admin: Client, name: str) -> tuple[int, int]:
    """Return the backlog of the dead letters and of their original subscription."""
    dead, work = (admin.get(f"/subscriptions/{name}-{end}") for end in ("dead-keep", "work"))
    return dead["backlog_messages"], work["backlog_messages"]


def test_running_and_new_moves_come_first(page: Page, admin: Client) -> None:
    """This holds even if more moves have ended than fit on a page of the API."""
    make_dead_letters(admin, "first-in-line", 3)
    for _ in range(101):
        over = admin.post("/moves", {"from": "first-in-line-dead-keep", "filter": 'attributes.kind = "none"'})["id"]
        while admin.get(f"/moves/{over}")["state"] == "running":
            pass
    slow = admin.post("/moves", {"from": "first-in-line-dead-keep", "rate": 0.01})["id"]
    page.goto("/#/moves")
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text("running")
    rows.first.get_by_role("button", name="Stop").click()
    expect(page.locator(".state.running")).to_have_count(0)
    assert admin.get(f"/moves/{slow}")["state"] == "stopped"
    expect(rows).to_have_count(100 + 1)  # the server keeps 100 finished moves, and drops others when a move starts


def test_move_one_then_matching_then_all(page: Page, admin: Client) -> None:
    make_dead_letters(admin, "letters", 10)
    page.goto(address("topics", "letters-dead", "/messages?from=0&open=3"))
    expect(
        page.get_by_role("article").get_by_text("CloudPubSubDeadLetterSourceSubscription", exact=True)
    ).to_be_visible()
    press(page, "Move message")
    submit(page, "Count")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("1 message would be moved (1 to letters)")
    submit(page, "Move")
    expect(result(page)).to_have_text("1 message moved, 0 left, 0 unknown.")
    submit(page, "Close")
    assert backlogs(admin, "letters") == (9, 1)
    story = page.locator(".story li")
    expect(story).to_have_count(2)
    expect(story.last).to_contain_text("Moved from letters-dead-keep to letters.")

    page.goto(address("subscriptions", "letters-dead-keep"))
    press(page, "Move messages")
    page.get_by_label("Messages", exact=True).select_option(label="Matching messages")
    for button in ("Count", "Move"):
        submit(page, button)
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
            "Enter attributes, a text or a JSON path"
        )
    assert backlogs(admin, "letters") == (9, 1)
    page.get_by_label("Attributes").fill('attributes.kind = "even"')
    page.get_by_label("Text", exact=True).fill("m4")
    submit(page, "Count")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("1 message would be moved")
    page.get_by_label("Text", exact=True).fill("")
    # the preview was for another choice
    expect(page.get_by_role("dialog").get_by_text("would be moved")).to_have_count(0)
    submit(page, "Move")
    expect(result(page)).to_contain_text("5 messages moved, 4 left")
    keep(page, "redrive")
    submit(page, "Close")
    assert backlogs(admin, "letters") == (4, 6)

    press(page, "Move messages")
    submit(page, "Move")
    expect(result(page)).to_have_text("4 messages moved, 0 left, 0 unknown.")
    submit(page, "Close")
    assert backlogs(admin, "letters") == (0, 10)
    page.goto("/#/moves")
    expect(page.get_by_role("row").filter(has_text="letters-dead-keep")).to_have_count(3)


def test_a_move_with_a_rate_shows_its_progress_and_is_stopped(page: Page, admin: Client) -> None:
    make_topic(admin, "slow", [{"data": "x"}] * 500, "slow-keep")
    admin.post("/topics", {"name": "slow-to"})
    page.goto(address("topics", "slow"))
    press(page, "Move messages")
    page.get_by_label("To topic").fill("slow-to")
    page.get_by_label("Max messages per second").fill("10")
    page.get_by_label("Max messages", exact=True).fill("400")
    submit(page, "Move")
    expect(page.get_by_role("dialog").locator(".plan")).to_contain_text("in progress. Total: 400.")
    submit(page, "Stop")
    expect(result(page)).to_contain_text("Stopped: ")
    moved = admin.get("/topics/slow-to")["messages"]
    left = f"{500 - moved} left (not reached: the move stopped: {500 - moved}), 0 unknown."
    expect(result(page)).to_contain_text(left)
    assert 0 <= moved < 500
    assert admin.get("/subscriptions/slow-keep")["backlog_messages"] == 500 - moved


def test_messages_beyond_the_maximum_are_left(page: Page, admin: Client) -> None:
    make_topic(admin, "most", [{"data": "x"}] * 10, "most-keep")
    admin.post("/topics", {"name": "most-to"})
    admin.post("/subscriptions/most-keep/pull", {"max_messages": 2})
    page.goto(address("subscriptions", "most-keep"))
    press(page, "Move messages")
    expect(page.get_by_role("dialog")).to_contain_text("10 messages in the backlog, 2 of them in flight.")
    page.get_by_label("To topic").fill("most-to")
    page.get_by_label("Max messages", exact=True).fill("3")
    submit(page, "Move")
    why = "leased by a consumer, or already settled: 2, not chosen: 5"
    expect(result(page)).to_have_text(f"3 messages moved, 7 left ({why}), 0 unknown.")
    page.goto("/#/moves")
    row = page.get_by_role("row").filter(has_text="most-keep")
    expect(row.get_by_role("cell").nth(5)).to_have_text("7")
    expect(row).to_contain_text(why)


def test_a_move_from_a_topic_without_subscriptions(page: Page, admin: Client) -> None:
    make_topic(admin, "solo", [{"data": "x"}] * 2)
    admin.post("/topics", {"name": "solo-to"})
    page.goto(address("topics", "solo"))
    press(page, "Move messages")
    page.get_by_label("To topic").fill("solo-to")
    submit(page, "Move")
    expect(result(page)).to_have_text("2 messages moved, 0 left, 0 unknown.")
    page.goto("/#/moves")
    page.get_by_role("link", name="solo", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic solo")


def test_a_refused_move_shows_the_servers_error(page: Page, admin: Client) -> None:
    make_topic(admin, "refused", [{"data": "x"}], "refused-keep")
    page.goto(address("subscriptions", "refused-keep"))
    press(page, "Move messages")
    page.get_by_label("To topic").fill("nowhere")
    submit(page, "Move")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(
        "Topic not found: projects/penstock/topics/nowhere"
    )
    page.get_by_label("To topic").fill("")
    submit(page, "Move")
    expect(result(page)).to_contain_text("0 messages moved, 1 left (")


def test_a_move_continues_after_a_restart(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=("http",)) as server:
        with Client(server.addresses["http"]) as admin:
            make_topic(admin, "long", [{"data": f"{each}"} for each in range(100)], "long-keep")
            admin.post("/topics", {"name": "long-to"})
        page = browser.new_page(base_url=f"http://{server.addresses['http']}")
        page.goto(address("subscriptions", "long-keep"))
        press(page, "Move messages")
        page.get_by_label("To topic").fill("long-to")
        page.get_by_label("Max messages per second").fill("10")
        submit(page, "Move")
        expect(page.get_by_role("dialog").locator(".plan")).to_contain_text("moved")
        server.kill()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("is not responding")
        server.start()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Start it again", timeout=20_000)
        page.get_by_label("Max messages per second").fill("")
        submit(page, "Move")
        expect(result(page)).to_contain_text("0 left, 0 unknown.", timeout=20_000)
        with Client(server.addresses["http"]) as admin:
            bodies = [each["data"] for each in admin.get("/topics/long-to/messages", max=1000)["messages"]]
        assert sorted(bodies, key=int) == [f"{each}" for each in range(100)]
        page.close()
