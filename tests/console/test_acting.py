"""Actions of the console: publish, create, change, seek, purge, delete. The admin API confirms each result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from penstock.errors import NotFoundError
from tests.console.actions import address, make_topic, press, result, submit
from tests.console.pictures import keep
from tests.server_process import ServerProcess

NUMBERS = count()
CHANGES = (
    *("Publish", "Change", "Purge", "Delete", "Seek", "Move messages", "Snapshot", "New snapshot"),
    *("New project snapshot", "Publish again", "Move message"),
)


@pytest.fixture
def topic(admin: Client) -> str:
    """Create a topic with a subscription of the same name and ten messages."""
    name = f"acting-{next(NUMBERS)}"
    admin.post("/topics", {"name": name})
    admin.post("/subscriptions", {"name": name, "topic": name})
    admin.post(f"/topics/{name}/messages", {"messages": [{"data": f"m{each}"} for each in range(10)]})
    return name


def test_create_a_topic_and_show_the_servers_error(page: Page, admin: Client) -> None:
    page.goto("/#/topics")
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Name", exact=True).fill("a/b")
    submit(page, "Create")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Not a name in topics")
    page.get_by_label("Name", exact=True).fill("made-here")
    page.get_by_label("Labels").fill("team=shop")
    submit(page, "Create")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get("/topics/made-here")["labels"] == {"team": "shop"}


def test_publish_several_messages_from_a_template(page: Page, admin: Client, topic: str) -> None:
    page.goto(f"/#/topics/{topic}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Body", exact=True).fill('{"number": {n}}')
    page.get_by_label("Attributes").fill("kind=order\n__proto__=x")
    page.get_by_label("Number of messages").fill("3")
    submit(page, "Save as template")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("Enter a name for the template.")
    page.get_by_label("Template name").fill("my order")
    submit(page, "Save as template")
    expect(page.get_by_text("Saved as my order")).to_be_visible()
    submit(page, "Publish")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text(
        "3 messages published, starting at offset 10."
    )
    submit(page, "Close")
    messages = admin.get(f"/topics/{topic}/messages", **{"from": 10})["messages"]
    assert [each["data"] for each in messages] == ['{"number": 1}', '{"number": 2}', '{"number": 3}']
    assert messages[0]["attributes"] == {"kind": "order", "__proto__": "x"}
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Template", exact=True).select_option(label="my order")
    expect(page.get_by_label("Body", exact=True)).to_have_value('{"number": {n}}')
    submit(page, "Delete template")
    expect(page.get_by_label("Template", exact=True)).to_have_count(0)


def test_a_template_stores_every_field_and_asks_before_it_replaces_text(page: Page, topic: str) -> None:
    damaged = [5, {"name": 1}, {"name": "damaged", "attributes": 5, "fill": "x", "data": None, "times": "7"}]
    page.add_init_script(f"localStorage['penstock-templates'] ??= JSON.stringify({json.dumps(damaged)})")
    page.goto(address("topics", topic))
    press(page, "Publish")
    body, many, chosen = (page.get_by_label(each, exact=True) for each in ("Body", "Number of messages", "Template"))
    expect(chosen.locator("option")).to_have_text(["None", "damaged"])
    chosen.select_option(label="damaged")
    expect(many).to_have_value("7")
    body.fill("mine")
    many.fill("3")
    page.get_by_label("Max messages per second").fill("5")
    page.get_by_label("Template name").fill("mine")
    submit(page, "Save as template")
    expect(page.get_by_text("Saved as mine")).to_be_visible()
    page.reload()
    chosen.select_option(label="mine")
    expect(many).to_have_value("3")
    expect(page.get_by_label("Max messages per second")).to_have_value("5")
    body.fill("half written")
    page.once("dialog", lambda asked: asked.dismiss())
    chosen.select_option(label="damaged")
    expect(body).to_have_value("half written")
    expect(chosen.locator("option:checked")).to_have_text("mine")
    chosen.select_option(label="None")
    expect(body).to_have_value("half written")
    page.once("dialog", lambda asked: asked.accept())
    chosen.select_option(label="damaged")
    expect(body).to_have_value("")


def test_publish_errors_and_long_waits(page: Page, admin: Client, topic: str) -> None:
    page.goto(address("topics", topic))
    press(page, "Publish")
    dialog = page.get_by_role("dialog")
    page.get_by_label("Attributes").fill("a=1\na=2")
    submit(page, "Publish")
    expect(dialog.get_by_role("alert")).to_have_text("Duplicate attribute: a")
    expect(dialog).to_contain_text("Empty or 0: never")
    page.get_by_label("Attributes").fill("")
    page.get_by_label("Number of messages").fill("2")
    page.get_by_label("Max messages per second").fill("0.0000004")
    submit(page, "Publish")
    expect(dialog.get_by_role("status")).to_have_text("1 message published so far.")
    submit(page, "Stop")
    expect(result(page)).to_have_text("1 message published, starting at offset 10.")
    assert admin.get(f"/topics/{topic}")["next_offset"] == 11


def test_back_closes_a_dialog_and_leaves_the_page(page: Page, topic: str) -> None:
    dialog, heading = page.get_by_role("dialog"), page.get_by_role("heading", level=1)
    page.goto("/#/overview")
    page.goto(address("topics", topic))
    for close in ("back", "Escape", "Cancel"):
        page.get_by_role("button", name="Publish", exact=True).click()
        page.get_by_label("Body", exact=True).fill("typed")
        if close == "back":
            page.reload()  # the step already exists
            expect(dialog).to_be_visible()
            page.go_back()
        elif close == "Escape":
            page.keyboard.press("Escape")
        else:
            submit(page, close)
        expect(dialog).to_have_count(0)
        expect(heading).to_have_text(f"Topic {topic}")
    page.goto(address("topics", topic, "/messages?open=0"))
    page.get_by_role("button", name="Publish again").click()
    expect(dialog).to_be_visible()
    page.go_back()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("article")).to_be_visible()
    page.go_back()
    expect(heading).to_have_text(f"Topic {topic}")
    expect(dialog).to_have_count(0)
    page.go_back()
    expect(heading).to_have_text("Overview")


def test_publishing_at_a_rate_can_be_stopped(page: Page, admin: Client, topic: str) -> None:
    page.goto(f"/#/topics/{topic}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Body", exact=True).fill("AP8=")
    page.get_by_label("Body is Base64").check()
    page.get_by_label("Number of messages").fill("100000")
    page.get_by_label("Max messages per second").fill("20")
    submit(page, "Publish")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("published so far")
    submit(page, "Stop")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("published, starting at offset 10.")
    submit(page, "Close")
    assert 11 <= admin.get(f"/topics/{topic}")["next_offset"] < 2000
    assert admin.get(f"/topics/{topic}/messages/10")["data_base64"] == "AP8="


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
    expect(page.get_by_text("after 5 attempts, to projects/penstock/topics/orders-dead")).to_be_visible()
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Dead letter topic").fill("")
    page.get_by_label("Ack deadline (seconds)").fill("9999")
    submit(page, "Change")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text(
        "Ack deadline must be between 1 and 600 seconds"
    )
    page.get_by_label("Ack deadline (seconds)").fill("33")
    submit(page, "Change")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get(f"/subscriptions/{topic}")["options"]["dead_letter_policy"] is None


def test_an_emptied_part_of_a_policy_gets_its_default(page: Page, admin: Client, topic: str) -> None:
    policies = {
        "retry_policy": {"minimum_backoff": 1, "maximum_backoff": 3},
        "dead_letter_policy": {"dead_letter_topic": "orders-dead", "max_delivery_attempts": 7},
        "flow_control": {"max_messages": 9, "max_bytes": 9000},
    }
    admin.patch(f"/subscriptions/{topic}", {"options": policies})
    page.goto(address("subscriptions", topic))
    dialog = page.get_by_role("dialog")
    press(page, "Change")
    for label in ("Maximum backoff (seconds)", "Delivery attempts", "Bytes in flight"):
        page.get_by_label(label).fill("")
    submit(page, "Change")
    expect(dialog.get_by_role("alert")).to_contain_text("Bytes in flight cannot be removed")
    page.get_by_label("Bytes in flight").fill("9000")
    submit(page, "Change")
    expect(dialog).to_have_count(0)
    options = admin.get(f"/subscriptions/{topic}")["options"]
    assert options["retry_policy"] == {"minimum_backoff": 1, "maximum_backoff": 600}
    assert options["dead_letter_policy"]["max_delivery_attempts"] == 5
    press(page, "Change")
    for label in ("Minimum backoff (seconds)", "Maximum backoff (seconds)", "Dead letter topic"):
        page.get_by_label(label).fill("")
    submit(page, "Change")
    expect(dialog).to_have_count(0)
    options = admin.get(f"/subscriptions/{topic}")["options"]
    assert (options["retry_policy"], options["dead_letter_policy"]) == (None, None)
    press(page, "Change")
    page.get_by_label("Delivery attempts").fill("7")
    submit(page, "Change")
    expect(dialog.get_by_role("alert")).to_have_text("Delivery attempts needs a dead letter topic.")


def test_labels_change_only_if_they_are_edited(page: Page, admin: Client, topic: str) -> None:
    labels = {"a": "x-1", "b": "", "größe": "5_m"}
    admin.patch(f"/topics/{topic}", {"labels": labels})
    page.goto(address("topics", topic))
    press(page, "Change")
    page.get_by_label("Retention (seconds)").fill("60")
    with page.expect_request(lambda asked: asked.method == "PATCH") as asked:
        submit(page, "Change")
    assert "labels" not in asked.value.post_data_json
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get(f"/topics/{topic}")["labels"] == labels
    press(page, "Change")
    field, alert = page.get_by_label("Labels"), page.get_by_role("dialog").get_by_role("alert")
    kept = field.input_value()
    for typed, sentence in (
        ("env prod, env=a", "Invalid label, expected name=value: env prod"),
        ("env=a, env=b", "Duplicate label: env"),
        ("=z", "Invalid label, expected name=value: =z"),
    ):
        field.fill(typed)
        submit(page, "Change")
        expect(alert).to_have_text(sentence)
    field.fill(f"{kept}, env=a")
    submit(page, "Change")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get(f"/topics/{topic}")["labels"] == {**labels, "env": "a"}


def test_seek_counts_messages_beforehand(page: Page, admin: Client, topic: str) -> None:
    admin.post(f"/subscriptions/{topic}/purge")
    page.goto(f"/#/subscriptions/{topic}")
    page.get_by_role("button", name="Seek").click()
    slider = page.get_by_role("slider")
    expect(page.locator(".plan")).to_contain_text(
        "10 acked messages will be delivered again"
    )  # an end where nothing is skipped
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator(".plan")).to_contain_text("0 acked messages will be delivered again")
    page.keyboard.press("Home")
    expect(page.locator(".plan")).to_contain_text("10 acked messages will be delivered again")
    keep(page, "seek")
    submit(page, "Seek")
    expect(page.get_by_role("dialog").get_by_role("status").last).to_contain_text("The backlog is now 10 messages.")
    assert admin.get(f"/subscriptions/{topic}")["backlog_messages"] == 10


@pytest.mark.parametrize("what", ["topics", "subscriptions"])
def test_purge_and_delete_need_the_typed_name(page: Page, admin: Client, topic: str, what: str) -> None:
    page.goto(f"/#/{what}/{topic}")
    page.get_by_role("button", name="Purge").click()
    go = page.get_by_role("dialog").get_by_role("button", name="Purge", exact=True)
    expect(go).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill(topic)
    go.click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("10 messages purged.")
    submit(page, "Close")
    assert admin.get(f"/subscriptions/{topic}")["backlog_messages"] == 0
    page.get_by_role("button", name="Delete").click()
    if what == "subscriptions":
        page.get_by_label("Also delete the topic").uncheck()
    page.get_by_role("dialog").get_by_role("textbox").fill(topic)
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics" if what == "topics" else "Queues")
    with pytest.raises(NotFoundError):
        admin.get(f"/{what}/{topic}")
    assert what == "topics" or admin.get(f"/topics/{topic}")["id"] == topic


def test_back_skips_a_deleted_resource(page: Page, admin: Client) -> None:
    make_topic(admin, "goes", [], "goes-too")
    page.goto("/#/moves")
    page.goto(address("topics", "goes"))
    press(page, "Delete")
    page.get_by_role("dialog").get_by_role("textbox").fill("goes")
    submit(page, "Delete")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Moves")


def test_create_and_change_a_queue_and_a_subscription(page: Page, admin: Client) -> None:
    page.goto("/#/queues")
    page.get_by_role("button", name="New queue").click()
    page.get_by_label("Name", exact=True).fill("made-queue")
    submit(page, "Create")
    page.get_by_role("link", name="made-queue", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queue made-queue")
    admin.post("/topics/made-queue/messages", {"messages": [{"data": "x"}] * 3})

    page.goto(address("topics", "made-queue"))
    page.get_by_role("button", name="New subscription").click()
    page.get_by_label("Name", exact=True).fill("made-sub")
    page.get_by_label("Start at").fill("sometime")
    submit(page, "Create")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("start")
    page.get_by_label("Start at").fill("1,000")
    with page.expect_request("**/subscriptions") as asked:
        submit(page, "Create")
    assert asked.value.post_data_json["start"] == 1000
    expect(page.get_by_role("dialog")).to_have_count(0)
    admin.delete("/subscriptions/made-sub")
    press(page, "New subscription")
    usual = admin.post("/subscriptions", {"name": "made-sub", "topic": "made-queue"})["options"]
    admin.delete("/subscriptions/made-sub")
    for label, option in (
        ("Ack deadline", "ack_deadline_seconds"),
        ("Retention", "message_retention_duration"),
    ):
        expect(page.get_by_label(label)).to_have_value(f"{usual[option]:.0f}")  # the offered ends are the common ones
    page.get_by_label("Name", exact=True).fill("made-sub")
    page.get_by_label("Start at").fill("beginning")
    page.get_by_label("Filter").fill('attributes.kind = "a"')
    page.get_by_label("Message ordering").check()
    submit(page, "Create")
    expect(page.get_by_role("dialog")).to_have_count(0)
    options = admin.get("/subscriptions/made-sub")["options"]
    assert (options["filter"], options["enable_message_ordering"]) == ('attributes.kind = "a"', True)

    page.get_by_role("button", name="Change").click()
    page.get_by_label("Retention (seconds)").fill("3600")
    page.get_by_label("Labels").fill("team=shop, __proto__=x")
    submit(page, "Change")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("__proto__")
    page.get_by_label("Labels").fill("team=shop")
    submit(page, "Change")
    expect(page.get_by_role("dialog")).to_have_count(0)
    topic = admin.get("/topics/made-queue")
    assert (topic["retention_seconds"], topic["labels"]) == (3600, {"team": "shop"})

    page.goto(address("subscriptions", "made-queue"))
    page.get_by_role("button", name="Delete").click()
    expect(
        page.get_by_label("Also delete the topic with 3 messages, which has 1 other subscription")
    ).not_to_be_checked()
    page.get_by_label("Also delete the topic").check()
    page.get_by_role("dialog").get_by_role("textbox").fill("made-queue")
    submit(page, "Delete")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    assert admin.get("/topics", search="made-queue")["total"] == 0


# ---------------------------------------------------------------------- tokens


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("guarded")
    arguments = ("--http-token", "all-of-it", "--http-read-token", "look")
    with ServerProcess(folder, "--data", str(folder / "data"), *arguments, doors=("http",)) as server:
        with Client(server.addresses["http"], token="all-of-it") as admin:
            make_topic(admin, "kept", [{"data": "x"}], "kept-sub")
            admin.post("/snapshots", {"name": "kept-snapshot", "subscription": "kept-sub"})
        yield server


def test_a_read_only_token_shows_no_actions(browser: Browser, guarded: ServerProcess) -> None:
    page = browser.new_page(base_url=f"http://{guarded.addresses['http']}")
    page.goto("/#/topics")
    dialog = page.get_by_role("dialog", name="Token required")
    for wrong in ("wrong", "tökén€"):
        dialog.get_by_label("Token").fill(wrong)
        dialog.get_by_role("button", name="Continue").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Unknown token.")
    dialog.get_by_label("Token").fill("look")
    dialog.get_by_role("button", name="Continue").click()
    expect(page.locator("tbody a")).to_have_text("kept")
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.get_by_role("button", name="New topic")).to_have_count(0)
    page.locator("tbody a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic kept")
    for place, shown in (
        ("topics/kept", "Client names"),
        ("subscriptions/kept-sub", "Next messages"),
        ("snapshots", "kept-snapshot"),
        ("topics/kept/messages?open=0", "Story"),
        ("topics/kept/messages?do=publish&open=0", "Story"),
    ):
        page.goto(f"/#/{place}")
        expect(page.get_by_text(shown).first).to_be_visible()
        expect(page.get_by_role("button", name="read-only")).to_be_visible()
        for label in CHANGES:
            assert page.get_by_role("button", name=label, exact=True).count() == 0, (place, label)
        assert page.get_by_role("dialog").count() == 0, place
    page.goto("/#/topics")
    for given, problem in (("wrong", "Unknown token."), ("all-of-it", "")):
        press(page, "read-only")
        dialog.get_by_label("Token").fill(given)
        submit(page, "Continue")
        if problem:
            expect(dialog.get_by_role("alert")).to_contain_text(problem)
            page.keyboard.press("Escape")
            page.reload()
            expect(page.locator(".connection")).to_have_text("live")  # with its old token
    expect(page.get_by_role("button", name="New topic")).to_be_visible()
    expect(page.get_by_role("button", name="read-only")).to_have_count(0)
    page.close()


def test_the_token_dialog_opens_once(browser: Browser, guarded: ServerProcess) -> None:
    page = browser.new_page(base_url=f"http://{guarded.addresses['http']}")
    page.goto("/#/topics")
    dialog = page.get_by_role("dialog", name="Token required")
    dialog.get_by_role("button", name="Cancel").click()
    with page.expect_response(lambda answer: "/admin/v1/topics" in answer.url and answer.status == 401):
        pass  # the page has sent the request again
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Enter a token").click()
    dialog.get_by_label("Token").fill("look")
    dialog.get_by_role("button", name="Continue").click()
    expect(page.locator("tbody a")).to_have_text("kept")
    page.close()


def test_an_expired_token_keeps_typed_text(browser: Browser, tmp_path: Path) -> None:
    place, port = ("--data", str(tmp_path / "data")), 0
    with ServerProcess(tmp_path, *place, "--http-token", "old", doors=("http",)) as server:
        with Client(server.addresses["http"], token="old") as admin:
            make_topic(admin, "kept", [])
        page, port = browser.new_page(base_url=f"http://{server.addresses['http']}"), server.place("http")[1]
        page.goto("/#/topics/kept")
        page.get_by_label("Token", exact=True).fill("old")
        submit(page, "Continue")
        page.get_by_role("button", name="Publish").click()
        page.get_by_label("Body", exact=True).fill("typed before")
    with ServerProcess(tmp_path, *place, "--http-token", "new", doors=("http",), ports={"http": str(port)}) as server:
        dialog = page.get_by_role("dialog", name="Token required")
        dialog.get_by_label("Token").fill("new")
        dialog.get_by_role("button", name="Continue").click()
        expect(dialog).to_have_count(0)
        submit(page, "Publish")
        expect(result(page)).to_have_text("1 message published, starting at offset 0.")
        with Client(server.addresses["http"], token="new") as admin:
            assert admin.get("/topics/kept/messages/0")["data"] == "typed before"
        page.close()


def test_batches_are_sized_after_placeholders_are_replaced(page: Page, admin: Client) -> None:
    """A batch is limited by the size of its messages after the placeholders are replaced."""
    make_topic(admin, "grows", [])
    page.goto(address("topics", "grows", "?do=publish"))
    page.get_by_label("Body", exact=True).fill("{uuid}" * 50_000)
    page.get_by_label("Number of messages").fill("12")
    submit(page, "Publish")
    expect(result(page)).to_have_text("12 messages published, starting at offset 0.")
    assert admin.get("/topics/grows")["messages"] == 12


def test_a_filtered_backlog_counts_matching_messages(page: Page, admin: Client) -> None:
    kinds = [{"data": "x", "attributes": {"kind": kind}} for kind in "ab" * 5]
    make_topic(admin, "sieve", kinds, "sieve-sub", filter='attributes.kind = "a"')
    admin.post("/subscriptions/sieve-sub/pull", {"max_messages": 1})
    page.goto(address("subscriptions", "sieve-sub"))
    tile = page.locator(".tile", has_text="Backlog")
    expect(tile).to_contain_text("1 in flight")
    expect(tile.locator("strong")).to_have_text("5")
    press(page, "Purge")
    expect(page.get_by_role("dialog")).to_contain_text("1 of them in flight.")
    submit(page, "Cancel")
    admin.post("/subscriptions/sieve-sub/purge")
    press(page, "Seek")
    plan = "At most 10 acked messages will be delivered again, and at most 0 messages skipped. "
    expect(page.locator(".plan")).to_have_text(f"{plan}Backlog: at most 0 now, at most 10 afterwards.")
    submit(page, "Seek")
    expect(result(page)).to_have_text("The backlog is now at most 10 messages.")
