"""The settings of the text door, `[text]` of the settings file, and its limits that are not settings."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import Bytes, Count, File, Port, Seconds, Switch, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Every limit ends a connection, never the server."""

    port: Port = setting(9123, "Text protocol.")
    projects: Switch = setting(False, "A queue NAME@PROJECT is the queue NAME of that project: for tests.")
    unix_socket: File = setting(None, "A path where the door listens as well; made for its owner only.")
    tls_cert: File = setting(None, "Certificate, PEM; with it TCP speaks TLS only.")
    tls_key: File = setting(None, "Its private key, PEM.")
    tls_client_ca: File = setting(None, "Only clients whose certificate this one signed, PEM.")
    message_bytes_max: Bytes = setting(10 << 20, "Of the content of a message.")  # T-060
    window_max: Count = setting(10_000, "Messages of a queue outstanding on a connection.")  # T-029
    connections_max: Count = setting(16_384, "Connections; the limit of open files is raised for them.")  # T-063
    connections_per_address_max: Count = setting(12_288, "Connections from one address.")
    frame_seconds: Seconds = setting(30, "From the first byte of a message to its last.")  # T-061
    idle_seconds: Seconds = setting(600, "Silence of a client that consumes nothing; 0: for ever.")  # T-062
    write_seconds: Seconds = setting(30, "In which a client reads nothing of what waits for it.")  # T-064

    linger_seconds: float = 2  # after a fault: how long input is thrown away, so that our answer arrives
    pending_bytes_max: int = 4 << 20  # of a connection's sends that are not durable yet (T-065)
    pending_messages_max: int = 10_000
    write_buffer_bytes: int = 256 << 10  # beyond this a client counts as not reading
    dispatch_bytes: int = 1 << 20  # taken from a queue at a time, but never less than one message
    dispatch_messages: int = 1000
    sweep_seconds: float = 1  # how often deadlines are looked at: one timer for the whole door
