"""Google Pub/Sub: what there is beside the methods, and how messages are delivered."""

from __future__ import annotations

from tests.compatibility.pubsub import CLIENTS, DELIVERY, PUSH, RESOURCES, REST, STREAMS, TRAVEL, WALK
from tests.compatibility.rows import NOT_KNOWN, SAME, YES, Row, shown

BESIDE = (
    Row("REST", "all 46 methods", "over HTTPS", "on the port of gRPC", "on the port of gRPC", WALK),
    Row(
        "REST",
        "a body that repeats the name in the path",
        "taken",
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
        "forgets everything",
        "forgets everything, with `--memory` or `pubsub_reset`",
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
        "what does not match is acked for the subscription",
        "not applied in 0.8.20; since gcloud 555 it is",
        SAME,
        shown(DELIVERY, "test_a_filter_takes_what_matches"),
    ),
    Row(
        "retry policy",
        "",
        "backoff that doubles from the minimum to the maximum",
        "kept, not applied: a nacked message comes at once",
        SAME,
        shown(DELIVERY, "test_a_nacked_message_waits_for_its_backoff")
        + shown(TRAVEL, "test_the_backoff_doubles_up_to_ten_minutes"),
    ),
    Row(
        "dead letters",
        "",
        "after so many attempts, with attributes that name the source",
        SAME,
        SAME,
        shown(DELIVERY, "test_a_message_that_fails_too_often_becomes_a_dead_letter")
        + shown(TRAVEL, "test_the_fifth_failure_makes_a_dead_letter"),
    ),
    Row(
        "ordering",
        "after a nack or an expiry",
        "that message and all later ones of the key again, in order",
        "that message alone: order is lost",
        SAME,
        shown(DELIVERY, "test_a_returned_message_of_a_key_brings_the_later_ones_back_in_order")
        + shown(TRAVEL, "test_order_is_kept_after_a_nack"),
    ),
    Row(
        "exactly-once",
        "a dead ack id",
        "INVALID_ARGUMENT with `EXACTLY_ONCE_ACKID_FAILURE` for it",
        SAME,
        SAME,
        shown(DELIVERY, "test_exactly_once_says_which_receipts_are_dead")
        + shown(STREAMS, "test_exactly_once_confirms_on_the_stream"),
    ),
    Row(
        "exactly-once",
        "some ack ids good, some dead",
        "the good ones are done; clients report them as failed",
        SAME,
        "nothing is done: ABORTED with the dead ones, and clients repeat the others",
        shown(DELIVERY, "test_exactly_once_does_nothing_for_a_mixed_request_and_lets_the_client_repeat"),
    ),
    Row(
        "retention of a topic",
        "a new subscription",
        "begins with what comes, and can seek back",
        "is given what was retained",
        SAME,
        shown(DELIVERY, "test_a_new_subscription_begins_with_what_comes_and_can_seek_back"),
    ),
    Row(
        "retention of a subscription",
        "7 days by default",
        "an unacked message is gone",
        NOT_KNOWN,
        SAME,
        shown(TRAVEL, "test_after_seven_days_an_unacked_message_is_gone"),
    ),
    Row(
        "expiration of a subscription",
        "",
        "gone after its time to live without use",
        "never",
        SAME,
        shown(
            TRAVEL,
            "test_a_subscription_that_nobody_uses_for_its_time_to_live_is_gone",
            "test_one_with_an_open_stream_is_used",
        ),
    ),
    Row(
        "answers with messages",
        "size",
        NOT_KNOWN,
        "larger than 4 MiB: the Python client refuses them",
        "below 4 MiB, one larger message alone",
        shown(DELIVERY, "test_answers_stay_below_four_mebibytes"),
    ),
    Row(
        "push",
        "what acks",
        "102, 200, 201, 202, 204",
        "200, 201, 204; 102 and 202 not known",
        SAME,
        shown(PUSH, "test_an_answer_that_acks", "test_an_answer_that_does_not_ack_brings_it_again"),
    ),
    Row(
        "push",
        "pauses after failures",
        "backoff",
        "about 1 s each time",
        "backoff",
        shown(TRAVEL, "test_push_is_tried_again_as_its_time_passes"),
    ),
    Row(
        "push",
        "body",
        "with `orderingKey`, and `deliveryAttempt` where there is a dead letter policy",
        "without both",
        SAME,
        shown(PUSH, "test_a_wrapped_message", "test_an_answer_that_does_not_ack_brings_it_again"),
    ),
    Row(
        "push",
        "`no_wrapper`, `write_metadata`",
        "bare body, metadata in headers",
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
        "kept; no token is sent",
        "signed by the server, whose keys are at `/oauth2/v3/certs`",
        shown(PUSH, "test_a_token_that_its_public_key_confirms"),
    ),
)
