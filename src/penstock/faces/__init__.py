"""The faces of the broker: the same state machine, blocking or awaitable, with a journal behind it.

The rule kept here: a face answers only when the facts behind the answer are committed, and decides nothing.
"""
