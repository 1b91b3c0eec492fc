"""The settings of the text door, `[text]` of the settings file, and its limits that are not settings."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import Bytes, Count, File, Port, Seconds, Switch, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Settings and limits of the text door. A limit ends a connection, never the server."""

    port: Port = setting(9123, "Port of the text protocol.")
    projects: Switch = setting(False, "Read the queue name NAME@PROJECT as the queue NAME of that project. For tests.")
    unix_socket: File = setting(None, "Also listen on this Unix socket. Only its owner can use it.")
    tls_cert: File = setting(None, "TLS certificate, a PEM file. With it, TCP accepts only TLS connections.")
    tls_key: File = setting(None, "Private key of the certificate, a PEM file.")
    tls_client_ca: File = setting(None, "Accept only clients with a certificate that this CA has signed, a PEM file.")
    message_bytes_max: Bytes = setting(10 << 20, "Maximum size of a message.")  # T-060
    window_max: Count = setting(10_000, "Maximum number of unacked messages of a queue on a connection.")  # T-029
    # T-063
    connections_max: Count = setting(
        16_384, "Maximum number of connections. The limit of open files is raised for them."
    )
    connections_per_address_max: Count = setting(12_288, "Maximum number of connections from one address.")
    frame_seconds: Seconds = setting(30, "Close a connection if a message takes longer than this to arrive.")  # T-061
    # T-062
    idle_seconds: Seconds = setting(
        600, "Close a connection that consumes nothing and is silent for this time. 0 means never."
    )
    write_seconds: Seconds = setting(30, "Close a connection if the client reads nothing for this time.")  # T-064

    linger_seconds: float = 2  # after a fault, input is discarded for this time, so that our answer arrives
    pending_bytes_max: int = 4 << 20  # of a connection's sends that are not durable yet (T-065)
    pending_messages_max: int = 10_000
    write_buffer_bytes: int = 256 << 10  # beyond this a client counts as not reading
    dispatch_bytes: int = 1 << 20  # taken from a queue at a time, but never less than one message
    dispatch_messages: int = 1000
    sweep_seconds: float = 1  # time between two checks of deadlines, by one timer for the door
