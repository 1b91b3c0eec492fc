"""Book each payment once: act on a message only after the broker has confirmed the ack."""

import asyncio

from penstock import AckResponse, Message, PubSub


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("payments")
        subscription = await topic.create_subscription("ledger", enable_exactly_once_delivery=True)
        booked: list[str] = []
        done = asyncio.Event()

        async def listener(message: Message) -> None:
            response = await message.ack_with_response()
            if response is AckResponse.SUCCESS:
                booked.append(message.data.decode())
            print(f"First ack: {response.name}, second ack: {(await message.ack_with_response()).name}")
            if len(booked) == 2:
                done.set()

        subscription.on("message", listener)
        subscription.open()
        await topic.publish_message(b"10 from Anna")
        await topic.publish_message(b"20 from Ben")
        await done.wait()
        print(f"Booked: {', '.join(sorted(booked))}")


if __name__ == "__main__":
    asyncio.run(main())
