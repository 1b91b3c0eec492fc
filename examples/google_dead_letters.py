"""Use retries and dead letters on Pub/Sub, which the official emulator lacks. Start `penstock serve` first."""

import os

os.environ.setdefault("PUBSUB_EMULATOR_HOST", "127.0.0.1:8085")

from google.api_core.exceptions import AlreadyExists
from google.cloud import pubsub_v1
from google.protobuf import duration_pb2


def main() -> None:
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    work, grave = (publisher.topic_path("shop", name) for name in ("parcels", "lost-parcels"))
    courier, clerk = (subscriber.subscription_path("shop", name) for name in ("courier", "clerk"))
    backoff = duration_pb2.Duration(nanos=50_000_000)
    try:
        publisher.create_topic(name=work)
        publisher.create_topic(name=grave)
        subscriber.create_subscription(name=clerk, topic=grave)
        subscriber.create_subscription(
            request={
                "name": courier,
                "topic": work,
                "retry_policy": {"minimum_backoff": backoff, "maximum_backoff": backoff},
                "dead_letter_policy": {"dead_letter_topic": grave, "max_delivery_attempts": 5},
            }
        )
    except AlreadyExists:
        pass

    publisher.publish(work, b"parcel without an address").result()
    with subscriber:
        for _ in range(5):
            (received,) = subscriber.pull(subscription=courier, max_messages=1).received_messages
            print(f"Attempt {received.delivery_attempt}: no one at home")
            subscriber.modify_ack_deadline(subscription=courier, ack_ids=[received.ack_id], ack_deadline_seconds=0)
        (letter,) = subscriber.pull(subscription=clerk, max_messages=1).received_messages
        attempts = letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"]
        print(f"Lost after {attempts} attempts: {letter.message.data.decode()}")
        subscriber.acknowledge(subscription=clerk, ack_ids=[letter.ack_id])


if __name__ == "__main__":
    main()
