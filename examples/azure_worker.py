"""A worker on an Azure queue: receive, work, delete. Start `penstock serve` first."""

import os

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueClient

LOCAL = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")


def main() -> None:
    with QueueClient.from_connection_string(LOCAL, "thumbnails") as queue:
        try:
            queue.create_queue()
        except ResourceExistsError:
            queue.clear_messages()
        for picture in ("cat.png", "dog.png", "fish.png"):
            queue.send_message(picture)
        print(f"{queue.get_queue_properties().approximate_message_count} pictures wait")
        for message in queue.receive_messages(visibility_timeout=30):
            print(f"Shrinking {message.content}, attempt {message.dequeue_count}")
            queue.delete_message(message)
        print(f"{queue.get_queue_properties().approximate_message_count} left")


if __name__ == "__main__":
    main()
