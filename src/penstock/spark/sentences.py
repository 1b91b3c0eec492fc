"""One sentence from the stack trace of a Spark error.

Spark wraps an error once per layer, and a user can act on the innermost cause: a sentence of ours if there is one, else
the last line of a Python traceback, else the last "Caused by", else Spark's first line. The result is one line without
frames, SQL states or module paths. The whole stack trace goes to a log.
"""

from __future__ import annotations

import re

OURS = re.compile(r"(?:^|[\s:])penstock: ([^\n]+)")
PYTHON = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Warning)): ([^\n]+)$", re.MULTILINE)
CAUSED = re.compile(r"^\s*Caused by: (?:[\w$]+\.)*([\w$]+): ([^\n]+)$", re.MULTILINE)
# The second line of an error of Java called by Python, after "An error occurred while calling o207.start."
CALLED = re.compile(r"^: (?:[\w$]+\.)*([\w$]+): ([^\n]+)$", re.MULTILINE)
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ?([^\n]+)")
NOISE = re.compile(r"\s*(?:SQLSTATE: \w+|\(line \d+, pos \d+\)|;?\s*line \d+,? pos \d+;?)")
SPARK_CLASSES = ("PySpark", "Py4J", "Spark", "Streaming")
LONGEST = 400


def sentence_of(error: BaseException | str) -> str:
    """Return the sentence to show to the user."""
    text = error if isinstance(error, str) else f"{error}" or type(error).__name__
    sentence = NOISE.sub("", " ".join(_innermost(text).split())).strip(" ;")
    return sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 3] + "..."


def _innermost(text: str) -> str:
    if ours := OURS.findall(text):
        return str(ours[-1])
    # Spark's own Python classes only repeat the message of the JVM, which the patterns below find.
    python = [pair for pair in PYTHON.findall(text) if not pair[0].startswith(SPARK_CLASSES)]
    if python:
        return f"{python[-1][1]} ({python[-1][0]})"
    if caused := CAUSED.findall(text):
        name, message = caused[-1]
        condition = CONDITION.search(message)
        return condition[2] if condition else f"{message} ({name})"
    # The message after the name of Spark's innermost error condition, which is the last one.
    conditions = [message for name, message in CONDITION.findall(text) if name != "STREAM_FAILED"]
    if conditions:
        return str(conditions[-1])
    if called := CALLED.search(text):
        return f"{called[2]} ({called[1]})"
    return next((line for line in text.splitlines() if line.strip()), "the error has no message")
