"""The project of a test: its clients, clock, faults, seed and stories."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.admin.client import path_of
from penstock.errors import InvalidArgumentError
from penstock.testing import vendors
from penstock.testing.arguments import number
from penstock.testing.backlogs import report, wait_until_settled
from penstock.testing.clock import ProjectClock
from penstock.testing.faults import Faults
from penstock.testing.resources import SETTLE_SECONDS, Queue, Subscription, Topic
from penstock.testing.stories import story_of

if TYPE_CHECKING:
    from penstock.testing.servers import Server
    from penstock.text import Client as TextClient

DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Project:
    """A project of a server for tests, usually for one test.

    `server` is its server, `name` its name, `clock` its clock.
    """

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.clock = ProjectClock(server.admin, name)
        self._open = ExitStack()

    def __repr__(self) -> str:
        return f"<Project {self.name}>"

    @cached_property
    def faults(self) -> Faults:
        """The faults of this project. They end with it."""
        return Faults(self.server.admin, self.name)

    def close(self) -> None:
        """Close the project's clients. Faults are removed first, so that no call is held."""
        if "faults" in self.__dict__:
            self.faults.clear()
        self._open.close()
        self.server.projects.discard(self)

    def end(self) -> None:
        """Close the clients, and delete everything in the project."""
        self.close()
        self.server.admin.delete(path_of("projects", self.name))

    # ------------------------------------------------------------------ names

    def topic(self, name: str) -> Topic:
        """Return a topic, which is also the name that Google's clients take."""
        return Topic(self, f"projects/{self.name}/topics/{name}")

    def subscription(self, name: str) -> Subscription:
        """Return a subscription, which is also the name that Google's clients take."""
        return Subscription(self, f"projects/{self.name}/subscriptions/{name}")

    def queue(self, name: str) -> Queue:
        """Return a queue, which is also the name that Azure's clients take."""
        return Queue(self, name)

    def text_queue(self, name: str) -> str:
        """Return the name of a queue for clients of the text protocol."""
        return f"{name}@{self.name}"

    @property
    def connection_string(self) -> str:
        """The connection string of this project's account, for Azure's clients."""
        endpoint = f"http://{self.server['azure']}/{self.name}"
        account = f"AccountName={self.name};AccountKey={DEVELOPMENT_KEY}"
        return f"DefaultEndpointsProtocol=http;{account};QueueEndpoint={endpoint};"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that clients read, for programs that a test starts."""
        return {
            "PUBSUB_EMULATOR_HOST": self.server["pubsub"],
            "PUBSUB_PROJECT_ID": self.name,
            "GOOGLE_CLOUD_PROJECT": self.name,
            "AZURE_STORAGE_CONNECTION_STRING": self.connection_string,
            "PENSTOCK_ADDRESS": self.server["http"],
            "PENSTOCK_PROJECT": self.name,
        }

    # ------------------------------------------------------------------ clients

    def google_publisher(self, **options: Any) -> Any:
        """Return a google.cloud.pubsub_v1.PublisherClient. It is closed with the project, like the other clients."""
        return vendors.google_publisher(self.server["pubsub"], self._open, options)

    def google_subscriber(self, **options: Any) -> Any:
        """Return a google.cloud.pubsub_v1.SubscriberClient."""
        return vendors.google_subscriber(self.server["pubsub"], self._open, options)

    def azure_queue_service(self, **options: Any) -> Any:
        """Return an azure.storage.queue.QueueServiceClient."""
        return vendors.azure_queue_service(self.connection_string, self._open, options)

    def text_client(self) -> TextClient:
        """Return a penstock.text.Client. `text_queue` returns the names of its queues."""
        from penstock.text import Client

        return self._open.enter_context(Client(self.server["text"]))

    # ------------------------------------------------------------------ content

    def seed(self, file: str | os.PathLike[str]) -> None:
        """Create the topics, subscriptions, queues and messages of a seed file in this project.

        The project name in the file is replaced. A file with several projects or an error raises InvalidArgumentError.
        """
        from penstock.seeding.files import read_seed
        from penstock.testing.seeds import in_project

        source = read_seed(str(Path(file)), os.environ)
        document = in_project(source, self.name)
        try:
            self.server.admin.post("/topology", document)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(source.locate(error.message)) from None

    def topics(self) -> Iterator[dict[str, Any]]:
        """Yield the admin API's records of the project's topics."""
        return self.server.admin.pages("/topics", "topics", project=self.name)

    def subscriptions(self) -> Iterator[dict[str, Any]]:
        """Yield the admin API's records of the project's subscriptions."""
        return self.server.admin.pages("/subscriptions", "subscriptions", project=self.name)

    def settle(self, *subscriptions: str, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until these subscriptions and queues, or all if none is named, have no messages left.

        Raise AssertionError, which lists the messages, after `seconds` of real time.
        """
        __tracebackhide__ = True  # a failing test shows its own line, not this one
        chosen, wait = [self._subscription(name) for name in subscriptions], number(seconds, "seconds")

        def names() -> Iterable[str]:
            return chosen or (record["name"] for record in self.subscriptions())

        left = wait_until_settled(self.server.admin, names, wait)
        if left:
            raise AssertionError(report(left, self.clock.show(), wait))

    def _subscription(self, name: object) -> str:
        if not isinstance(name, str) or isinstance(name, Topic):
            hint = f"; pass seconds as seconds={name!r}" if isinstance(name, int | float) else ""
            raise InvalidArgumentError(f"settle takes names of subscriptions, not {str(name)[:100]!r}{hint}")
        return name if "/" in name else self.subscription(name)

    def story(self) -> str:
        """Return the stories of the last messages of each topic, as text."""
        return "\n".join(story_of(self))
