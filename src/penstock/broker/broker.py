"""The table of the broker's commands."""

from __future__ import annotations

from penstock.broker import consuming, filtering, housekeeping, publishing, receipts, replay, returning, topology
from penstock.broker.ledger import Ledger


class Broker(Ledger):
    """All commands. A command is a function over the ledger, bound here under its own name.

    The other methods (`emit`, `take`, `recover`, `load` ...) belong to the ledger. A command that answers with a Need
    has to see messages that are not in memory: `load` them and repeat the command.
    """

    # topics, subscriptions and the documents of the doors
    create_topic = topology.create_topic  # an empty log under a new name
    change_topic = topology.change_topic
    delete_topic = topology.delete_topic  # its subscriptions stay, detached
    create_subscription = topology.create_subscription  # for messages published from now on
    change_subscription = topology.change_subscription  # all options but message ordering
    delete_subscription = topology.delete_subscription
    detach_subscription = topology.detach_subscription  # stop reading its topic
    touch_subscription = topology.touch_subscription  # record that it is in use, so it does not expire
    put_document = topology.put_document  # kept for a door, and never read here
    remove_document = topology.remove_document

    # messages in
    forget_producer = publishing.forget_producer  # and the answers to its publish-once keys
    publish = publishing.publish  # all messages or none, once per publish-once key

    # messages out
    pull = consuming.pull  # lease messages to a consumer
    lease_at = consuming.lease_at  # lease chosen messages, wherever the cursor is
    peek = consuming.peek  # show the messages of the next pull
    is_unacked = consuming.is_unacked  # whether a message is not settled yet
    oldest_unacked = consuming.oldest_unacked

    # deliveries, named by their receipts
    ack = receipts.ack
    ack_delivered = receipts.ack_delivered  # ack without receipts, for a caller that kept its deliveries
    nack = receipts.nack  # hand back, to be delivered again
    extend = receipts.extend
    renew = receipts.renew  # a new receipt and deadline, perhaps another body
    examine = receipts.examine  # find receipts that are no longer valid
    publisher_receipt = receipts.publisher_receipt  # for a message that was never delivered

    # seeks and snapshots
    seek_to_offset = replay.seek_to_offset
    seek_retained = replay.seek_retained  # to an offset, as far as acked messages are retained
    seek_reach = replay.seek_reach  # how far back that is
    seek_to_snapshot = replay.seek_to_snapshot
    preview_seek = replay.preview_seek  # count the changes of a seek
    purge = replay.purge  # count all messages published so far as acked
    purge_topic = replay.purge_topic  # the same on every subscription, and delete them
    create_snapshot = replay.create_snapshot  # remember the unacked messages
    change_snapshot = replay.change_snapshot
    delete_snapshot = replay.delete_snapshot

    # housekeeping
    settle = housekeeping.settle  # end leases and delays of a subscription that fell due
    expire_unused = returning.expire_unused  # delete a subscription past its time to live
    end_endless_leases = returning.end_endless_leases  # after a restart
    expire_resources = housekeeping.expire_resources  # unused subscriptions, old snapshots, idle producers
    is_trim_due = housekeeping.is_trim_due  # whether retention has to be checked
    make_trims_due = housekeeping.make_trims_due  # after a clock was moved
    retention_times = housekeeping.retention_times  # the instants whose offsets lapse and trim need
    lapse = housekeeping.lapse  # drop messages past the retention of their subscription
    trim = housekeeping.trim  # forget messages that nothing needs
    compare_filter = filtering.compare_filter  # count filtered-out messages ahead of the cursor
