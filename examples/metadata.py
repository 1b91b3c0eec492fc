"""Print all properties of a message."""

import asyncio

from penstock import PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("readings")
        subscription = await topic.create_subscription("display")
        await topic.publish_message(b"21.5", attributes={"room": "attic", "unit": "C"}, ordering_key="sensor-1")
        async for message in subscription:
            print(f"Message ID: {message.id}")
            print(f"Published: {message.publish_time.isoformat()} ({message.publish_time_ns} ns)")
            print(f"Size: {message.length} bytes")
            print(f"Ordering key: {message.ordering_key or 'none'}")
            print(f"Delivery attempt: {message.delivery_attempt}")
            for key, value in message.attributes.items():
                print(f"  {key}: {value}")
            print(f"Data: {message.data.decode()}")
            message.ack()
            break


if __name__ == "__main__":
    asyncio.run(main())
