"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 topic`, `1,204 messages` or `2 batches`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
