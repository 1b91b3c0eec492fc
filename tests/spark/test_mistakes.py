"""The output that a user sees after a mistake: one sentence, within seconds, without Java frames.

One driver makes all the mistakes, because its start takes longer than all of them. It prints errors as Python prints
uncaught ones.
"""

from __future__ import annotations

import re

import pytest

from tests.spark.drivers import started
from tests.spark.servers import Server

SECONDS_MAX = 30.0  # on a busy machine; usually a second or two
NOBODY = "cannot reach the broker at 127.0.0.1:1 (connection refused); is it running, and is --flight-port open?"
NOWHERE = "topic not found: projects/penstock/topics/no-such-topic"
SAID = {
    "read, unknown option": "unknown option startingoffset; did you mean startingOffsets?",
    "read, no broker": NOBODY,
    "read, no topic": NOWHERE,
    "stream, bad value": "option maxOffsetsPerTrigger must be a whole number above 0; 'many' is not",
    "stream, no broker": NOBODY,
    "stream, no topic": NOWHERE,
    "write, unknown option": "unknown option transactinal; did you mean transactional?",
    "write, wrong schema": "column data must be binary or string, not bigint",
    "write, no broker": NOBODY,
    "write, no topic": NOWHERE,
    "sink, wrong schema": "column number (bigint) cannot be published; the columns of the sink are data, ",
    "sink, no broker": NOBODY,
    "sink, no topic": NOWHERE,
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, server: Server) -> dict[str, tuple[float, str]]:
    """Return seconds and output by mistake."""
    folder = tmp_path_factory.mktemp("mistakes")
    server.ask("topic.ensure", topic="here")
    server.publish("here", [b"a message"])
    with started(folder, "mistakes.py", server.endpoint, str(folder)) as program:
        output = program.finish()
    parts = re.split(r"^=== (.+) === ([\d.]+)$", output, flags=re.MULTILINE)
    return {
        name: (float(seconds), text) for name, seconds, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    }


@pytest.mark.parametrize("mistake", SAID)
def test_a_mistake_is_one_sentence_in_seconds(seen: dict[str, tuple[float, str]], mistake: str) -> None:
    assert seen.keys() == SAID.keys()
    seconds, text = seen[mistake]
    assert seconds < SECONDS_MAX
    trace, _, error = text.partition("pyspark.errors.")
    assert "penstock: " not in trace  # only once, in the error itself
    [sentence] = re.findall("penstock: (.*)", error)
    assert sentence.startswith(SAID[mistake])
    assert not re.search(r"^\s+at \w+(\.\w+)+", text, re.MULTILINE)
