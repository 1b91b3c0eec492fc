"""The broker: every command, and the module that holds it."""

from __future__ import annotations

from penstock.broker import consuming, filtering, housekeeping, publishing, receipts, replay, returning, topology
from penstock.broker.ledger import Ledger


class Broker(Ledger):
    """The table of contents: a command is a function over the ledger, bound here under its own name.

    What is not listed (`emit`, `take`, `recover`, `load` ...) is the ledger's. A command that answers with a Need
    has to see messages that are not in memory: `load` them and ask again.
    """

    # topics, subscriptions and the documents of the doors
    create_topic = topology.create_topic  # an empty log under a new name
    change_topic = topology.change_topic  # other options
    delete_topic = topology.delete_topic  # the log goes; its subscriptions stay, detached
    create_subscription = topology.create_subscription  # it sees what is published from now on
    change_subscription = topology.change_subscription  # other options; whether it orders is fixed
    delete_subscription = topology.delete_subscription
    detach_subscription = topology.detach_subscription  # it reads its topic no more
    touch_subscription = topology.touch_subscription  # it is in use, so it does not expire
    put_document = topology.put_document  # kept for a door, and never read here
    remove_document = topology.remove_document

    # messages in
    forget_producer = publishing.forget_producer  # its publish-once answers
    publish = publishing.publish  # all of them or none, once per publish-once key

    # messages out
    pull = consuming.pull  # lease messages to a consumer
    lease_at = consuming.lease_at  # the same for chosen messages, wherever the cursor is
    peek = consuming.peek  # what a pull would give, without leases
    is_unacked = consuming.is_unacked  # whether a message is still to be settled
    oldest_unacked = consuming.oldest_unacked

    # what becomes of a delivery, by its receipt
    ack = receipts.ack  # done with
    ack_delivered = receipts.ack_delivered  # the same without receipts, for a holder of deliveries
    nack = receipts.nack  # handed back, to be delivered again
    extend = receipts.extend  # the lease ends later
    renew = receipts.renew  # a new receipt and deadline, perhaps another body
    examine = receipts.examine  # which receipts are no longer good
    publisher_receipt = receipts.publisher_receipt  # for a message that was never delivered

    # another place in the log
    seek_to_offset = replay.seek_to_offset
    seek_retained = replay.seek_retained  # to an offset, as far as acked messages are retained
    seek_reach = replay.seek_reach  # how far that is
    seek_to_snapshot = replay.seek_to_snapshot
    preview_seek = replay.preview_seek  # what a seek would change
    purge = replay.purge  # everything published so far counts as acked
    purge_topic = replay.purge_topic  # on every subscription, and nothing of it is kept
    create_snapshot = replay.create_snapshot  # remember what is unacked
    change_snapshot = replay.change_snapshot
    delete_snapshot = replay.delete_snapshot

    # time, where no consumer asks
    settle = housekeeping.settle  # end what fell due on one subscription
    expire_unused = returning.expire_unused  # delete a subscription past its time to live
    end_endless_leases = returning.end_endless_leases  # after a restart
    expire_resources = housekeeping.expire_resources  # unused subscriptions, old snapshots, idle producers
    is_trim_due = housekeeping.is_trim_due  # whether retention is worth a look
    make_trims_due = housekeeping.make_trims_due  # after a clock was moved
    retention_times = housekeeping.retention_times  # the instants that lapse and trim have to know the offsets of
    lapse = housekeeping.lapse  # drop what subscriptions keep no longer
    trim = housekeeping.trim  # forget what nothing needs
    compare_filter = filtering.compare_filter  # count messages that a filter keeps out as acked, ahead of the cursor
