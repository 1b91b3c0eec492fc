"""The first process of a container: it forwards signals and collects ended processes.

The kernel ignores signals to process 1 that have no handler, and orphaned processes become its children. So the server
runs in a child of process 1.
"""

from __future__ import annotations

import os
import signal

FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}


def continue_in_child() -> None:
    """Return in a child process. This process exits when the child does, with its exit code."""
    watched = FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    while (code := _exit_code_of(child)) is None:
        received = signal.sigwaitinfo(watched)
        # A terminal signals all of its processes. The child must not get Ctrl-C twice: it would exit at once.
        if received.si_signo in FORWARDED and received.si_code <= 0:
            os.kill(child, received.si_signo)
    os._exit(code if code >= 0 else 128 - code)


def _exit_code_of(child: int) -> int | None:
    """Collect ended processes, and return the exit code of the child if it has ended."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            return os.waitstatus_to_exitcode(status)
        if not ended:
            return None
