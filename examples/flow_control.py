"""Limit a consumer with flow control to three messages at a time."""

import asyncio

from penstock import Message, PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("high-volume")
        subscription = topic.subscription(
            "worker",
            flow_control={"max_messages": 3, "max_bytes": 500 * 1024 * 1024},
            ack_deadline_seconds=120,
        )
        await subscription.create()
        busy = most = handled = 0
        done = asyncio.Event()

        async def listener(message: Message) -> None:
            nonlocal busy, most, handled
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0.005)
            busy -= 1
            handled += 1
            message.ack()
            if handled == 20:
                done.set()

        subscription.on("message", listener)
        subscription.open()
        await asyncio.gather(*[topic.publish_message(b"task %d" % number) for number in range(20)])
        await done.wait()
        print(f"{handled} tasks, at most {most} at once")


if __name__ == "__main__":
    asyncio.run(main())
