"""In by one door, out by another: one server, three vendors' clients, one queue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from azure.storage.queue import QueueClient
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from penstock.text.blocking import Client as TextClient
from tests.acceptance.azure_server import KEY

SECONDS = 30  # only a failing test waits so long
PROJECT = "penstock"  # what the text door calls its queues by; an Azure account of that name sees the same ones


class Doors(NamedTuple):
    pubsub: str
    azure: str
    text: str

    def queue(self, name: str) -> QueueClient:
        string = f"AccountName={PROJECT};AccountKey={KEY};QueueEndpoint=http://{self.azure}/{PROJECT};"
        return QueueClient.from_connection_string(string, name, retry_total=0)

    def publisher(self) -> pubsub_v1.PublisherClient:
        transport = PublisherGrpcTransport(channel=PublisherGrpcTransport.create_channel(self.pubsub, **INSECURE))
        return pubsub_v1.PublisherClient(transport=transport)


INSECURE = {"credentials": AnonymousCredentials()}
