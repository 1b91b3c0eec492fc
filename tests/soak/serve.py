"""A server whose caches hold next to nothing, so that every reader meets every edge of them.

python -m tests.soak.serve       its settings come from the environment, as any server's do
"""

from __future__ import annotations

import os
import sys

from penstock.assembly import open_parts
from penstock.broker.log import Sizes
from penstock.server import run, set_up_logging
from penstock.settings import load_settings

SMALL = Sizes(cache_bytes=4 << 10, chunk_messages=4, chunk_bytes=2048, read_messages=8, read_bytes=4096, topics_ahead=2)


def main() -> int:
    settings = load_settings(flags={}, environment=os.environ)
    set_up_logging(settings)
    return run(settings, lambda settings: open_parts(settings, SMALL))


if __name__ == "__main__":
    sys.exit(main())
