"""The command line as users run it, in a pipe or on a terminal."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from penstock.cli import app
from tests.server_process import SECONDS, ServerProcess, clean_environment

CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class CommandLine:
    """A runner of commands against one server."""

    def __init__(self, server: ServerProcess | None, home: Path, **variables: str) -> None:
        address = {"address": server.addresses["http"]} if server is not None else {}
        self.environment = clean_environment(**address | variables)
        self.environment |= {"XDG_CONFIG_HOME": str(home), "COLUMNS": "120", "LINES": "40", "TERM": "xterm-256color"}
        self.environment.pop("NO_COLOR", None)

    def run(self, *arguments: str, stdin: bytes | str = b"", **variables: str) -> Done:
        """Run a command with pipes.

        It runs in this process, which saves the half second that a new process takes to start.
        """
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        given = io.TextIOWrapper(io.BytesIO(stdin.encode() if isinstance(stdin, str) else stdin), "utf-8")
        environment = mock.patch.dict(os.environ, self.environment | variables, clear=True)
        standard = mock.patch.multiple(sys, stdin=given, stdout=streams[0], stderr=streams[1])
        with environment, standard, pytest.raises(SystemExit) as ended:
            app(list(arguments), prog_name="penstock")
        out, err = (stream.buffer.getvalue() for stream in streams)  # type: ignore[attr-defined]
        return Done(int(ended.value.code or 0), out.decode("utf-8", "replace"), err.decode())

    def __call__(self, *arguments: str, stdin: bytes | str = b"", code: int = 0, **variables: str) -> Done:
        """Run a command with pipes, and check its exit code."""
        done = self.run(*arguments, stdin=stdin, **variables)
        assert done.code == code, done
        return done

    def refused(self, *arguments: str, code: int = 1, stdin: bytes | str = b"", **variables: str) -> str:
        """Run a command that must fail, and return its error, which is one sentence."""
        done = self.run(*arguments, stdin=stdin, **variables)
        assert done.code == code, done
        assert done.err.startswith("penstock: "), done
        assert done.err.count("\n") == 1, done
        return done.err.removeprefix("penstock: ").rstrip("\n")

    @contextmanager
    def process(self, *arguments: str, stdin: Any = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
        """Start a command that runs on, and kill it at the end of the block."""
        command = [sys.executable, "-m", "penstock", *arguments]
        with subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def terminal(
        self, *arguments: str, columns: int = 120, lines: int = 40, stdout: Any = None, **variables: str
    ) -> Iterator[Terminal]:
        terminal = Terminal(arguments, self.environment | variables, columns, lines, stdout)
        try:
            yield terminal
        finally:
            terminal.close()


class Terminal:
    """A command on a pseudo-terminal.

    The terminal is its standard input, error and, unless another is given, output.
    """

    def __init__(
        self, arguments: tuple[str, ...], environment: dict[str, str], columns: int, lines: int, stdout: Any = None
    ) -> None:
        self.master, follower = pty.openpty()
        self._resize(follower, columns, lines)
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments],
            stdin=follower,
            stdout=follower if stdout is None else stdout,
            stderr=follower,
            env=environment,
            start_new_session=True,
            preexec_fn=partial(fcntl.ioctl, 0, termios.TIOCSCTTY, 0),
        )
        os.close(follower)
        self.raw = ""

    @staticmethod
    def _resize(terminal: int, columns: int, lines: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self._resize(self.master, columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    @property
    def text(self) -> str:
        return CONTROLS.sub("", self.raw)

    def until(self, pattern: str) -> str:
        """Wait for the pattern, and return the output since the last call."""
        start, deadline = len(self.raw), time.monotonic() + SECONDS
        while not re.search(pattern, CONTROLS.sub("", self.raw[start:])):
            assert self._read(deadline), f"the command ended or timed out without {pattern!r}:\n{self.text}"
        return self.text

    def end(self) -> tuple[int, str]:
        """Wait until the command has ended, and return its exit code and all output."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(SECONDS), self.text

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        with suppress(OSError):  # the other side of the terminal is closed
            data = os.read(self.master, 1 << 16)
            self.raw += data.decode("utf-8", "replace")
            return bool(data)
        return False

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        os.close(self.master)
