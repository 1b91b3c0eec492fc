"""The journal in one SQLite file: the embedded default.

A reader starts at journal.py; each other file keeps one promise: folder.py (one process), mark.py (nothing is lost
unnoticed), reserve.py (acks fit on a full disk), chores.py (space comes back), rows.py (a backup reads beside it).
"""

from penstock.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
