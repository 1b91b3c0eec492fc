"""A real server with all protocols, for tests of Spark."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import flight

from tests.server_process import SECONDS, ServerProcess


class Server(ServerProcess):
    @property
    def endpoint(self) -> str:
        return self.addresses["flight"]

    # ------------------------------------------------------------------ through the Flight door

    def client(self) -> flight.FlightClient:
        # no connection of another client, which may lead to a killed server
        own = [("grpc.use_local_subchannel_pool", 1)]
        return flight.FlightClient(f"grpc://{self.endpoint}", generic_options=own)

    def ask(self, action: str, **body: Any) -> dict[str, Any]:
        with self.client() as client:
            answers = list(client.do_action(flight.Action(action, json.dumps(body).encode())))
        return dict(json.loads(answers[0].body.to_pybytes()))

    def tail(self, topic: str) -> int:
        return int(next(iter(self.ask("bounds", topics=[topic])["topics"].values()))["tail"])

    def publish(self, topic: str, rows: Sequence[bytes], attributes: Sequence[dict[str, str]] = ()) -> None:
        columns: dict[str, pa.Array] = {"data": pa.array(rows, pa.binary())}
        if attributes:
            pairs = [list(each.items()) for each in attributes]
            columns["attributes"] = pa.array(pairs, pa.map_(pa.string(), pa.string()))
        batch = pa.record_batch(columns)
        with self.client() as client:
            descriptor = flight.FlightDescriptor.for_command(json.dumps({"topic": topic}).encode())
            writer, answers = client.do_put(descriptor, batch.schema)
            writer.write_batch(batch)
            answer = answers.read()
            if answer is None:
                writer.close()  # raises the error of the server
            assert "published" in json.loads(answer.to_pybytes())
            writer.close()

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """Return all messages of a topic."""
        bound = next(iter(self.ask("bounds", topics=[topic])["topics"].values()))
        ticket = {"topic": topic, "first": bound["head"], "until": bound["tail"]}
        with self.client() as client:
            found: list[dict[str, Any]] = (
                client.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all().to_pylist()
            )
        return found

    def data(self, topic: str) -> list[bytes]:
        return [row["data"] for row in self.rows(topic)]

    # ------------------------------------------------------------------ through Google's REST

    def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{self.addresses['pubsub']}/v1/{path}",
            data=json.dumps(body).encode() if body is not None else None,
            method=method,
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return dict(json.loads(answer.read() or b"{}"))

    def rest_publish(self, topic: str, data: bytes, attributes: dict[str, str], key: str = "") -> str:
        message = {"data": base64.b64encode(data).decode(), "attributes": attributes, "orderingKey": key}
        answer = self.rest("POST", f"{topic}:publish", {"messages": [message]})
        return str(answer["messageIds"][0])
