"""The facts: every way in which the state of the broker can change, and nothing else.

A fact says what happened, completely, in numbers and names; applying it needs no clock, no message body and no
decision. The journal stores facts by the number in `FACTS`, which is the place in `Fact`: kinds are only added at the
end and never removed, fields only at the end and with a default.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, get_args

from penstock.broker.model import SubscriptionOptions, TopicOptions


class StoreNamed(NamedTuple):
    """A store got its identity: at its birth, when a release that has them first opened it, or as a restored copy."""

    identity: str  # 32 hexadecimal digits, no secret
    secret: bytes  # the key of what is computed and must not be guessed
    renewed: bool = False  # a copy: the ids of all its messages change with it


class TopicCreated(NamedTuple):
    topic: int
    name: str
    at: int
    options: TopicOptions
    first_id: int = 0  # of the message at offset 0; 0: made before stores had an identity


class TopicChanged(NamedTuple):
    topic: int
    options: TopicOptions


class TopicDeleted(NamedTuple):
    topic: int


class Published(NamedTuple):
    """`total` messages took the offsets from `first`. Their bodies travel beside the fact, as a Batch."""

    topic: int
    first: int
    total: int
    size: int
    at: int
    stored: bool  # False: nothing needed them, so they were forgotten at once
    producer: str = ""  # with epoch and sequence: the publish-once key
    epoch: int = 0
    sequence: int = 0
    discards: list[tuple[int, int, int]] = []  # (subscription, from offset, bytes) that a full queue did not take
    # (subscription, messages, bytes) that a filter keeps out. Discarded messages are not among them.
    filtered: list[tuple[int, int, int]] = []
    digest: int = 0  # of the messages of a publish with a publish-once key; 0: not known


class Forgotten(NamedTuple):
    """Messages below `until` are gone from the log."""

    topic: int
    until: int
    position: int


class ProducersForgotten(NamedTuple):
    topic: int
    producers: list[str]


class SubscriptionCreated(NamedTuple):
    subscription: int
    name: str
    topic: int
    topic_name: str
    cursor: int
    position: int  # the topic's position at the cursor
    at: int
    options: SubscriptionOptions


class SubscriptionChanged(NamedTuple):
    subscription: int
    options: SubscriptionOptions


class SubscriptionDeleted(NamedTuple):
    subscription: int


class Detached(NamedTuple):
    """The subscription no longer reads its topic; its backlog and leases are gone."""

    subscription: int


class Touched(NamedTuple):
    """The subscription is in use, so its expiration counts from here."""

    subscription: int
    at: int


class Delivered(NamedTuple):
    """Messages were leased until `deadline`; the lists run in parallel, an empty one means its default throughout."""

    subscription: int
    at: int
    deadline: int
    until: int  # the cursor after this delivery
    offsets: list[int]
    sizes: list[int]
    keys: list[str] = []  # ordering keys, only where the subscription orders
    expiries: list[int] = []  # expires_at, only where a message has one
    stamp: int = 0  # of every receipt; 0: written when receipts were numbered, on from the last


class Passed(NamedTuple):
    """The cursor moved to `until`; `total` of the messages passed are settled without a delivery."""

    subscription: int
    at: int
    until: int
    total: int
    size: int
    filtered: int  # how many of `total` the filter kept out; the others had outlived their time
    ahead: int = 0  # how many of `filtered` a Published or Compared fact had counted as acked before
    ahead_bytes: int = 0


class Held(NamedTuple):
    """Messages the cursor passed while an earlier one of their key was outstanding."""

    subscription: int
    offsets: list[int]
    sizes: list[int]
    keys: list[str]


class Delayed(NamedTuple):
    """Messages never delivered, that the cursor passed and that may not be delivered before `dues`."""

    subscription: int
    at: int
    offsets: list[int]
    sizes: list[int]
    keys: list[str]
    dues: list[int]
    expiries: list[int]


class Acked(NamedTuple):
    subscription: int
    at: int
    offsets: list[int]


class Returned(NamedTuple):
    """Leases ended without an ack; each message may be delivered again at its due time (none given: at `at`)."""

    subscription: int
    at: int
    offsets: list[int]
    dues: list[int]
    by_holder: bool  # True: handed back, the receipt is dead; False: the deadline passed
    unseen: bool = False  # they never reached a program, so this delivery does not count as an attempt


class Extended(NamedTuple):
    """Leases now run until `deadline`; with `restamp` their receipts were replaced by new ones."""

    subscription: int
    at: int
    offsets: list[int]
    deadline: int
    restamp: bool = False
    stamp: int = 0  # of the new receipts; 0: as in Delivered


class Rewritten(NamedTuple):
    """The holder of a receipt replaced the body, for this subscription only."""

    subscription: int
    offset: int
    data: bytes


class Adopted(NamedTuple):
    """A message not yet reached by the cursor became outstanding by name, not leased and never delivered."""

    subscription: int
    at: int
    offset: int
    size: int
    due: int
    expires_at: int


class Removed(NamedTuple):
    """Outstanding messages left the subscription without an ack, for `reason`: dead-letter, expired, retention."""

    subscription: int
    at: int
    offsets: list[int]
    reason: str


class Sought(NamedTuple):
    """The subscription was set to a place: everything outstanding is forgotten, `skips` count as acked."""

    subscription: int
    at: int
    cursor: int
    settled: int
    settled_bytes: int
    skips: list[tuple[int, int]]


class SnapshotTaken(NamedTuple):
    name: str
    topic: int
    topic_name: str
    at: int
    expires_at: int
    cursor: int
    settled: int
    settled_bytes: int
    skips: list[tuple[int, int]]
    labels: dict[str, str]


class SnapshotChanged(NamedTuple):
    name: str
    expires_at: int
    labels: dict[str, str]


class SnapshotDropped(NamedTuple):
    name: str


class DocumentPut(NamedTuple):
    """A door's own resource (a schema, a policy), kept and never read by the broker."""

    kind: str
    name: str
    body: bytes


class DocumentRemoved(NamedTuple):
    kind: str
    name: str


class Compared(NamedTuple):
    """The filter was compared with all messages below `until`. Of those above the cursor that had not been compared
    before, `total` do not match: they count as acked, and the cursor will pass them later."""

    subscription: int
    until: int
    total: int
    size: int


Fact: TypeAlias = (
    TopicCreated
    | TopicChanged
    | TopicDeleted
    | Published
    | Forgotten
    | ProducersForgotten
    | SubscriptionCreated
    | SubscriptionChanged
    | SubscriptionDeleted
    | Detached
    | Touched
    | Delivered
    | Passed
    | Held
    | Delayed
    | Acked
    | Returned
    | Extended
    | Rewritten
    | Adopted
    | Removed
    | Sought
    | SnapshotTaken
    | SnapshotChanged
    | SnapshotDropped
    | DocumentPut
    | DocumentRemoved
    | StoreNamed
    | Compared
)

FACTS: dict[int, type[Fact]] = dict(enumerate(get_args(Fact), 1))
