"""A model of the broker in the simplest form: dictionaries, lists, and loops over everything.

The model is written from the specification (seed 004) and section 5 of the design, and not from the code that it
checks. It is slow and obvious. Every subscription owns a copy of every message that it has not finished (BR-003).

The specification leaves six things open:
- Time has an effect when a command looks: a pull or a peek of that subscription, and once a second any command.
- Messages older than the retention of a subscription leave when the broker looks at their topic. `looked` tells the
  model at which topic it did, and `check_retention` how late that may be. The model decides which of them leave.
- An expired message may stay in the backlog until the subscription reaches it. Such a message is `dead`: it is never
  delivered, and counted or not as the broker likes.
- A message that a filter excludes is dead as well. It counts in no backlog and for no cap once the filter was
  compared with it, which happens at the publish, or after a seek when the broker looks around. `fronts` tells the
  model how far each filter was compared.
- The broker shortens a log when it likes. `heads` tells the model where each log begins, and `needed` which messages
  must be there.
- The cursor of a subscription matters where a message was leased out of turn and returned: it comes again before
  messages that were never looked at. `cursors` tells the model the cursors.
"""

from __future__ import annotations

from penstock.broker.model import SubscriptionOptions
from tests.simulation.records import FOREVER, SECOND, Copy, Message, RefusedError, Snapshot, Subscription, Topic


