"""The commands subs, queues, snapshots, ls, seek, purge, stats, lag, top and health, on a server with all protocols."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("subscriptions")
    with ServerProcess(folder, "--memory", doors=["http", "azure", "text", "pubsub"]) as server:
        yield server


@pytest.fixture(scope="module")
def command(server: ServerProcess) -> CommandLine:
    return CommandLine(server, server.folder)


@pytest.fixture
def addresses(server: ServerProcess) -> dict[str, str]:
    return server.addresses


@pytest.fixture
def name(command: CommandLine) -> str:
    """Create a topic with ten messages, and before them a subscription of the same name."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    command("topics", "create", name)
    command("subs", "create", name, name)
    command("publish", name, "-", "-q", stdin="".join(f"{n}\n" for n in range(10)))
    return name


def test_a_subscription_has_every_option(command: CommandLine, name: str) -> None:
    command("topics", "create", f"{name}-dead")
    made = command(
        *("subs", "create", f"{name}-s", name, "--start", "5", "--ack-deadline", "42s", "--ordering"),
        *("--filter", 'attributes.a = "1"', "--dead-letter-topic", f"{name}-dead", "--max-attempts", "7"),
        *("--retry-min", "1s", "--retry-max", "1m", "--flow-messages", "10", "--flow-bytes", "1000"),
        *("--retention", "1d", "--retain-acked", "--expires", "2d", "--label", "a=b", "--json"),
    ).records[0]
    options = made["options"]
    assert made["topic"] == f"projects/penstock/topics/{name}"
    assert (options["ack_deadline_seconds"], options["enable_message_ordering"]) == (42, True)
    assert options["dead_letter_policy"] == {
        "dead_letter_topic": f"projects/penstock/topics/{name}-dead",
        "max_delivery_attempts": 7,
    }
    assert options["retry_policy"] == {"minimum_backoff": 1, "maximum_backoff": 60}
    assert options["flow_control"] == {"max_messages": 10, "max_bytes": 1000}
    assert (options["message_retention_duration"], options["retain_acked_messages"]) == (86400, True)
    assert (options["expiration_policy"], options["labels"]) == ({"ttl": 172800}, {"a": "b"})
    changed = command("subs", "change", f"{name}-s", "--ack-deadline", "10s", "--no-retain-acked", "-J").records[0]
    assert changed["options"]["ack_deadline_seconds"] == 10
    assert changed["options"]["retain_acked_messages"] is False
    assert changed["options"]["labels"] == {"a": "b"}


def test_subscriptions_are_listed_shown_and_deleted(command: CommandLine, name: str) -> None:
    (line,) = command("subs", "ls", "--topic", name).lines
    full, topic, kind, backlog, in_flight, age, _ = line.split("\t")
    assert full == f"projects/penstock/subscriptions/{name}"
    assert topic == f"projects/penstock/topics/{name}"
    assert (kind, backlog, in_flight) == ("queue", "10", "0")
    assert 0 <= float(age) < 60
    assert "backlog_messages\t10\n" in command("subs", "show", name).out
    assert command("subs", "leases", name).out == ""
    with command.terminal("subs", "delete", name) as terminal:
        terminal.until(r"with 10 unacked messages\? \[y/N\]")
        terminal.type("yes\n")
        assert terminal.end()[0] == 0
    assert command.refused("subs", "show", name, code=3) == f"Subscription not found: {full}"


def test_a_queue_is_one_step_and_has_a_name_at_every_door(command: CommandLine) -> None:
    assert command("queues", "create", "jobs").out == "jobs\n"
    command("publish", "jobs", "a", "b")
    assert command("queues", "ls", "--search", "jobs").lines[0].split("\t")[:4] == ["jobs", "penstock", "2", "0"]
    shown = dict(line.split("\t", 1) for line in command("queues", "show", "jobs").lines)
    assert shown["subscription"] == "projects/penstock/subscriptions/jobs"
    (listed,) = command("ls", "--search", "jobs").lines
    called = listed.split("\t")
    assert called[:3] == ["jobs", "queue", "projects/penstock/topics/jobs"]
    assert called[3].startswith("http://127.0.0.1:")
    assert called[3].endswith("/devstoreaccount1/jobs")
    assert called[4:6] == ["jobs", "jobs"]
    with command.terminal("ls", "--search", "jobs", columns=200) as terminal:
        assert terminal.end()[1].splitlines()[0].split() == [
            "NAME",
            "KIND",
            "PUB/SUB",
            "AZURE",
            "TEXT",
            "PYTHON",
            "SPARK",
        ]
    command("queues", "delete", "jobs", "--yes")
    assert command("ls", "--search", "jobs").out == ""


