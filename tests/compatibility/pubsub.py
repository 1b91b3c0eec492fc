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
    Row("CreateTopic", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_is_returned_as_it_was_created")),
    Row(
        "CreateTopic",
        "ingestion, transforms, KMS key, storage policy",
        "acted on",
        "stored; required fields of ingestion are checked",
        "stored and returned, with a warning in the log; transforms are checked, at most 5 enabled",
        shown(RESOURCES, "test_a_topic_is_returned_as_it_was_created")
        + shown(RULES, "test_a_transform_says_what_it_does")
        + shown(RULES, "test_settings_that_are_not_acted_on_are_logged_once"),
    ),
    Row(
        "UpdateTopic",
        "",
        "every mutable field and its sub-fields, by `update_mask`",
        "retention, schema, transforms and ingestion only; `labels` and `message_storage_policy` are refused",
        SAME,
        shown(RESOURCES, "test_every_legal_update_of_a_topic"),
    ),
    Row("Publish", "", YES, "yes, with few of the limits", YES, shown(DELIVERY, "test_a_message_arrives_whole") + WALK),
    Row("GetTopic", "", YES, YES, YES, shown(RESOURCES, "test_a_topic_is_returned_as_it_was_created")),
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
        "the backlog is dropped; Pull and StreamingPull are FAILED_PRECONDITION",
        ABSENT,
        SAME,
        shown(RESOURCES, "test_a_detached_subscription_stays_and_gives_nothing")
        + shown(STREAMS, "test_a_stream_ends_when_its_subscription_is_detached"),
    ),
)

SUBSCRIBER = (
    Row(
        "CreateSubscription",
        "defaults",
        "deadline 10 s, retention 7 d, expiration 31 d, state",
        "without expiration and state",
        SAME,
        shown(RESOURCES, "test_a_subscription_returns_its_defaults", "test_policies_are_filled_in"),
    ),
    Row(
        "CreateSubscription",
        "without a name",
        "the server generates one (gRPC)",
        SAME,
        SAME,
        shown(RESOURCES, "test_a_subscription_without_a_name_gets_one"),
    ),
    Row(
        "CreateSubscription",
        "BigQuery, Cloud Storage, Bigtable",
        "messages are delivered there",
        "stored; can be pulled",
        "stored, bounds checked; can be pulled",
        shown(RESOURCES, "test_stored_settings_are_returned")
        + shown(
            RULES,
            "test_a_subscription_that_fills_files_has_bounds",
            "test_a_table_is_named_and_has_one_source_of_its_schema",
        ),
    ),
    Row("GetSubscription", "", YES, YES, YES, shown(RESOURCES, "test_a_subscription_returns_its_defaults")),
    Row("ListSubscriptions", "", YES, YES, YES, WALK + GAPIC),
    Row(
        "UpdateSubscription",
        "",
        "every mutable field and its sub-fields, by `update_mask`",
        "not `labels`, `expiration_policy`, `bigquery_config`, `cloud_storage_config`, nor any sub-field",
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
        "an old ack id, without exactly-once",
        "OK",
        SAME,
        SAME,
        shown(RULES, "test_an_old_receipt_is_no_error_without_exactly_once"),
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
        "limit the outstanding messages",
        "ignored",
        SAME,
        shown(
            STREAMS,
            "test_flow_control_limits_the_outstanding_messages",
            "test_flow_control_counts_bytes_too",
        ),
    ),
    Row(
        "StreamingPull",
        "ping of protocol version 1",
        "answered",
        "not answered: such clients reopen the stream",
        SAME,
        shown(
            STREAMS,
            "test_a_ping_of_protocol_version_one_is_answered",
            "test_a_ping_of_protocol_version_zero_is_not_answered",
        ),
    ),
    Row(
        "StreamingPull",
        "the subscription is deleted",
        "ends with NOT_FOUND",
        SAME,
        SAME,
        shown(STREAMS, "test_a_stream_ends_when_its_subscription_does"),
    ),
    Row(
        "StreamingPull",
        "the server stops",
        "UNAVAILABLE, and the client reconnects",
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
        "stored",
        "dropped",
        SAME,
        shown(RESOURCES, "test_a_topic_lists_its_subscriptions_and_snapshots"),
    ),
    Row(
        "CreateSnapshot",
        "without a name",
        "the server generates one (gRPC)",
        "refused",
        SAME,
        shown(RESOURCES, "test_a_snapshot_without_a_name_gets_one"),
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
        "yes; users report that a seek to a time redelivers nothing",
        YES,
        shown(DELIVERY, "test_seek_to_a_time_and_to_a_snapshot") + shown(CLIENTS, "test_snapshots_and_seek"),
    ),
    Row(
        "Seek",
        "acked messages without retention",
        "stay acked",
        NOT_KNOWN,
        SAME,
        shown(DELIVERY, "test_acked_messages_stay_acked_without_retention"),
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
    Row(
        "CommitSchema",
        "",
        "compatible revisions only: Avro both ways; protocol buffers add or remove optional fields",
        "Avro only",
        SAME,
        WALK
        + shown(RULES, "test_a_revision_is_compatible_with_every_earlier_one")
        + shown(
            "unit/doors/google/test_schema_compatibility.py",
            "test_a_proto_revision_adds_and_removes_optional_fields_only",
        ),
    ),
    Row("RollbackSchema", "", YES, "Avro only", YES, WALK + shown(RULES, "test_a_rollback_names_its_revision")),
    Row("DeleteSchemaRevision", "", YES, "Avro only", YES, WALK),
    Row("DeleteSchema", "", YES, "Avro only", YES, WALK),
    Row(
        "ValidateSchema", "", YES, "Avro only", YES, WALK + shown(SCHEMAS, "test_an_invalid_avro_definition_is_refused")
    ),
    Row("ValidateMessage", "", YES, "Avro only", YES, WALK + shown(SCHEMAS, "test_an_avro_record")),
)

POLICIES = (
    Row(
        "SetIamPolicy",
        "",
        "stored and enforced",
        ABSENT,
        "stored, not enforced; an old etag is ABORTED",
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
        "the permissions of the caller",
        ABSENT,
        "all requested permissions, if the resource exists",
        shown(RESOURCES, "test_permissions_of_existing_resources_are_granted"),
    ),
)
