"""The Python API: PubSub, Topic, Subscription, Message and Snapshot, in this process and without a server.

The broker decides what happens to messages. This package batches calls, limits flow and runs listeners.
"""