class Model:
    def __init__(self, queue_messages_max: int = 10_000) -> None:
        self.queue_messages_max = queue_messages_max
        self.now = 0
        self.tick_at = 0
        self.topics: dict[str, Topic] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.heads: dict[str, int] = {}
        self.cursors: dict[str, int] = {}
        self.fronts: dict[str, int] = {}
        self.answers: dict[tuple[str, str, int], list[Message]] = {}  # of publishes that may be repeated

    # ------------------------------------------------------------------ names

    def create_topic(self, name: str, retained: bool = False) -> None:
        if name in self.topics:
            raise RefusedError(6)
        self.topics[name] = Topic(name, retained=retained)

    def delete_topic(self, name: str) -> None:
        topic = self.topic(name)
        for subscription in self.subscriptions.values():
            if subscription.topic is topic:
                self.detach(subscription.name)
        self.answers = {key: answer for key, answer in self.answers.items() if key[0] != name}
        del self.topics[name]

    def create_subscription(self, name: str, topic: str, options: SubscriptionOptions) -> None:
        read = self.topic(topic)
        if name in self.subscriptions:
            raise RefusedError(6)
        self.subscriptions[name] = Subscription(name, read, options, start=len(read.log))

    def provide_queue(self, name: str, topic: str, options: SubscriptionOptions) -> bool:
        """Provide a topic and the subscription that reads it, with all messages of the topic.

        Return whether it was missing.
        """
        known = self.subscriptions.get(name)
        if known is not None and known.topic is not None:
            if known.topic.name != topic:
                raise RefusedError(9)
            return False
        read = self.topics.setdefault(topic, Topic(topic))
        self.subscriptions[name] = made = Subscription(name, read, options, start=self.heads[topic])
        made.queue = {message.offset: _fresh(message) for message in read.log[made.start :]}
        return True

    def delete_subscription(self, name: str) -> None:
        del self.subscriptions[self.subscription(name).name]

    def detach(self, name: str) -> None:
        subscription = self.subscription(name)
        subscription.topic = None
        subscription.queue = {}

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise RefusedError(5)
        return self.topics[name]

    def subscription(self, name: str) -> Subscription:
        if name not in self.subscriptions:
            raise RefusedError(5)
        return self.subscriptions[name]

    def attached(self, name: str) -> tuple[Subscription, Topic]:
        subscription = self.subscription(name)
        if subscription.topic is None:
            raise RefusedError(9)
        return subscription, subscription.topic

    # ------------------------------------------------------------------ publishing

    def publish(
        self, name: str, drafts: list[tuple[bytes, dict[str, str], str, float, float]], once: tuple[str, int] | None
    ) -> list[Message]:
        """Drafts are (data, attributes, key, delay, ttl). The answer to a repeated publish is the first answer."""
        topic = self.topic(name)
        if any("" in attributes for _, attributes, _, _, _ in drafts):
            raise RefusedError(3)
        if once is not None and (name, *once) in self.answers:
            if len(self.answers[name, *once]) != len(drafts):
                raise RefusedError(3)
            return self.answers[name, *once]
        messages = [self._append(topic, *draft) for draft in drafts]
        if once is not None and messages:
            self.answers[name, *once] = messages
        return messages

    def _append(
        self, topic: Topic, data: bytes, attributes: dict[str, str], key: str, delay: float = 0, ttl: float = 0
    ) -> Message:
        expires_at = self.now + int(ttl * SECOND) if ttl else FOREVER
        message = Message(
            len(topic.log), data, attributes, key, self.now, self.now + int(delay * SECOND) if delay else 0, expires_at
        )
        topic.log.append(message)
        for subscription in self.subscriptions.values():
            if subscription.topic is topic and self._has_place(subscription, message):
                subscription.queue[message.offset] = _fresh(message)
        return message

    def _has_place(self, subscription: Subscription, message: Message) -> bool:
        """BR-022, for messages that match. Until a filter was compared with the whole log, no subscription is full."""
        waiting = sum(subscription.matches(copy.message) for copy in subscription.queue.values())
        is_behind = self.fronts.get(subscription.name, 0) <= message.offset
        return waiting < self.queue_messages_max or not subscription.matches(message) or is_behind

    def counted(self, subscription: Subscription) -> list[Copy]:
        """Return the largest possible count of a backlog."""
        front = self.fronts[subscription.name]
        copies = subscription.queue.values()
        return [copy for copy in copies if subscription.matches(copy.message) or copy.message.offset >= front]

    # ------------------------------------------------------------------ time

    def tick(self, looked: set[str]) -> None:
        """Look around once a second, as any command does.

        `looked` has the topics whose old messages are dropped now.
        """
        if self.now >= self.tick_at:
            self.tick_at = self.now + SECOND
            for subscription in self.subscriptions.values():
                self.notice(subscription)
            for subscription in self.subscriptions.values():
                if subscription.topic is None or subscription.topic.name not in self.heads:
                    continue  # deleted in this very step, so it is unknown whether it was looked at before
                if subscription.topic.name in looked:
                    self._lapse(subscription)
                self._check_retention(subscription, self.heads[subscription.topic.name])
        else:
            assert not looked, "the broker looked too early"

    def _lapse(self, subscription: Subscription) -> None:
        """Drop messages that are older than the retention of the subscription, unacked or not, leased or not."""
        for offset in subscription.older_than(self.now - _retention(subscription.options) + 1):
            del subscription.queue[offset]

    def _check_retention(self, subscription: Subscription, head: int) -> None:
        """Check that the broker looks every second, or after a hundredth of the shortest retention if that is longer.

        Messages before the head were dead for another reason, and have been forgotten (`needed` checks that).
        """
        latest = self.now - _retention(subscription.options) * 101 // 100 - SECOND
        late = [offset for offset in subscription.older_than(latest) if offset >= head]
        assert not late, f"{subscription.name} still has {late}, which are too old"

    def notice(self, subscription: Subscription) -> None:
        """End the leases whose deadline has passed, oldest deadline first (BR-008)."""
        over = [copy for copy in subscription.leased() if copy.due <= self.now]
        over.sort(key=lambda copy: (copy.due, copy.message.offset))
        for copy in list(over):
            if copy.message.expires_at <= self.now:
                del subscription.queue[copy.message.offset]
                over.remove(copy)
        self._give_back(subscription, over, by_holder=False)

    def _give_back(
        self, subscription: Subscription, failed: list[Copy], by_holder: bool, delay: float | None = None
    ) -> None:
        for copy in [copy for copy in failed if self._is_spent(subscription, copy)]:
            failed.remove(copy)
            self._dead_letter(subscription, copy)
        for copy in failed:
            ended = self.now if by_holder or copy.due == FOREVER else copy.due
            stuck = _stuck(subscription.options, copy) if by_holder else 0
            again = ended + max(_backoff(subscription.options, copy.attempts), stuck)
            copy.leased, copy.due = False, again if delay is None else self.now + int(delay * SECOND)
            copy.receipt = "" if by_holder else copy.receipt
        for copy in [copy for each in failed for copy in _later(subscription, each) if copy.leased]:
            copy.leased, copy.due = False, self.now  # the message did not fail, so there is no backoff
            copy.receipt = "" if by_holder else copy.receipt

    def _is_spent(self, subscription: Subscription, copy: Copy) -> bool:
        options = subscription.options
        return options.dead_letter_topic in self.topics and copy.attempts >= options.max_delivery_attempts

    def _dead_letter(self, subscription: Subscription, copy: Copy) -> None:
        """Move the message from the subscription to the other topic in one step (BR-016)."""
        assert subscription.topic is not None
        del subscription.queue[copy.message.offset]
        source = {
            "dead_letter_source_subscription": subscription.name,
            "dead_letter_source_topic": subscription.topic.name,
            "dead_letter_source_delivery_count": str(copy.attempts),
            "dead_letter_source_publish_time_ns": str(copy.message.at),
        }
        destination = self.topics[subscription.options.dead_letter_topic]
        self._append(destination, copy.data, {**copy.message.attributes, **source}, copy.message.key)

    # ------------------------------------------------------------------ consuming

    def pull(self, name: str, limit: int, seconds: float | None = None) -> list[Copy]:
        subscription = self.subscription(name)
        self.notice(subscription)
        taken: list[Copy] = []
        for copy in subscription.in_turn(self.now, self.cursors[name]):
            if len(taken) == limit or not self._has_room(subscription):
                return taken
            if self._is_ready(subscription, copy, set()):
                self._lease(copy, subscription.options.lease_seconds if seconds is None else seconds)
                taken.append(copy)
        if len(taken) < limit and self._has_room(subscription):  # the pull looked at all messages
            for copy in [copy for copy in subscription.queue.values() if self._is_passed(subscription, copy)]:
                del subscription.queue[copy.message.offset]
        return taken

    def lease_at(self, name: str, offsets: list[int]) -> list[Copy]:
        subscription = self.subscription(name)
        if subscription.options.ordering:
            raise RefusedError(9)
        self.notice(subscription)
        chosen = [copy for copy in subscription.alive(self.now) if copy.message.offset in offsets and not copy.leased]
        for copy in chosen:
            self._lease(copy, float("inf"))
            copy.chosen = True
        return chosen

    def _is_passed(self, subscription: Subscription, copy: Copy) -> bool:
        """Return whether the message is dead, and no earlier one of its key keeps the subscription from passing it."""
        lane = [other for other in subscription.lane(copy) if not subscription.is_dead(other, self.now)]
        earlier = any(other.message.offset < copy.message.offset for other in lane)
        return subscription.is_dead(copy, self.now) and not earlier

    def peek(self, name: str, limit: int) -> list[Copy]:
        subscription = self.subscription(name)
        self.notice(subscription)
        seen: list[Copy] = []
        for copy in subscription.in_turn(self.now, self.cursors[name]):
            if len(seen) < limit and self._is_ready(subscription, copy, {each.message.offset for each in seen}):
                seen.append(copy)
        return seen

    def _lease(self, copy: Copy, seconds: float) -> None:
        copy.leased = True
        copy.attempts += 1
        self._set_deadline(copy, seconds)

    def _set_deadline(self, copy: Copy, seconds: float) -> None:
        end = FOREVER if seconds == float("inf") else self.now + int(seconds * SECOND)
        copy.due = min(end, copy.message.expires_at)

    def _has_room(self, subscription: Subscription) -> bool:
        """Return whether both limits leave room (BR-013)."""
        options, leased = subscription.options, subscription.leased()
        if options.flow_max_messages and len(leased) >= options.flow_max_messages:
            return False
        return not options.flow_max_bytes or sum(copy.message.size for copy in leased) < options.flow_max_bytes

    def _is_ready(self, subscription: Subscription, copy: Copy, out: set[int]) -> bool:
        """Return whether the message may be delivered now.

        `out` counts as leased. BR-010: after all earlier ones of its key.
        """
        if copy.leased or copy.due > self.now:
            return False
        lane = [other for other in subscription.lane(copy) if not subscription.is_dead(other, self.now)]
        earlier = [other for other in lane if other.message.offset < copy.message.offset]
        in_flight = [other for other in lane if other.leased or other.message.offset in out]
        if any(not (other.leased or other.message.offset in out) for other in earlier):
            return False
        return len(in_flight) < subscription.options.ordering_window

    # ------------------------------------------------------------------ receipts

    def ack(self, receipts: list[str], strict: bool = True) -> list[str]:
        """Ack messages, and return the invalid receipts."""
        good, bad = self._sort(receipts, strict)
        for subscription, copy in good:
            del subscription.queue[copy.message.offset]
        return bad

    def nack(self, receipts: list[str], delay: float | None = None, strict: bool = True) -> list[str]:
        good, bad = self._sort(receipts, strict)
        for subscription in {id(each): each for each, _ in good}.values():
            failed = [copy for each, copy in good if each is subscription and copy.leased]
            self._give_back(subscription, failed, by_holder=True, delay=delay)
        return bad

    def put_back(self, receipts: list[str], strict: bool = True) -> list[str]:
        """Return messages that reached no program.

        They are ready at once, and no attempt is counted (design, section 5).
        """
        good, bad = self._sort(receipts, strict)
        unseen = [(subscription, copy) for subscription, copy in good if copy.leased]
        for _, copy in unseen:
            copy.attempts -= 1
        self._return_all(unseen)
        return bad

    def _return_all(self, ended: list[tuple[Subscription, Copy]]) -> None:
        """End leases, and return each message with the later ones of its key."""
        for copy in [copy for subscription, each in ended for copy in _later(subscription, each) if copy.leased]:
            copy.leased, copy.due, copy.receipt = False, self.now, ""

    def extend(self, receipts: list[str], seconds: float, strict: bool = True) -> list[str]:
        if seconds == 0:
            return self.nack(receipts, strict=strict)
        good, bad = self._sort(receipts, strict)
        for _, copy in good:
            copy.leased = True
            self._set_deadline(copy, seconds)
        return bad

    def replace(self, receipt: str, data: bytes, seconds: float, strict: bool = True) -> Copy:
        good, bad = self._sort([receipt], strict)
        if bad:
            raise RefusedError(3)
        _, copy = good[0]
        copy.data, copy.leased = data, True
        self._set_deadline(copy, seconds)
        return copy

    def _sort(self, receipts: list[str], strict: bool) -> tuple[list[tuple[Subscription, Copy]], list[str]]:
        good: list[tuple[Subscription, Copy]] = []
        bad: list[str] = []
        for receipt in receipts:
            found = [
                (subscription, copy)
                for subscription in self.subscriptions.values()
                for copy in subscription.queue.values()
                if copy.receipt == receipt and self._is_good(subscription, copy, strict)
            ]
            if found and all(copy is not found[0][1] for _, copy in good):
                good += found
            else:
                bad.append(receipt)
        return good, bad

    def _is_good(self, subscription: Subscription, copy: Copy, strict: bool) -> bool:
        """Return whether a receipt is valid.

        Strict ones end with their lease, lenient ones with the next delivery, and with ordering at the end of the
        lease.
        """
        if copy.message.expires_at <= self.now:
            return False
        if strict or subscription.options.exactly_once:
            return copy.leased and copy.due > self.now
        return copy.leased or not subscription.options.ordering

    # ------------------------------------------------------------------ seeks

    def seek(self, name: str, offset: int) -> None:
        subscription, topic = self.attached(name)
        kept = [m for m in topic.log if m.offset >= max(offset, self.heads[topic.name])]
        subscription.queue = {message.offset: _fresh(message) for message in kept}

    def seek_to_time(self, name: str, at: int) -> None:
        """Seek among unacked and retained messages. Other acked messages stay acked, wherever they are."""
        subscription, topic = self.attached(name)
        reach = min(self._retained_from(subscription), default=len(topic.log))
        offsets = subscription.queue.keys() | set(range(max(reach, self.heads[topic.name]), len(topic.log)))
        later = [topic.log[offset] for offset in sorted(offsets) if topic.log[offset].at >= at]
        subscription.queue = {message.offset: _fresh(message) for message in later}

    def _retained_from(self, subscription: Subscription) -> list[int]:
        """Return the start of the acked messages that a seek can reach, for the topic and for the subscription."""
        topic = subscription.topic
        retained = [0] if topic is not None and topic.retained else []
        if topic is not None and subscription.options.retain_acked:
            since = self.now - _retention(subscription.options) + 1
            young = [m.offset for m in topic.log[subscription.start :] if m.at >= since]
            retained.append(young[0] if young else len(topic.log))
        return retained

    def purge(self, name: str) -> None:
        self.attached(name)[0].queue = {}

    def purge_topic(self, name: str) -> None:
        topic = self.topic(name)
        if any(each.topic is topic for each in self.snapshots.values()):
            raise RefusedError(9)
        for subscription in self.subscriptions.values():
            if subscription.topic is topic:
                subscription.queue = {}
        topic.purged = len(topic.log)

    def create_snapshot(self, name: str, subscription_name: str) -> None:
        subscription, topic = self.attached(subscription_name)
        if name in self.snapshots:
            raise RefusedError(6)
        self.snapshots[name] = Snapshot(topic, sorted(subscription.queue), len(topic.log))

    def seek_to_snapshot(self, name: str, snapshot_name: str) -> None:
        self.subscription(name)
        if snapshot_name not in self.snapshots:
            raise RefusedError(5)
        subscription, topic = self.attached(name)
        snapshot = self.snapshots[snapshot_name]
        if snapshot.topic is not topic:
            raise RefusedError(3)
        offsets = [*snapshot.unacked, *range(snapshot.tail, len(topic.log))]
        subscription.queue = {offset: _fresh(topic.log[offset]) for offset in offsets}

    def delete_snapshot(self, name: str) -> None:
        if name not in self.snapshots:
            raise RefusedError(5)
        del self.snapshots[name]

    def restart(self) -> None:
        """End all leases that lasted as long as the process."""
        self.tick_at = 0
        for subscription in self.subscriptions.values():
            endless = [copy for copy in subscription.leased() if copy.due == FOREVER]
            for copy in endless:  # the holder is unknown, so no attempt is counted
                copy.attempts -= 1
            self._return_all([(subscription, copy) for copy in endless])

    def needed(self, name: str) -> int:
        """Return the first offset of a topic that is still needed."""
        topic = self.topics[name]
        readers = [s for s in self.subscriptions.values() if s.topic is topic]
        waiting = [copy.message.offset for reader in readers for copy in reader.alive(self.now)]
        snapshots = [each for each in self.snapshots.values() if each.topic is topic]
        kept = [offset for each in snapshots for offset in each.unacked if topic.log[offset].expires_at > self.now]
        retained = [max(offset, topic.purged) for reader in readers for offset in self._retained_from(reader)]
        return min([len(topic.log), *waiting, *kept, *retained, *(each.tail for each in snapshots)])


def _fresh(message: Message) -> Copy:
    return Copy(message, message.data, message.visible_at)


def _later(subscription: Subscription, copy: Copy) -> list[Copy]:
    """Return a message and the later ones of its key, which are returned with it."""
    return [other for other in subscription.lane(copy) if other.message.offset >= copy.message.offset]


def _retention(options: SubscriptionOptions) -> int:
    return int(options.retention_seconds * SECOND) or FOREVER


def _stuck(options: SubscriptionOptions, copy: Copy) -> int:
    """Return the delay of a dead letter without a topic: 1, 2, 4 ... up to 60 seconds."""
    if not options.dead_letter_topic or copy.attempts < options.max_delivery_attempts:
        return 0
    return int(min(2 ** (copy.attempts - options.max_delivery_attempts), 60) * SECOND)


def _backoff(options: SubscriptionOptions, attempts: int) -> int:
    """BR-015."""
    if not options.retry_minimum_seconds:
        return 0
    seconds = min(options.retry_minimum_seconds * 2 ** (attempts - 1), options.retry_maximum_seconds)
    return int(seconds * SECOND)
