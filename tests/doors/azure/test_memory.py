"""The memory budget for requests: when it is used up, requests get 503 ServerBusy."""

from __future__ import annotations

import http.client
import socket
from contextlib import ExitStack, closing

from penstock.wire.budget import Budget
from tests.doors.azure.harness import SECONDS, Answer, body_of, opened

KIB = 1 << 10


def test_a_message_without_memory_is_server_busy() -> None:
    """Every client library repeats a request after this code."""
    budget = Budget(64 * KIB)
    with opened(budget=budget) as harness, ExitStack() as stack:
        harness.create()
        half = stack.enter_context(closing(socket.create_connection(("127.0.0.1", harness.port), SECONDS)))
        half.sendall(b"POST /devstoreaccount1/orders/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n")
        half.sendall(bytes(50_000))
        while budget.in_use_bytes < 50_000:
            assert harness.ask("GET", "orders?comp=metadata").status == 200
        connection = stack.enter_context(
            closing(http.client.HTTPConnection("127.0.0.1", harness.port, timeout=SECONDS))
        )
        connection.request("POST", f"/devstoreaccount1/orders/messages?{harness.sas}", body_of("x" * 40_000))
        response = connection.getresponse()
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        assert (answer.status, answer.code) == (503, "ServerBusy")
        harness.put("small messages pass")
        half.close()
        while budget.in_use_bytes:
            assert harness.ask("GET", "orders?comp=metadata").status == 200
        harness.put("x" * 40_000)
        assert harness.count() == 2
