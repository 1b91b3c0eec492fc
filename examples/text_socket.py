"""The text protocol over a plain socket: send, wait until the message is durable, consume, acknowledge."""

from __future__ import annotations

import os
import socket

ADDRESS = os.environ.get("PENSTOCK_TEXT_ADDRESS", "127.0.0.1:9123")


def frame(kind: int, *packages: tuple[int, bytes]) -> bytes:
    parts = [b"H02%03d%02d" % (kind, len(packages))]
    for number, content in packages:
        parts.append(b"P%02d%033d" % (number, len(content)) + content)
    return b"".join(parts)


def main() -> None:
    host, _, port = ADDRESS.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection, connection.makefile("rb") as answers:

        def hear() -> tuple[int, dict[int, bytes]]:
            header = answers.read(8)
            packages = {}
            for _ in range(int(header[6:8])):
                head = answers.read(36)
                packages[int(head[1:3])] = answers.read(int(head[3:]))
            return int(header[3:6]), packages

        connection.sendall(frame(1, (1, b"Foo"), (2, b"Hello World")))
        kind, packages = hear()
        print(f"{kind:03}: {packages[3].decode()} is durable in {packages[1].decode()}")
        connection.sendall(frame(2, (1, b"Foo"), (4, b"5")))
        kind, packages = hear()
        print(f"{kind:03}: {packages[2].decode()}")
        connection.sendall(frame(4, (1, b"Foo"), (3, packages[3])))
        connection.shutdown(socket.SHUT_WR)
        print(f"closed: {answers.read() == b''}")


if __name__ == "__main__":
    main()
