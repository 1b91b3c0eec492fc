"""A project for one test: clients that are ready to use, its time, its first topics, and what happened in it."""

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
    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.clock = ProjectClock(server.admin, name)
        self._open = ExitStack()

    def __repr__(self) -> str:
        return f"<Project {self.name}>"

    @cached_property
    def faults(self) -> Faults:
        """Faults on purpose, in this project alone; they end with it."""
        return Faults(self.server.admin, self.name)

    def close(self) -> None:
        """Close the clients that were made here; faults end before, so that no call waits for one."""
        if "faults" in self.__dict__:
            self.faults.clear()
        self._open.close()
        self.server.projects.discard(self)

    def end(self) -> None:
        """Close the clients, and remove all that is in the project."""
        self.close()
        self.server.admin.delete(path_of("projects", self.name))

    # ------------------------------------------------------------------ names

    def topic(self, name: str) -> Topic:
        """The name that Google's clients take, and what was published there."""
        return Topic(self, f"projects/{self.name}/topics/{name}")

    def subscription(self, name: str) -> Subscription:
        """The name that Google's clients take, and what became of its messages."""
        return Subscription(self, f"projects/{self.name}/subscriptions/{name}")

    def queue(self, name: str) -> Queue:
        """The name that Azure's clients take, and what became of its messages."""
        return Queue(self, name)

    def text_queue(self, name: str) -> str:
        """What a client of the text protocol calls a queue of this project."""
        return f"{name}@{self.name}"

    @property
    def connection_string(self) -> str:
        """For Azure's clients: the account of this project."""
        endpoint = f"http://{self.server['azure']}/{self.name}"
        account = f"AccountName={self.name};AccountKey={DEVELOPMENT_KEY}"
        return f"DefaultEndpointsProtocol=http;{account};QueueEndpoint={endpoint};"

    @property
    def environment(self) -> dict[str, str]:
        """What clients read from the environment, for programs that a test starts or cannot hand a client to."""
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
        """google.cloud.pubsub_v1.PublisherClient."""
        return vendors.google_publisher(self.server["pubsub"], self._open, options)

    def google_subscriber(self, **options: Any) -> Any:
        """google.cloud.pubsub_v1.SubscriberClient."""
        return vendors.google_subscriber(self.server["pubsub"], self._open, options)

    def azure_queue_service(self, **options: Any) -> Any:
        """azure.storage.queue.QueueServiceClient."""
        return vendors.azure_queue_service(self.connection_string, self._open, options)

    def text_client(self) -> TextClient:
        """penstock.text.Client; its queues are named by `text_queue`."""
        from penstock.text import Client

        return self._open.enter_context(Client(self.server["text"]))

    # ------------------------------------------------------------------ what there is

    def seed(self, file: str | os.PathLike[str]) -> None:
        """Make the topics, subscriptions, queues and first messages of a seed file in this project.

        Also where the file calls the project by another name; one that names several is refused.
        """
        from penstock.seeding.files import read_seed
        from penstock.testing.seeds import in_project

        source = read_seed(str(Path(file)), os.environ)
        document = in_project(source, self.name)
        try:
            self.server.admin.post("/topology", document)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(source.located(error.message)) from None

    def topics(self) -> Iterator[dict[str, Any]]:
        return self.server.admin.pages("/topics", "topics", project=self.name)

    def subscriptions(self) -> Iterator[dict[str, Any]]:
        return self.server.admin.pages("/subscriptions", "subscriptions", project=self.name)

    def settle(self, *subscriptions: str, seconds: float = SETTLE_SECONDS) -> None:
        """Wait, in real seconds, until every message of these subscriptions and queues, or of all, is done with."""
        __tracebackhide__ = True  # a failing test shows its own line, not this one
        chosen, wait = [self._subscription(each) for each in subscriptions], number(seconds, "seconds")

        def names() -> Iterable[str]:
            return chosen or (each["name"] for each in self.subscriptions())

        left = wait_until_settled(self.server.admin, names, wait)
        if left:
            raise AssertionError(report(left, self.clock.show(), wait))

    def _subscription(self, name: object) -> str:
        """One of this project, by its full or its last name."""
        if not isinstance(name, str) or isinstance(name, Topic):
            meant = f"; seconds are given as seconds={name!r}" if isinstance(name, int | float) else ""
            raise InvalidArgumentError(f"settle takes names of subscriptions, not {str(name)[:100]!r}{meant}")
        return name if "/" in name else self.subscription(name)

    def story(self) -> str:
        """What happened to the messages of this project, for people: the last of each topic."""
        return "\n".join(story_of(self))
