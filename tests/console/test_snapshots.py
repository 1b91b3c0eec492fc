"""Snapshots of subscriptions and projects: create, seek, restore, delete."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from penstock.admin.client import Client, path_of
from tests.console.actions import address, make_topic, press, result, submit
from tests.console.pictures import keep


def test_subscription_snapshots(page: Page, admin: Client) -> None:
    make_topic(admin, "held", [{"data": f"{each}"} for each in range(10)], "held-sub")
    page.goto(address("subscriptions", "held-sub"))
    press(page, "Snapshot")
    page.get_by_label("Name", exact=True).fill("a/b")
    submit(page, "Create")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Not a name in snapshots")
    page.get_by_label("Name", exact=True).fill("before-purge")
    submit(page, "Create")
    expect(result(page)).to_contain_text("Created snapshot before-purge. First unacked offset: 0.")
    submit(page, "Close")
    admin.post("/subscriptions/held-sub/purge")

    press(page, "Seek")
    page.get_by_label("or a snapshot").select_option(index=1)
    expect(page.locator(".plan")).to_contain_text("10 acked messages will be delivered again")
    submit(page, "Seek")
    expect(result(page)).to_have_text("The backlog is now 10 messages.")
    submit(page, "Close")

    admin.post("/subscriptions/held-sub/purge")
    page.goto("/#/snapshots?search=before-purge")
    row = page.get_by_role("row").filter(has_text="before-purge")
    row.get_by_role("button", name="Seek").click()
    expect(page.get_by_role("dialog", name="Seek to before-purge")).to_be_visible()
    page.reload()  # the dialog has an address, too
    expect(page.locator(".plan")).to_contain_text("10 acked messages will be delivered again, and 0 messages skipped.")
    submit(page, "Seek")
    expect(result(page)).to_have_text("The backlog is now 10 messages.")
    submit(page, "Close")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("before-purge")
    submit(page, "Delete")
    expect(row).to_have_count(0)
    assert admin.get("/snapshots", search="before-purge")["total"] == 0


def test_project_snapshots(page: Page, admin: Client) -> None:
    topic, subscription = "projects/whole/topics/t", "projects/whole/subscriptions/s"
    make_topic(admin, topic, [{"data": "x"}] * 7, subscription)
    admin.post("/subscriptions", {"name": "projects/whole/subscriptions/gone", "topic": topic, "start": "beginning"})
    page.goto("/#/snapshots?project=whole")
    press(page, "New project snapshot")
    page.get_by_label("Name", exact=True).fill("monday")
    submit(page, "Create")
    expect(result(page)).to_contain_text("Contains 2 subscriptions of 1 topic.")
    submit(page, "Close")
    admin.post(f"{path_of('subscriptions', subscription)}/purge")
    admin.delete(path_of("subscriptions", "projects/whole/subscriptions/gone"))
    row = page.get_by_role("table", name="Project snapshots").get_by_role("row").filter(has_text="monday")
    keep(page, "snapshots")
    row.get_by_role("button", name="Restore").click()
    expect(page.locator(".plan")).to_contain_text("1 restored, 1 recreated, 0 missing.")
    page.get_by_role("dialog").get_by_role("textbox").fill("monday")
    submit(page, "Restore")
    expect(result(page)).to_have_text("Done: 1 restored, 1 recreated, 0 missing.")
    submit(page, "Close")
    for name in (subscription, "projects/whole/subscriptions/gone"):
        assert admin.get(path_of("subscriptions", name))["backlog_messages"] == 7
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("monday")
    submit(page, "Delete")
    expect(row).to_have_count(0)
    assert admin.get("/projects/whole/snapshots")["total"] == 0


def test_enter_closes_a_dialog_that_is_done(page: Page, admin: Client) -> None:
    """Enter in a field submits a form even if its button is gone. The action must not run twice."""
    make_topic(admin, "once", [{"data": "x"}] * 3, "once-sub")
    page.goto(address("subscriptions", "once-sub", "?do=seek"))
    page.get_by_label("Deliver messages published since").press("End")
    expect(page.locator(".plan")).to_contain_text("3 messages skipped")
    page.get_by_label("Time").press("Enter")
    expect(result(page)).to_have_text("The backlog is now 0 messages.")
    admin.post("/topics/once/messages", {"messages": [{"data": "x"}] * 7})
    page.get_by_label("Time").press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get("/subscriptions/once-sub")["backlog_messages"] == 7


def test_a_seek_without_a_target_and_a_snapshot_without_subscriptions(page: Page, admin: Client) -> None:
    make_topic(admin, "placed", [{"data": "x"}] * 3, "placed-sub")
    admin.post("/snapshots", {"name": "placed-then", "subscription": "placed-sub"})
    page.goto(address("subscriptions", "placed-sub", "?do=seek"))
    page.get_by_label("Time").fill("rubbish")
    page.get_by_label("or a snapshot").select_option(index=1)
    expect(page.locator(".plan")).to_contain_text("0 acked messages will be delivered again")
    page.get_by_label("or a snapshot").select_option(index=0)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Enter a time such as")
    expect(page.locator(".plan")).to_have_text("")
    admin.delete("/subscriptions/placed-sub")
    page.goto("/#/snapshots?search=placed-then")
    press(page, "Seek")
    expect(page.get_by_role("dialog")).to_contain_text("placed has no subscriptions.")
    submit(page, "Close")


def test_an_address_typed_over_a_dialog_is_kept(page: Page, admin: Client) -> None:
    make_topic(admin, "under", [], "under-sub")
    page.goto(address("topics", "under", "?do=publish"))
    expect(page.get_by_role("dialog", name="Publish to under")).to_be_visible()
    page.evaluate("location.hash = '#/topics?do=new'")
    expect(page.get_by_role("dialog", name="New topic")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
