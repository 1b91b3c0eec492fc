"""The Python API: PubSub, Topic, Subscription, Message and Snapshot, in this process and without a server.

The rule kept here: a convenience over a queue, never a second queue. What a message goes through is decided by the
broker; this package batches, limits, hands out and takes back, and gives up nothing that was accepted.
"""
