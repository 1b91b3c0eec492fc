"""Faults on purpose: rules by which calls of a server for tests fail, wait, or are answered wrongly."""
