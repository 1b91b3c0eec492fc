"""The steps of the Dockerfile, run in an empty folder that stands for the file system of the image.

All stages share one folder, so a file that a later stage copies from an earlier one is at the same place. Absolute
paths of the image are paths below that folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.packages.pythons import INSTALL_SECONDS
from tests.server_process import ROOT, clean_environment

PLACES = ("src", "opt", "var", "data", "dev/shm", "bin/sh")
_ABSOLUTE = re.compile(rf"(?<![\w./}}])/(?=(?:{'|'.join(PLACES)})\b)")
_LINE = re.compile(r"([A-Z]+)\s+(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def base_python() -> str:
    """Return an interpreter that every user of this machine can start, as in the base image."""
    for name in (sys._base_executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        folders = Path(name).resolve().parents
        if not Path(name).exists() or not all(folder.stat().st_mode & 0o001 for folder in folders):
            continue
        asked = [name, "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip("NOT TRIED: this machine has no Python that every user can start")


class Image:
    """The result of a build: the folder, the environment, and the commands as lists of words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        self.command: list[str] = []
        self.health: list[str] = []
        self.user = ""
        self._arguments: dict[str, str] = {}
        self.work = folder
        self._ignored = (ROOT / ".dockerignore").read_text().split()
        for name, target in (("python", base_python()), ("bash", "/bin/bash")):  # the programs of the base image
            link = folder / ("usr/local/bin" if name == "python" else "bin") / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        (folder / "dev" / "shm").mkdir(parents=True)
        (folder / "dev" / "shm").chmod(0o1777)

    def build(self, text: str) -> None:
        lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
        for line in lines.replace("\\\n", " ").splitlines():
            if found := _LINE.fullmatch(line.strip()):
                value = _VARIABLE.sub(lambda name: self._arguments[name[1]], found[2].strip())
                getattr(self, f"_{found[1].lower()}")(value)

    def path(self, text: str) -> str:
        return _ABSOLUTE.sub(f"{self.folder}/", text)

    def _arg(self, text: str) -> None:
        name, _, value = text.partition("=")
        self._arguments[name] = value

    def _from(self, text: str) -> None:
        assert "/" not in text, "an image is named without a host"
        self.work = self.folder

    def _workdir(self, text: str) -> None:
        self.work = Path(self.path(text))
        self.work.mkdir(parents=True, exist_ok=True)

    def _run(self, text: str) -> None:
        path = f"{self.folder / 'usr/local/bin'}:{os.environ['PATH']}"
        command = ["/bin/sh", "-ec", self.path(text)]
        environment = clean_environment() | {"PATH": path}
        done = subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"

    def _copy(self, text: str) -> None:
        *sources, target = text.split()
        if sources[0].startswith("--from="):
            assert sources[1:] == [target], "one folder stands for all stages"
            return
        for source in sources:
            assert self._is_sent(source), f"{source} is left out by .dockerignore"
            place = self.work / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, place)

    def _is_sent(self, source: str) -> bool:
        allowed = [line.removeprefix("!") for line in self._ignored if line.startswith("!")]
        return any(fnmatch(source.rstrip("/"), each) or each.startswith(source) for each in allowed)

    def _env(self, text: str) -> None:
        for pair in shlex.split(text):
            name, _, value = pair.partition("=")
            self.environment[name] = self.path(value)

    def _cmd(self, text: str) -> None:
        self.command = json.loads(text)

    def _healthcheck(self, text: str) -> None:
        self.health = json.loads(text.partition(" CMD ")[2])

    def _user(self, text: str) -> None:
        self.user = text

    def _nothing(self, text: str) -> None:
        """Ignore an instruction that only concerns users of the image."""

    _label = _volume = _expose = _stopsignal = _nothing
