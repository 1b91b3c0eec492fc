"""The settings of the HTTP door: `[http]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import Names, Port, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    port: Port = setting(8090, "Health and metrics.")
    allowed_hosts: Names = setting((), "Name the door answers to on loopback besides this machine's own.")
