"""What a person reads after starting the server: plain enough for a pipe, and for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.doors.port import Condition, Door, Recovery
from penstock.settings import Settings, installed_version
from penstock.wording import counted

COLUMNS = 80
_EXPORT = "export "  # a hint to paste into a shell: on a line of its own, which a terminal may fold but not cut


def banner(settings: Settings, doors: Sequence[Door], condition: Condition) -> str:
    rows = [("data", line) for line in _store(settings, condition.recovered)]
    exports = []
    for door in doors:
        rows += [(door.name, line) for line in _folded(door)]
        exports += [hint for hint in door.hints if hint.startswith(_EXPORT)]
    rows += [(name, f"closed: {reason}") for name, reason in condition.closed.items()]
    width = max(len(name) for name, _ in rows)
    lines = [f"Penstock {installed_version()}", ""]
    before = ""
    for name, line in rows:
        lines.append(f"  {'' if name == before else name:<{width}}  {line}")
        before = name
    return "\n".join([*lines, *([""] if exports else []), *exports, "", "Ready. Ctrl-C stops.", ""])


def recovery_sentence(found: Recovery) -> str:
    topics, messages = counted(found.topics, "topic"), counted(found.messages, "message")
    return f"{topics}, {messages} waiting, recovered in {found.milliseconds:,} ms"


def _store(settings: Settings, recovered: Recovery) -> list[str]:
    if settings.memory:
        return ["memory only: a restart forgets everything"]
    return [str(Path(settings.data).absolute()), recovery_sentence(recovered)]


def _folded(door: Door) -> list[str]:
    """The address with what there is to know beside it, or below it if that is too long."""
    lines = [door.address]
    for hint in (hint for hint in door.hints if not hint.startswith(_EXPORT)):
        before = lines.pop() if lines == [door.address] else ""
        beside = f"{before:<17} {hint}"
        fits = len(beside) <= COLUMNS - 10
        lines += [beside] if fits else [before, f"  {hint}"] if before else [f"  {hint}"]
    return lines
