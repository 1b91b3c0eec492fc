"""A demo of a broker, traffic from every protocol, a pipeline on Spark, and its results. Run by `make pipeline`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1
from pyarrow import flight

from penstock.text import Client as TextClient

HERE = Path(__file__).parent
AZURE = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6"
    "IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;QueueEndpoint=http://{}/devstoreaccount1;"
)
ORDERS, RETURNS, CLICKS, SENSORS, LOST = 2000, 100, 500, 50_000, 5


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    server, doors = start_broker(folder)
    try:
        print("Sending: orders by the Google client, returns by Azure's, clicks as text, sensors over Arrow Flight")
        send_orders(doors["pubsub"])
        send_returns(doors["azure"])
        send_clicks(doors["text"])
        send_sensors(doors["flight"])
        lose_orders(doors["pubsub"])
        shutil.copy(HERE / "shop.toml", folder)
        run = [sys.executable, "-m", "penstock", "pipeline", "run", "shop.toml", "--endpoint", doors["flight"]]
        code = subprocess.run(run, cwd=folder).returncode
        return code or check_totals(folder, doors["flight"])
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def start_broker(folder: Path) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    ports = [part for door in ("pubsub", "azure", "text", "flight", "http") for part in (f"--{door}-port", "0")]
    command = [sys.executable, "-m", "penstock", "serve", "--data", str(folder / "data"), *ports]
    log = (folder / "server.log").open("wb")
    server = subprocess.Popen(
        [*command, "--ready-file", str(folder / "ready.json")], stdout=subprocess.PIPE, stderr=log
    )
    assert server.stdout is not None
    if not any(line.startswith(b"Ready.") for line in server.stdout):
        sys.exit(f"The broker did not start:\n{(folder / 'server.log').read_text()}")
    return server, json.loads((folder / "ready.json").read_text())


def send_orders(address: str) -> None:
    os.environ["PUBSUB_EMULATOR_HOST"] = address
    publisher = pubsub_v1.PublisherClient()
    topic = publisher.create_topic(name="projects/shop/topics/orders").name
    orders = [{"customer": f"c{number % 50}", "amount": number % 1000} for number in range(ORDERS)]
    for sent in [publisher.publish(topic, json.dumps(order).encode()) for order in orders]:
        sent.result(30)


def send_returns(address: str) -> None:
    with QueueClient.from_connection_string(AZURE.format(address), "returns") as queue:
        queue.create_queue()
        for number in range(RETURNS):
            queue.send_message(f"return {number}")


def send_clicks(address: str) -> None:
    with TextClient(address) as client:
        for _ in client.send_many("clicks", iter([f"click {number}".encode() for number in range(CLICKS)])):
            pass


def send_sensors(address: str) -> None:
    readings = pa.record_batch({"data": pa.array([f"{number % 97}.5".encode() for number in range(SENSORS)])})
    with flight.FlightClient(f"grpc://{address}") as client:
        ask(client, "topic.ensure", topic="projects/shop/topics/sensors")
        command = json.dumps({"topic": "projects/shop/topics/sensors"}).encode()
        writer, answers = client.do_put(flight.FlightDescriptor.for_command(command), readings.schema)
        for start in range(0, SENSORS, 10_000):
            writer.write_batch(readings.slice(start, 10_000))
            answers.read()
        writer.close()


def lose_orders(address: str) -> None:
    """Fail five times on every message, so that all are dead-lettered."""
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    work, grave = (publisher.create_topic(name=f"projects/shop/topics/{name}").name for name in ("mail", "lost-orders"))
    policy = {"dead_letter_topic": grave, "max_delivery_attempts": 5}
    worker = "projects/shop/subscriptions/mailer"
    subscriber.create_subscription(request={"name": worker, "topic": work, "dead_letter_policy": policy})
    for number in range(LOST):
        publisher.publish(work, f"parcel {number}".encode(), problem="no address").result(30)
    for _ in range(5):
        pulled = subscriber.pull(subscription=worker, max_messages=LOST).received_messages
        ids = [each.ack_id for each in pulled]
        subscriber.modify_ack_deadline(subscription=worker, ack_ids=ids, ack_deadline_seconds=0)
    subscriber.close()


def check_totals(folder: Path, address: str) -> int:
    """Compare the output with the input."""
    with flight.FlightClient(f"grpc://{address}") as client:
        topics = ask(client, "bounds")["topics"]
    lake = sum(pq.read_metadata(path).num_rows for path in (folder / "lake").rglob("*.parquet"))
    insights = [pq.ParquetFile(path).read(["messages"]) for path in (folder / "insights").rglob("*.parquet")]
    letters = [pq.ParquetFile(path).read(["letters"]) for path in (folder / "dead-letters").rglob("*.parquet")]
    everything = ORDERS + RETURNS + CLICKS + SENSORS
    wanted = {
        "messages in the lake": (lake, everything),
        "messages in insights": (sum(sum(each["messages"].to_pylist()) for each in insights), everything),
        "large orders": (topics["projects/shop/topics/large-orders"]["tail"], ORDERS // 10),
        "dead letters": (sum(sum(each["letters"].to_pylist()) for each in letters), LOST),
    }
    print()
    for name, (found, expected) in wanted.items():
        print(f"{name:22} {found:>8,} of {expected:>8,}  {'right' if found == expected else 'WRONG'}")
    return int(any(found != expected for found, expected in wanted.values()))


def ask(client: flight.FlightClient, action: str, **body: object) -> dict:
    (answer,) = client.do_action(flight.Action(action, json.dumps(body).encode()))
    return json.loads(answer.body.to_pybytes())


if __name__ == "__main__":
    sys.exit(main())
