"""HTTP/2 for a server: frames, header compression and flow control, as far as gRPC and REST need them.

The law of this package: it moves bytes and keeps peers within limits; it knows no method, no message, no vendor.
"""
