"""The Google door: Pub/Sub v1 over gRPC and REST, on one port.

    server.py  the port       http2/  the transport     calls.py, rest.py  gRPC and JSON over it
    services.py  every method by its name               codec.py  the hot messages, bytes in and out
    topics.py subscriptions.py snapshots.py schemas/ policies.py      the resources and their rules
    publishing.py pulling.py streaming.py push.py                     messages in and out

This package keeps production's names, limits, codes and texts. An error that the client caused is reported as the
client's (INVALID_ARGUMENT), because clients repeat a call for minutes after an error of the server (UNKNOWN).
"""
