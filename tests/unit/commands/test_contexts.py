"""Contexts: the file, the commands, and the choice of a server."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import app
from penstock.commands import session
from penstock.commands.contexts import contexts_file, read_contexts
from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.session import DEFAULT_ADDRESS, Place, find_place
from penstock.errors import NotFoundError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str, code: int = 0, stdin: str = "") -> str:
    done = CliRunner().invoke(app, ["context", *arguments], input=stdin)
    assert done.exit_code == code, done.output
    return done.output


def test_contexts_are_added_chosen_and_removed(home: Path) -> None:
    run("add", "local", "127.0.0.1:8090")
    run("add", "far", "far.example:443", "--token", "-", "--project", "p", stdin="secret\n")
    assert run("ls") == "\tfar\tfar.example:443\t***\tp\n*\tlocal\t127.0.0.1:8090\t\t\n"
    run("use", "far")
    far, local = map(json.loads, run("ls", "--json").splitlines())
    assert (far["current"], far["token"], local["current"]) == ("*", "***", "")
    assert run("rm", "far", code=2) == "penstock: Remove the context far? Use --yes to confirm without a terminal\n"
    run("rm", "far", "--yes")
    assert run("ls") == "\tlocal\t127.0.0.1:8090\t\t\n"
    assert "Context not found: far (existing contexts: local)" in run("use", "far", code=3)


def test_the_file_is_for_its_owner_alone_and_survives_odd_values(home: Path) -> None:
    run("add", 'a "b".c', "h:1", "--token", 'x"\\y\n')
    assert "Invalid address" in run("add", "x", "ftp://h", code=1)
    file = home / "penstock" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_contexts(file).find('a "b".c').token == 'x"\\y\n'
    file.chmod(0o644)
    assert "chmod 600" in run("ls")


@pytest.mark.parametrize(
    "text", ["current = ", "[contexts.a]\nport = 1", "[contexts]\na = 1", "contexts = 3", "x = " + "[" * 100_000]
)
def test_an_invalid_file_is_one_sentence(home: Path, text: str) -> None:
    file = contexts_file({"XDG_CONFIG_HOME": str(home)})
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(WrongUsageError, match="is not a valid contexts file"):
        read_contexts(file)


def test_which_server_is_meant(home: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(home)}
    assert find_place(environment) == Place(DEFAULT_ADDRESS, None, None, is_guess=True)
    ready = home / "ready.json"
    assert find_place(environment | {"PENSTOCK_READY_FILE": str(ready)}).address == DEFAULT_ADDRESS
    ready.write_text('{"pid": 1, "http": "127.0.0.1:9"}')
    environment["PENSTOCK_READY_FILE"] = str(ready)
    assert find_place(environment).address == "127.0.0.1:9"
    run("add", "one", "one:1", "--token", "t1", "--project", "p1")
    run("add", "two", "two:2", "--token", "t2")
    assert find_place(environment) == Place("one:1", "t1", "p1")
    assert find_place(environment, context="two") == Place("two:2", "t2", None)
    environment |= {"PENSTOCK_CONTEXT": "two", "PENSTOCK_PROJECT": "p"}
    assert find_place(environment) == Place("two:2", "t2", "p")
    environment |= {"PENSTOCK_ADDRESS": "env:3"}
    assert find_place(environment) == Place("env:3", None, "p"), "a context's token goes to no other address"
    environment |= {"PENSTOCK_TOKEN": "te"}
    assert find_place(environment) == Place("env:3", "te", "p")
    assert find_place(environment, context="one") == Place("one:1", "t1", "p")
    assert find_place(environment, address="flag:4", token="tf", project="pf") == Place("flag:4", "tf", "pf")
    with pytest.raises(WrongUsageError, match="not both"):
        find_place(environment, address="flag:4", context="one")
    with pytest.raises(NotFoundError, match="Context not found: three"):
        find_place(environment, context="three")


def test_a_token_may_be_in_a_file(home: Path) -> None:
    file = home / "token"
    environment = {"XDG_CONFIG_HOME": str(home), "PENSTOCK_TOKEN_FILE": str(file)}
    with pytest.raises(WrongUsageError, match="Cannot read the token"):
        find_place(environment)
    file.write_text("se\ncret\n")
    with pytest.raises(WrongUsageError, match="characters that are not allowed"):
        find_place(environment)
    file.write_text("secret\n")
    assert find_place(environment).token == "secret"


def test_without_a_server_the_refusal_says_how_to_name_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DEFAULT_ADDRESS", "127.0.0.1:1")
    for name in ("PENSTOCK_ADDRESS", "PENSTOCK_CONTEXT", "PENSTOCK_READY_FILE"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(app, ["ls"])
    assert done.exit_code == 4
    assert done.output.endswith("connection refused; penstock serve starts a server, --address names one\n")
