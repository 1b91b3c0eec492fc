"""The main module of a server for tests. The server ends with the process that started it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

WATCH_SECONDS = 1.0


def main(ready_file: str, owner: str, *settings: str) -> int:
    """Run a server until the process `owner` ends. Settings are NAME=VALUE. Return the exit code."""
    from functools import partial

    from penstock.assembly import open_parts
    from penstock.errors import InvalidArgumentError
    from penstock.logs import set_up_logging
    from penstock.server import EXIT_USAGE, run
    from penstock.settings import load_settings
    from penstock.testing.settings import flags_of

    values = dict(setting.split("=", 1) for setting in settings)
    try:
        loaded = load_settings(flags=flags_of({"ready_file": ready_file, **values}), environment={})
    except InvalidArgumentError as error:
        sys.stderr.write(f"{error.message}\n")
        return EXIT_USAGE
    set_up_logging(loaded)
    threading.Thread(target=_watch, args=(int(owner), ready_file), daemon=True).start()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        return run(loaded, partial(open_parts), out=nowhere)


def _watch(owner: int, ready_file: str) -> None:
    """End this process after its owner, because a killed owner stops nothing."""
    never = threading.Event()
    while _lives(owner):
        never.wait(WATCH_SECONDS)
    Path(ready_file).unlink(missing_ok=True)
    os._exit(0)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
