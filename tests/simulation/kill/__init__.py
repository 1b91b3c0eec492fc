"""Kills of the real server while it works."""
