"""A topic: a log with offsets 0, 1, 2 ... without gaps, of which the messages from `head` on are kept.

These methods apply facts and decide nothing. They are the only code that changes a topic. Fields marked "derived" are
not part of the state: no dump has them, and commands may write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.counts import TopicCounts
from penstock.broker.dump import TopicDump
from penstock.broker.facts import Forgotten, ProducersForgotten, Published, TopicChanged, TopicCreated
from penstock.broker.model import Producer
from penstock.broker.names import log_key

if TYPE_CHECKING:
    from penstock.broker.subscription import Subscription


class Topic:
    def __init__(self, created: TopicCreated) -> None:
        self.number = created.topic
        self.name = created.name
        self.identity = ""  # unlike the name never used again, here or elsewhere; set by the state
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
        self.filtered: dict[int, Subscription] = {}  # the readers that have a filter; derived
        self.near_caps: list[Subscription] = []  # readers that had less room than half a cap when last checked; derived
        self.roomy_until = self.roomy_position = 0  # up to this tail and position, all others have room; derived
        self.counts = TopicCounts()
        self.trim_at = 0  # when retention has to be checked again; derived
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
            producer = self.producers.get(fact.producer)
            answers = producer.answers if producer and producer.epoch == fact.epoch else {}
            answers[fact.sequence] = (fact.first, fact.total)
            digests = producer.digests if producer and producer.epoch == fact.epoch else {}
            if fact.digest:
                digests = digests or {}  # the default of the record is shared
                digests[fact.sequence] = fact.digest
            self.producers[fact.producer] = Producer(fact.epoch, fact.at, answers, digests)
        for number, first, size in fact.discards:
            self.readers[number].skip(first, self.tail, size)
        for number, total, size in fact.filtered:
            self.readers[number].keep_out(fact, total, size)

    def add_reader(self, subscription: Subscription) -> None:
        """Add a reader, or apply its changed options."""
        self.readers[subscription.number] = subscription
        self.filtered.pop(subscription.number, None)
        if subscription.accepts is not None:
            self.filtered[subscription.number] = subscription
        self.note_room([], 0, 0)

    def remove_reader(self, number: int) -> None:
        self.readers.pop(number, None)
        self.filtered.pop(number, None)
        self.note_room([], 0, 0)

    def note_room(self, near_caps: list[Subscription], until: int, position: int) -> None:
        """Record the subscriptions near their caps, and the tail and position up to which no other is. 0: unknown."""
        self.near_caps, self.roomy_until, self.roomy_position = near_caps, until, position

    def forget(self, fact: Forgotten) -> None:
        self.head, self.head_position = fact.until, fact.position

    def forget_producers(self, fact: ProducersForgotten) -> None:
        for name in fact.producers:
            del self.producers[name]

    def dump(self) -> TopicDump:
        fields = {name: getattr(self, name) for name in TopicDump._fields}
        producers = sorted(self.producers.items())  # copied, as a dump must not change after it was made
        fields["producers"] = {
            name: p._replace(answers=dict(p.answers), digests=dict(p.digests)) for name, p in producers
        }
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
