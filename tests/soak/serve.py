"""A server with tiny caches, so that every reader meets their limits.

    python -m tests.soak.serve FILE --http-port=0 ...      with the flags of `penstock serve`

On SIGUSR1 it writes the objects that only the garbage collector can free to FILE, as JSON: names of classes and counts.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.assembly import open_parts
from penstock.broker.log import Sizes
from penstock.logs import set_up_logging
from penstock.server import run
from penstock.settings import load_settings

SMALL = Sizes(cache_bytes=4 << 10, chunk_messages=4, chunk_bytes=2048, read_messages=8, read_bytes=4096, topics_ahead=2)


def report_garbage(*_: Any) -> None:
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(type(each).__name__ for each in gc.garbage)
    gc.garbage.clear()
    file = Path(sys.argv[1])
    file.with_suffix(".new").write_text(json.dumps(found))
    file.with_suffix(".new").replace(file)


def main() -> int:
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[2:])
    settings = load_settings(
        flags={name.replace("-", "_"): value for name, value in flags.items()}, environment=os.environ
    )
    set_up_logging(settings)
    signal.signal(signal.SIGUSR1, report_garbage)
    return run(settings, lambda settings: open_parts(settings, SMALL))


if __name__ == "__main__":
    sys.exit(main())
