"""The settings of the Google door: `[pubsub]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import File, Names, Networks, Port, Switch, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleOptions:
    port: Port = setting(8085, "Pub/Sub gRPC and REST.")
    second_port: Port = setting(None, "The same at one more port, for clients that expect it there.")
    tokens: Names = setting((), "Bearer tokens; with any, every call but health needs one.", secret=True)
    tls_cert: File = setting(None, "Certificate, PEM; with it the door speaks TLS only.")
    tls_key: File = setting(None, "Its private key, PEM.")
    cors_origins: Names = setting((), "Web pages that may call besides this machine's own; *: every page.")
    seek_all: Switch = setting(False, "A seek to a time reaches all that the server retains.")
    reset: Switch = setting(False, "POST /reset forgets everything; with memory it always may.")
    push_allow: Networks = setting(
        (), "Networks (127.0.0.0/8) that push may reach besides public ones over https.", name="push_allow"
    )
