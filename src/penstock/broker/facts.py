"""The facts, which describe all changes of the broker's state.

A fact is complete: applying it needs no clock, no message body and no decision. The journal stores facts by the number
in `FACTS`, which is the place in `Fact`. Kinds are only added at the end and never removed. Fields are only added at
the end, with a default.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, get_args

from penstock.broker.model import SubscriptionOptions, TopicOptions


class StoreNamed(NamedTuple):
    """A new store, a store of a release without identities, or a restored copy got its identity."""

    identity: str  # 32 hexadecimal digits, not secret
    secret: bytes  # key of computed stamps, which must not be guessed
    renewed: bool = False  # True: a restored copy; all its message ids change


class TopicCreated(NamedTuple):
    topic: int
    name: str
    at: int
    options: TopicOptions
    first_id: int = 0  # of the message at offset 0; 0: created before stores had an identity


class TopicChanged(NamedTuple):
    topic: int
    options: TopicOptions


class TopicDeleted(NamedTuple):
    topic: int


class Published(NamedTuple):
    """`total` messages got the offsets from `first` on. Their bodies are in a Batch beside the fact."""

    topic: int
    first: int
    total: int
    size: int
    at: int
    stored: bool  # False: nothing needed them, so they were forgotten at once
    producer: str = ""  # with epoch and sequence: the publish-once key
    epoch: int = 0
    sequence: int = 0
    discards: list[tuple[int, int, int]] = []  # (subscription, from offset, bytes) not accepted when full
    # (subscription, messages, bytes) that a filter keeps out. Discarded messages are not among them.
    filtered: list[tuple[int, int, int]] = []
    digest: int = 0  # of the messages of a publish with a publish-once key; 0: not known


class Forgotten(NamedTuple):
    """Messages below `until` were deleted from the log."""

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
    """Messages were leased until `deadline`. The lists are parallel. An empty list means its default for all."""

    subscription: int
    at: int
    deadline: int
    until: int  # the cursor after this delivery
    offsets: list[int]
    sizes: list[int]
    keys: list[str] = []  # ordering keys, only with message ordering
    expiries: list[int] = []  # expires_at, only if a message has one
    stamp: int = 0  # of every receipt; 0: written by a release that numbered receipts, on from the last


class Passed(NamedTuple):
    """The cursor moved to `until`. `total` of the passed messages are settled without a delivery."""

    subscription: int
    at: int
    until: int
    total: int
    size: int
    filtered: int  # messages of `total` that the filter kept out; the others had expired
    ahead: int = 0  # messages of `filtered` that a Published or Compared fact counted as acked before
    ahead_bytes: int = 0


class Held(NamedTuple):
    """The cursor passed messages while an earlier message of their key was outstanding."""

    subscription: int
    offsets: list[int]
    sizes: list[int]
    keys: list[str]


class Delayed(NamedTuple):
    """The cursor passed messages, never delivered, that may not be delivered before `dues`."""

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
    """Leases ended without an ack. Each message may be delivered again at its due time. No `dues`: at `at`."""

    subscription: int
    at: int
    offsets: list[int]
    dues: list[int]
    by_holder: bool  # True: handed back, the receipt is invalid; False: the deadline passed
    unseen: bool = False  # True: no program got the messages, so this delivery does not count as an attempt


class Extended(NamedTuple):
    """Leases now run until `deadline`. With `restamp`, new receipts replaced the old ones."""

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
    """A message above the cursor became outstanding by name, not leased and never delivered."""

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
    """The subscription got another cursor. Outstanding messages are forgotten, and `skips` count as acked."""

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
    """A resource of a door (a schema, a policy) was stored. The broker never reads it."""

    kind: str
    name: str
    body: bytes


class DocumentRemoved(NamedTuple):
    kind: str
    name: str


class Compared(NamedTuple):
    """The filter was compared with all messages below `until`. Of the messages above the cursor that had not been
    compared before, `total` do not match. They count as acked, and the cursor will pass them later."""

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
