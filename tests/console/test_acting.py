"""What the console does: publish, make, change, seek, move, purge, delete; each is seen through the admin API after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from penstock.errors import NotFoundError
from tests.console.actions import address, make_topic, press, said, submit
from tests.console.pictures import keep
from tests.server_process import ServerProcess

NUMBERS = count()
CHANGES = (
    *("Publish", "Change", "Purge", "Delete", "Seek", "Move messages", "Snapshot", "New snapshot"),
    *("New project snapshot", "Publish again", "Move this one"),
)


@pytest.fixture
def topic(admin: Client) -> str:
    """A topic of the test's own, with a subscription of the same name and ten messages."""
    name = f"acting-{next(NUMBERS)}"
    admin.post("/topics", {"name": name})
    admin.post("/subscriptions", {"name": name, "topic": name})
    admin.post(f"/topics/{name}/messages", {"messages": [{"data": f"m{each}"} for each in range(10)]})
    return name


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
    page.goto(f"/#/topics/{topic}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Body", exact=True).fill('{"number": {n}}')
    page.get_by_label("Attributes").fill("kind=order\n__proto__=x")
    page.get_by_label("How many").fill("3")
    submit(page, "Keep as template")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("Give the template a name.")
    page.get_by_label("Name of the template").fill("my order")
    submit(page, "Keep as template")
    expect(page.get_by_text("Kept as my order")).to_be_visible()
    submit(page, "Publish")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("3 messages published, from offset 10 on.")
    submit(page, "Close")
    messages = admin.get(f"/topics/{topic}/messages", **{"from": 10})["messages"]
    assert [each["data"] for each in messages] == ['{"number": 1}', '{"number": 2}', '{"number": 3}']
    assert messages[0]["attributes"] == {"kind": "order", "__proto__": "x"}
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Template", exact=True).select_option(label="my order")
    expect(page.get_by_label("Body", exact=True)).to_have_value('{"number": {n}}')
    submit(page, "Forget it")
    expect(page.get_by_label("Template", exact=True)).to_have_count(0)


def test_a_template_keeps_all_and_takes_no_typing_away(page: Page, topic: str) -> None:
    damaged = [5, {"name": 1}, {"name": "damaged", "attributes": 5, "fill": "x", "data": None, "times": "7"}]
    page.add_init_script(f"localStorage['penstock-templates'] ??= JSON.stringify({json.dumps(damaged)})")
    page.goto(address("topics", topic))
    press(page, "Publish")
    body, many, chosen = (page.get_by_label(each, exact=True) for each in ("Body", "How many", "Template"))
    expect(chosen.locator("option")).to_have_text(["none", "damaged"])
    chosen.select_option(label="damaged")
    expect(many).to_have_value("7")
    body.fill("mine")
    many.fill("3")
    page.get_by_label("A second at most").fill("5")
    page.get_by_label("Name of the template").fill("mine")
    submit(page, "Keep as template")
    expect(page.get_by_text("Kept as mine")).to_be_visible()
    page.reload()
    chosen.select_option(label="mine")
    expect(many).to_have_value("3")
    expect(page.get_by_label("A second at most")).to_have_value("5")
    body.fill("half written")
    page.once("dialog", lambda asked: asked.dismiss())
    chosen.select_option(label="damaged")
    expect(body).to_have_value("half written")
    expect(chosen.locator("option:checked")).to_have_text("mine")
    chosen.select_option(label="none")
    expect(body).to_have_value("half written")
    page.once("dialog", lambda asked: asked.accept())
    chosen.select_option(label="damaged")
    expect(body).to_have_value("")


def test_what_a_publish_form_refuses_and_how_long_it_waits(page: Page, admin: Client, topic: str) -> None:
    page.goto(address("topics", topic))
    press(page, "Publish")
    dialog = page.get_by_role("dialog")
    page.get_by_label("Attributes").fill("a=1\na=2")
    submit(page, "Publish")
    expect(dialog.get_by_role("alert")).to_have_text("An attribute is given twice: a")
    expect(dialog).to_contain_text("empty or 0: for ever")
    page.get_by_label("Attributes").fill("")
    page.get_by_label("How many").fill("2")
    page.get_by_label("A second at most").fill("0.0000004")
    submit(page, "Publish")
    expect(dialog.get_by_role("status")).to_have_text("1 message published so far.")
    submit(page, "Stop")
    expect(said(page)).to_have_text("1 message published, from offset 10 on.")
    assert admin.get(f"/topics/{topic}")["next_offset"] == 11


