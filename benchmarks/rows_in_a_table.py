"""The peer: a queue as most programs write it on SQLite, with one row for each message and the same durability.

It is as plain as usual: an INSERT for each message, a claim by UPDATE, an ack by DELETE, one commit for each call, WAL
and synchronous=FULL, with the standard library.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path


class TableQueue:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY, body BLOB, due REAL NOT NULL DEFAULT 0)")

    def publish(self, bodies: list[bytes]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO queue (body) VALUES (?)", [(body,) for body in bodies])
        self._db.execute("COMMIT")

    def pull(self, most: int) -> list[tuple[int, bytes]]:
        now = time.time()
        self._db.execute("BEGIN IMMEDIATE")
        found = self._db.execute(
            "SELECT id, body FROM queue WHERE due <= ? ORDER BY id LIMIT ?", (now, most)
        ).fetchall()
        self._db.executemany("UPDATE queue SET due = ? WHERE id = ?", [(now + 10, number) for number, _ in found])
        self._db.execute("COMMIT")
        return found

    def ack(self, numbers: list[int]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("DELETE FROM queue WHERE id = ?", [(number,) for number in numbers])
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()
