"""The command `penstock pipeline`. Only tests that need a separate process start one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import app
from tests.server_process import SECONDS
from tests.spark.servers import Server

COMMAND = [sys.executable, "-m", "penstock", "pipeline"]
START_SECONDS = 480  # for Spark on a busy machine


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "check", *arguments])


def written(folder: Path, text: str) -> str:
    path = folder / "shop.toml"
    path.write_text(text)
    return str(path)


GOOD = '[flows.copy]\nfrom = "%s"\nsql = "SELECT data FROM source"\nto = "copies"\n'


def test_check_finds_nothing_wrong(server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    result = check(written(tmp_path, GOOD % make_topic()), "--endpoint", server.endpoint)
    assert result.exit_code == 0, result.output
    assert "shop: 1 flow, no errors: copy" in result.stdout
    assert "the SQL was not analysed; use --deep" in result.stdout


def test_check_reports_all_problems_at_once(server: Server, tmp_path: Path) -> None:
    text = """
        [flows.one]
        from = "no-such-topic"
        to = { topic = "x", options = { createTopic = true } }
        options = { maxOffsetPerTrigger = 10 }
        [flows.two]
        from = "x"
        python = "gone.py:f"
        to = { console = true }
        [flows.three]
        from = "x"
        python = "json:nothing"
        to = { console = true }
    """
    result = check(written(tmp_path, text), "--endpoint", server.endpoint)
    assert result.exit_code == 1
    output = result.stderr.splitlines()
    assert output == [
        "penstock: flow one: options: unknown option maxOffsetPerTrigger; did you mean maxOffsetsPerTrigger?",
        "penstock: flow one: to: unknown option createTopic; did you mean createTopics?",
        "penstock: flow two: python: there is no file gone.py next to the pipeline file",
        "penstock: flow three: python: json has no function nothing",
    ]


def test_check_looks_for_topics_if_a_broker_answers(server: Server, tmp_path: Path) -> None:
    file = written(tmp_path, GOOD % "no-such-topic")
    found = check(file, "--endpoint", server.endpoint)
    assert found.exit_code == 1
    assert "flow copy: " in found.stderr
    assert "projects/penstock/topics/no-such-topic" in found.stderr
    assert check(file, "--endpoint", server.endpoint, "--offline").exit_code == 0
    away = check(file, "--endpoint", "127.0.0.1:1")
    assert away.exit_code == 0
    assert "no broker answers at 127.0.0.1:1; topics were not checked" in away.stdout


def test_a_topic_that_a_flow_creates_may_be_missing(
    server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    measure = f'[flows.measure]\nuse = "insights"\ntopics = "{make_topic()}"\nfolder = "f"\ntopic = "not-made-yet"\n'
    result = check(written(tmp_path, measure + GOOD % "not-made-yet"), "--endpoint", server.endpoint)
    assert result.exit_code == 0, result.output


def test_an_invalid_file_is_not_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pipeline", "run", written(tmp_path, '[flows.a]\nform = "x"\nto = 3')])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        'penstock: flow a: unknown key "form"; did you mean "from"?',
        'penstock: flow a: the key "from" is missing',
        "penstock: flow a: to: expected a string or a table, got a whole number",
    ]
    assert "unknown flow" in CliRunner().invoke(
        app, ["pipeline", "run", written(tmp_path, GOOD % "x"), "--only", "copi"]
    ).stderr  # fmt: skip


def test_without_spark_an_error_names_the_package_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('not here')")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [*COMMAND, "run", written(tmp_path, GOOD % "x")]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    output = "penstock: pipelines run on Spark, which is not installed: pip install 'penstock-broker[spark]'"
    assert result.stderr.splitlines()[-1] == output


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys, penstock.cli; print(sorted({'pyspark', 'pyarrow', 'rich.table', 'msgspec'} & set(sys.modules)))"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert text.strip() == "[]"


@pytest.mark.kill
def test_the_next_run_continues_after_ctrl_c(server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    """The second run has no Java on its path, and uses the Java of the package."""
    rows = [f"row-{number}".encode() for number in range(4000)]
    topic, target = make_topic(*rows), make_topic()
    text = (GOOD % topic).replace("copies", target)
    small = "options = { maxOffsetsPerTrigger = 100 }\n"
    command = [*COMMAND, "run", written(tmp_path, text + small), "--endpoint", server.endpoint]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + START_SECONDS
    while server.tail(target) < 200:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        server.ask("bounds", topics=[target], after={target: 199}, wait_seconds=1)
    os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does it
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, err
    assert "Stopped. The next run continues from here." in err
    assert "done" not in err, "the pipeline is not done"
    assert "Traceback" not in err
    assert "WARN" not in err, "Spark prints nothing"
    reached = server.tail(target)
    assert 200 <= reached < 4000, "the pipeline was stopped in the middle"

    written(tmp_path, text)  # without small batches, to finish fast
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    environment |= {"PATH": str(_path_without_java(tmp_path)), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=START_SECONDS, check=False)
    assert again.returncode == 0, again.stderr
    assert sorted(server.data(target)) == sorted(rows)
    (line,) = (line for line in again.stdout.splitlines() if line.startswith("copy"))
    assert line.split()[-2:] == ["topic", target]
    assert (tmp_path / "cache" / f"penstock-java-{os.getuid()}" / "bin" / "java").exists(), "the bundled Java ran"


def _path_without_java(folder: Path) -> Path:
    """Return a PATH with the few programs that Spark's own scripts call, and without Java."""
    tools = folder / "tools"
    tools.mkdir()
    for name in [
        "sh",
        "bash",
        "dirname",
        "basename",
        "env",
        "ps",
        "grep",
        "sed",
        "uname",
        "id",
        "cat",
        "readlink",
        "ls",
        "rm",
        "chmod",
    ]:
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return tools


def test_a_ready_made_flow_without_a_file(server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = make_topic(b"a", b"b", b"c")
    settings = ["--set", f"topics={topic}", "--set", "lake=lake"]
    command = [*COMMAND, "run", "archive", *settings, "--endpoint", server.endpoint]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=START_SECONDS, check=False)
    assert process.returncode == 0, process.stderr
    assert f"{tmp_path}/lake" in process.stdout
    assert "WARN" not in process.stderr
    assert list((tmp_path / "lake").rglob("*.parquet"))
    assert not (tmp_path / "spark-warehouse").exists()
