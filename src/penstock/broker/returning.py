"""Returning: leases that end without an ack, messages that outlive their time, and dead letters.

The rule kept here: a message that leaves a subscription for another topic does both in one command, so in one
commit: it is never in neither place, and never in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.broker.facts import Removed, Returned, SubscriptionDeleted
from penstock.broker.leases import Appointment
from penstock.broker.log import Need
from penstock.broker.model import FOREVER, SECOND, Draft, Message
from penstock.broker.publishing import Publishing
from penstock.broker.retry import Source, backoff, is_spent, stuck_backoff
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic

SETTLE_AT_ONCE = 10_000  # leases settled in one look at the agenda, so that one command stays short


class Returning(Publishing):
    def expire_unused(self, now: int, name: str) -> None:
        """A subscription that nobody used for its time to live is gone, also before housekeeping comes to it."""
        subscription = self.state.subscription_names.get(name)
        ttl = subscription.options.expiration_seconds if subscription is not None else 0
        if subscription is not None and ttl and now - subscription.used_at >= ttl * SECOND:
            self.emit(SubscriptionDeleted(subscription.number))

    def settle_due(self, topic: Topic, subscription: Subscription, now: int) -> Need | None:
        """Let time act: leases that ended, waits that are over, lives that are over."""
        lapsed: list[int] = []
        expired: list[int] = []
        taken: list[Appointment] = []
        while len(lapsed) + len(expired) < SETTLE_AT_ONCE:
            appointment = subscription.agenda.take_due(now)
            if appointment is None:
                break
            taken.append(appointment)
            self._sort_due(subscription, appointment, now, lapsed, expired)
        if not taken:
            return None
        entries = subscription.outstanding
        lapsed.sort(key=lambda offset: (entries[offset].due, offset))  # not the order in which leases were given:
        expired.sort(key=lambda offset: (entries[offset].expires_at, offset))  # no snapshot knows it
        need = self._expire_offsets(topic, subscription, now, expired)
        need = self.give_back(topic, subscription, now, lapsed, by_holder=False)[1] or need
        for appointment in taken:
            if appointment.live:  # its messages have to be read before they can be moved
                subscription.agenda.put_back(appointment)
        return need

    def _sort_due(
        self, subscription: Subscription, appointment: Appointment, now: int, lapsed: list[int], expired: list[int]
    ) -> None:
        for offset in list(appointment.offsets):
            entry = subscription.outstanding.get(offset)
            if entry is None or entry.appointment is not appointment:
                continue
            if 0 < entry.expires_at <= now:
                expired.append(offset)
            elif entry.leased:
                lapsed.append(offset)
            else:
                subscription.wake(offset, now)

    def give_back(
        self,
        topic: Topic,
        subscription: Subscription,
        now: int,
        offsets: Sequence[int],
        by_holder: bool,
        delay_seconds: float | None = None,
    ) -> tuple[list[int], Need | None]:
        """End leases; messages that failed once too often leave for the dead letter topic.

        Those among them that are not in memory stay as they are: they are named in the answer, with what to read.
        Where order counts the others wait with them, or a return would take the missing ones along.
        """
        spent = self._spent(subscription, offsets)
        messages, missing, need = self._bodies(topic, spent)
        self.move(topic, subscription, now, messages, subscription.options.dead_letter_topic, "dead-letter")
        if missing and subscription.options.ordering:
            return [offset for offset in offsets if offset in subscription.outstanding], need
        kept = set(spent)
        self._return(subscription, now, [o for o in offsets if o not in kept], by_holder, delay_seconds)
        return missing, need

    def _return(
        self, subscription: Subscription, now: int, offsets: Sequence[int], by_holder: bool, delay_seconds: float | None
    ) -> None:
        if not offsets:
            return
        failed = dict.fromkeys(offsets)
        returned = self._with_later_of_key(subscription, failed)
        dues = [self._due(subscription, now, o, by_holder, delay_seconds) if o in failed else now for o in returned]
        at_once = all(due == now for due in dues)
        self.emit(Returned(subscription.number, now, returned, [] if at_once else dues, by_holder))
        subscription.counts.returned += len(returned)
        options, entries = subscription.options, subscription.outstanding
        if options.dead_letter_topic:  # those that are spent and still here have no topic to go to
            stuck = sum(is_spent(options, entries[offset].attempts) for offset in failed)
            subscription.counts.dead_letter_failures += stuck

    def put_back(self, subscription: Subscription, now: int, offsets: Iterable[int]) -> None:
        """End leases of messages that reached no program: no attempt, no backoff, no dead letter."""
        unseen = dict.fromkeys(offsets)
        if unseen:
            returned = self._with_later_of_key(subscription, unseen)
            self.emit(Returned(subscription.number, now, sorted(unseen), [], True, unseen=True))
            dragged_along = [offset for offset in returned if offset not in unseen]
            if dragged_along:
                self.emit(Returned(subscription.number, now, dragged_along, [], True))
            subscription.counts.returned += len(returned)

    def _spent(self, subscription: Subscription, offsets: Iterable[int]) -> list[int]:
        options, entries = subscription.options, subscription.outstanding
        if options.dead_letter_topic not in self.state.topic_names:
            return []  # nowhere to go: better delivered again than dropped
        return [offset for offset in offsets if is_spent(options, entries[offset].attempts)]

    def _with_later_of_key(self, subscription: Subscription, failed: dict[int, None]) -> list[int]:
        if not subscription.lanes:
            return sorted(failed)
        returned = dict(failed)
        for offset in failed:
            lane = subscription.lanes.get(subscription.outstanding[offset].key)
            if lane is not None:
                returned.update(dict.fromkeys(lane.later_leased(offset)))
        return sorted(returned)

    def _due(
        self, subscription: Subscription, now: int, offset: int, by_holder: bool, delay_seconds: float | None
    ) -> int:
        if delay_seconds is not None:
            return now + int(delay_seconds * SECOND)
        entry = subscription.outstanding[offset]
        since = now if by_holder or entry.due >= FOREVER else entry.due  # a lease ended when it ended, not when seen
        options = subscription.options
        wait = backoff(options, entry.attempts)
        # Spent and still here: its dead letter topic is not there. A lease that ended has waited long enough by itself.
        if by_holder and options.dead_letter_topic and is_spent(options, entry.attempts):
            wait = max(wait, stuck_backoff(options, entry.attempts))
        return since + wait

    # ------------------------------------------------------------------ leaving for good

    def _expire_offsets(
        self, topic: Topic, subscription: Subscription, now: int, offsets: Sequence[int]
    ) -> Need | None:
        if subscription.options.expired_topic not in self.state.topic_names:
            self._drop(subscription, now, offsets, "expired")
            return None
        messages, _, need = self._bodies(topic, offsets)
        self.expire(topic, subscription, now, messages)
        return need

    def expire(self, topic: Topic, subscription: Subscription, now: int, messages: Sequence[Message]) -> None:
        """Outstanding messages whose time to live is over are moved or dropped."""
        destination = subscription.options.expired_topic
        if destination in self.state.topic_names:
            self.move(topic, subscription, now, messages, destination, "expired")
        else:
            self._drop(subscription, now, [message.offset for message in messages], "expired")

    def _drop(self, subscription: Subscription, now: int, offsets: Sequence[int], reason: str) -> None:
        if offsets:
            self.emit(Removed(subscription.number, now, list(offsets), reason))
            subscription.counts.drop(reason, len(offsets))

    def move(
        self,
        topic: Topic,
        subscription: Subscription,
        now: int,
        messages: Sequence[Message],
        destination: str,
        reason: str,
    ) -> None:
        """Publish outstanding messages to another topic and remove them here."""
        if not messages:
            return
        drafts = [self._draft(topic, subscription, message) for message in messages]
        self.append(self.state.topic_names[destination], now, drafts, [_size(draft) for draft in drafts])
        self.emit(Removed(subscription.number, now, [message.offset for message in messages], reason))
        if reason == "dead-letter":
            subscription.counts.dead_lettered += len(messages)
            if not self.state.topic_names[destination].readers:
                subscription.counts.dead_letters_unread += len(messages)
        else:
            subscription.counts.drop(reason, len(messages))

    def _draft(self, topic: Topic, subscription: Subscription, message: Message) -> Draft:
        entry = subscription.outstanding[message.offset]
        source = Source(subscription.name, topic.name, entry.attempts, message.publish_time)
        attributes = {**message.attributes, **self.describe_source(source)}
        return Draft(message.data if entry.body is None else entry.body, attributes, message.ordering_key)

    def _bodies(self, topic: Topic, offsets: Iterable[int]) -> tuple[list[Message], list[int], Need | None]:
        """The messages in memory up to the first that is not, the offsets from there on, and what to read for it."""
        messages: list[Message] = []
        missing: list[int] = []
        need: Need | None = None
        for offset in offsets:
            found = self.look_up(topic, offset) if need is None else need
            if isinstance(found, Need):  # the later ones wait with it: moving keeps their order
                missing.append(offset)
                need = need or found
            else:
                messages.append(found)
        return messages, missing, need

    def end_endless_leases(self, now: int) -> None:
        """After a restart nobody holds a lease that was to last as long as the process.

        Whether their messages had reached anybody is not known, and it was not they who failed: no attempt counts.
        """
        for subscription in self.state.subscriptions.values():
            endless = [o for o, e in subscription.outstanding.items() if e.leased and e.due >= FOREVER]
            self.put_back(subscription, now, endless)


def _size(draft: Draft) -> int:
    attributes = sum(len(key.encode()) + len(value.encode()) for key, value in draft.attributes.items())
    return len(draft.data) + attributes + len(draft.ordering_key.encode())
