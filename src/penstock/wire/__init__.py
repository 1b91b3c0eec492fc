"""Wire protocols that more than one door speaks, as small reusable servers.

The law of this package: it moves bytes and keeps peers within limits; it knows no topic, no message and no vendor.
"""