def test_back_closes_a_dialog_and_leaves_the_page(page: Page, topic: str) -> None:
    dialog, heading = page.get_by_role("dialog"), page.get_by_role("heading", level=1)
    page.goto("/#/overview")
    page.goto(address("topics", topic))
    for close in ("back", "Escape", "Cancel"):
        page.get_by_role("button", name="Publish", exact=True).click()
        page.get_by_label("Body", exact=True).fill("typed")
        if close == "back":
            page.reload()  # the step is there already
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


def test_publishing_at_a_rate_is_stopped(page: Page, admin: Client, topic: str) -> None:
    page.goto(f"/#/topics/{topic}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_label("Body", exact=True).fill("AP8=")
    page.get_by_label("The body is Base64").check()
    page.get_by_label("How many").fill("100000")
    page.get_by_label("A second at most").fill("20")
    submit(page, "Publish")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("published so far")
    submit(page, "Stop")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("published, from offset 10 on.")
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


def test_an_emptied_part_of_a_policy_goes_back_to_its_default(page: Page, admin: Client, topic: str) -> None:
    policies = {
        "retry_policy": {"minimum_backoff": 1, "maximum_backoff": 3},
        "dead_letter_policy": {"dead_letter_topic": "orders-dead", "max_delivery_attempts": 7},
        "flow_control": {"max_messages": 9, "max_bytes": 9000},
    }
    admin.patch(f"/subscriptions/{topic}", {"options": policies})
    page.goto(address("subscriptions", topic))
    dialog = page.get_by_role("dialog")
    press(page, "Change")
    for label in ("Most backoff (seconds)", "Attempts before that", "At most in flight (bytes)"):
        page.get_by_label(label).fill("")
    submit(page, "Change")
    expect(dialog.get_by_role("alert")).to_contain_text("A limit of what is in flight cannot be taken away")
    page.get_by_label("At most in flight (bytes)").fill("9000")
    submit(page, "Change")
    expect(dialog).to_have_count(0)
    options = admin.get(f"/subscriptions/{topic}")["options"]
    assert options["retry_policy"] == {"minimum_backoff": 1, "maximum_backoff": 600}
    assert options["dead_letter_policy"]["max_delivery_attempts"] == 5
    press(page, "Change")
    for label in ("Least backoff (seconds)", "Most backoff (seconds)", "Dead letter topic"):
        page.get_by_label(label).fill("")
    submit(page, "Change")
    expect(dialog).to_have_count(0)
    options = admin.get(f"/subscriptions/{topic}")["options"]
    assert (options["retry_policy"], options["dead_letter_policy"]) == (None, None)
    press(page, "Change")
    page.get_by_label("Attempts before that").fill("7")
    submit(page, "Change")
    expect(dialog.get_by_role("alert")).to_have_text("Attempts need a dead letter topic.")


def test_labels_stay_as_they_are_unless_they_are_changed(page: Page, admin: Client, topic: str) -> None:
    labels = {"a": "x, b=c", "k=,": '"', "plain": '5" pipe'}
    admin.patch(f"/topics/{topic}", {"labels": labels})
    page.goto(address("topics", topic))
    press(page, "Change")
    page.get_by_label("Keep acked messages for (seconds)").fill("60")
    with page.expect_request(lambda asked: asked.method == "PATCH") as asked:
        submit(page, "Change")
    assert "labels" not in asked.value.post_data_json
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get(f"/topics/{topic}")["labels"] == labels
    press(page, "Change")
    field, alert = page.get_by_label("Labels"), page.get_by_role("dialog").get_by_role("alert")
    kept = field.input_value()
    for typed, sentence in (
        ("env prod, env=a", "A label is name=value, not: env prod"),
        ("env=a, env=b", "A label is given twice: env"),
        ("=z", "A label is name=value, not: =z"),
    ):
        field.fill(typed)
        submit(page, "Change")
        expect(alert).to_have_text(sentence)
    field.fill(f"{kept}, env=a")
    submit(page, "Change")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert admin.get(f"/topics/{topic}")["labels"] == {**labels, "env": "a"}


def test_seek_says_how_many_come_back_before_it_is_done(page: Page, admin: Client, topic: str) -> None:
    admin.post(f"/subscriptions/{topic}/purge")
    page.goto(f"/#/subscriptions/{topic}")
    page.get_by_role("button", name="Seek").click()
    slider = page.get_by_role("slider")
    expect(page.locator(".plan")).to_contain_text("10 acked messages come back")  # where nothing is skipped
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator(".plan")).to_contain_text("0 acked messages come back")
    page.keyboard.press("Home")
    expect(page.locator(".plan")).to_contain_text("10 acked messages come back")
    keep(page, "seek")
    submit(page, "Seek")
    expect(page.get_by_role("dialog").get_by_role("status").last).to_contain_text("The backlog is 10 messages now.")
    assert admin.get(f"/subscriptions/{topic}")["backlog_messages"] == 10


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
    if what == "subscriptions":
        page.get_by_label("The topic as well").uncheck()
    page.get_by_role("dialog").get_by_role("textbox").fill(topic)
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics" if what == "topics" else "Queues")
    with pytest.raises(NotFoundError):
        admin.get(f"/{what}/{topic}")
    assert what == "topics" or admin.get(f"/topics/{topic}")["id"] == topic


