"""The journal in one SQLite file, the default.

Start reading at journal.py. Each other file keeps one promise: folder.py (one process), mark.py (no loss is
unnoticed), reserve.py (acks fit on a full disk), chores.py (space is given back), rows.py (backups read in parallel).
"""

from penstock.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
