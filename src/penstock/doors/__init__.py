"""The doors, each of which implements one protocol. They translate, and decide nothing.

An operation of a client is decoded, becomes one call of the queue, and the result is encoded. A door never imports
another door, and the terms of its vendor stay inside it.
"""
