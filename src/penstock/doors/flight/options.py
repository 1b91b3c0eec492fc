"""The settings of the Flight door: `[flight]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import Bytes, File, Port, Seconds, Tokens, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightOptions:
    port: Port = setting(8815, "Port of Arrow Flight, for Spark.")
    tokens: Tokens = setting((), "Bearer tokens. If there are any, every call needs one.", secret=True)
    tls_cert: File = setting(None, "TLS certificate, a PEM file. With it, only TLS connections are accepted.")
    tls_key: File = setting(None, "Private key of the certificate, a PEM file.")
    read_bytes_max: Bytes = setting(
        256 << 20, "Memory for batches that clients have requested and not read yet. 0 means no limit."
    )
    read_timeout: Seconds = setting(60, "End a download if the client reads nothing for this time. 0 means never.")
