"""The settings of the Google door: `[pubsub]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import File, Networks, Origins, Port, Switch, Tokens, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleOptions:
    port: Port = setting(8085, "Port of the Pub/Sub API, for gRPC and REST.")
    second_port: Port = setting(None, "Second port of the Pub/Sub API, for clients that expect it there.")
    tokens: Tokens = setting((), "Bearer tokens. If there are any, every call except health needs one.", secret=True)
    tls_cert: File = setting(None, "TLS certificate, a PEM file. With it, only TLS connections are accepted.")
    tls_key: File = setting(None, "Private key of the certificate, a PEM file.")
    cors_origins: Origins = setting(
        (), "Origins of web pages that may call the API, besides pages of this machine. * means all."
    )
    seek_all: Switch = setting(
        False, "Let a seek to a time reach all messages that the server keeps, not only those that Pub/Sub would keep."
    )
    reset: Switch = setting(False, "Allow POST /reset to delete everything. With --memory it is always allowed.")
    push_allow: Networks = setting(
        (),
        "Networks that push endpoints may be in, such as 127.0.0.0/8. Public addresses over https are always allowed.",
        name="push_allow",
    )
