"""The Azure door: Queue Storage clients, unchanged, over the broker.

The law of this package: the standard paths answer as the real service does; where the real service, Azurite and the
specification differ, `dialect.py` says which one is followed. Nothing here is remembered between two requests that
another node could not rebuild from the broker.
"""