def test_the_way_back_does_not_lead_to_what_was_deleted(page: Page, admin: Client) -> None:
    make_topic(admin, "goes", [], "goes-too")
    page.goto("/#/moves")
    page.goto(address("topics", "goes"))
    press(page, "Delete")
    page.get_by_role("dialog").get_by_role("textbox").fill("goes")
    submit(page, "Delete")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Moves")


def test_a_queue_a_subscription_and_the_options_of_a_topic(page: Page, admin: Client) -> None:
    page.goto("/#/queues")
    page.get_by_role("button", name="New queue").click()
    page.get_by_label("Name", exact=True).fill("made-queue")
    submit(page, "Make it")
    page.get_by_role("link", name="made-queue", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queue made-queue")
    admin.post("/topics/made-queue/messages", {"messages": [{"data": "x"}] * 3})

    page.goto(address("topics", "made-queue"))
    page.get_by_role("button", name="New subscription").click()
    page.get_by_label("Name", exact=True).fill("made-sub")
    page.get_by_label("Begins at").fill("sometime")
    submit(page, "Make it")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("start")
    page.get_by_label("Begins at").fill("1,000")
    with page.expect_request("**/subscriptions") as asked:
        submit(page, "Make it")
    assert asked.value.post_data_json["start"] == 1000
    expect(page.get_by_role("dialog")).to_have_count(0)
    admin.delete("/subscriptions/made-sub")
    press(page, "New subscription")
    usual = admin.post("/subscriptions", {"name": "made-sub", "topic": "made-queue"})["options"]
    admin.delete("/subscriptions/made-sub")
    for label, option in (("Ack deadline", "ack_deadline_seconds"), ("Keep unacked for", "message_retention_duration")):
        expect(page.get_by_label(label)).to_have_value(f"{usual[option]:.0f}")  # what is offered is what is usual
    page.get_by_label("Name", exact=True).fill("made-sub")
    page.get_by_label("Begins at").fill("beginning")
    page.get_by_label("Filter").fill('attributes.kind = "a"')
    page.get_by_label("In the order of their keys").check()
    submit(page, "Make it")
    expect(page.get_by_role("dialog")).to_have_count(0)
    options = admin.get("/subscriptions/made-sub")["options"]
    assert (options["filter"], options["enable_message_ordering"]) == ('attributes.kind = "a"', True)

    page.get_by_role("button", name="Change").click()
    page.get_by_label("Keep acked messages for (seconds)").fill("3600")
    page.get_by_label("Labels").fill("team=shop, __proto__=x")
    submit(page, "Change")
    expect(page.get_by_role("dialog")).to_have_count(0)
    topic = admin.get("/topics/made-queue")
    assert (topic["retention_seconds"], topic["labels"]) == (3600, {"team": "shop", "__proto__": "x"})

    page.goto(address("subscriptions", "made-queue"))
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_label("The topic as well, with 3 messages that 1 other subscription read")).not_to_be_checked()
    page.get_by_label("The topic as well").check()
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


def test_a_token_is_asked_for_and_one_that_may_only_read_changes_nothing(
    browser: Browser, guarded: ServerProcess
) -> None:
    page = browser.new_page(base_url=f"http://{guarded.addresses['http']}")
    page.goto("/#/topics")
    dialog = page.get_by_role("dialog", name="This server asks for a token")
    for wrong in ("wrong", "tökén€"):
        dialog.get_by_label("Token").fill(wrong)
        dialog.get_by_role("button", name="Go on").click()
        expect(dialog.get_by_role("alert")).to_contain_text("This token is not known.")
    dialog.get_by_label("Token").fill("look")
    dialog.get_by_role("button", name="Go on").click()
    expect(page.locator("tbody a")).to_have_text("kept")
    expect(page.locator(".connection")).to_have_text("live")
    expect(page.get_by_role("button", name="New topic")).to_have_count(0)
    page.locator("tbody a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic kept")
    for place, shown in (
        ("topics/kept", "Messages kept"),
        ("subscriptions/kept-sub", "Who is connected"),
        ("snapshots", "kept-snapshot"),
        ("topics/kept/messages?open=0", "Story"),
        ("topics/kept/messages?do=publish&open=0", "Story"),
    ):
        page.goto(f"/#/{place}")
        expect(page.get_by_text(shown).first).to_be_visible()
        expect(page.get_by_role("button", name="read only")).to_be_visible()
        for label in CHANGES:
            assert page.get_by_role("button", name=label, exact=True).count() == 0, (place, label)
        assert page.get_by_role("dialog").count() == 0, place
    page.goto("/#/topics")
    for given, problem in (("wrong", "This token is not known."), ("all-of-it", "")):
        press(page, "read only")
        dialog.get_by_label("Token").fill(given)
        submit(page, "Go on")
        if problem:
            expect(dialog.get_by_role("alert")).to_contain_text(problem)
            page.keyboard.press("Escape")
            page.reload()
            expect(page.locator(".connection")).to_have_text("live")  # with the one it had
    expect(page.get_by_role("button", name="New topic")).to_be_visible()
    expect(page.get_by_role("button", name="read only")).to_have_count(0)
    page.close()


