"""Backups: the sealed rows of a store in files with a manifest, whatever the journal they came from.

A reader starts at writing.py; the form on disk is in manifest.py and rows.py, checking.py reads a backup back and
restoring.py makes a store of it. The choices are in docs/decisions/0016-backup.md.
"""
