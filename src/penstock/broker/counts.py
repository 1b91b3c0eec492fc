"""What happened on topics and subscriptions since the start of the process; not part of the state."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TopicCounts:
    published: int = 0
    unread: int = 0  # published when nothing needed them
    bytes: int = 0


@dataclass(slots=True)
class SubscriptionCounts:
    delivered: int = 0
    acked: int = 0
    returned: int = 0
    dead_lettered: int = 0
    dead_letter_failures: int = 0  # returns of messages whose dead letter topic was not there
    dead_letters_unread: int = 0  # of the dead letters, those whose topic had no subscription
    filtered: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # by reason: expired, retention, capacity

    def drop(self, reason: str, count: int) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count
