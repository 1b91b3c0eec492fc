"""The settings of the Flight door: `[flight]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import File, Names, Port, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightOptions:
    port: Port = setting(8815, "Arrow Flight, for Spark.")
    tokens: Names = setting((), "Bearer tokens; with any, every call needs one.", secret=True)
    tls_cert: File = setting(None, "Certificate, PEM; with it the door speaks TLS only.")
    tls_key: File = setting(None, "Its private key, PEM.")
