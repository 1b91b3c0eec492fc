"""`penstock serve`: flags in, settings out, exit code back."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

PORT = "PORT|off"


def serve(
    *,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML file with settings.", envvar="PENSTOCK_CONFIG")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of the store. Default ./penstock-data.")
    ] = None,
    memory: Annotated[bool | None, typer.Option("--memory", help="Keep everything in memory only.")] = None,
    accept_loss: Annotated[
        bool | None, typer.Option("--accept-loss", help="Open a store that lost its last commits, without them.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on. Default 127.0.0.1.")
    ] = None,
    pubsub_port: Annotated[str | None, typer.Option(metavar=PORT, help="Pub/Sub gRPC and REST. Default 8085.")] = None,
    azure_port: Annotated[str | None, typer.Option(metavar=PORT, help="Azure Queue Storage. Default 10001.")] = None,
    text_port: Annotated[str | None, typer.Option(metavar=PORT, help="Text protocol. Default 9123.")] = None,
    flight_port: Annotated[str | None, typer.Option(metavar=PORT, help="Arrow Flight. Default 8815.")] = None,
    http_port: Annotated[str | None, typer.Option(metavar=PORT, help="Health and metrics. Default 8090.")] = None,
    http_allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name the HTTP door answers to on loopback; repeat for more."),
    ] = None,
    ready_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write addresses here once every door answers.")
    ] = None,
    retention_seconds: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Keep acked messages so long. Default 86400.")
    ] = None,
    retention_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="At most so many bytes of them per topic; 0: no cap. Default 0.")
    ] = None,
    queue_messages_max: Annotated[
        str | None, typer.Option(metavar="COUNT", help="Refuse publishes beyond so many waiting; 0: no limit.")
    ] = None,
    queue_bytes_max: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Refuse publishes beyond so many waiting; 0: no limit.")
    ] = None,
    buffer_bytes_max: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Requests being read, answers not taken. Default 256 MiB.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error. Default info.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(metavar="FORMAT", help="text or json. Default text.")] = None,
    grace_seconds: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="To finish requests when stopping. Default 10.")
    ] = None,
) -> None:
    """Run the server.

    A port of 0 takes any free one, "off" keeps that door closed. Every flag is also an environment variable
    (PENSTOCK_HTTP_PORT) and a key of the settings file (http_port); flags win.
    """
    flags = dict(locals())
    config = flags.pop("config")
    flags["http_allowed_hosts"] = flags.pop("http_allowed_host") or None
    raise typer.Exit(_serve(flags, config))


def _serve(flags: dict[str, Any], config: str | None) -> int:
    from penstock.assembly import open_parts
    from penstock.errors import InvalidArgumentError
    from penstock.logs import escape_controls, set_up_logging
    from penstock.server import EXIT_USAGE, run
    from penstock.settings import load_settings, read_config

    try:
        file = read_config(config) if config else None
        settings = load_settings(flags=flags, environment=os.environ, config=file)
    except InvalidArgumentError as error:
        print(f"penstock: {escape_controls(error.message)}", file=sys.stderr)
        return EXIT_USAGE
    set_up_logging(settings)
    return run(settings, open_parts)
