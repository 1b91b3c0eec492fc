"""Run all benchmarks, or the named ones: `python -m benchmarks [name ...] [--quick]`.

A benchmark is a module with a `main(quick)`. To add one, add its name to the list.
"""

from __future__ import annotations

import platform
import sys
import time
from importlib import import_module

BENCHMARKS = (
    "broker",
    "backup",
    "python_api",
    "azure",
    "text",
    "google",
    "flight",
    "looking",
    "neighbours",
    "console",
    "spark",
)


def main() -> None:
    words = sys.argv[1:]
    strange = [word for word in words if word.startswith("-") and word != "--quick"]
    if strange:  # a question or a mistake, which should not start a run of half an hour
        sys.exit(f"python -m benchmarks [--quick] [name ...]; the names are {', '.join(BENCHMARKS)}")
    quick = "--quick" in words
    names = [word for word in words if not word.startswith("-")] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"Unknown benchmark: {unknown[0]}. There are: {', '.join(BENCHMARKS)}")
    print(f"Python {platform.python_version()}, {platform.machine()}, {time.strftime('%Y-%m-%d')}, quick={quick}")
    for name in names:
        print(f"\n== {name}")
        import_module(f"benchmarks.{name}").main(quick)


if __name__ == "__main__":
    main()
