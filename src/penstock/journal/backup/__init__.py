"""Backups: the sealed rows of a store of any journal, in files with a manifest.

Start reading at writing.py. The format is in manifest.py and rows.py. checking.py checks a backup, and restoring.py
makes a store of it. The choices are in docs/decisions/0016-backup.md.
"""
