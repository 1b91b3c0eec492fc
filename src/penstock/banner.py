"""The banner that is printed when the server is ready, for pipes and terminals of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.distribution import installed_version
from penstock.doors.port import Condition, Door, Recovery
from penstock.settings import Settings
from penstock.wording import counted

COLUMNS = 80
_EXPORT = "export "  # a hint to paste into a shell, on a line of its own that is never cut


def banner(settings: Settings, doors: Sequence[Door], condition: Condition) -> str:
    rows = [("data", line) for line in _store(settings, condition.recovered)]
    exports = []
    for door in doors:
        rows += [(door.name, line) for line in _address_lines(door)]
        exports += [hint for hint in door.hints if hint.startswith(_EXPORT)]
    rows += [(name, f"closed: {reason}") for name, reason in condition.closed.items()]
    width = max(len(name) for name, _ in rows)
    lines = [f"Penstock {installed_version()}", ""]
    before = ""
    for name, line in rows:
        lines.append(f"  {'' if name == before else name:<{width}}  {line}")
        before = name
    return "\n".join([*lines, *([""] if exports else []), *exports, "", "Ready. Ctrl-C stops.", ""])


def recovery_sentence(recovery: Recovery) -> str:
    topics, messages = counted(recovery.topics, "topic"), counted(recovery.messages, "unacked message")
    return f"{topics}, {messages}, recovered in {recovery.milliseconds:,} ms"


def _store(settings: Settings, recovered: Recovery) -> list[str]:
    if settings.memory:
        return ["memory only: a restart loses all messages"]
    return [str(Path(settings.data).absolute()), recovery_sentence(recovered)]


def _address_lines(door: Door) -> list[str]:
    """Return the address of a door with its hints beside it, or below it if they are too long."""
    lines = [door.address]
    for hint in (hint for hint in door.hints if not hint.startswith(_EXPORT)):
        before = lines.pop() if lines == [door.address] else ""
        beside = f"{before:<17} {hint}"
        fits = len(beside) <= COLUMNS - 10
        lines += [beside] if fits else [before, f"  {hint}"] if before else [f"  {hint}"]
    return lines
