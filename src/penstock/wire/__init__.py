"""Wire protocols and connections, shared by the doors.

This package moves bytes and keeps peers within limits. It knows no topic, no message and no vendor.
"""
