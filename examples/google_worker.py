"""A publisher and a streaming subscriber with Google's client. Start `penstock serve` first."""

import os
import threading

os.environ.setdefault("PUBSUB_EMULATOR_HOST", "127.0.0.1:8085")

from google.api_core.exceptions import AlreadyExists
from google.cloud import pubsub_v1


def main() -> None:
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    topic = publisher.topic_path("shop", "orders")
    subscription = subscriber.subscription_path("shop", "billing")
    try:
        publisher.create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic)
    except AlreadyExists:
        pass

    done = threading.Semaphore(0)

    def bill(message: pubsub_v1.subscriber.message.Message) -> None:
        print(f"Billing {message.data.decode()} from {message.attributes['shop']}")
        message.ack()
        done.release()

    with subscriber:
        stream = subscriber.subscribe(subscription, bill)
        for order in ("apples", "pears", "plums"):
            publisher.publish(topic, order.encode(), shop="north").result()
            done.acquire(timeout=10)
        stream.cancel()
        stream.result()


if __name__ == "__main__":
    main()
