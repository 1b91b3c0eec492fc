"""Google Pub/Sub: features besides the methods, and the delivery of messages."""

from __future__ import annotations

from tests.compatibility.pubsub import CLIENTS, DELIVERY, PUSH, RESOURCES, REST, STREAMS, TRAVEL, WALK
from tests.compatibility.rows import NOT_KNOWN, SAME, YES, Row, shown

BESIDE = (
    Row("REST", "all 46 methods", "over HTTPS", "on the port of gRPC", "on the port of gRPC", WALK),
    Row(
        "REST",
        "a body that repeats the name in the path",
        "accepted",
        "refused",
        SAME,
        shown(REST, "test_a_body_may_repeat_what_the_path_says"),
    ),
    Row(
        "grpc.health.v1, reflection",
        "",
        NOT_KNOWN,
        "absent",
        YES,
        shown(CLIENTS, "test_health_and_reflection") + shown(REST, "test_health_needs_no_token"),
    ),
    Row(
        "POST /reset",
        "",
        "absent",
        "deletes everything",
        "deletes everything, with `--memory` or `pubsub_reset`",
        shown(RESOURCES, "test_reset_forgets_everything"),
    ),
    Row(
        "restart, kill",
        "",
        "nothing is lost",
        "everything is lost",
        SAME,
        shown("acceptance/test_google_restart.py", "test_killed_in_the_middle_of_a_stream"),
    ),
)

MESSAGES = (
    Row(
        "filter",
        "",
        "messages that do not match are acked for the subscription",
        "not applied in 0.8.20; applied since gcloud 555",
        SAME,
        shown(DELIVERY, "test_a_filter_takes_what_matches"),
    ),
    Row(
        "retry policy",
        "",
        "backoff that doubles from the minimum to the maximum",
        "stored, not applied: a nacked message is redelivered at once",
        SAME,
        shown(DELIVERY, "test_a_nacked_message_waits_for_its_backoff")
        + shown(TRAVEL, "test_the_backoff_doubles_up_to_ten_minutes"),
    ),
    Row(
        "dead letters",
        "",
        "after `max_delivery_attempts`, with attributes that name the source",
        SAME,
        SAME,
        shown(DELIVERY, "test_a_message_that_fails_too_often_becomes_a_dead_letter")
        + shown(TRAVEL, "test_a_message_is_dead_lettered_after_the_fifth_failure"),
    ),
    Row(
        "ordering",
        "after a nack or an expiry",
        "the message and all later ones of the key are redelivered in order",
        "only the message is redelivered: order is lost",
        SAME,
        shown(DELIVERY, "test_a_nack_redelivers_the_later_messages_of_the_key_in_order")
        + shown(TRAVEL, "test_order_is_kept_after_a_nack"),
    ),
    Row(
        "exactly-once",
        "an expired ack id",
        "INVALID_ARGUMENT with `EXACTLY_ONCE_ACKID_FAILURE` for it",
        SAME,
        SAME,
        shown(DELIVERY, "test_exactly_once_lists_expired_receipts")
        + shown(STREAMS, "test_exactly_once_confirms_on_the_stream"),
    ),
    Row(
        "exactly-once",
        "some ack ids valid, some expired",
        "the valid ones are acked; clients report them as failed",
        SAME,
        "nothing is acked: ABORTED lists the expired ones, and clients repeat the others",
        shown(DELIVERY, "test_exactly_once_refuses_a_mixed_request_so_that_the_client_can_repeat_it"),
    ),
    Row(
        "retention of a topic",
        "a new subscription",
        "gets new messages, and can seek back",
        "gets the retained messages",
        SAME,
        shown(DELIVERY, "test_a_new_subscription_gets_new_messages_only_and_can_seek_back"),
    ),
    Row(
        "retention of a subscription",
        "7 days by default",
        "an unacked message is dropped",
        NOT_KNOWN,
        SAME,
        shown(TRAVEL, "test_after_seven_days_an_unacked_message_is_gone"),
    ),
    Row(
        "expiration of a subscription",
        "",
        "deleted after its time to live without use",
        "never",
        SAME,
        shown(
            TRAVEL,
            "test_an_unused_subscription_expires_after_its_ttl",
            "test_a_subscription_with_an_open_stream_does_not_expire",
        ),
    ),
    Row(
        "answers with messages",
        "size",
        NOT_KNOWN,
        "larger than 4 MiB: the Python client refuses them",
        "below 4 MiB, or one larger message",
        shown(DELIVERY, "test_answers_stay_below_four_mebibytes"),
    ),
    Row(
        "push",
        "statuses that ack",
        "102, 200, 201, 202, 204",
        "200, 201, 204; 102 and 202 unknown",
        SAME,
        shown(PUSH, "test_an_answer_that_acks", "test_an_answer_that_does_not_ack_redelivers_the_message"),
    ),
    Row(
        "push",
        "pauses after failures",
        "backoff",
        "about 1 s each time",
        "backoff",
        shown(TRAVEL, "test_push_is_retried_when_time_is_moved"),
    ),
    Row(
        "push",
        "body",
        "with `orderingKey`, and with `deliveryAttempt` if there is a dead letter policy",
        "without both",
        SAME,
        shown(PUSH, "test_a_wrapped_message", "test_an_answer_that_does_not_ack_redelivers_the_message"),
    ),
    Row(
        "push",
        "`no_wrapper`, `write_metadata`",
        "plain body, metadata in headers",
        SAME,
        SAME,
        shown(
            PUSH,
            "test_an_unwrapped_message_with_its_metadata",
            "test_an_unwrapped_message_without_metadata",
        ),
    ),
    Row(
        "push",
        "`oidc_token`",
        "signed by Google",
        "stored; no token is sent",
        "signed by the server, with its keys at `/oauth2/v3/certs`",
        shown(PUSH, "test_a_token_verifies_with_the_public_key"),
    ),
)
