"""The handover: clients that connected early get all answers of the reader process before the server ends."""

from __future__ import annotations

import asyncio
import socket
import threading

from penstock.doors.flight.handover import CLOSE_SECONDS, Handover

ANSWER = b"x" * (16 << 20)  # more than the buffers of all sockets in between


def joined() -> tuple[Handover, socket.socket, socket.socket]:
    """A handover, its client, and the other end of the client's connection in the reader process."""
    handover = Handover(socket.AF_INET, "127.0.0.1", 0)
    client = socket.create_connection(("127.0.0.1", handover.port), timeout=30)
    asyncio.run(handover.first_client())
    handover.stop_listening()
    with socket.create_server(("127.0.0.1", handover.port)) as listener:
        handover.hand_over()
        service, _ = listener.accept()
    return handover, client, service


def test_the_last_answer_is_passed_on_before_the_end() -> None:
    handover, client, service = joined()
    sending = threading.Thread(target=lambda: (service.sendall(ANSWER), service.shutdown(socket.SHUT_WR)))
    sending.start()
    finishing = threading.Thread(target=handover.finish, args=(30,))
    finishing.start()
    client.sendall(b"said while the answer came")
    received = client.recv(1)
    assert finishing.is_alive()
    while piece := client.recv(1 << 20):
        received += piece
    assert received == ANSWER
    client.close()
    sending.join(30)
    finishing.join(30)
    assert not finishing.is_alive()
    service.close()


def test_a_client_that_stays_is_not_waited_for() -> None:
    handover, client, service = joined()
    service.close()
    assert client.recv(1) == b""
    finishing = threading.Thread(target=handover.finish, args=(30,))
    finishing.start()
    finishing.join(20 * CLOSE_SECONDS)
    assert not finishing.is_alive()
    client.close()
