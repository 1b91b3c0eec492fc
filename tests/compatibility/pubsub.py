"""Google Pub/Sub: every method. The emulator is Google's, version 0.8.20."""

from __future__ import annotations

from tests.compatibility.rows import NOT_KNOWN, SAME, YES, Row, shown

DELIVERY = "doors/google/test_delivery.py"
LIMITS = "doors/google/test_limits.py"
PUSH = "doors/google/test_push.py"
RESOURCES = "doors/google/test_resources.py"
REST = "doors/google/test_rest.py"
RULES = "doors/google/test_rules.py"
STREAMS = "doors/google/test_streams.py"
SCHEMAS = "unit/doors/google/test_schemas.py"
CLIENTS = "acceptance/test_google_clients.py"
TRAVEL = "acceptance/test_time_travel_google.py"
WALK = shown("acceptance/test_google_rest.py", "test_every_method_of_the_public_list")
GAPIC = shown("acceptance/test_google_rest_clients.py", "test_every_method_of_the_publisher_and_the_subscriber")
ABSENT = "UNIMPLEMENTED"

PUBLISHER = (
    Row("CreateTopic", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_comes_back_as_it_was_made")),
    Row(
        "CreateTopic",
        "ingestion, transforms, KMS key, storage policy",
        "acted on",
        "kept; ingestion checked for its required fields",
        "kept and given back, nothing more; transforms are checked",
        shown(RESOURCES, "test_a_topic_comes_back_as_it_was_made") + shown(RULES, "test_a_transform_says_what_it_does"),
    ),
    Row(
        "UpdateTopic",
        "",
        "every mutable field, and parts of one, by `update_mask`",
        "retention, schema, transforms and ingestion only; `labels` and `message_storage_policy` are refused",
        SAME,
        shown(RESOURCES, "test_every_legal_update_of_a_topic"),
    ),
    Row("Publish", "", YES, "yes, with few of the limits", YES, shown(DELIVERY, "test_a_message_arrives_whole") + WALK),
    Row("GetTopic", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_comes_back_as_it_was_made")),
    Row("ListTopics", "", "in pages", "yes", "in pages, sorted by name", shown(RESOURCES, "test_lists_come_in_pages")),
    Row(
        "ListTopicSubscriptions",
        "",
        YES,
        YES,
        YES,
        shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots"),
    ),
    Row(
        "ListTopicSnapshots", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots")
    ),
    Row(
        "DeleteTopic",
        "",
        "its subscriptions stay, with the topic `_deleted-topic_`",
        SAME,
        SAME,
        shown(RESOURCES, "test_a_deleted_topic_leaves_its_subscriptions"),
    ),
    Row(
        "DetachSubscription",
        "",
        "the backlog goes; Pull and StreamingPull are FAILED_PRECONDITION",
        ABSENT,
        SAME,
        shown(RESOURCES, "test_a_detached_subscription_stays_and_gives_nothing")
        + shown(STREAMS, "test_a_stream_ends_when_its_subscription_is_detached"),
    ),
)

SUBSCRIBER = (
    Row(
        "CreateSubscription",
        "what was not said",
        "deadline 10 s, retention 7 d, expiration 31 d, state",
        "without expiration and state",
        SAME,
        shown(RESOURCES, "test_a_subscription_says_what_was_not_said", "test_policies_are_filled_in"),
    ),
    Row(
        "CreateSubscription",
        "without a name",
        "the server makes one (gRPC)",
        SAME,
        SAME,
        shown(RESOURCES, "test_a_subscription_without_a_name_is_given_one"),
    ),
    Row(
        "CreateSubscription",
        "BigQuery, Cloud Storage, Bigtable",
        "messages are written there",
        "kept; can be pulled",
        "kept, bounds checked; can be pulled",
        shown(RESOURCES, "test_what_is_only_kept_comes_back")
        + shown(
            RULES,
            "test_a_subscription_that_fills_files_has_bounds",
            "test_a_table_is_named_and_has_one_source_of_its_schema",
        ),
    ),
    Row("GetSubscription", "", YES, YES, YES, shown(RESOURCES, "test_a_subscription_says_what_was_not_said")),
    Row("ListSubscriptions", "", YES, YES, YES, WALK + GAPIC),
    Row(
        "UpdateSubscription",
        "",
        "every mutable field, and parts of one, by `update_mask`",
        "not `labels`, `expiration_policy`, `bigquery_config`, `cloud_storage_config`, nor any part of a field",
        SAME,
        shown(
            RESOURCES,
            "test_every_legal_update_of_a_subscription",
            "test_a_part_of_the_dead_letter_policy_can_be_changed_and_all_of_it_cleared",
        ),
    ),
    Row(
        "DeleteSubscription", "", YES, YES, YES, shown(STREAMS, "test_a_stream_ends_when_its_subscription_does") + WALK
    ),
    Row(
        "ModifyAckDeadline",
        "",
        "0 is a nack",
        SAME,
        SAME,
        shown(DELIVERY, "test_a_nacked_message_waits_for_its_backoff") + WALK,
    ),
    Row(
        "Acknowledge",
        "an old ack id, ordinary delivery",
        "OK",
        SAME,
        SAME,
        shown(RULES, "test_an_old_receipt_is_no_error_where_delivery_is_ordinary"),
    ),
    Row("Pull", "", YES, YES, YES, shown(DELIVERY, "test_a_message_arrives_whole")),
    Row(
        "Pull",
        "nothing to pull",
        "an empty answer before the caller's deadline",
        "an empty answer about 1 s before it",
        "an empty answer 1 s before it",
        shown(DELIVERY, "test_an_empty_pull_answers_before_its_deadline")
        + shown(CLIENTS, "test_synchronous_pull_with_nothing_to_pull"),
    ),
    Row(
        "Pull",
        "the topic was deleted",
        NOT_KNOWN,
        "OK, nothing",
        "OK, nothing",
        shown(RESOURCES, "test_a_deleted_topic_leaves_its_subscriptions"),
    ),
    Row(
        "StreamingPull",
        "`max_outstanding_messages`, `max_outstanding_bytes`",
        "no more than that is out at a time",
        "passed over",
        SAME,
        shown(
            STREAMS,
            "test_no_more_is_outstanding_than_the_client_has_room_for",
            "test_room_is_counted_in_bytes_as_well",
        ),
    ),
    Row(
        "StreamingPull",
        "ping of protocol version 1",
        "answered",
        "not answered: such clients open the stream again",
        SAME,
        shown(STREAMS, "test_a_ping_of_protocol_version_one_is_answered", "test_a_ping_of_version_zero_is_not"),
    ),
    Row(
        "StreamingPull",
        "subscription deleted meanwhile",
        "ends with NOT_FOUND",
        SAME,
        SAME,
        shown(STREAMS, "test_a_stream_ends_when_its_subscription_does"),
    ),
    Row(
        "StreamingPull",
        "server goes away",
        "UNAVAILABLE, and the client comes back",
        NOT_KNOWN,
        SAME,
        shown("acceptance/test_google_restart.py", "test_a_stream_that_is_told_to_come_back_does"),
    ),
    Row("ModifyPushConfig", "", YES, YES, YES, shown(PUSH, "test_push_follows_its_settings")),
    Row("GetSnapshot", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots")),
    Row("ListSnapshots", "", YES, YES, YES, WALK + GAPIC),
    Row(
        "CreateSnapshot",
        "labels",
        "kept",
        "dropped",
        SAME,
        shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots"),
    ),
    Row(
        "CreateSnapshot",
        "without a name",
        "the server makes one (gRPC)",
        "refused",
        SAME,
        shown(RESOURCES, "test_a_snapshot_without_a_name_is_given_one"),
    ),
    Row(
        "UpdateSnapshot",
        "",
        YES,
        ABSENT,
        YES,
        shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots"),
    ),
    Row("DeleteSnapshot", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots")),
    Row(
        "Seek",
        "to a time, to a snapshot",
        YES,
        "yes; users report that a time brings nothing back",
        YES,
        shown(DELIVERY, "test_seek_to_a_time_and_to_a_snapshot") + shown(CLIENTS, "test_snapshots_and_seek"),
    ),
    Row(
        "Seek",
        "acked messages that nothing retains",
        "stay acked",
        NOT_KNOWN,
        SAME,
        shown(DELIVERY, "test_acked_messages_stay_acked_where_nothing_retains_them"),
    ),
)

SCHEMA_SERVICE = (
    Row(
        "CreateSchema",
        "Avro",
        YES,
        "yes; revisions are dated 1970",
        YES,
        shown(SCHEMAS, "test_an_avro_record") + shown(CLIENTS, "test_a_topic_with_a_schema"),
    ),
    Row(
        "CreateSchema",
        "Protocol Buffers",
        YES,
        ABSENT,
        "yes, as text or compiled",
        shown(SCHEMAS, "test_a_definition_with_everything", "test_a_compiled_definition"),
    ),
    Row("GetSchema", "", "`view` FULL by default", "Avro only", SAME, WALK),
    Row("ListSchemas", "", YES, "Avro only", YES, WALK),
    Row("ListSchemaRevisions", "", YES, "Avro only", YES, WALK + shown(RULES, "test_a_rollback_names_its_revision")),
    Row("CommitSchema", "", YES, "Avro only", YES, WALK),
    Row("RollbackSchema", "", YES, "Avro only", YES, WALK + shown(RULES, "test_a_rollback_names_its_revision")),
    Row("DeleteSchemaRevision", "", YES, "Avro only", YES, WALK),
    Row("DeleteSchema", "", YES, "Avro only", YES, WALK),
    Row("ValidateSchema", "", YES, "Avro only", YES, WALK + shown(SCHEMAS, "test_an_avro_definition_that_is_none")),
    Row("ValidateMessage", "", YES, "Avro only", YES, WALK + shown(SCHEMAS, "test_an_avro_record")),
)

POLICIES = (
    Row(
        "SetIamPolicy",
        "",
        "kept, and callers are held to it",
        ABSENT,
        "kept; nobody is held to it; an old etag is ABORTED",
        shown(RESOURCES, "test_policies_are_kept_with_the_resource_they_belong_to"),
    ),
    Row(
        "GetIamPolicy",
        "",
        YES,
        ABSENT,
        YES,
        shown(RESOURCES, "test_policies_are_kept_with_the_resource_they_belong_to"),
    ),
    Row(
        "TestIamPermissions",
        "",
        "those the caller has",
        ABSENT,
        "all that were asked for, of a resource that is there",
        shown(RESOURCES, "test_permissions_are_answered"),
    ),
)
