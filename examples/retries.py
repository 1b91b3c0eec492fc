"""Retry a message a few times by its delivery attempt, then publish it to another topic."""

import asyncio

from penstock import Message, PubSub

RETRIES_MAX = 5


async def main() -> None:
    async with PubSub() as pubsub:
        topic = await pubsub.create_topic("payments")
        failed = await pubsub.create_topic("failed-payments")
        aside = await failed.create_subscription("inspection")
        subscription = await topic.create_subscription("till")
        gave_up = asyncio.Event()

        async def charge(data: bytes) -> None:
            raise ConnectionError("the bank does not answer")

        async def listener(message: Message) -> None:
            try:
                await charge(message.data)
                message.ack()
            except ConnectionError as error:
                print(f"Attempt {message.delivery_attempt} of {RETRIES_MAX}: {error}")
                if message.delivery_attempt < RETRIES_MAX:
                    message.nack()
                else:
                    await failed.publish_message(message.data, message.attributes)
                    message.ack()  # stored elsewhere, so it is not retried here
                    gave_up.set()

        subscription.on("message", listener)
        subscription.open()
        await topic.publish_message(b"invoice 7")
        await gave_up.wait()
        for message in await aside.pull():
            print(f"Put aside: {message.data.decode()}")
            message.ack()


if __name__ == "__main__":
    asyncio.run(main())
