"""The commands redrive, move, export, import, bench, completion and cheat."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.commands.cheat import SHEETS
from penstock.commands.completion import SCRIPTS
from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("moves")
    with ServerProcess(folder, "--memory", doors=["http", "text"]) as server:
        yield CommandLine(server, folder)


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def dead(command: CommandLine, name: str) -> str:
    """Create a subscription with six dead letters of a topic."""
    command("topics", "create", name)
    command("topics", "create", f"{name}-dead")
    command("subs", "create", f"{name}-dead", f"{name}-dead")
    command("subs", "create", f"{name}-s", name, "--dead-letter-topic", f"{name}-dead", "--max-attempts", "5")
    command("publish", name, "zero", "one", "two", "-H", "kind=a", "-q")
    command("publish", name, "three", "four", "five", "-H", "kind=b", "-q")
    for _ in range(5):
        assert len(command("pull", f"{name}-s", "-n", "10", "--nack").lines) == 6
    assert command("pull", f"{name}-s", "-n", "10").out == ""
    return f"{name}-dead"


def test_dead_letters_go_back(command: CommandLine, name: str, dead: str) -> None:
    seen = command("redrive", dead, "--filter", 'attributes.kind = "a"', "--dry-run").lines
    assert seen[0] == "Would move 3, would leave 3"
    assert f"  3 to projects/penstock/topics/{name}" in seen
    assert "Use --yes" in command.refused("redrive", dead, code=2)
    done = command("redrive", dead, "--filter", 'attributes.kind = "a"', "--yes")
    assert done.lines == ["Moved 3, left 3, unknown 0", "  3 left: not chosen"]
    assert command("pull", f"{name}-s", "-n", "10", "--ack").lines == ["zero", "one", "two"]
    (first, *_) = command("peek", dead, "--sub", "-J").records
    assert command("redrive", dead, "--id", first["id"], "-y", "-J").records[0]["moved"] == 1
    assert command("redrive", dead, "--where", "$.a", "--dry-run").lines[0] == "Would move 0, would leave 2"
    assert command("redrive", dead, "--text", "four", "--rate", "100", "-y").lines[0] == "Moved 1, left 1, unknown 0"
    moves = command("moves", "ls").lines
    assert [line.split("\t")[1] for line in moves[-3:]] == ["done"] * 3
    number = moves[-1].split("\t")[0]
    assert "state\tdone\n" in command("moves", "show", number).out


def test_a_terminal_asks_before_a_redrive(command: CommandLine, name: str, dead: str) -> None:
    with command.terminal("redrive", dead) as terminal:
        terminal.until(rf"Move 6 messages to projects/penstock/topics/{name}\? \[y/N\]")
        terminal.type("y\n")
        code, text = terminal.end()
    assert code == 0
    assert "Moved 6, left 0, unknown 0" in text


def test_messages_that_cannot_be_redriven_stay_and_the_reason_is_shown(command: CommandLine, name: str) -> None:
    command("queues", "create", name)
    command("publish", name, "no dead letter", "-q")
    reason = "not a dead letter: its original topic is unknown"
    done = command("redrive", name, "--yes", code=5)
    assert done.lines == ["Nothing to move, left 1", f"  1 left: {reason}"]
    (record,) = command("redrive", name, "--yes", "-J", code=5).records
    assert (record["id"], record["state"], record["left"], record["reasons"]) == (None, "done", 1, {reason: 1})
    command("topics", "create", f"{name}-to")
    (moved,) = command("move", name, f"{name}-to", "--yes", "-J").records
    assert set(moved) == set(record)
    assert command("redrive", name, "--yes").lines == ["Nothing to move, left 0"]


def test_an_unknown_message_id_is_reported(command: CommandLine, name: str) -> None:
    command("queues", "create", name)
    command("topics", "create", f"{name}-to")
    done = command("move", name, f"{name}-to", "--id", "17", "--yes", code=5)
    assert done.lines == ["Nothing to move, left 1", "  1 left: no such message"]
    command("publish", name, "a", "b", "-q")
    assert command("move", name, f"{name}-to", "--text", "c", "--yes").lines[-1] == "  2 left: not chosen"


def test_messages_move_to_another_topic(command: CommandLine, name: str) -> None:
    command("queues", "create", name)
    command("topics", "create", f"{name}-to")
    command("publish", name, "a", "b", "c", "-q")
    assert command("move", name, f"{name}-to", "--max", "2", "--dry-run").lines[0].startswith("Would move 2")
    done = command("move", name, f"{name}-to", "--max", "2", "--yes").lines
    assert done == ["Moved 2, left 1, unknown 0", "  1 left: not chosen"]
    assert command("peek", f"{name}-to").lines == ["a", "b"]
    assert command("pull", name, "-n", "10", "--ack").lines == ["c"]


def test_a_move_is_left_to_the_server_and_stopped(command: CommandLine, name: str) -> None:
    command("queues", "create", name)
    command("topics", "create", f"{name}-to")
    command("publish", name, "x", "--count", "500", "-q")
    number = command("move", name, f"{name}-to", "--rate", "5", "--detach", "--yes").out.strip()
    assert json.loads(command("moves", "show", number, "-J").out)["state"] == "running"
    assert command("moves", "stop", number).out.startswith("Moved ")
    assert json.loads(command("moves", "show", number, "-J").out)["state"] == "stopped"


# ---------------------------------------------------------------------- files


@pytest.fixture
def filled(command: CommandLine, name: str, tmp_path: Path) -> str:
    command("topics", "create", name)
    command("publish", name, "täxt", '{"a": 1}', "", "-H", "k=v", "-k", "key", "-q")
    (tmp_path / "body").write_bytes(bytes(range(256)))
    command("publish", name, "--file", str(tmp_path / "body"), "-q")
    return name


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_export_is_imported_with_its_exact_bytes_and_only_once(
    command: CommandLine, filled: str, tmp_path: Path, kind: str
) -> None:
    file = str(tmp_path / f"messages.{kind}")
    assert command("export", filled, file).out == f"Exported 4 messages to {file}\n"
    assert not Path(f"{file}.part").exists()
    command("topics", "create", f"{filled}-copy")
    assert command("import", f"{filled}-copy", file).out == "Imported 4 messages\n"
    template = r"%k\x01%h\x01%s\x02"
    assert command("peek", f"{filled}-copy", "-f", template).out == command("peek", filled, "-f", template).out
    assert command("import", f"{filled}-copy", file).out == "Imported 0 messages, 4 were imported earlier\n"
    assert command("import", f"{filled}-copy", file, "--again", "-J").records == [{"imported": 4, "there_before": 0}]
    assert len(command("peek", f"{filled}-copy", "-f", "x").out) == 8


def test_an_export_has_a_window_and_conditions(command: CommandLine, filled: str, tmp_path: Path) -> None:
    assert [each["offset"] for each in command("export", filled, "-o", "1", "-n", "2").records] == [1, 2]
    assert len(command("export", filled, "-", "--where", "$.a").records) == 1
    assert len(command("export", filled, "--filter", 'attributes.k = "v"').records) == 3
    piped = command("export", filled).out
    command("topics", "create", f"{filled}-piped")
    assert command("import", f"{filled}-piped", stdin=piped).out == "Imported 4 messages\n"


def test_an_interrupted_import_continues_where_it_stopped(tmp_path: Path) -> None:
    """Client and server are killed in the middle and restarted. Every message is there, once and in order."""
    file = tmp_path / "many.jsonl"
    file.write_text("".join(f'{{"data": "{n}"}}\n' for n in range(5000)))
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        command("topics", "create", "t")
        with command.process("import", "t", str(file)) as importer:
            while not command("peek", "t", "-n", "1").out:
                pass
            server.kill()
            importer.kill()
            importer.communicate()
        server.start()
        assert "were imported earlier" in command("import", "t", str(file)).out
        assert command("peek", "t", "-n", "10000").lines == [str(n) for n in range(5000)]


def test_an_invalid_line_is_named_and_earlier_lines_stay_imported(
    command: CommandLine, name: str, tmp_path: Path
) -> None:
    command("topics", "create", name)
    wrong = {
        '{"data": 5}': "Line 2: data must be text. Use data_base64 for binary data",
        "{": "Line 2 is not JSON",
        "[]": "Line 2 is not an object",
        "{}": "Line 2 must have either data or data_base64",
    }
    for line, sentence in wrong.items():
        assert sentence in command.refused("import", name, stdin='{"data": "x"}\n' + line)
    many = "".join(f'{{"data": "{n}"}}\n' for n in range(1000))
    done = command.run("import", name, stdin=many + "{")
    assert (done.code, done.err) == (5, "penstock: Line 1001 is not JSON. Imported 1,000 messages before that\n")
    assert len(command("peek", name, "-n", "10000").lines) == 1000
    assert "contains no messages" in command.run("import", name).err


def test_an_import_continues_after_the_invalid_line_is_corrected(
    command: CommandLine, name: str, tmp_path: Path
) -> None:
    command("topics", "create", name)
    file, same = tmp_path / "messages.jsonl", '{"data": "same"}\n' * 2000
    file.write_text(same + '{"data": "right"}\n{"data": wrong}\n{"data": "last"}\n')
    done = command.run("import", name, str(file))
    assert done.code == 5
    assert done.err.startswith("penstock: Line 2002 is not JSON. Imported 2,000 messages before that. Run the same ")
    file.write_text(same + '{"data": "right"}\n{"data": "corrected"}\n{"data": "last"}\n')
    assert command("import", name, str(file)).out == "Imported 3 messages, 2,000 were imported earlier\n"
    assert command("import", name, str(file)).out == "Imported 0 messages, 2,003 were imported earlier\n"
    assert command("peek", name, "-n", "10000").lines == ["same"] * 2000 + ["right", "corrected", "last"]
    file.write_text('{"data": "another"}\n' + same)
    assert command("import", name, str(file)).out == "Imported 2,001 messages\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["redrive", "absent"], 3, "There is neither a subscription nor a topic"),
        (["move", "absent", "x"], 3, "There is neither a subscription nor a topic"),
        (["moves", "show", "17000"], 3, "Move not found: 17000"),
        (["moves", "stop", "x"], 3, "Move not found: x"),
        (["export", "absent"], 3, "Topic not found: "),
        (["export", "NAME", "/no/such/folder/file"], 2, "Cannot write /no/such/folder/file.part"),
        (["import", "absent", "-"], 3, "Topic not found: "),
        (["import", "NAME", "absent-file"], 2, "Cannot read absent-file"),
        (["import", "NAME", "README.md", "--parquet"], 1, "README.md cannot be read as Parquet"),
        (["import", "NAME", "-", "--parquet"], 2, "Parquet cannot be read from standard input"),
        (["cheat", "mode"], 3, "Unknown section: mode. Sections: start, publish"),
        (["completion", "tcsh"], 2, "SHELL must be bash, zsh, fish, not 'tcsh'"),
    ],
)
def test_bad_input_is_one_sentence(
    command: CommandLine, name: str, arguments: list[str], code: int, sentence: str
) -> None:
    command("topics", "create", name)
    assert sentence in command.refused(*[each.replace("NAME", name) for each in arguments], code=code)


# ---------------------------------------------------------------------- bench, completion, cheat


def test_a_bench_measures_and_leaves_nothing(command: CommandLine) -> None:
    publish, consume = command("bench", "-n", "200", "-c", "2", "--size", "1k", "-J").records
    assert (publish["what"], publish["messages"], consume["what"]) == ("publish", 200, "consume")
    assert publish["per_second"] > 0
    assert 0 < publish["p50_ms"] <= publish["p99_ms"]
    assert command("queues", "ls", "--search", "bench-").out == ""
    with command.terminal("bench", "-n", "50", "-c", "1") as terminal:
        code, text = terminal.end()
    assert code == 0
    assert "Text protocol, 1 clients in threads of one process" in text
    assert "in memory" in text


def test_a_bench_in_a_pipe_leaves_unmeasured_fields_empty(command: CommandLine) -> None:
    publish, consume = (line.split("\t") for line in command("bench", "-n", "20", "-c", "1").lines)
    assert all(publish)
    assert consume[-2:] == ["", ""]


def test_ctrl_c_during_a_bench_leaves_no_queue(command: CommandLine) -> None:
    with command.process("bench", "-n", "10000000", "-c", "4") as bench:
        while not any(each["backlog_messages"] for each in command("queues", "ls", "--search", "bench-", "-J").records):
            assert bench.poll() is None
        bench.send_signal(signal.SIGINT)
        assert bench.wait(SECONDS) == 130
    assert command("queues", "ls", "--search", "bench-").out == ""
    assert command("topics", "ls", "--search", "bench-").out == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["to"], {"top", "topics"}),
        (["topics", ""], {"ls", "create", "show", "change", "delete"}),
        (["topics", "ls", "--so"], {"--sort"}),
        (["peek", "comp"], {"completed-topic"}),
        (["pull", "-n", "1", "comp"], {"completed-sub"}),
        (["subs", "create", "x", "comp"], {"completed-topic"}),
        (["subs", "ls", "--topic", "comp"], {"completed-topic"}),
        (["context", "use", "mi"], {"mine"}),
        (["completion", ""], set(SCRIPTS)),
        (["nothing", "x"], set()),
    ],
)
def test_words_are_completed(command: CommandLine, words: list[str], expected: set[str]) -> None:
    command.run("topics", "create", "completed-topic")
    command.run("subs", "create", "completed-sub", "completed-topic")
    command("context", "add", "mine", command.environment["PENSTOCK_ADDRESS"])
    found = command("completion", "--words", "--", *words).lines
    assert {line.partition("\t")[0] for line in found} == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_gets_a_name_as_one_quoted_word(command: CommandLine) -> None:
    """Bash inserts a completion without quoting it, and clients of the text protocol may choose names such as this."""
    name = "quoted; echo $(id) 'x' & `id`"
    command("queues", "create", name)
    script = command("completion", "bash").out
    program = f"""
