"""The Python API: PubSub, Topic, Subscription, Message and Snapshot, in this process and without a server.

What a message goes through is decided by the broker; this package batches, limits, hands out and takes back.
"""
