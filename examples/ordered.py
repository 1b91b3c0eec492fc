"""Process the events of each user in order, and different users concurrently."""

import asyncio

from penstock import Message, PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("user-events")
        subscription = topic.subscription("profiles", enable_message_ordering=True)
        await subscription.create()
        state: dict[str, list[str]] = {}
        done = asyncio.Event()

        async def listener(message: Message) -> None:
            user = message.ordering_key or ""
            await asyncio.sleep(0.001)  # for example, a write to a database
            state.setdefault(user, []).append(message.data.decode())
            message.ack()  # the next event of this user comes only after this
            if sum(map(len, state.values())) == 6:
                done.set()

        subscription.on("message", listener)
        subscription.open()
        for event in (b"registered", b"paid", b"left"):
            for user in ("anna", "ben"):
                await topic.publish_message(event, ordering_key=user)
        await done.wait()
        for user in sorted(state):
            print(f"{user}: {' -> '.join(state[user])}")


if __name__ == "__main__":
    asyncio.run(main())
