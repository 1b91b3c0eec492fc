"""Work longer than a lease: extend the deadline first, or let it be extended while the listener runs."""

import asyncio

from penstock import Message, PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("films")
        by_hand = await topic.create_subscription("by-hand", ack_deadline_seconds=1)
        by_itself = await topic.create_subscription("by-itself", ack_deadline_seconds=1, max_extension_time=60)
        finished: asyncio.Queue[str] = asyncio.Queue()

        async def render(message: Message) -> None:
            await asyncio.sleep(1.3)  # longer than the lease of a second
            message.ack()
            await finished.put(f"{message.subscription.name.split('/')[-1]}: attempt {message.delivery_attempt}")

        async def render_with_time(message: Message) -> None:
            message.modify_ack_deadline(300)  # five minutes from now
            await render(message)

        by_hand.on("message", render_with_time)
        by_itself.on("message", render)
        by_hand.open()
        by_itself.open()
        await topic.publish_message(b"a long film")
        for line in sorted([await finished.get(), await finished.get()]):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
