"""The settings of the HTTP door: `[http]` of the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.fields import Count, Hosts, Port, Tokens, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    port: Port = setting(8090, "HTTP port: console, admin API, health and metrics.")
    tokens: Tokens = setting(
        (), "Bearer tokens that allow everything. Without any, only this machine has access.", secret=True
    )
    read_tokens: Tokens = setting((), "Bearer tokens that allow reading only.", secret=True)
    allowed_hosts: Hosts = setting((), "Host name that requests on loopback addresses may use, besides localhost.")
    metrics_resources: Count = setting(
        5000, "Maximum number of topics, and of subscriptions, with their own series in /metrics. 0 means totals only."
    )
