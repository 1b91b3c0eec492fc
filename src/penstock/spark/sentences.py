"""One sentence out of a stack of Java and Python frames.

Spark wraps what went wrong once per layer. The innermost cause is what a user can act on: a sentence of ours if there
is one, else the last line of a Python traceback, else the last "Caused by", else Spark's own first line. The answer is
one line without frames, states or paths of modules; the whole stack goes to a log.
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
SPARK_CLASSES = ("PySpark", "Py4J", "Spark", "Streaming")
LONGEST = 400


def sentence_of(error: BaseException | str) -> str:
    """The sentence for a user."""
    text = error if isinstance(error, str) else f"{error}" or type(error).__name__
    found = NOISE.sub("", " ".join(_innermost(text).split())).strip(" ;")
    return found if len(found) <= LONGEST else found[: LONGEST - 3] + "..."


def _innermost(text: str) -> str:
    if ours := OURS.findall(text):
        return str(ours[-1])
    # Spark's own Python classes only carry what the JVM said; the other lines below find that.
    python = [pair for pair in PYTHON.findall(text) if not pair[0].startswith(SPARK_CLASSES)]
    if python:
        return f"{python[-1][1]} ({python[-1][0]})"
    if caused := CAUSED.findall(text):
        name, said = caused[-1]
        condition = CONDITION.search(said)
        return condition[2] if condition else f"{said} ({name})"
    # The message behind Spark's name of a condition; the last one, for they are wrapped from the outside.
    conditions = [said for name, said in CONDITION.findall(text) if name != "STREAM_FAILED"]
    if conditions:
        return str(conditions[-1])
    if called := CALLED.search(text):
        return f"{called[2]} ({called[1]})"
    return next((line for line in text.splitlines() if line.strip()), "it failed without saying why")
