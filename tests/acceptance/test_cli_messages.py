"""The commands publish, pull, peek, tail and search, as people use them in a shell."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("messages")
    with ServerProcess(folder, "--memory", doors=["http"]) as server:
        yield CommandLine(server, folder)


@pytest.fixture
def topic(command: CommandLine) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    command("topics", "create", name)
    return name


@pytest.fixture
def numbers(command: CommandLine, topic: str) -> str:
    """Create a topic with the bodies 0 to 19. Every fourth message has an attribute."""
    lines = "".join(f"{n}\n" for n in range(20))
    command("publish", topic, "-", "-q", stdin=lines)
    return topic


# ---------------------------------------------------------------------- publish


def test_bodies_come_from_arguments(command: CommandLine, topic: str) -> None:
    ids = command("publish", topic, "one", "{'two'}", "-H", "a=1", "-H", "b=x=y", "-k", "key").lines
    first, second = command("peek", topic, "--json").records
    assert [first["id"], second["id"]] == ids
    assert (first["data"], second["data"]) == ("one", "{'two'}")
    assert (first["attributes"], first["ordering_key"]) == ({"a": "1", "b": "x=y"}, "key")


def test_bodies_have_variables(command: CommandLine, topic: str) -> None:
    command("publish", topic, '{"n": {n}, "id": "{uuid}", "at": "{now}"}', "--count", "3", "-q")
    rows = [json.loads(line) for line in command("peek", topic).lines]
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert len({uuid.UUID(row["id"]) for row in rows}) == 3
    assert all(abs(datetime.now(UTC) - datetime.fromisoformat(row["at"])).total_seconds() < 60 for row in rows)
    command("publish", topic, "{n}", "--raw")
    assert command("peek", topic, "-n", "1").lines == ["{n}"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "bodies"),
    [
        (["-"], b"a\nb\n", ["a", "b"]),
        ([], b"a\n\nb", ["a", "", "b"]),
        (["-D", ";"], b"a;b", ["a", "b"]),
        (["-D", r"\0"], b"a\nb\0c\0", ["a\nb", "c"]),
        (["-D", ""], b"all\nof it\n", ["all\nof it\n"]),
    ],
)
def test_bodies_come_from_standard_input(
    command: CommandLine, topic: str, arguments: list[str], stdin: bytes, bodies: list[str]
) -> None:
    command("publish", topic, *arguments, stdin=stdin)
    assert [each["data"] for each in command("peek", topic, "-J").records] == bodies


def test_lines_have_keys_and_files_are_messages(command: CommandLine, topic: str, tmp_path: Path) -> None:
    command("publish", topic, "-", "-K", ":", stdin="k1:a\nk2:b:c\n")
    (tmp_path / "body").write_bytes(b"\xff\x00\n")
    command("publish", topic, "--file", str(tmp_path / "body"), "--count", "2")
    assert command("peek", topic, "-f", r"%k=%s|").out == "k1=a|k2=b:c|=\ufffd\x00\n|=\ufffd\x00\n|"
    assert command("peek", topic, "-n", "1", "-f", "%S").out == "3"


def test_a_rate_is_kept(command: CommandLine, topic: str) -> None:
    began = time.monotonic()
    command("publish", topic, "x", "--count", "11", "--rate", "20")
    assert time.monotonic() - began >= 0.5
    assert len(command("peek", topic, "-n", "100").lines) == 11


def test_a_delay_and_a_time_to_live_are_taken(command: CommandLine, topic: str) -> None:
    command("publish", topic, "x", "--delay", "1h", "--ttl", "2h")
    (message,) = command("peek", topic, "-J").records
    later = [datetime.fromisoformat(message[name]) for name in ("publish_time", "visible_at", "expires_at")]
    assert [round((each - later[0]).total_seconds()) for each in later] == [0, 3600, 7200]


def test_a_server_killed_during_a_publish_gets_each_message_once(tmp_path: Path) -> None:
    """The server is killed in the middle and restarted. All published messages are there, once and in order."""
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        command("topics", "create", "t")
        with command.process("publish", "t", "{n}", "--count", "300", "--rate", "400", "--retry", "60s") as publisher:
            assert publisher.stdout is not None
            ids = [publisher.stdout.readline() for _ in range(20)]
            server.kill()
            server.start()
            ids += publisher.stdout.readlines()
            assert publisher.wait(SECONDS) == 0
        assert len(set(ids)) == 300
        assert command("peek", "t", "-n", "1000").lines == [str(n) for n in range(1, 301)]


# ---------------------------------------------------------------------- pull


def test_a_pull_leases_acks_and_gives_back(command: CommandLine, numbers: str) -> None:
    command("subs", "create", f"{numbers}-s", numbers, "-o", "beginning", "--ack-deadline", "60s")
    sub = f"{numbers}-s"
    assert command("pull", sub, "-n", "3", "--ack").lines == ["0", "1", "2"]
    assert command("pull", sub, "--nack").lines == ["3"]
    (again,) = command("pull", sub, "-J").records
    assert (again["message"]["data"], again["attempt"]) == ("3", 2)
    assert command("pull", sub, "-f", "%s %a\n", "--ack").lines == ["4 1"]
    (lease,) = command("subs", "leases", sub, "-J").records
    assert (lease["id"], lease["attempts"]) == (again["message"]["id"], 2)
    assert command("subs", "extend", sub, again["receipt"], "--by", "5m").out == "1 done\n"
    assert command("subs", "ack", sub, again["receipt"]).out == "1 done\n"
    assert command("subs", "nack", sub, again["receipt"], code=1).out == "0 done, no longer good: 1\n"
    assert command("pull", sub, "-n", "0", "--ack").lines == [str(n) for n in range(5, 20)]
    assert command("pull", sub, "-n", "0", "--ack").out == ""


def test_a_pull_waits_for_messages(command: CommandLine, topic: str) -> None:
    command("subs", "create", f"{topic}-s", topic)
    with command.process("pull", f"{topic}-s", "--wait", "60s", "--ack") as puller:
        command("publish", topic, "here")
        out, _ = puller.communicate(timeout=SECONDS)
        assert (puller.returncode, out) == (0, "here\n")


# ---------------------------------------------------------------------- peek, tail, search


@pytest.mark.parametrize(
    ("arguments", "bodies"),
    [
        ([], range(10, 20)),
        (["-n", "2"], range(18, 20)),
        (["-o", "5", "-n", "3"], range(5, 8)),
        (["-o", "-3"], range(17, 20)),
        (["-o", "beginning", "-n", "100"], range(20)),
        (["-o", "end"], []),
        (["-o", "@-10m", "-n", "2"], range(2)),
        (["-o", "s@-2h", "-o", "e@-1h"], []),
        (["-o", "e@now", "-n", "1000"], range(20)),
        (["--text", "7"], [7, 17]),
        (["--text", "7", "-n", "1"], [17]),
        (["--text", "7", "-n", "1", "-o", "beginning"], [7]),
        (["--where", "$"], range(10, 20)),
    ],
)
def test_a_peek_shows_the_requested_fields(
    command: CommandLine, numbers: str, arguments: list[str], bodies: list[int]
) -> None:
    assert command("peek", numbers, *arguments).lines == [str(each) for each in bodies]


def test_peek_shows_the_next_messages_of_a_pull_without_taking_them(command: CommandLine, numbers: str) -> None:
    command("subs", "create", f"{numbers}-s", numbers, "-o", "15")
    for _ in range(2):
        assert command("peek", f"{numbers}-s", "--sub", "-n", "3").lines == ["15", "16", "17"]


def test_a_tail_ends_at_the_end(command: CommandLine, numbers: str) -> None:
    assert command("tail", numbers).lines == [str(n) for n in range(10, 20)]
    assert command("tail", numbers, "-n", "0").out == ""
    assert command("tail", numbers, "-f", "-e", "-n", "2", "-F", "%o\n").lines == ["18", "19"]
    assert command("tail", numbers, "-o", "3", "-c", "2").lines == ["3", "4"]


def test_a_tail_follows_new_messages_until_it_is_interrupted(command: CommandLine, numbers: str) -> None:
    with command.process("tail", "-f", numbers, "-n", "1", "--text", "9") as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == "19\n"
        command("publish", numbers, "no", "99")
        assert tail.stdout.readline() == "99\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(SECONDS) == 130


def test_a_tail_from_the_end_shows_only_new_messages(command: CommandLine, numbers: str) -> None:
    with command.process("tail", "-f", numbers, "-n", "0", "-c", "1") as tail:
        while tail.poll() is None:  # messages from before its start are not shown
            command("publish", numbers, "new", "-q")
            with suppress(subprocess.TimeoutExpired):
                tail.wait(0.2)
        out, _ = tail.communicate()
        assert (tail.returncode, out) == (0, "new\n")


def test_a_search_finds_by_text_attributes_and_json(command: CommandLine, topic: str) -> None:
    command("publish", topic, '{"a": {"b": 5}}', '{"a": {"b": 6}}', "plain 5", "-H", "kind=paid")
    command("publish", topic, "{}")
    assert command("search", topic, "plain").lines == ["plain 5"]
    assert command("search", topic, "5", "-c", "1").lines == ['{"a": {"b": 5}}']
    assert command("search", topic, "--where", "$.a.b=6").lines == ['{"a": {"b": 6}}']
    assert len(command("search", topic, "--where", "$.a.b").lines) == 2
    assert len(command("search", topic, "--filter", 'attributes.kind = "paid"').lines) == 3
    assert command("search", topic, "paid", "--where", "$.a.b=5", "-f", "%o\n").lines == ["0"]
    assert command("search", topic, "absent", code=3).out == ""


@pytest.mark.parametrize("arguments", [["peek", "TOPIC", "-o", "0"], ["export", "TOPIC"], ["topics", "ls"], ["-h"]])
def test_a_closed_pipe_ends_it_quietly(command: CommandLine, numbers: str, arguments: list[str]) -> None:
    with command.process(*[numbers if each == "TOPIC" else each for each in arguments]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(SECONDS) == 141
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("topics ls >&-", 0),
        ("topics ls -J >&- 2>&-", 0),
        ("export TOPIC >&-", 0),
        ("tail TOPIC -e <&- >&- 2>&-", 0),
        ("topics show absent >&- 2>&-", 3),
        ("publish TOPIC - <&-", 2),
        ("import TOPIC <&-", 1),
        ("seed - <&-", 0),
        ("-h >&-", 0),
    ],
)
def test_a_stream_that_is_closed_is_an_empty_one(command: CommandLine, numbers: str, line: str, code: int) -> None:
    shell = f"{sys.executable} -m penstock {line.replace('TOPIC', numbers)}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, env=command.environment, check=False)
    assert done.returncode == code, done
    assert done.stderr.count("\n") == (code != 0 and "2>" not in line), done


# ---------------------------------------------------------------------- on a terminal


def test_a_terminal_shows_messages_with_their_place_and_without_their_controls(
    command: CommandLine, topic: str
) -> None:
    command("publish", topic, "a\x1b[31mred\nline", "-H", "kind=x", "-k", "key")
    with command.terminal("peek", topic) as terminal:
        code, text = terminal.end()
    assert code == 0
    assert re.search(r"^0  \d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  key  kind=x  a\\x1b\[31mred\\nline$", text.strip())


def test_a_terminal_gets_a_note_about_leases(command: CommandLine, numbers: str) -> None:
    command("subs", "create", f"{numbers}-s", numbers, "-o", "19")
    with command.terminal("pull", f"{numbers}-s") as terminal:
        code, text = terminal.end()
        assert code == 0
        assert "delivered again after their ack deadline" in text
    with command.terminal("pull", f"{numbers}-s") as terminal:
        assert "No messages." in terminal.end()[1]


def test_a_long_publish_has_a_bar_on_a_terminal(command: CommandLine, topic: str) -> None:
    with command.terminal("publish", topic, "x", "--count", "40", "--rate", "20", "-q") as terminal:
        text = terminal.until(r"Publishing .*\d+/40")
        assert "40" in text
        assert terminal.end()[0] == 0


def test_a_bar_on_the_terminal_leaves_standard_output_alone(command: CommandLine, topic: str, tmp_path: Path) -> None:
    with (tmp_path / "ids").open("wb") as file:
        arguments = ("publish", topic, "x", "--count", "30", "--rate", "15")
        with command.terminal(*arguments, stdout=file) as terminal:
            terminal.until(r"Publishing .*\d+/30")
            code, text = terminal.end()
    ids = (tmp_path / "ids").read_text().splitlines()
    assert code == 0
    assert len(ids) == 30
    assert all(each.isdigit() for each in ids)
    assert not any(each in text for each in ids)


# ---------------------------------------------------------------------- Ctrl-C


def test_ctrl_c_ends_a_search_at_once_on_the_server_too(tmp_path: Path) -> None:
    """Ctrl-C arrives while the server sends more results than the buffers between server and command hold."""
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        command("topics", "create", "t")
        command("publish", "t", "x" * 1000, "--count", "20000", "-q")
        with command.process("search", "t", "x") as search:
            assert search.stdout is not None
            assert search.stdout.readline() == "x" * 1000 + "\n"
            search.send_signal(signal.SIGINT)
            _, error = search.communicate(timeout=SECONDS)
            assert (search.returncode, error) == (130, "")
        server_process = psutil.Process(server.ready["pid"])
        while any(each.status == psutil.CONN_ESTABLISHED for each in server_process.net_connections()):
            assert server_process.is_running()
        command("peek", "t")


@pytest.mark.parametrize("arguments", [("tail", "-f", "-n", "1"), ("tail", "-f", "-n", "1", "--text", "19")])
def test_ctrl_c_typed_on_a_terminal_ends_a_tail(command: CommandLine, numbers: str, arguments: tuple[str, ...]) -> None:
    with command.terminal(*arguments, numbers) as terminal:
        terminal.until(r"19")
        terminal.type("\x03")
        code, text = terminal.end()
    assert code == 130
    assert "Traceback" not in text


def test_ctrl_c_during_a_pull_or_a_paced_publish(command: CommandLine, numbers: str) -> None:
    command("subs", "create", f"{numbers}-i", numbers, "-o", "beginning")
    for arguments in (
        ["pull", f"{numbers}-i", "-n", "0", "--wait", "1h"],
        ["publish", numbers, "x", "--count", "9", "--rate", "0.1"],
    ):
        with command.process(*arguments) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=SECONDS)
            assert (process.returncode, error) == (130, "")


# ---------------------------------------------------------------------- a full disk


@pytest.mark.parametrize("arguments", [["peek", "TOPIC"], ["peek", "TOPIC", "-J"], ["topics", "show", "TOPIC"], ["-h"]])
def test_output_that_cannot_be_written_is_one_sentence(
    command: CommandLine, numbers: str, arguments: list[str]
) -> None:
    given = [numbers if each == "TOPIC" else each for each in arguments]
    with Path("/dev/full").open("wb") as full:
        program = [sys.executable, "-m", "penstock", *given]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, env=command.environment, check=False)
    assert done.returncode == 1
    assert done.stderr == b"penstock: The output cannot be written: No space left on device\n"


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["publish", "absent", "x"], 3, "Topic not found: projects/penstock/topics/absent"),
        (["publish", "TOPIC", "x", "-H", "x"], 2, "An attribute must be KEY=VALUE, not 'x'"),
        (["publish", "TOPIC", "x", "--delay", "soon"], 2, "--delay must be a number with ms, s, m, h, d or w"),
        (["publish", "TOPIC", "x", "--file", "y"], 2, "Give bodies or --file, not both"),
        (["publish", "TOPIC", "--file", "absent-file"], 2, "Cannot read absent-file: No such file or directory"),
        (["publish", "TOPIC"], 2, "Nothing to publish: standard input is empty"),
        (["publish", "TOPIC", "-", "--count", "2"], 2, "--count needs BODY or --file"),
        (["publish", "TOPIC", "x", "--address", "127.0.0.1:1"], 4, "Cannot reach the server at http://127.0.0.1:1"),
        (["peek", "TOPIC", "--address", "a b"], 2, "Invalid address: a b. Give HOST:PORT"),
        (["subs", "ls", "--sort", "size"], 2, "--sort must be acks, -acks, backlog"),
        (["search", "TOPIC", "--where", "n=3"], 2, "--where must be a path such as $.a.b[0], or $.a.b=5"),
        (["export", "TOPIC", "-", "--where", "n=3"], 2, "--where must be a path such as $.a.b[0], or $.a.b=5"),
        (["publish", "TOPIC", "x", "--delay", "99999999999d"], 2, "--delay is at most 365d, not 99999999999d"),
        (["publish", "TOPIC", "x", "--ttl", "366d"], 2, "--ttl is at most 365d, not 366d"),
        (["publish", "TOPIC", "a", "-"], 2, "- means standard input and cannot be combined"),
        (["publish", "TOPIC", "-", "a"], 2, "- means standard input and cannot be combined"),
        (["publish", "TOPIC", "k:a", "b", "-K", ":"], 2, "Body 2 has no ':' after its ordering key"),
        (["export", "TOPIC", "/tmp"], 2, "Cannot write /tmp: it is a folder"),
        (["topics", "ls", "--sort", "size"], 2, "--sort must be bytes, -bytes, messages, -messages, name, -name"),
        (["subs", "create", "s", "TOPIC", "--max-attempts", "3"], 2, "--max-attempts needs --dead-letter-topic"),
        (["redrive", "absent"], 3, "There is neither a subscription nor a topic absent"),
        (["pull", "absent"], 3, "Subscription not found: projects/penstock/subscriptions/absent"),
        (["pull", "absent", "--ack", "--nack"], 2, "Give --ack or --nack, not both"),
        (["peek", "absent"], 3, "Topic not found: projects/penstock/topics/absent"),
        (["peek", "TOPIC", "-n", "99999999"], 2, "99999999 is more than 100000"),
        (["peek", "TOPIC", "-o", "yesterday"], 2, "A start must be beginning, end, an offset, -100"),
        (["peek", "TOPIC", "-o", "@yesterday"], 2, "A time must be now, -10m, 2026-11-15T10:00Z"),
        (["peek", "TOPIC", "-f", "%x"], 2, "Unknown %x in the template. Known: %t"),
        (["peek", "TOPIC", "--filter", "colour = red"], 1, "ilter"),
        (["peek", "TOPIC", "--where", "a.b"], 2, "--where must be"),
        (["peek", "TOPIC", "--sub", "-o", "1"], 2, "--sub cannot be combined with"),
        (["tail", "absent"], 3, "Topic not found: projects/penstock/topics/absent"),
        (["tail", "TOPIC", "-f", "-o", "e@now"], 2, "-f cannot be combined with an end"),
        (["tail", "TOPIC", "--filter", "(("], 1, "ilter"),
        (["search", "TOPIC"], 2, "Give a TEXT, --filter or --where to search for"),
    ],
)
def test_bad_input_is_one_sentence(
    command: CommandLine, numbers: str, arguments: list[str], code: int, sentence: str
) -> None:
    given = [numbers if each == "TOPIC" else each for each in arguments]
    assert sentence in command.refused(*given, code=code)


def test_a_line_without_its_key_is_named(command: CommandLine, topic: str) -> None:
    assert (
        command.refused("publish", topic, "-K", ":", stdin="k:a\nbad\n", code=2)
        == "Line 2 has no ':' after its ordering key"
    )


def test_a_message_that_is_too_large_is_one_sentence(command: CommandLine, topic: str) -> None:
    assert command.refused("publish", topic, "--file", "/dev/zero", code=2) == "/dev/zero is larger than 16 MiB"
    assert command.refused("import", topic, stdin=bytes((64 << 20) + 1)) == "Line 1 is longer than 64 MiB"
    whole = ("publish", topic, "-", "-D", "")
    assert "larger than 16 MiB" in command.refused(*whole, stdin=bytes(17 << 20), code=2)
    assert command.refused(*whole, stdin=bytes(16 << 20)) == (
        "The body is too large; the admin API accepts at most 16 MiB."
    )
    assert command.refused(*whole, stdin=b"x" * (11 << 20)) == "Message size exceeds maximum of 10MB"


def test_a_stopped_server_ends_a_tail_with_a_sentence(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        command("topics", "create", "t")
        command("publish", "t", "x")
        with command.process("tail", "-f", "t") as tail:
            assert tail.stdout is not None
            assert tail.stdout.readline() == "x\n"
            server.kill()
            _, error = tail.communicate(timeout=SECONDS)
            assert tail.returncode == 4
            assert re.fullmatch(r"penstock: .*server at http://127.0.0.1:\d+.*\n", error)


def test_bytes_go_through_a_shell_unchanged(command: CommandLine, topic: str) -> None:
    body = bytes(range(256))
    with command.process("publish", topic, "-D", "", stdin=subprocess.PIPE) as publisher:
        assert publisher.stdin is not None
        publisher.stdin.buffer.write(body)  # type: ignore[attr-defined]
        publisher.stdin.close()
        assert publisher.wait(SECONDS) == 0
    with command.process("peek", topic, "-f", "%s") as peek:
        assert peek.stdout is not None
        assert peek.stdout.buffer.read() == body  # type: ignore[attr-defined]
