"""Fault injection: rules by which calls of a server for tests fail, wait, or get wrong answers."""