def test_a_seek_describes_its_effect_first(command: CommandLine, name: str) -> None:
    command("pull", name, "-n", "6", "--ack")
    effect = "4 messages delivered again, 0 skipped, backlog 4 before, 8 after"
    assert command("seek", name, "2", "--dry-run").out == f"Dry run: {effect}\n"
    assert command("seek", name, "2", code=2).err.count("\n") == 1
    assert command("seek", name, "2", "--yes").out == f"{effect}\n"
    assert command("pull", name).lines == ["2"]
    command("seek", name, "end", "-y")
    assert command("pull", name).out == ""
    assert command("seek", name, "beginning", "-y", "-J").records[0]["backlog_after"] == 10
    with command.terminal("seek", name, "@-1h") as terminal:
        terminal.until(r"backlog 10 before, 10 after\? \[y/N\]")
        terminal.type("\n")
        assert terminal.end() == (1, terminal.text)


def test_a_subscription_seeks_to_a_snapshot(command: CommandLine, name: str) -> None:
    snapshot = f"{name}-then"
    assert command("snapshots", "create", snapshot, name, "--label", "a=b").out.endswith(f"/snapshots/{snapshot}\n")
    command("pull", name, "-n", "3", "--ack")
    assert command("seek", name, f"snapshot:{snapshot}", "-y", "-J").records[0]["come_back"] == 3
    assert snapshot in command("snapshots", "ls").out
    assert json.loads(command("snapshots", "show", snapshot, "-J").out)["labels"] == {"a": "b"}
    command("snapshots", "delete", snapshot, "--yes")
    assert "not found" in command.refused("snapshots", "show", snapshot, code=3)


def test_a_purge_empties(command: CommandLine, name: str) -> None:
    assert command("purge", name, "--dry-run").out == f"Would purge 10 messages of the subscription {name}\n"
    assert "Use --yes" in command.refused("purge", name, code=2)
    assert command("purge", name, "--yes").out == "Purged 10 messages\n"
    assert command("pull", name).out == ""
    assert len(command("peek", name).lines) == 10
    assert command("purge", name, "--topic", "--yes").code == 0
    assert command("peek", name).out == ""


def test_subscriptions_that_are_behind_are_shown(command: CommandLine, name: str) -> None:
    (line,) = command("lag", "--topic", name).lines
    assert line.split("\t")[0].endswith(name)
    assert line.split("\t")[2] == "10"
    command("purge", name, "--yes")
    assert command("lag", "--topic", name).out == ""
    assert len(command("lag", "--topic", name, "--all").lines) == 1


def wait_for_the_next_sample(command: CommandLine) -> None:
    """Wait until the statistics include the messages of `name`.

    Statistics are those of the last sample, up to a second old.
    """
    with command.process("stats", "-J", "--every", "10ms") as stats:
        assert stats.stdout is not None
        for line in stats.stdout:
            sample = json.loads(line)
            if sample["published"]["total"] >= 10 and sample["backlog_messages"] >= 10:
                return
    raise AssertionError("the statistics ended before the messages were in them")


def test_statistics_are_fields_and_json(command: CommandLine, name: str) -> None:
    wait_for_the_next_sample(command)
    fields = dict(line.split("\t", 1) for line in command("stats").lines)
    assert int(fields["published.total"]) >= 10
    assert int(fields["memory_bytes"]) > 0
    assert command("stats", "-J").records[0].keys() >= {"published", "commits", "doors"}
    with command.process("stats", "-J", "--every", "10ms") as stats:
        assert stats.stdout is not None
        assert json.loads(stats.stdout.readline())
        assert json.loads(stats.stdout.readline())


def test_health_is_a_line_and_a_code(command: CommandLine, name: str, tmp_path: Path) -> None:
    wait_for_the_next_sample(command)
    line = command("health").out
    assert line.startswith("PENSTOCK OK - ")
    assert " | backlog=" in line
    assert command("health", "-J").records[0]["status"] == "ok"
    assert "unacked messages, more than 1" in command("health", "--max-backlog", "1", code=1).out
    unreachable = CommandLine(None, tmp_path, address="127.0.0.1:1")
    assert unreachable("health", code=4).out.startswith("PENSTOCK CRITICAL - Cannot reach the server")
    assert unreachable("health", "--nagios", code=2).out.startswith("PENSTOCK CRITICAL")


