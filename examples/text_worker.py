"""A worker with the text protocol: consume jobs, return one for a retry, and ack the others.

Start `penstock serve` first. PENSTOCK_TEXT_ADDRESS sets another address.
"""

from __future__ import annotations

import os

from penstock.text import Client

ADDRESS = os.environ.get("PENSTOCK_TEXT_ADDRESS", "127.0.0.1:9123")


def main() -> None:
    with Client(ADDRESS) as client:
        ids = client.send_many("jobs", [b"wash", b"dry", b"fold"])
        print(f"{len(ids)} jobs are safe")
        tried: set[str] = set()
        done: list[str] = []
        for message in client.consume("jobs", window=1, wait_seconds=5):
            job = message.content.decode()
            if job == "dry" and message.id not in tried:
                tried.add(message.id)
                print("dry: still wet, later")
                message.give_back(delay_seconds=0.2)
                continue
            print(f"{job}: done")
            message.ack()
            done.append(job)
            if len(done) == len(ids):
                break


if __name__ == "__main__":
    main()
