"""The doors: each implements one protocol, translates, and decides nothing.

An operation of a client is decoded, becomes one call of the queue, and the result is encoded. A door never imports
another door, and the terms of its vendor stay inside it.
"""
