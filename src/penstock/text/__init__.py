"""Clients of the text protocol (docs/text-protocol.md): `Client` blocks, `AsyncClient` is awaited.

    from penstock.text import Client

    with Client("127.0.0.1:9123") as client:
        client.send("orders", b"one")
        for message in client.consume("orders", wait_seconds=1):
            print(message.content)
            message.ack()

Both speak version 02. Each is a socket around the same session.
"""

from penstock.text.awaitable import AsyncClient
from penstock.text.blocking import Client
from penstock.text.session import Message

__all__ = ["AsyncClient", "Client", "Message"]
