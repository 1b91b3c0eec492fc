"""Move a message to another topic after three failed attempts, and look at it there."""

import asyncio

from penstock import Message, PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("orders")
        graveyard = await pubsub.create_topic("dead-orders")
        inspection = await graveyard.create_subscription("inspection")
        subscription = await topic.create_subscription(
            "kitchen",
            dead_letter_policy={"dead_letter_topic": graveyard, "max_delivery_attempts": 3},
        )

        def cook(message: Message) -> None:
            if message.data == b"nothing":
                raise ValueError("cannot cook nothing")
            print(f"Cooked {message.data.decode()}")
            message.ack()

        subscription.on("message", cook)  # the message is nacked when its listener raises
        subscription.on("error", lambda error: print(f"Failed: {error}"))
        subscription.open()
        await topic.publish_message(b"soup")
        await topic.publish_message(b"nothing")
        async for message in inspection:
            print(f"Dead letter: {message.data.decode()}")
            message.ack()
            break


if __name__ == "__main__":
    asyncio.run(main())
