"""The pure broker, the part that decides.

This package uses only the standard library, and nothing in it with a side effect: no clock, no randomness, no I/O, no
threads, no logging. Time enters as `now`, in nanoseconds since 1970. State changes only by applying facts, so the same
inputs give the same facts on every run.
"""
