"""An HTTP/2 server: frames, header compression and flow control, as far as gRPC and REST need them.

This package moves bytes and keeps peers within limits. It knows no method, no message and no vendor.
"""
