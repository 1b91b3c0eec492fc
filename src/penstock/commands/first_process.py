"""What a container expects of its first process: it hands signals on and collects processes that have ended.

The system ignores a signal to process 1 that has no handler, and leaves orphans to it. So the server is a child there.
"""

from __future__ import annotations

import os
import signal

HANDED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}


def go_on_in_child() -> None:
    """Return in a child; this process ends when that one does, with its exit code."""
    watched = HANDED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    while (code := _ended(child)) is None:
        told = signal.sigwaitinfo(watched)
        # A terminal sends to all of its processes; one that got Ctrl-C twice would leave without finishing.
        if told.si_signo in HANDED_ON and told.si_code <= 0:
            os.kill(child, told.si_signo)
    os._exit(code if code >= 0 else 128 - code)


def _ended(child: int) -> int | None:
    """Collect all that have ended; the exit code of the child, if it is among them."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            return os.waitstatus_to_exitcode(status)
        if not ended:
            return None
