"""The Python versions that the project names, if this machine has them, and environments with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.server_process import ROOT, SECONDS, clean_environment

INSTALL_SECONDS = 1200.0  # Spark is 400 MB


@cache
def project() -> dict[str, Any]:
    described: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return described


def named_pythons() -> list[str]:
    """Return the versions in the classifiers, such as `3.11`."""
    named = [each.rpartition(" :: ")[2] for each in project()["classifiers"] if "Language :: Python :: 3." in each]
    assert named, "the classifiers name versions"
    return named


def find_python(version: str) -> str | None:
    """Return a working interpreter of that version: this one, one on the path, or one of pyenv's."""
    for candidate in _candidates(version):
        command = [candidate, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        if found.returncode == 0 and found.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    if (on_path := shutil.which(f"python{version}")) is not None:
        yield on_path
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from map(str, sorted(versions.glob(f"{version}*/bin/python"), reverse=True))


class Environment:
    """A clean virtual environment with one package installed in it."""

    def __init__(self, folder: Path, python: str, requirement: str) -> None:
        self.folder = folder
        self._run([python, "-m", "venv", str(folder)], INSTALL_SECONDS)
        self.python = str(folder / "bin" / "python")
        self._run([self.python, "-m", "pip", "install", "--quiet", requirement], INSTALL_SECONDS)

    def penstock(self, *arguments: str) -> str:
        return self._run([str(self.folder / "bin" / "penstock"), *arguments], SECONDS)

    def program(self, source: str, *arguments: str, **variables: str) -> str:
        """Run a program and return its output."""
        return self._run([self.python, "-c", source, *arguments], INSTALL_SECONDS, **variables)

    def packages(self) -> set[str]:
        listed = self._run([self.python, "-m", "pip", "list", "--format", "freeze"], SECONDS)
        return {line.partition("==")[0].lower() for line in listed.splitlines()}

    def _run(self, command: list[str], seconds: float, **variables: str) -> str:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env=clean_environment() | variables,
            cwd=self.folder.parent,  # not the source tree, so that only installed packages are found
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout
