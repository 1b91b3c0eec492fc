"""One sentence out of a stack of Java and Python frames.

Spark wraps what went wrong once per layer. The innermost cause is what a user can act on: a sentence of ours if there
is one, else the last line of a Python traceback, else the last "Caused by", else Spark's own first line.

The rule kept here: the answer is one line without frames, states or paths of modules; the whole stack goes to a log.
"""

from __future__ import annotations

import re

OURS = re.compile(r"(?:^|[\s:])penstock: ([^\n]+)")
PYTHON = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Warning)): ([^\n]+)$", re.MULTILINE)
CAUSED = re.compile(r"^\s*Caused by: (?:[\w$]+\.)*([\w$]+): ([^\n]+)$", re.MULTILINE)
# What Java said when Python called it: "An error occurred while calling o207.start." and then the exception.
CALLED = re.compile(r"^: (?:[\w$]+\.)*([\w$]+): ([^\n]+)$", re.MULTILINE)
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ?([^\n]+)")
NOISE = re.compile(r"\s*(?:SQLSTATE: \w+|\(line \d+, pos \d+\)|;?\s*line \d+,? pos \d+;?)")
LONGEST = 400


def sentence_of(error: BaseException | str) -> str:
    """What to tell a user."""
    text = error if isinstance(error, str) else f"{error}" or type(error).__name__
    found = _ours(text) or _python(text) or _caused(text) or _condition(text) or _called(text) or _first_line(text)
    return _tidy(found)


def _ours(text: str) -> str | None:
    found = OURS.findall(text)
    return found[-1] if found else None


def _python(text: str) -> str | None:
    # Spark's own Python classes only carry what the JVM said; the other lines below find that.
    found = [pair for pair in PYTHON.findall(text) if not pair[0].startswith(("PySpark", "Py4J", "Spark", "Streaming"))]
    return f"{found[-1][1]} ({found[-1][0]})" if found else None


def _caused(text: str) -> str | None:
    found = CAUSED.findall(text)
    if not found:
        return None
    name, said = found[-1]
    condition = CONDITION.search(said)
    return condition[2] if condition else f"{said} ({name})"


def _called(text: str) -> str | None:
    found = CALLED.search(text)
    return f"{found[2]} ({found[1]})" if found else None


def _condition(text: str) -> str | None:
    """The message behind Spark's name of a condition; the last one, for they are wrapped from the outside."""
    found = [said for name, said in CONDITION.findall(text) if name != "STREAM_FAILED"]
    return found[-1] if found else None


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "it failed without saying why")


def _tidy(text: str) -> str:
    text = NOISE.sub("", " ".join(text.split())).strip(" ;")
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
