"""The Azure door: a server for unmodified Azure Queue Storage clients.

The standard paths answer as the real service does. Where the real service, Azurite and the specification differ,
`dialect.py` says which one is followed. The door remembers nothing between two requests that another node could not
rebuild from the broker.
"""
