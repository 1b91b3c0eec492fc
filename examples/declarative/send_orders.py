"""Publish orders over the Pub/Sub API: `python send_orders.py [NUMBER] [ADDRESS]`.

It uses only the standard library, so that it runs wherever Python does.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import urllib.error
import urllib.request

CITIES = ("Bern", "Lyon", "Porto")


def call(method: str, url: str, body: dict[str, object]) -> None:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}, method=method
    )
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 409:  # the topic exists already
            raise


def main(count: int = 300, address: str = "127.0.0.1:8085") -> None:
    topic = f"http://{address}/v1/projects/penstock/topics/orders"
    call("PUT", topic, {})
    orders = [
        {"id": number, "city": random.choice(CITIES), "cents": random.randrange(100, 20_000)} for number in range(count)
    ]
    messages = [{"data": base64.b64encode(json.dumps(order).encode()).decode()} for order in orders]
    call("POST", f"{topic}:publish", {"messages": messages})
    print(f"{count} orders sent")


if __name__ == "__main__":
    main(*[kind(value) for kind, value in zip((int, str), sys.argv[1:], strict=False)])
