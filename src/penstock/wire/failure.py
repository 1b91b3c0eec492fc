"""What may be said in a log about an exception nobody expected.

The rule kept here: its type and the places it came through, never its text, which may repeat a body, a key or a
signature. The full traceback is for the debug level only.
"""

from __future__ import annotations

import traceback
from pathlib import Path

_PLACES = 6


def where(error: BaseException) -> str:
    """`KeyError at codec.py:12 in decode < server.py:80 in answer`, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-_PLACES:]
    places = [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in reversed(frames)]
    return f"{type(error).__name__} at {' < '.join(places)}" if places else type(error).__name__