def test_who_has_no_token_is_asked_once(browser: Browser, guarded: ServerProcess) -> None:
    page = browser.new_page(base_url=f"http://{guarded.addresses['http']}")
    page.goto("/#/topics")
    dialog = page.get_by_role("dialog", name="This server asks for a token")
    dialog.get_by_role("button", name="Cancel").click()
    with page.expect_response(lambda answer: "/admin/v1/topics" in answer.url and answer.status == 401):
        pass  # the page has asked again
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Give a token").click()
    dialog.get_by_label("Token").fill("look")
    dialog.get_by_role("button", name="Go on").click()
    expect(page.locator("tbody a")).to_have_text("kept")
    page.close()


def test_a_token_that_ends_in_the_middle_loses_nothing_that_was_typed(browser: Browser, tmp_path: Path) -> None:
    place, port = ("--data", str(tmp_path / "data")), 0
    with ServerProcess(tmp_path, *place, "--http-token", "old", doors=("http",)) as server:
        with Client(server.addresses["http"], token="old") as admin:
            make_topic(admin, "kept", [])
        page, port = browser.new_page(base_url=f"http://{server.addresses['http']}"), server.place("http")[1]
        page.goto("/#/topics/kept")
        page.get_by_label("Token", exact=True).fill("old")
        submit(page, "Go on")
        page.get_by_role("button", name="Publish").click()
        page.get_by_label("Body", exact=True).fill("typed before")
    with ServerProcess(tmp_path, *place, "--http-token", "new", doors=("http",), ports={"http": str(port)}) as server:
        dialog = page.get_by_role("dialog", name="This server asks for a token")
        dialog.get_by_label("Token").fill("new")
        dialog.get_by_role("button", name="Go on").click()
        expect(dialog).to_have_count(0)
        submit(page, "Publish")
        expect(said(page)).to_have_text("1 message published, from offset 0 on.")
        with Client(server.addresses["http"], token="new") as admin:
            assert admin.get("/topics/kept/messages/0")["data"] == "typed before"
        page.close()


def test_many_that_grow_when_they_are_filled_in_are_published(page: Page, admin: Client) -> None:
    """A call holds what fits into it as it is sent, not as it was typed."""
    make_topic(admin, "grows", [])
    page.goto(address("topics", "grows", "?do=publish"))
    page.get_by_label("Body", exact=True).fill("{uuid}" * 50_000)
    page.get_by_label("How many").fill("12")
    submit(page, "Publish")
    expect(said(page)).to_have_text("12 messages published, from offset 0 on.")
    assert admin.get("/topics/grows")["messages"] == 12


def test_the_backlog_of_a_filter_is_at_most_so_many(page: Page, admin: Client) -> None:
    kinds = [{"data": "x", "attributes": {"kind": kind}} for kind in "ab" * 5]
    make_topic(admin, "sieve", kinds, "sieve-sub", filter='attributes.kind = "a"')
    admin.post("/subscriptions/sieve-sub/pull", {"max_messages": 1})
    page.goto(address("subscriptions", "sieve-sub"))
    tile = page.locator(".tile", has_text="Backlog")
    expect(tile).to_contain_text("1 in flight")
    expect(page.get_by_text("Its filter is only asked when messages are read")).to_be_visible()
    press(page, "Purge")
    expect(page.get_by_role("dialog")).to_contain_text("1 of them in flight.")
    submit(page, "Cancel")
    admin.post("/subscriptions/sieve-sub/purge")
    press(page, "Seek")
    plan = "At most 10 acked messages come back, at most 0 messages of the backlog are skipped: "
    expect(page.locator(".plan")).to_have_text(f"{plan}it is at most 0 now, at most 10 afterwards.")
    submit(page, "Seek")
    expect(said(page)).to_have_text("The backlog is at most 10 messages now.")
