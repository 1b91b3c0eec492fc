"""What a new subscription is made of: the topic it reads and the options the queue keeps for it.

The rule kept here: names are made full here, so that a dead letter topic may be given as a name, with its project, or
as a Topic. Where no topic is named and the project has exactly one, that one is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.broker.model import SubscriptionOptions
from penstock.errors import InvalidArgumentError
from penstock.pubsub.checks import checked, flag, number
from penstock.pubsub.metadata import changed_subscription
from penstock.pubsub.names import TOPICS, prefix
from penstock.pubsub.session import Session
from penstock.pubsub.topic import Topic

_CALL = {"timeout": number, "retry": lambda value, name: value, "auto_paginate": flag}


def topic_to_read(session: Session, given: Mapping[str, Any]) -> str:
    topic = given.get("topic")
    if topic is not None:
        return full_topic(session, topic)
    project = prefix(session.project, TOPICS)
    topics = [stored.name for stored in session.queue.topics() if stored.name.startswith(project)]
    if len(topics) != 1:
        raise InvalidArgumentError(f"Name the topic to subscribe to: there are {len(topics)} in this project")
    return topics[0]


def full_topic(session: Session, topic: object) -> str:
    return topic.name if isinstance(topic, Topic) else session.name(TOPICS, topic)


def with_full_names(session: Session, given: Mapping[str, Any]) -> dict[str, Any]:
    policy = given.get("dead_letter_policy")
    if not isinstance(policy, Mapping) or not policy.get("dead_letter_topic"):
        return dict(given)
    full = full_topic(session, policy["dead_letter_topic"])
    return {**given, "dead_letter_policy": {**policy, "dead_letter_topic": full}}


def stored_options_of(session: Session, given: Mapping[str, Any]) -> SubscriptionOptions:
    return changed_subscription(SubscriptionOptions(), with_full_names(session, given))


def call_timeout(given: Mapping[str, Any]) -> float | None:
    """The time a call may take, in seconds; None: as long as it takes."""
    milliseconds = checked(given.get("gax_opts") or {}, _CALL, "option", "gax_opts").get("timeout")
    return None if milliseconds is None else float(milliseconds) / 1000
