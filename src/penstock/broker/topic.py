"""A topic: a log with offsets 0, 1, 2 ... without gaps, of which the messages from `head` on are kept.

These methods apply facts and decide nothing; they are the only code that changes a topic. Fields marked "derived"
are no state: no dump has them, and commands may write them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.dump import TopicDump
from penstock.broker.facts import Forgotten, ProducersForgotten, Published, TopicChanged, TopicCreated
from penstock.broker.model import Producer
from penstock.broker.names import log_key

if TYPE_CHECKING:
    from penstock.broker.subscription import Subscription


@dataclass(slots=True)
class TopicCounts:
    """What happened since the start of the process; not part of the state."""

    published: int = 0
    unread: int = 0  # published when nothing needed them
    bytes: int = 0


class Topic:
    def __init__(self, created: TopicCreated) -> None:
        self.number = created.topic
        self.name = created.name
        self.identity = ""  # unlike the name it is never given again, here or elsewhere; the state knows it
        self.first_id = created.first_id or log_key(created.topic, 0)  # the id of the message at offset 0
        self.created_at = created.at
        self.options = created.options
        self.head = 0  # the first offset still kept
        self.head_position = 0
        self.tail = 0  # the offset the next message gets
        self.position = 0  # bytes published so far
        self.last_publish_at = 0
        self.producers: dict[str, Producer] = {}
        self.readers: dict[int, Subscription] = {}  # attached subscriptions; derived
        self.near_caps: list[Subscription] = []  # readers with less room than half a cap, when last looked; derived
        self.roomy_until = self.roomy_position = 0  # until the log is so long, the others have room; derived
        self.counts = TopicCounts()
        self.trim_at = 0  # when retention is worth another look; derived
        self.head_at = created.at  # no message kept is older than this; derived

    def mean_bytes(self) -> int:
        kept = self.tail - self.head
        return (self.position - self.head_position) // kept if kept else 0

    def change(self, fact: TopicChanged) -> None:
        self.options = fact.options

    def publish(self, fact: Published) -> None:
        if self.head == self.tail:
            self.head_at = fact.at
        self.tail += fact.total
        self.position += fact.size
        self.last_publish_at = fact.at
        if not fact.stored:
            self.head, self.head_position = self.tail, self.position
        if fact.producer:
            known = self.producers.get(fact.producer)
            answers = known.answers if known and known.epoch == fact.epoch else {}
            answers[fact.sequence] = (fact.first, fact.total)
            self.producers[fact.producer] = Producer(fact.epoch, fact.at, answers)
        for number, first, size in fact.discards:
            self.readers[number].skip(first, self.tail, size)

    def note_room(self, near_caps: list[Subscription], until: int, position: int) -> None:
        """Who is to be looked at before a publish, and for how long that is all of them; 0 and 0: look again."""
        self.near_caps, self.roomy_until, self.roomy_position = near_caps, until, position

    def forget(self, fact: Forgotten) -> None:
        self.head, self.head_position = fact.until, fact.position

    def forget_producers(self, fact: ProducersForgotten) -> None:
        for name in fact.producers:
            del self.producers[name]

    def dump(self) -> TopicDump:
        fields = {name: getattr(self, name) for name in TopicDump._fields}
        producers = sorted(self.producers.items())  # copied, as a dump must not change after it was made
        fields["producers"] = {name: each._replace(answers=dict(each.answers)) for name, each in producers}
        return TopicDump(**fields)

    @classmethod
    def load(cls, dump: TopicDump) -> Topic:
        topic = cls(TopicCreated(dump.number, dump.name, dump.created_at, dump.options, dump.first_id))
        topic.head, topic.head_position = dump.head, dump.head_position
        topic.tail, topic.position = dump.tail, dump.position
        topic.head_at = 0
        topic.last_publish_at = dump.last_publish_at
        topic.producers = dict(dump.producers)
        return topic
