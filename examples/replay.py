"""Read messages again: seek to a time, or to a snapshot taken before a bad release."""

import asyncio
from datetime import UTC, datetime

from penstock import PubSub, Subscription


async def drain(subscription: Subscription) -> list[str]:
    read = []
    for message in await subscription.pull(100):
        read.append(message.data.decode())
        await message.ack_with_response()
    return read


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("clicks")
        subscription = await topic.create_subscription("statistics", retain_acked_messages=True)
        await topic.publish_message(b"Monday")
        print("Read:", await drain(subscription))

        noon = datetime.now(UTC)
        snapshot = await subscription.create_snapshot("before-release")
        await topic.publish_message(b"Tuesday")
        await topic.publish_message(b"Wednesday")
        print("Read:", await drain(subscription))

        await subscription.seek(noon)
        print("Since that moment:", await drain(subscription))
        await subscription.seek(snapshot)
        print("Since the snapshot:", await drain(subscription))


if __name__ == "__main__":
    asyncio.run(main())
