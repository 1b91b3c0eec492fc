"""Allow a guest to add messages to one queue for an hour, with a shared access signature of the SDK."""

import os
from datetime import UTC, datetime, timedelta

from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.queue import QueueClient, QueueSasPermissions, generate_queue_sas

LOCAL = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")


def main() -> None:
    with QueueClient.from_connection_string(LOCAL, "suggestions") as owner:
        try:
            owner.create_queue()
        except ResourceExistsError:
            owner.clear_messages()
        sas = generate_queue_sas(
            owner.account_name,
            owner.queue_name,
            owner.credential.account_key,
            permission=QueueSasPermissions(add=True),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        with QueueClient.from_queue_url(owner.url, credential=sas) as guest:
            guest.send_message("more tea")
            print("The guest may add")
            try:
                guest.receive_message()
            except HttpResponseError as error:
                print(f"The guest may not read: {error.error_code}")
        print(f"The owner reads: {owner.receive_message().content}")


if __name__ == "__main__":
    main()
