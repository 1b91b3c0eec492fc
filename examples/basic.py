"""Publish orders, process each once, and nack failed ones, like most programs."""

import asyncio
import json

from penstock import Message, PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("orders")
        subscription = pubsub.subscription("order-processor")
        await subscription.create(topic=topic)
        done = asyncio.Event()
        tried: set[int] = set()
        processed: list[int] = []

        async def process(order: dict[str, int]) -> None:
            if order["id"] == 2 and 2 not in tried:
                tried.add(2)
                raise RuntimeError("the till is jammed")
            processed.append(order["id"])

        async def listener(message: Message) -> None:
            try:
                await process(json.loads(message.data))
            except RuntimeError as error:
                print(f"Processing failed: {error}; returning the order")
                message.nack()
            else:
                print(f"Received {message.data.decode()} with {message.attributes}, attempt {message.delivery_attempt}")
                message.ack()
            if len(processed) == 3:
                done.set()

        subscription.on("message", listener)
        subscription.on("error", lambda error: print("Subscription error:", error))
        subscription.open()
        for number in (1, 2, 3):
            await topic.publish_json({"id": number}, attributes={"shop": "north"})
        await done.wait()
        await subscription.close()
        print(f"Processed {sorted(processed)}")


if __name__ == "__main__":
    asyncio.run(main())
