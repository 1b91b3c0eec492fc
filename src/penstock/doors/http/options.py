"""The settings of the HTTP door: `[http]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import Names, Port, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    port: Port = setting(8090, "Health, metrics and the admin API.")
    tokens: Names = setting(
        (), "Bearer tokens that may do everything; without any, only this machine may.", secret=True
    )
    read_tokens: Names = setting((), "Bearer tokens that may look at everything and change nothing.", secret=True)
    allowed_hosts: Names = setting((), "Name the door answers to on loopback besides this machine's own.")
