"""The doors: each speaks one protocol, translates, and never decides.

The law of this package: one operation of a client is decode, one call of the queue, encode. A door never
imports another door, and its vendor's words stay inside it.
"""
