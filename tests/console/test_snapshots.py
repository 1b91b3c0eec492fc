"""Snapshots from the console: of one subscription and of a whole project; taken, gone back to, deleted."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from penstock.admin.client import Client, path_of
from tests.console.actions import address, make_topic, press, said, submit
from tests.console.pictures import keep


def test_of_one_subscription(page: Page, admin: Client) -> None:
    make_topic(admin, "held", [{"data": f"{each}"} for each in range(10)], "held-sub")
    page.goto(address("subscriptions", "held-sub"))
    press(page, "Snapshot")
    page.get_by_label("Name", exact=True).fill("a/b")
    submit(page, "Take it")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Not a name in snapshots")
    page.get_by_label("Name", exact=True).fill("before-purge")
    submit(page, "Take it")
    expect(said(page)).to_contain_text("Snapshot before-purge remembers what is unacked from offset 0 on")
    submit(page, "Close")
    admin.post("/subscriptions/held-sub/purge")

    press(page, "Seek")
    page.get_by_label("or a snapshot").select_option(index=1)
    expect(page.locator(".plan")).to_contain_text("10 acked messages come back")
    submit(page, "Seek")
    expect(said(page)).to_have_text("The backlog is 10 messages now.")
    submit(page, "Close")

    admin.post("/subscriptions/held-sub/purge")
    page.goto("/#/snapshots?search=before-purge")
    row = page.get_by_role("row").filter(has_text="before-purge")
    row.get_by_role("button", name="Seek to it").click()
    expect(page.get_by_role("dialog", name="Seek to before-purge")).to_be_visible()
    page.reload()  # the dialog has an address too
    expect(page.locator(".plan")).to_contain_text("10 acked messages come back, 0 messages of the backlog are skipped")
    submit(page, "Seek")
    expect(said(page)).to_have_text("The backlog is 10 messages now.")
    submit(page, "Close")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("before-purge")
    submit(page, "Delete")
    expect(row).to_have_count(0)
    assert admin.get("/snapshots", search="before-purge")["total"] == 0


def test_of_a_whole_project(page: Page, admin: Client) -> None:
    topic, subscription = "projects/whole/topics/t", "projects/whole/subscriptions/s"
    make_topic(admin, topic, [{"data": "x"}] * 7, subscription)
    admin.post("/subscriptions", {"name": "projects/whole/subscriptions/gone", "topic": topic, "start": "beginning"})
    page.goto("/#/snapshots?project=whole")
    press(page, "New project snapshot")
    page.get_by_label("Name", exact=True).fill("monday")
    submit(page, "Take it")
    expect(said(page)).to_contain_text("2 subscriptions of 1 topic are in it.")
    submit(page, "Close")
    admin.post(f"{path_of('subscriptions', subscription)}/purge")
    admin.delete(path_of("subscriptions", "projects/whole/subscriptions/gone"))
    row = page.get_by_role("table", name="Project snapshots").get_by_role("row").filter(has_text="monday")
    keep(page, "snapshots")
    row.get_by_role("button", name="Go back").click()
    expect(page.locator(".plan")).to_contain_text("1 restored, 1 made again, 0 missing.")
    page.get_by_role("dialog").get_by_role("textbox").fill("monday")
    submit(page, "Go back")
    expect(said(page)).to_have_text("Done: 1 restored, 1 made again, 0 missing.")
    submit(page, "Close")
    for name in (subscription, "projects/whole/subscriptions/gone"):
        assert admin.get(path_of("subscriptions", name))["backlog_messages"] == 7
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("monday")
    submit(page, "Delete")
    expect(row).to_have_count(0)
    assert admin.get("/projects/whole/snapshots")["total"] == 0


def test_a_dialog_that_is_done_does_nothing_more(page: Page, admin: Client) -> None:
    """Enter in a field sends a form again, though its button is gone."""
    make_topic(admin, "once", [{"data": "x"}] * 3, "once-sub")
    page.goto(address("subscriptions", "once-sub", "?do=seek"))
    page.get_by_label("Deliver what was published since").press("End")
    expect(page.locator(".plan")).to_contain_text("3 messages of the backlog are skipped")
    page.get_by_label("Instant").press("Enter")
    expect(said(page)).to_have_text("The backlog is 0 messages now.")
    admin.post("/topics/once/messages", {"messages": [{"data": "x"}] * 7})
    page.get_by_label("Instant").press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get("/subscriptions/once-sub")["backlog_messages"] == 7


def test_a_seek_without_a_place_says_so_and_a_snapshot_of_nobody_too(page: Page, admin: Client) -> None:
    make_topic(admin, "placed", [{"data": "x"}] * 3, "placed-sub")
    admin.post("/snapshots", {"name": "placed-then", "subscription": "placed-sub"})
    page.goto(address("subscriptions", "placed-sub", "?do=seek"))
    page.get_by_label("Instant").fill("rubbish")
    page.get_by_label("or a snapshot").select_option(index=1)
    expect(page.locator(".plan")).to_contain_text("0 acked messages come back")
    page.get_by_label("or a snapshot").select_option(index=0)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Give an instant")
    expect(page.locator(".plan")).to_have_text("")
    admin.delete("/subscriptions/placed-sub")
    page.goto("/#/snapshots?search=placed-then")
    press(page, "Seek to it")
    expect(page.get_by_role("dialog")).to_contain_text("No subscription reads placed.")
    submit(page, "Close")


def test_an_address_that_is_given_over_a_dialog_keeps_its_own(page: Page, admin: Client) -> None:
    make_topic(admin, "under", [], "under-sub")
    page.goto(address("topics", "under", "?do=publish"))
    expect(page.get_by_role("dialog", name="Publish to under")).to_be_visible()
    page.evaluate("location.hash = '#/topics?do=new'")
    expect(page.get_by_role("dialog", name="New topic")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
