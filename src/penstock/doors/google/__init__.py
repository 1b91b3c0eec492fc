"""The Google door: Pub/Sub v1 over gRPC and REST, on one port.

    server.py  the port       http2/  the transport     calls.py, rest.py  gRPC and JSON over it
    services.py  every method by its name               codec.py  the hot messages, bytes in and out
    topics.py subscriptions.py snapshots.py schemas.py policies.py    the resources and their rules
    publishing.py pulling.py streaming.py push.py                     messages in and out

The law of this package: production's names, limits, codes and texts; what a client gets wrong is its own fault and
said so (INVALID_ARGUMENT), because clients repeat for minutes what they are told is ours (UNKNOWN).
"""
