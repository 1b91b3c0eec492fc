"""The programs when a call fails, an answer is lost, or a message is delivered twice."""

from __future__ import annotations

from typing import Any

import pytest
from azure.storage.queue import LinearRetry
from billing import Biller, Listener, Shop
from google.api_core.exceptions import PermissionDenied

from penstock.testing import Faults, Project

AT_ONCE = LinearRetry(backoff=0, random_jitter_range=0)  # by default Azure's client waits 15 seconds and more


def test_a_publish_is_retried_after_a_transient_error(
    shop: Shop, penstock_project: Project, penstock_faults: Faults
) -> None:
    with penstock_faults.add(door="pubsub", verb="publish", nth=1, error="unavailable") as fault:
        shop.order("one")
    assert (fault.hits, fault.calls) == (1, 2)
    penstock_project.topic("orders").published("one", times=1)


def test_a_forbidden_publish_raises(shop: Shop, penstock_project: Project, penstock_faults: Faults) -> None:
    penstock_faults.add(door="pubsub", verb="publish", error="permission_denied")
    with pytest.raises(PermissionDenied):
        shop.order("one")
    penstock_project.topic("orders").published(times=0)


def test_an_order_is_published_twice_after_a_lost_answer_and_billed_once(
    shop: Shop, listener: Listener, penstock_project: Project, penstock_faults: Faults
) -> None:
    shop.open()
    with penstock_faults.add(door="pubsub", verb="publish", nth=1, effect="drop"):
        shop.order("one")
    penstock_project.topic("orders").published("one", times=2)
    biller = Biller()
    listener.start(biller)
    penstock_project.settle()
    assert biller.billed == ["one"]


def test_an_order_that_is_delivered_twice_is_billed_once(
    shop: Shop, listener: Listener, penstock_project: Project, penstock_faults: Faults
) -> None:
    shop.open()
    biller = Biller()
    with penstock_faults.add(door="pubsub", verb="pull", effect="duplicate", times=1):
        listener.start(biller)
        shop.order("one")
        assert listener.next().message_id == listener.next().message_id
    penstock_project.settle()
    assert biller.billed == ["one"]


def test_a_message_is_in_the_queue_twice_after_a_lost_answer(
    penstock_project: Project, penstock_faults: Faults
) -> None:
    queues: Any = penstock_project.azure_queue_service(retry_policy=AT_ONCE)
    work = queues.create_queue("work")
    with penstock_faults.add(door="azure", verb="publish", nth=1, effect="drop") as fault:
        work.send_message("one")
    assert fault.hits == 1
    penstock_project.queue("work").published("one", times=2)
