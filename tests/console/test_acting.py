"""What the console does: publish, make, change, seek, move, purge, delete; each is seen through the admin API after."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from penstock.errors import NotFoundError
from tests.console.conftest import keep
from tests.server_process import ServerProcess

NUMBERS = count()


@pytest.fixture
def topic(admin: Client) -> str:
    """A topic of the test's own, with a subscription of the same name and ten messages."""
    name = f"acting-{next(NUMBERS)}"
    admin.post("/topics", {"name": name})
    admin.post("/subscriptions", {"name": name, "topic": name})
    admin.post(f"/topics/{name}/messages", {"messages": [{"data": f"m{each}"} for each in range(10)]})
    return name


def submit(page: Page, label: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=label, exact=True).click()


def test_a_topic_is_made_and_a_wrong_name_is_refused_in_the_servers_words(page: Page, admin: Client) -> None:
    page.goto("/#/topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Name", exact=True).fill("a/b")
    submit(page, "Make it")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Not a name in topics")
    page.get_by_label("Name", exact=True).fill("made-here")
    page.get_by_label("Labels").fill("team=shop")
    submit(page, "Make it")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get("/topics/made-here")["labels"] == {"team": "shop"}


def test_publish_with_a_template_and_as_often_as_asked(page: Page, admin: Client, topic: str) -> None:
    page.on("dialog", lambda dialog: dialog.accept("my order"))
    page.goto(f"/#/topics/{topic}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Body").fill('{"number": {n}}')
    page.get_by_label("Attributes").fill("kind=order\n__proto__=x")
    page.get_by_label("How many").fill("3")
    submit(page, "Keep as template")
    submit(page, "Publish")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("3 messages published, from offset 10 on.")
    submit(page, "Close")
    messages = admin.get(f"/topics/{topic}/messages", **{"from": 10})["messages"]
    assert [each["data"] for each in messages] == ['{"number": 1}', '{"number": 2}', '{"number": 3}']
    assert messages[0]["attributes"] == {"kind": "order", "__proto__": "x"}
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Template").select_option(label="my order")
    expect(page.get_by_label("Body")).to_have_value('{"number": {n}}')


def test_a_subscription_is_changed(page: Page, admin: Client, topic: str) -> None:
    page.goto(f"/#/subscriptions/{topic}")
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Ack deadline (seconds)").fill("33")
    page.get_by_label("Dead letter topic").fill("projects/penstock/topics/orders-dead")
    submit(page, "Change")
    expect(page.get_by_role("dialog")).to_have_count(0)
    options = admin.get(f"/subscriptions/{topic}")["options"]
    assert options["ack_deadline_seconds"] == 33
    assert options["dead_letter_policy"]["dead_letter_topic"] == "projects/penstock/topics/orders-dead"


def test_seek_says_how_many_come_back_before_it_is_done(page: Page, admin: Client, topic: str) -> None:
    admin.post(f"/subscriptions/{topic}/purge")
    page.goto(f"/#/subscriptions/{topic}")
    page.get_by_role("button", name="Seek").click()
    slider = page.get_by_role("slider")
    expect(page.locator(".plan")).to_contain_text("0 acked messages come back")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".plan")).to_contain_text("10 acked messages come back")
    keep(page, "seek")
    submit(page, "Seek")
    expect(page.get_by_role("dialog").get_by_role("status").last).to_contain_text("10 messages wait now.")
    assert admin.get(f"/subscriptions/{topic}")["backlog_messages"] == 10


def test_messages_are_moved_with_a_look_before(page: Page, admin: Client, topic: str) -> None:
    admin.post("/topics", {"name": f"{topic}-to"})
    page.goto(f"/#/subscriptions/{topic}")
    page.get_by_role("button", name="Move messages").click()
    page.get_by_label("To topic").fill(f"{topic}-to")
    page.get_by_label("Only count, move nothing").check()
    submit(page, "Go")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("10 messages would be moved")
    page.get_by_label("Only count, move nothing").uncheck()
    submit(page, "Go")
    expect(page.get_by_role("heading", level=1)).to_have_text("Moves")
    row = page.get_by_role("row").filter(has_text=f"{topic}-to")
    expect(row).to_contain_text("done")
    keep(page, "moves-done")
    assert admin.get(f"/topics/{topic}-to")["messages"] == 10
    assert admin.get(f"/subscriptions/{topic}")["backlog_messages"] == 0


@pytest.mark.parametrize("what", ["topics", "subscriptions"])
def test_harm_is_done_after_the_name_was_typed(page: Page, admin: Client, topic: str, what: str) -> None:
    page.goto(f"/#/{what}/{topic}")
    page.get_by_role("button", name="Purge").click()
    go = page.get_by_role("dialog").get_by_role("button", name="Purge", exact=True)
    expect(go).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill(topic)
    go.click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text(
        "10 messages will not be delivered any more."
    )
    submit(page, "Close")
    assert admin.get(f"/subscriptions/{topic}")["backlog_messages"] == 0
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(topic)
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics" if what == "topics" else "Subscriptions")
    with pytest.raises(NotFoundError):
        admin.get(f"/{what}/{topic}")


# ---------------------------------------------------------------------- tokens


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("guarded")
    arguments = ("--http-token", "all-of-it", "--http-read-token", "look")
    with ServerProcess(folder, "--data", str(folder / "data"), *arguments, doors=("http",)) as server:
        with Client(server.addresses["http"], token="all-of-it") as admin:
            admin.post("/topics", {"name": "kept"})
        yield server


def test_a_token_is_asked_for_and_one_that_may_only_read_changes_nothing(
    browser: Browser, guarded: ServerProcess
) -> None:
    page = browser.new_page(base_url=f"http://{guarded.addresses['http']}")
    page.goto("/#/topics")
    dialog = page.get_by_role("dialog", name="This server asks for a token")
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog.get_by_role("alert")).to_contain_text("This token is not known.")
    dialog.get_by_label("Token").fill("look")
    dialog.get_by_role("button", name="Go on").click()
    expect(page.locator("tbody a")).to_have_text("kept")
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.get_by_role("button", name="New topic")).to_have_count(0)
    page.locator("tbody a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic kept")
    for label in ("Publish", "Change", "Purge", "Delete"):
        expect(page.get_by_role("button", name=label)).to_have_count(0)
    page.close()
