"""The programs in `examples/` run unchanged, and print the documented output."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# The output of each program. `...` stands for any text, and alone on a line for any number of lines.
PRINTED = {
    "basic.py": """
        Received {"id": 1} with {'shop': 'north'}, attempt 1
        Processing failed: the till is jammed; returning the order
        ...
        Received {"id": 2} with {'shop': 'north'}, attempt 2
        ...
        Processed [1, 2, 3]
        """,
    "long_running.py": """
        by-hand: attempt 1
        by-itself: attempt 1
        """,
    "retries.py": """
        Attempt 1 of 5: the bank does not answer
        ...
        Attempt 5 of 5: the bank does not answer
        Put aside: invoice 7
        """,
    "metadata.py": """
        Message ID: ...
        Published: ...+00:00 (... ns)
        Size: 4 bytes
        Ordering key: sensor-1
        Delivery attempt: 1
          room: attic
          unit: C
        Data: 21.5
        """,
    "flow_control.py": """
        20 tasks, at most 3 at once
        """,
    "ordered.py": """
        anna: registered -> paid -> left
        ben: registered -> paid -> left
        """,
    "dead_letters.py": """
        Cooked soup
        Failed: cannot cook nothing
        Failed: cannot cook nothing
        Failed: cannot cook nothing
        Dead letter: nothing
        """,
    "exactly_once.py": """
        First ack: SUCCESS, second ack: INVALID
        First ack: SUCCESS, second ack: INVALID
        Booked: 10 from Anna, 20 from Ben
        """,
    "replay.py": """
        Read: ['Monday']
        Read: ['Tuesday', 'Wednesday']
        Since that moment: ['Tuesday', 'Wednesday']
        Since the snapshot: ['Tuesday', 'Wednesday']
        """,
}


def pattern(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines()]
    escaped = [r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*?") + r"\n" for line in lines]
    return "".join(escaped)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = "".join(f"{line.strip()}\n" for line in capsys.readouterr().out.splitlines())
    assert re.fullmatch(pattern(PRINTED[name]), printed), printed