def test_a_subscription_whose_filter_matches_nothing_is_not_behind(tmp_path: Path) -> None:
    """This holds for lag, health with its limits, and the series of Prometheus."""
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        command("topics", "create", "orders")
        command("subs", "create", "paid", "orders", "--filter", 'attributes.kind = "paid"')
        command("publish", "orders", "-", "-q", stdin="one\ntwo\nthree\n")
        with command.process("stats", "-J", "--every", "10ms") as stats:
            assert stats.stdout is not None
            assert any(json.loads(line)["published"]["total"] == 3 for line in stats.stdout), "no sample arrived"
        assert command("lag").out == ""
        assert command("health", "--max-backlog", "0", "--max-age", "0s").out.startswith("PENSTOCK OK - ")
        with closing(http.client.HTTPConnection(server.addresses["http"], timeout=SECONDS)) as connection:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        series = [
            line.rpartition(" ") for line in lines if 'subscription="projects/penstock/subscriptions/paid"' in line
        ]
        waiting = {
            name.partition("{")[0]: float(value) for name, _, value in series if "backlog" in name or "age" in name
        }
        assert len(waiting) >= 2, series
        assert set(waiting.values()) == {0.0}, waiting


def test_health_waits_for_a_server_that_starts(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        server.kill()
        with command.process("health", "--wait", "60s") as health:
            server.start()
            assert health.wait(60) == 0


def test_the_server_and_its_settings_are_shown(command: CommandLine) -> None:
    lines = command("info").lines
    assert "durability.sentence\tMessages are in memory only and are lost when the process ends." in lines
    doors = {line.split("\t")[1]: line.split("\t")[3] for line in lines if line.startswith("protocol\t")}
    assert {"http", "azure", "text", "pubsub"} <= {name for name, state in doors.items() if state == "open"}
    assert command("info", "-J").records[0]["default_project"] == "penstock"
    with command.terminal("info") as terminal:
        assert "text                 127.0.0.1:" in terminal.end()[1]
    assert command("settings", "memory").lines[0].split("\t")[:3] == ["memory", "true", "false"]
    assert "memory" in {line.split("\t")[0] for line in command("settings", "--changed").lines}
    assert command.refused("settings", "colour", code=3) == "Unknown setting: colour"


def test_a_project_is_remembered_and_restored(command: CommandLine) -> None:
    project = ("--project", f"p-{uuid.uuid4().hex[:8]}")
    command("queues", "create", "q", *project)
    command("publish", "q", "a", "b", "c", *project)
    assert [project[1], "1", "1", "3"] in [line.split("\t") for line in command("projects", "ls").lines]
    assert command("projects", "snapshot", "then", *project).out == f"Saved 1 subscriptions of {project[1]}\n"
    command("pull", "q", "-n", "2", "--ack", *project)
    assert command("projects", "snapshots", *project).lines[0].startswith("then\t1\t1\t")
    assert command("projects", "restore", "then", "-n", *project).lines[0].startswith("Dry run: 1 restored, ")
    assert "Use --yes" in command.refused("projects", "restore", "then", *project, code=2)
    assert command("projects", "restore", "then", "-y", *project).lines[0].startswith("1 restored, 0 created again")
    assert command("pull", "q", "-n", "5", *project).lines == ["a", "b", "c"]
    command("projects", "forget", "then", "--yes", *project)
    assert "not found" in command.refused("projects", "restore", "then", "-y", *project, code=3)


def test_old_receipts_and_invalid_receipts_have_different_errors(command: CommandLine, name: str) -> None:
    (receipt,) = [each["receipt"] for each in command("pull", name, "-J").records]
    assert command("subs", "ack", name, receipt).out == "1 done\n"
    assert command("subs", "ack", name, receipt, code=1).out == "0 done, no longer good: 1\n"
    done = command("subs", "ack", name, receipt, "garbage", code=1)
    assert done.out == "0 done, no longer good: 1, no receipt of this subscription: 1\n"


@pytest.mark.parametrize("door", ["azure", "pubsub"])
def test_an_error_says_that_the_address_is_that_of_another_protocol(
    command: CommandLine, addresses: dict[str, str], door: str
) -> None:
    said = command.refused("topics", "ls", "--address", addresses[door], code=4)
    assert said.startswith(f"http://{addresses[door]} is not the HTTP port of a Penstock server")


def test_top_is_live_and_takes_keys(command: CommandLine, name: str) -> None:
    with command.terminal("top", "--every", "100ms", columns=100, lines=30) as terminal:
        terminal.until(r"published .*/s.*delivered")
        terminal.until(r"SUBSCRIPTION +BACKLOG")
        terminal.type("t")
        terminal.until(r"TOPIC +MESSAGES")
        terminal.type(" ")
        terminal.resize(80, 24)
        terminal.until(r"PAUSED  q quit .* t subscriptions  space resume")
        terminal.type(" n")
        terminal.until(r"TOPIC")
        terminal.resize(60, 12)
        terminal.until(r"TOPIC")
        terminal.type("q")
        assert terminal.end()[0] == 0
        assert "\x1b[?1049l" in terminal.raw, "the screen is restored"
    assert "needs a terminal" in command.refused("top", code=2)


def test_top_keeps_running_when_the_server_stops(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        with command.terminal("top", "--every", "100ms") as terminal:
            terminal.until("published")
            server.kill()
            terminal.until("Cannot reach the server")
            server.start()
            terminal.until("published")
            terminal.type("q")
            assert terminal.end()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["subs", "create", "x", "absent"], 3, "Topic not found: projects/penstock/topics/absent"),
        (
            ["subs", "create", "x", "NAME", "-o", "soon"],
            2,
            "--start must be beginning, end, an offset or @TIME, not 'soon'",
        ),
        (["subs", "create", "x", "NAME", "--ack-deadline", "1h"], 1, "Ack deadline must be between 1 and 600 seconds"),
        (["subs", "create", "x", "NAME", "--filter", "a = b"], 1, "ilter"),
        (["subs", "create", "NAME", "NAME"], 1, "lready exists"),
        (["subs", "change", "absent", "--ordering"], 3, "Subscription not found"),
        (["subs", "ack", "NAME", "nonsense"], 1, ""),
        (["subs", "extend", "NAME", "x", "--by", "9999d"], 2, "--by must be at most 604800 seconds"),
        (["subs", "nack", "NAME", "x", "--delay", "9999d"], 2, "--delay must be at most 604800 seconds"),
        (["subs", "create", "x", "NAME", "--max-attempts", "6"], 2, "--max-attempts needs --dead-letter-topic"),
        (["subs", "create", "x", "NAME", "--retention", "999999d"], 2, "--retention must not be negative or beyond"),
        (["pull", "NAME", "--lease", "9999d"], 2, "--lease must be at most 604800 seconds"),
        (["topics", "create", "x", "--retention", "999999d"], 2, "--retention must be at most 1000000000 seconds"),
        (["tail", "NAME", "-o", "9" * 15], 2, "-o must be a whole number, at most 549755813887"),
        (["move", "NAME", "NAME", "--rate", "1e9", "-y"], 2, "--rate must be a number, at most 1000000"),
        (["queues", "show", "absent"], 3, "not found"),
        (["queues", "create", "NAME/x"], 1, ""),
        (["seek", "NAME", "yesterday"], 2, "POSITION must be beginning, end, an offset, @TIME or snapshot:NAME"),
        (["seek", "NAME", "@yesterday"], 2, "A time must be now"),
        (["seek", "NAME", "snapshot:absent"], 3, "not found"),
        (["seek", "absent", "end"], 3, "Subscription not found"),
        (["purge", "absent"], 3, "Subscription not found"),
        (["snapshots", "create", "x", "absent"], 3, "Subscription not found"),
        (["health", "--wait", "long"], 2, "--wait must be a number"),
        (["stats", "--every", "x"], 2, "--every must be a number"),
        (["lag", "--limit", "-1"], 2, "Invalid value for '--limit'"),
    ],
)
def test_bad_input_is_one_sentence(
    command: CommandLine, name: str, arguments: list[str], code: int, sentence: str
) -> None:
    given = [each.replace("NAME", name) if each != "WHERE" else each for each in arguments]
    done = command.run(*given)
    assert done.code == code, done
    if done.err:
        assert sentence in done.err
        assert done.err.count("\n") == 1
    else:
        assert done.out == "0 done, no receipt of this subscription: 1\n"
