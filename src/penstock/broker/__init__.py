"""The pure broker: it decides, and does nothing else.

The law of this package: standard library only, and from it nothing that touches the world (no clock, no
randomness, no I/O, no threads, no logging). Time enters as `now`, in nanoseconds since 1970; state changes only
by applying facts, so the same inputs give the same facts on every run.
"""