penstock() {{ "{sys.executable}" -m penstock "$@"; }}
{script.replace("complete -F", "# complete -F")}
COMP_WORDS=(penstock purge quoted) COMP_CWORD=2
_penstock
eval "printf '<%s>' ${{COMPREPLY[*]}}"
"""
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=SECONDS, env=command.environment, check=False
    )
    assert done.stdout == f"<{name}>", done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_can_be_read_by_its_shell(command: CommandLine, shell: str) -> None:
    script = command("completion", shell).out
    assert "penstock completion --words" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=SECONDS)


def test_bash_completes(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(command("completion", "bash").out)
    (tmp_path / "penstock").write_text(f"#!/bin/sh\nexec {shutil.which('python3')} -c \"print('topics')\"\n")
    (tmp_path / "penstock").chmod(0o755)
    asked = f"PATH={tmp_path}:$PATH; source {tmp_path}/script; COMP_WORDS=(penstock to); COMP_CWORD=1; _penstock"
    asked += "; echo $COMPREPLY"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.stdout == "topics\n"


def test_the_cheat_sheets_have_sections_of_existing_commands(command: CommandLine) -> None:
    assert all(f"## {name}" in command("cheat").out for name in SHEETS)
    assert command("cheat", "behind").out.startswith("## behind\n# backlogs, largest first")
    assert all(name in command("cheat", "-h").out for name in SHEETS)


PRELUDE = f"""
set -o pipefail
penstock() {{
    case "$*" in
        seek*--dry-run | redrive*--dry-run) ;;
        seek* | redrive*) set -- "$@" --yes ;;  # without a question
        tail\\ -f*) timeout -s INT --preserve-status 2 {sys.executable} -m penstock "$@"; [ $? -eq 130 ]; return ;;
    esac
    {sys.executable} -m penstock "$@"
}}
jq() {{ cat; }}
"""


@pytest.mark.nightly
def test_every_line_of_the_cheat_sheets_runs(tmp_path: Path) -> None:
    """Lines that start servers are left out, and so is top, which needs a terminal. The longest waits are shortened."""
    with ServerProcess(tmp_path, f"--data={tmp_path / 'data'}", doors=["http"]) as server:
        command = CommandLine(server, tmp_path)
        for topic in ("orders", "orders-dead", "photos", "copy-of-orders"):
            command("topics", "create", topic)
        command("subs", "create", "orders-dead-sub", "orders-dead")
        (tmp_path / "cat.jpg").write_bytes(b"\xff\xd8")
        lines = [line for sheet in SHEETS.values() for line in sheet.splitlines() if line and not line.startswith("#")]
        lines = [line for line in lines if not line.startswith(("penstock serve", "penstock top"))]
        command("publish", "orders", "4711", "-H", "kind=paid")
        command("publish", "orders", '{"customer": {"id": 17}}')
        source = "dead_letter_source_topic=projects/penstock/topics/orders"
        for line in lines:
            short = line.replace("--rate 100", "--rate 10000").replace("--wait 60s", "--wait 100ms")
            if "redrive" in line:
                (dead,) = command("publish", "orders-dead", "4711", "-H", source, "-J").records
                short = short.replace("1234567", dead["id"])
            done = subprocess.run(
                ["bash", "-c", PRELUDE + short],
                cwd=tmp_path,
                env=command.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert done.returncode == 0, (line, done)
