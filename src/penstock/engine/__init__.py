"""The engine: one broker with its journal, and the blocking and awaitable queues over it.

A queue answers only when the facts behind the answer are committed, and decides nothing.
"""
